// SPDX-License-Identifier: Apache-2.0
//
// The core files of processes that a signal ended. Indexes as in timeline.h.
//
// Process: the converter.
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_CORE_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_CORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tbprof {

enum class CoreSource : uint8_t {
  kRead,
  kPiped,   // the kernel piped it to a program
  kUnread,  // see `reason`
};

// A thread as it was when the process ended.
struct CoreThreadStacks {
  uint32_t thread = 0;  // index into Timeline::threads
  int32_t tid = 0;
  uint32_t python_stack = 0;  // index into PythonTimeline::stacks; 0: none
  uint32_t native_stack = 0;  // index into NativeTimeline::stacks; 0: none
  bool got_signal = false;    // this thread got the signal
};

struct CoreDump {
  uint32_t process = 0;  // index into Timeline::processes
  CoreSource source = CoreSource::kRead;
  int signal = 0;  // 0: not known
  std::optional<uint64_t> fault_address;
  std::string path;    // of the core file; kPiped: of the program
  std::string reason;  // kUnread: the cause; kRead: the missing parts, or empty
  uint64_t thread_count = 0;
  std::vector<CoreThreadStacks> threads;  // the thread that got the signal comes first
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_CORE_H_
