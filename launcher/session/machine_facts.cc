// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/machine_facts.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/base/scoped.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMostModelBytes = 128;

// The first processor's lines are enough.
std::string ReadStart(const char* path) {
  const ScopedFd file(open(path, O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t got = file.valid() ? read(file.get(), text, sizeof(text)) : -1;
  return got <= 0 ? "" : std::string(text, static_cast<size_t>(got));
}

}  // namespace

std::string CpuModelOf(std::string_view cpuinfo) {
  while (!cpuinfo.empty()) {
    const std::string_view line = cpuinfo.substr(0, cpuinfo.find('\n'));
    cpuinfo.remove_prefix(std::min(cpuinfo.size(), line.size() + 1));
    const size_t colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string_view::npos) continue;
    std::string_view name = line.substr(colon + 1);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    return PrintableUtf8(std::string(name.substr(0, kMostModelBytes)));
  }
  return "";
}

MachineFacts ReadMachineFacts() {
  MachineFacts facts;
  facts.cpu_model = CpuModelOf(ReadStart("/proc/cpuinfo"));
  utsname names = {};
  if (uname(&names) == 0) facts.kernel = PrintableUtf8(names.release);
  facts.cpus = static_cast<int32_t>(std::max<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 0));
  const int64_t pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && bytes > 0) facts.memory_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes);
  return facts;
}

}  // namespace tbprof
