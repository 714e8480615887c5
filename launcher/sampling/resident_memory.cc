// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/resident_memory.h"

#include <algorithm>
#include <cstdlib>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"

namespace tbprof {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWhileItChanges(100), kWhileItDoesNot(1000);
// A change by less than this part of the memory is none.
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

ResidentReader::ResidentReader(pid_t pid)
    : statm_(StrCat("/proc/", pid, "/statm")), status_(StrCat("/proc/", pid, "/status")) {}

void ResidentReader::Take(Time now, uint64_t ticks, bool whole, std::vector<ResidentRow>* rows) {
  // `size resident shared ...`, in pages.
  const std::string statm = ReadText(statm_);
  const size_t space = statm.find(' ');
  const uint64_t pages = space == std::string::npos ? 0 : strtoull(statm.c_str() + space, nullptr, 10);
  const bool changed = std::max(pages, last_pages_) - std::min(pages, last_pages_) > last_pages_ / kSmallPart;
  delay_ = std::min(delay_ * 2, changed ? kWhileItChanges : kWhileItDoesNot);
  next_ = now + delay_;
  if (!changed && !whole) return;
  std::optional<ResidentRow> row = ParseResident(ReadText(status_));
  if (!row) return;
  last_pages_ = pages;
  row->ticks = ticks;
  rows->push_back(*row);
}

}  // namespace tbprof
