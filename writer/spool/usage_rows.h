// SPDX-License-Identifier: Apache-2.0
//
// Payloads of the spool's frames kThreadUsage, kThreadBlocked, kBlockedCalls, kGilHolders, kResidentMemory and
// kCpuLimits.
//
// Process: the launcher writes, the converter reads and does not trust the values.
#ifndef TBPROF_WRITER_SPOOL_USAGE_ROWS_H_
#define TBPROF_WRITER_SPOOL_USAGE_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace tbprof {

struct ThreadUsageFact {
  uint32_t process_serial;
  uint32_t count;
};
static_assert(sizeof(ThreadUsageFact) == 8);
// Usage of a thread since its start.
struct ThreadUsageRow {
  uint64_t ticks;
  uint64_t cpu_ns;
  uint64_t run_delay_ns;  // runnable without a CPU
  int32_t tid;            // as ThreadFact::tid
  uint32_t major_faults;  // pages read from a disk; the count is at most 1 s old
  uint32_t minor_faults;  // other pages mapped at a first touch, likewise
  uint32_t reserved;
};
static_assert(sizeof(ThreadUsageRow) == 40);
// The object that a system call waits for. The values are part of the wire format.
enum class BlockedIn : uint16_t {
  kOther = 0,
  kPageFault = 1,  // no system call
  kFile = 2,
  kPipe = 3,
  kSocket = 4,
  kTerminal = 5,
  kFutex = 6,
  kPoll = 7,
  kChild = 8,
  kSleep = 9,
  kFileLock = 10,  // a lock that another process may hold
  kGil = 11,       // Python's global interpreter lock
  kStopped = 12,   // in no call: stopped by a signal or a debugger
};
inline constexpr size_t kBlockedKinds = 13;

// Consecutive samples of a thread that was blocked in the same way: of older spools.
struct ThreadBlockedRow {
  uint64_t first_ticks;
  uint64_t last_ticks;
  int32_t tid;  // as ThreadFact::tid
  uint32_t samples;
  int32_t fd;  // descriptor of the call; -1: none
  BlockedIn kind;
  uint16_t reserved;
};
static_assert(sizeof(ThreadBlockedRow) == 32);
// The same, with the call. It begins with the fields of ThreadBlockedRow.
struct BlockedCallRow {
  uint64_t first_ticks;
  uint64_t last_ticks;
  int32_t tid;
  uint32_t samples;
  int32_t fd;
  BlockedIn kind;
  uint16_t call;      // number of the system call + 1; 0: none
  uint64_t futex;     // its address; 0: none
  uint64_t site;      // return address of the call in the code that made it; 0: not known
  uint64_t function;  // an address in the C library's function that was called; 0: not known
  int32_t holder;     // tid of the thread that holds the mutex; 0: not known
  uint32_t goes_on;   // 1: with the call of the row before
};
static_assert(sizeof(BlockedCallRow) == 64);
// The thread that held the GIL when a sample of it was taken.
struct GilHolderRow {
  uint64_t ticks;
  int32_t tid;    // as ThreadFact::tid
  uint32_t node;  // as PythonSample::node
};
static_assert(sizeof(GilHolderRow) == 16);
// The memory of a process, as the kernel counts it.
struct ResidentRow {
  uint64_t ticks;
  uint64_t anonymous_bytes;
  uint64_t file_bytes;     // of mapped files
  uint64_t shared_bytes;   // shared memory
  uint64_t swapped_bytes;  // of the process's own, in swap
  uint64_t peak_bytes;     // the most that was resident since the start of the program
};
static_assert(sizeof(ResidentRow) == 48);
struct CpuLimitsFact {
  uint64_t ticks;
  uint32_t process_serial;
  int32_t cpus_allowed;        // by its affinity; 0: not known
  int64_t quota_us;            // of its cgroup or one above, in each period; -1: none; -2: not known
  int64_t period_us;           // 0 without a quota
  int64_t throttled_us;        // of that cgroup since its creation; -1: not known
  uint64_t throttled_periods;  // likewise
};
static_assert(sizeof(CpuLimitsFact) == 48);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_USAGE_ROWS_H_
