// SPDX-License-Identifier: Apache-2.0
//
// Emits code objects and thread names of a Python process as frames of the spool.
//
// Process: launcher, any thread that reads Python stacks.
#ifndef TBPROF_LAUNCHER_SAMPLING_EMIT_PYTHON_H_
#define TBPROF_LAUNCHER_SAMPLING_EMIT_PYTHON_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "launcher/sampling/python_reader.h"
#include "launcher/sampling/sampled_process.h"

namespace tbprof {

// `minor`: minor version of CPython. `first_number` is added to the number of each code object. With the first code of
// a notebook's cell among them also where the process runs, so that the converter finds the notebook.
void EmitPythonCodes(const EmitFrame& emit, const SampledProcess& process, uint16_t minor,
                     const std::vector<PythonReader::Code>& codes, uint32_t first_number = 0);

// Emits the name of a thread in Python (threading.Thread.name).
void EmitPythonName(const EmitFrame& emit, const SampledProcess& process, int32_t tid, std::string_view name);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_EMIT_PYTHON_H_
