// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/machine_facts.h"

#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstring>

#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Uses cpuid: on kernels before 5.18 opening /proc/cpuinfo interrupts all processors and takes 10 ms.
std::string CpuModel() {
#if defined(__x86_64__)
  constexpr unsigned kLast = 0x80000004;
  unsigned words[12] = {};
  if (__get_cpuid_max(0x80000000, nullptr) < kLast) return "";
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* const word = &words[4 * i];
    __get_cpuid(kLast - 2 + i, word, word + 1, word + 2, word + 3);
  }
  char name[sizeof(words) + 1] = {};
  memcpy(name, words, sizeof(words));
  std::string model = name;
  model.erase(0, model.find_first_not_of(' '));
  model.erase(model.find_last_not_of(' ') + 1);
  return PrintableUtf8(model);
#else
  return "";
#endif
}

}  // namespace

MachineFacts ReadMachineFacts() {
  MachineFacts facts;
  facts.cpu_model = CpuModel();
  utsname names = {};
  if (uname(&names) == 0) facts.kernel = PrintableUtf8(names.release);
  facts.cpus = static_cast<int32_t>(std::max<int64_t>(sysconf(_SC_NPROCESSORS_ONLN), 0));
  const int64_t pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && bytes > 0) facts.memory_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes);
  return facts;
}

}  // namespace tbprof
