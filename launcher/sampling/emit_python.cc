// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/emit_python.h"

#include <algorithm>
#include <string>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "writer/base/cell_path.h"

namespace tbprof {
namespace {

// Where the process runs.
void EmitNotebook(const EmitFrame& emit, const SampledProcess& process) {
  constexpr size_t kLongestPath = 4096;
  const std::string directory = LinkText(StrCat("/proc/", process.pid, "/cwd"));
  if (directory.empty() || directory.size() > kLongestPath) return;
  const NotebookFact fact = {process.serial, static_cast<uint32_t>(directory.size())};
  const std::string payload = StrCat(std::string_view(reinterpret_cast<const char*>(&fact), sizeof(fact)), directory);
  emit(FrameType::kNotebook, process.segment, payload.data(), payload.size());
}

}  // namespace

void EmitPythonCodes(const EmitFrame& emit, const SampledProcess& process, uint16_t minor,
                     const std::vector<PythonReader::Code>& codes, uint32_t first_number) {
  if (std::ranges::any_of(codes, [](const PythonReader::Code& code) { return CellOfPath(code.file).has_value(); })) {
    EmitNotebook(emit, process);
  }
  for (const PythonReader::Code& code : codes) {
    PythonCodeFact fact = {};
    fact.process_serial = process.serial;
    fact.code = code.number + first_number;
    fact.first_line = code.first_line;
    fact.minor = minor;
    fact.flags = code.table_too_long ? kPythonCodeNoTable : 0;
    fact.name_bytes = static_cast<uint32_t>(code.name.size());
    fact.file_bytes = static_cast<uint32_t>(code.file.size());
    fact.table_bytes = static_cast<uint32_t>(code.table.size());
    std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
    payload += code.name;
    payload += code.file;
    payload += code.table;
    emit(FrameType::kPythonCode, process.segment, payload.data(), payload.size());
  }
}

void EmitPythonName(const EmitFrame& emit, const SampledProcess& process, int32_t tid, std::string_view name) {
  const PythonThreadFact fact = {process.serial, tid, static_cast<uint32_t>(name.size()), 0};
  std::string payload(reinterpret_cast<const char*>(&fact), sizeof(fact));
  payload += name;
  emit(FrameType::kPythonThread, process.segment, payload.data(), payload.size());
}

}  // namespace tbprof
