// SPDX-License-Identifier: Apache-2.0
//
// How a source file is named in a line of text: libraries have many files of one name (`dataset.py`, `core.py`), so
// their files are shown as they are imported.
//
//   ShownFile("/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataset.py")  // torch/utils/data/dataset.py
//   ShownFile("/usr/lib/python3.11/json/decoder.py")                                 // json/decoder.py
//   ShownFile("/home/me/project/train.py")                                           // train.py
//   ShownFile("/tmp/ipykernel_4711/3338075097.py")                                   // notebook cell 3338075097
#ifndef TBPROF_WRITER_BASE_SHOWN_FILE_H_
#define TBPROF_WRITER_BASE_SHOWN_FILE_H_

#include <string>
#include <string_view>

namespace tbprof {

// A file of an installed package or of Python's library: its path below the folder of packages, of which a long one
// keeps the package and the file (`transformers/.../modeling_qwen.py`). Other files: the name, and the folder before
// `__init__.py` and its like. Not made printable.
std::string ShownFile(std::string_view path);

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SHOWN_FILE_H_
