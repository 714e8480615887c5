// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of a timeline: devices, what ran on their streams, and how recording it went. Times and indexes as in
// timeline.h.
//
// Process: the converter.
#ifndef TBPROF_WRITER_TIMELINE_TIMELINE_GPU_H_
#define TBPROF_WRITER_TIMELINE_TIMELINE_GPU_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

using StringId = uint32_t;

enum class GpuEventKind : uint8_t { kKernel, kCopy, kSet, kGraph };

// How a kernel was launched. One of these for all launches that are alike on a device.
struct GpuLaunch {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t cluster[3] = {0, 0, 0};
  uint32_t registers = 0;  // per thread
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
  uint32_t local_bytes = 0;  // per thread
  bool cooperative = false;
  double occupancy = -1;  // share of the warps that a multiprocessor can hold, 0...1; < 0: not known
};

struct GpuEvent {
  enum Flag : uint8_t {
    kClippedAtStart = 1,  // began before the window
    kClippedAtEnd = 2,    // went on beyond it
    kUnfinished = 4,      // had not ended when it was last looked at; kClippedAtEnd besides
    kUncertain = 8,       // the GPU clock jumped nearby: shown no earlier than the call that caused it
    kApproximate = 16,    // times from events around the work, not from the device
  };
  int64_t start_ps = 0;
  int64_t duration_ps = 0;   // > 0
  uint64_t correlation = 0;  // the Event::value of the call that caused it, unique in the timeline; never 0
  uint64_t value = 0;        // kCopy, kSet: bytes; kKernel: the graph's node
  StringId name = 0;         // kKernel: readable
  StringId operation = 0;    // the program's that caused it, as `tf_op`; 0: not known
  uint32_t launch = 0;       // kKernel: index into Timeline::gpu_launches
  uint32_t graph = 0;        // 0: none
  uint32_t detail = 0;       // kSet: the value; peer copy: source device | destination device << 16
  GpuEventKind kind = GpuEventKind::kKernel;
  uint8_t flags = 0;
  uint8_t copy_kind = 0;  // wire's GpuCopyKind
  uint8_t source_kind = 0, destination_kind = 0;
  uint8_t asynchronous = 0;
};

// A line of a device. Of one stream there are several where its events overlap without nesting.
struct GpuStream {
  uint32_t device = 0;   // index into Timeline::gpu_devices
  uint32_t process = 0;  // index into Timeline::processes
  uint32_t number = 0;   // as CUPTI counts, in the process
  uint32_t lane = 0;     // 0, else one for what overlaps
  uint64_t line_id = 0;  // unique on the device: the number where that is free
  std::string name;      // given by the program; empty if none
  int priority = 0;
  std::vector<GpuEvent> events;  // sorted by (start ascending, duration descending), nested or apart
};

// Kernels of one name, whole capture, whether drawn or not.
struct GpuKernelTotal {
  StringId name = 0;
  uint64_t calls = 0;
  int64_t total_ps = 0;
  int64_t longest_ps = 0;
};

// Copies or sets of one kind, likewise.
struct GpuCopyTotal {
  std::string name;  // `MemcpyHToD`
  uint64_t calls = 0;
  uint64_t bytes = 0;
  int64_t total_ps = 0;
};

// What the driver did for unified memory, likewise, where that was requested.
struct GpuUnifiedTotal {
  std::string name;  // `unified memory HtoD`
  uint64_t calls = 0;
  uint64_t value = 0;  // bytes; else how many: of page faults there may be several in a call, that of a page
  bool is_bytes = false;
  int64_t total_ps = 0;
};

struct GpuDevice {
  uint32_t number = 0;        // n of /device:GPU:n, unique
  std::string name;           // empty: the device reported nothing of itself
  std::string uuid;           // hexadecimal; empty if not known
  bool is_partition = false;  // a MIG instance
  bool has_facts = false;
  uint64_t memory_bytes = 0;
  uint64_t memory_bandwidth = 0;  // bytes/s
  uint32_t core_clock_khz = 0;
  uint32_t multiprocessors = 0;
  uint16_t compute_major = 0, compute_minor = 0;

  // Totals, whole capture, whether drawn or not.
  int64_t busy_ps = 0;              // union of kernels, copies and sets
  double busy_in_steps_share = -1;  // of the time of the regular steps; -1: not known
  uint64_t kernels = 0;
  int64_t kernel_ps = 0;
  int64_t collective_ps = 0;  // of kernel_ps, that of NCCL
  uint64_t graphs = 0;        // launches that were recorded as a whole
  int64_t waited_ps = 0;      // host threads in synchronization with it
  uint64_t waits = 0;
  int64_t peak_bytes = 0;                     // allocated by the recorded processes
  int64_t live_bytes = 0;                     // at the end
  std::vector<GpuKernelTotal> kernel_totals;  // sorted by total_ps descending
  std::vector<GpuCopyTotal> copy_totals;      // likewise
  std::vector<GpuUnifiedTotal> unified_totals;
  uint64_t untimed = 0;     // ran, the device took no time stamps: in no total of time, not drawn
  uint64_t unfinished = 0;  // had not ended
  uint64_t uncertain = 0;   // near a jump of the clock
};

enum class GpuRecording : uint8_t {
  kNotUsed,      // the process did not use CUDA
  kRecorded,     // all along
  kPaused,       // with gaps: `gaps`
  kUnavailable,  // nothing: `reason`
};

struct GpuGap {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  std::string reason;
  // Of the program's own use of CUPTI.
  std::string first_call, caller_module;  // empty: not known
  std::string_view left;                  // CuptiLeftName
  std::string_view remedy;                // empty: none is known
};

// Of one process.
struct ProcessGpu {
  GpuRecording recording = GpuRecording::kNotUsed;
  std::string reason;  // kUnavailable: why, and what helps, in one line
  std::string library, versions;
  std::vector<std::string> tried;  // paths, and what came of each
  std::vector<std::string> missing_kinds;
  std::string approximate;  // device times are those of events around the work; why not CUPTI's, and what helps
  std::vector<GpuGap> gaps;
  uint64_t host_page_faults = 0;  // on unified memory
  uint64_t launches = 0;          // calls of the program that put work on a device
  uint64_t records = 0;
  uint64_t dropped = 0;  // by CUPTI, for want of a buffer
  uint64_t unknown = 0;
  uint64_t unread_bytes = 0;    // of CUPTI's buffers, which it could not step through to the end
  bool ended_in_order = false;  // or recording had stopped before
  int64_t lost_at_end_ps = -1;  // killed so long after the last record that was handed over; -1: it was not
};

// `MemcpyHToD`; the names that TensorBoard's converters take for transfers.
std::string_view GpuCopyName(uint8_t copy_kind);
bool IsCollective(std::string_view kernel);
// What helps against a cause for which nothing is recorded, as CUPTI and our library put it; empty: not known.
std::string_view GpuRemedy(std::string_view cause);

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_GPU_H_
