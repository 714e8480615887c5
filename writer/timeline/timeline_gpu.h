// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of a timeline: devices, the events of their streams, and the state of recording. Times and indexes as in
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

// Launch parameters of a kernel. Equal launches on a device share one.
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
    kClippedAtEnd = 2,    // ended after the window
    kUnfinished = 4,      // had not ended when it was last read; kClippedAtEnd is also set
    kUncertain = 8,       // the GPU clock jumped nearby: shown no earlier than the call that caused it
    kApproximate = 16,    // times from events around the work, not from the device
  };
  int64_t start_ps = 0;
  int64_t duration_ps = 0;   // > 0
  uint64_t correlation = 0;  // the Event::value of the call that caused it, unique in the timeline; never 0
  uint64_t value = 0;        // kCopy, kSet: bytes; kKernel: the graph's node
  StringId name = 0;         // kKernel: readable
  StringId operation = 0;    // the program's operation that caused it, shown as `tf_op`; 0: not known
  uint32_t launch = 0;       // kKernel: index into Timeline::gpu_launches
  uint32_t graph = 0;        // 0: none
  uint32_t detail = 0;       // kSet: the value; peer copy: source device | destination device << 16
  GpuEventKind kind = GpuEventKind::kKernel;
  uint8_t flags = 0;
  uint8_t copy_kind = 0;  // wire's GpuCopyKind
  uint8_t source_kind = 0, destination_kind = 0;
  uint8_t asynchronous = 0;
};

// A line of a device. A stream has several lines if its events overlap without nesting.
struct GpuStream {
  uint32_t device = 0;   // index into Timeline::gpu_devices
  uint32_t process = 0;  // index into Timeline::processes
  uint32_t number = 0;   // CUPTI's number in the process
  uint32_t lane = 0;     // 0; further lanes have overlapping events
  uint64_t line_id = 0;  // unique on the device: `number`, if that is free
  std::string name;      // given by the program; empty if none
  int priority = 0;
  std::vector<GpuEvent> events;  // sorted by (start ascending, duration descending), nested or apart
};

// Kernels of one name, for the whole capture, drawn or not.
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

// Work of the driver for unified memory, likewise, if recording it was requested.
struct GpuUnifiedTotal {
  std::string name;  // `unified memory HtoD`
  uint64_t calls = 0;
  uint64_t value = 0;  // bytes, or a number: one call may have several page faults, of one page
  bool is_bytes = false;
  int64_t total_ps = 0;
};

struct GpuDevice {
  uint32_t number = 0;        // n of /device:GPU:n, unique
  std::string name;           // empty: the device did not report it
  std::string uuid;           // hexadecimal; empty if not known
  bool is_partition = false;  // a MIG instance
  bool has_facts = false;
  uint64_t memory_bytes = 0;
  uint64_t memory_bandwidth = 0;  // bytes/s
  uint32_t core_clock_khz = 0;
  uint32_t multiprocessors = 0;
  uint16_t compute_major = 0, compute_minor = 0;

  // Totals, whole capture, whether drawn or not.
  int64_t busy_ps = 0;              // union of kernels, copies and sets, without copies from host to host
  double busy_in_steps_share = -1;  // share of the time of the regular steps; -1: not known
  uint64_t kernels = 0;
  int64_t kernel_ps = 0;
  int64_t collective_ps = 0;  // part of kernel_ps: kernels of NCCL
  uint64_t graphs = 0;        // graph launches that were recorded as a whole
  int64_t waited_ps = 0;      // time of host threads in synchronization with it
  uint64_t waits = 0;
  int64_t peak_bytes = 0;                     // allocated by the recorded processes
  int64_t live_bytes = 0;                     // at the end
  std::vector<GpuKernelTotal> kernel_totals;  // sorted by total_ps descending
  std::vector<GpuCopyTotal> copy_totals;      // likewise
  std::vector<GpuUnifiedTotal> unified_totals;
  uint64_t untimed = 0;     // ran without time stamps of the device: in no total of time, not drawn
  uint64_t unfinished = 0;  // had not ended
  uint64_t uncertain = 0;   // near a jump of the clock
};

enum class GpuRecording : uint8_t {
  kNotUsed,      // the process did not use CUDA
  kRecorded,     // without gaps
  kPaused,       // with gaps: see `gaps`
  kUnavailable,  // not at all: see `reason`
};

struct GpuGap {
  int64_t start_ps = 0;
  int64_t end_ps = 0;
  std::string reason;
  // The program's own use of CUPTI, if it caused the gap.
  std::string first_call, caller_module;  // empty: not known
  std::string_view left;                  // CuptiLeftName
  std::string_view remedy;                // empty: none is known
};

// GPU recording of one process.
struct ProcessGpu {
  GpuRecording recording = GpuRecording::kNotUsed;
  std::string reason;  // kUnavailable: cause and remedy, in one line
  std::string library, versions;
  std::vector<std::string> tried;  // paths, each with its result
  std::vector<std::string> missing_kinds;
  std::string approximate;  // not empty: times of events around the work are used; the reason and the remedy
  std::vector<GpuGap> gaps;
  uint64_t host_page_faults = 0;  // on unified memory
  uint64_t launches = 0;          // calls of the program that put work on a device
  uint64_t records = 0;
  uint64_t dropped = 0;  // by CUPTI, which had no free buffer
  uint64_t unknown = 0;
  uint64_t unread_bytes = 0;    // bytes of CUPTI's buffers that CUPTI could not parse
  bool ended_in_order = false;  // the process did, or recording had stopped before
  int64_t lost_at_end_ps = -1;  // time before a kill in which records may be missing; -1: none are, or it is not known
};

// E.g. `MemcpyHToD`: the names that TensorBoard's converters classify as transfers.
std::string_view GpuCopyName(uint8_t copy_kind);
bool IsCollective(std::string_view kernel);
// Remedy for a cause for which nothing is recorded, given as text of CUPTI or tbprof's library; empty: not known.
std::string_view GpuRemedy(std::string_view cause);

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_TIMELINE_GPU_H_
