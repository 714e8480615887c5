// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/thread_groups.h"

#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {

std::string StemOfThreadName(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789", kUsual = "Thread-";
  const auto behind =
      name.starts_with(kUsual) ? name.find_first_not_of(kDigits, kUsual.size()) : std::string_view::npos;
  if (behind != std::string_view::npos && behind > kUsual.size() && name.substr(behind).starts_with(" (")) {
    return StrCat("Thread", name.substr(behind));
  }
  const auto end = name.find_last_not_of("0123456789-_:#. ");
  return std::string(end == std::string_view::npos ? name : name.substr(0, end + 1));
}

ThreadGroupKey GroupOfThread(const Timeline& timeline, uint32_t index) {
  const Thread& thread = timeline.threads[index];
  const Process& process = timeline.processes[thread.process];
  // The digit of `python3` is not the number of a thread.
  const bool is_unnamed = thread.name == process.name;
  return {process.name, process.forked, thread.is_main,
          thread.is_main ? "main"
          : is_unnamed   ? thread.name
                         : StemOfThreadName(thread.name)};
}

std::string ThreadGroupText(const ThreadGroupKey& key, size_t count) {
  if (key.is_main) {
    return StrCat(count == 1 ? "" : StrCat(count, " "), key.forked ? "forked process" : "process",
                  count == 1 ? " " : "es ", PrintableUtf8(key.process));
  }
  if (key.threads.empty()) return StrCat(HumanCount(count), count == 1 ? " thread" : " threads", " without a name");
  return StrCat(count == 1 ? "thread " : "threads ", PrintableUtf8(key.threads),
                count == 1 ? "" : StrCat(" (", count, ")"));
}

}  // namespace tbprof
