// SPDX-License-Identifier: Apache-2.0
//
// Reads from a spool the facts about sampled Python stacks, without the samples: code objects, frames, and the state of
// sampling. Read in the first pass, so that the second pass can look up its samples.
//
// Process: converter, one thread. Untrusted: all numbers and texts; invalid facts are counted. Memory: bounded by the
// limits below, whatever the spool's size.
#ifndef TBPROF_WRITER_SPOOL_PYTHON_FACTS_H_
#define TBPROF_WRITER_SPOOL_PYTHON_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/spool/sampled_facts.h"
#include "writer/spool/spool.h"

namespace tbprof {

// Of all processes together.
inline constexpr size_t kMostPythonCodes = 1u << 18;
inline constexpr size_t kMostPythonNodes = 2u << 20;
inline constexpr size_t kMostPythonText = 64u << 20;
// Of one code object. Longer texts are truncated.
inline constexpr size_t kLongestPythonText = 1024;
inline constexpr size_t kLongestPythonTable = 8192;
// Deeper frames are left out of a stack, the innermost first.
inline constexpr uint32_t kDeepestPythonStack = 1024;

struct PythonCode {
  std::string name, file, table;
  int32_t first_line = 0;
  uint16_t minor = 0;
};

struct PythonFrameFact {
  uint32_t parent = 0;  // index into PythonProcessFacts::frames; 0: none
  uint32_t code = 0;    // index into PythonProcessFacts::codes
  uint32_t depth = 0;   // 1: the outermost
  int32_t instruction = -1;
};

struct PythonProcessFacts {
  std::vector<PythonCode> codes;
  std::vector<PythonFrameFact> frames{1};  // a parent is before its children: no cycles
  PythonStatusFact status{};
  bool has_status = false;
  std::string reason;                                              // of `status`
  std::vector<std::string> directories;                            // of NotebookFact: a cell may change it
  std::map<uint64_t, uint32_t> intervals_us;                       // by the ticks from which they are valid
  absl::flat_hash_map<uint32_t, uint32_t> code_index, node_index;  // by the spool's number

  // Index into `frames`; 0: node 0, or an unknown node.
  uint32_t FrameOf(uint32_t node) const {
    const auto found = node_index.find(node);
    return found == node_index.end() ? 0 : found->second;
  }
  // The interval between two samples at that time; if it is not known, that of --sample-rate=100.
  uint32_t IntervalAt(uint64_t ticks) const;
};

class PythonFacts : public SampledFacts<PythonProcessFacts> {
 public:
  // False: the frame is not about Python. Samples are left to the second pass.
  bool Take(const Frame& frame);
  // Gives the cells of notebooks the names that `names` has for their paths.
  void RenameFiles(const std::map<std::string, std::string>& names);

 private:
  void TakeCode(const Frame& frame);
  void TakeStacks(const Frame& frame);
  void TakeNode(const PythonNode& node, PythonProcessFacts* process);
  void TakeStatus(const Frame& frame);
  void TakeNotebook(const Frame& frame);

  size_t codes_ = 0, nodes_ = 0, text_bytes_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_PYTHON_FACTS_H_
