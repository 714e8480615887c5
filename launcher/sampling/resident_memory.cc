// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/resident_memory.h"

#include <algorithm>
#include <cstdlib>

#include "launcher/base/text.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWhileItChanges(100), kWhileItDoesNot(2000);
// A change of less than this part of the memory is none.
constexpr uint64_t kSmallPart = 100;

}  // namespace

std::optional<ResidentRow> ParseResident(std::string_view status) {
  ResidentRow row = {};
  const struct {
    std::string_view name;
    uint64_t* bytes;
    bool needed;
  } counts[] = {{"VmHWM:", &row.peak_bytes, true},
                {"RssAnon:", &row.anonymous_bytes, true},
                {"RssFile:", &row.file_bytes, true},
                {"RssShmem:", &row.shared_bytes, true},
                {"VmSwap:", &row.swapped_bytes, false}};
  for (const auto& count : counts) {
    const size_t at = status.find(count.name);
    if (at == std::string_view::npos && count.needed) return std::nullopt;
    if (at == std::string_view::npos) continue;
    const std::string number(status.substr(at + count.name.size(), 32));
    *count.bytes = strtoull(number.c_str(), nullptr, 10) * 1024;
  }
  return row;
}

ResidentReader::ResidentReader(pid_t pid) : path_(StrCat("/proc/", pid, "/status")) {}

void ResidentReader::Take(Time now, uint64_t ticks, std::vector<ResidentRow>* rows) {
  std::optional<ResidentRow> row = ParseResident(ReadText(path_));
  const uint64_t bytes = row ? row->anonymous_bytes + row->shared_bytes + row->swapped_bytes : last_bytes_;
  const uint64_t change = std::max(bytes, last_bytes_) - std::min(bytes, last_bytes_);
  const milliseconds longest = change > last_bytes_ / kSmallPart ? kWhileItChanges : kWhileItDoesNot;
  delay_ = std::min(delay_ * 2, longest);
  next_ = now + delay_;
  last_bytes_ = bytes;
  if (!row) return;
  row->ticks = ticks;
  rows->push_back(*row);
}

}  // namespace tbprof
