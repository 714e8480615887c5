// SPDX-License-Identifier: Apache-2.0
//
// Names the cells of notebooks. IPython's kernel names the code of a cell by a hash of its text (cell_path.h); these
// are the hashes of the cells in notebook files.
//
//   NotebookCells cells;
//   cells.Add("/home/me/train.ipynb");
//   cells.AddFolder("/home/me");
//   cells.NamesOf({3338075097})   // {3338075097: "/home/me/train.ipynb cell 3"}
//
// A cell that was edited after it ran, or that was never saved, has no name.
//
// Process: the converter. The files are untrusted: their number and size are bounded, what is no notebook has no cells.
#ifndef TBPROF_WRITER_SYMBOLS_NOTEBOOK_CELLS_H_
#define TBPROF_WRITER_SYMBOLS_NOTEBOOK_CELLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

// IPython's hash of the text of a cell (MurmurHash2 with its seed).
uint32_t HashOfCell(std::string_view text);

class NotebookCells {
 public:
  // A notebook file; one that cannot be read is ignored.
  void Add(const std::string& path);
  // Each `*.ipynb` in a folder, in the order of their names. Not those in its folders.
  void AddFolder(const std::string& folder);

  // By hash: the notebook, and which of its code cells it is, from 1 (what `In [3]:` counts if they run in order).
  // The notebooks with most of these cells come first, equal ones in the order of Add. A text that several cells of the
  // notebook have is `cell 3 or 7`.
  std::map<uint32_t, std::string> NamesOf(const std::set<uint32_t>& hashes) const;

 private:
  struct Notebook {
    std::string path;
    std::map<uint32_t, std::vector<size_t>> cells;  // by hash: numbers of the code cells
  };

  std::vector<Notebook> notebooks_;
  std::set<std::string> known_, folders_;
  size_t opened_ = 0, bytes_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_NOTEBOOK_CELLS_H_
