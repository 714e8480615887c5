// SPDX-License-Identifier: Apache-2.0
//
// The segment: the shared memory of one target process image and its fork children, made by the target at exec and
// mapped by the launcher. Fixed size, sealed, addressed by offsets only. docs/wire-records.md shows it byte by byte.
//
//   Header | operations | process slots | thread slots | chunk states | chunks
//
// Process: target (writes) and launcher (reads, frees, sets the control word). The launcher verifies everything: it
// copies a word once, then checks the copy. Plain types only; atomics by builtins, so that both sides and any compiler
// agree.
//
// Any change to size, offset or meaning raises kAbiVersion.
#ifndef TBPROF_WIRE_LAYOUT_H_
#define TBPROF_WIRE_LAYOUT_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof {

inline constexpr uint64_t kSegmentMagic = 0x31474553'52504254;  // "TBPRSEG1" as bytes
inline constexpr uint32_t kAbiVersion = 14;

inline constexpr uint32_t kSlotBytes = 32;
inline constexpr uint32_t kChunkBytes = 64 * 1024;
inline constexpr uint32_t kSlotsPerChunk = kChunkBytes / kSlotBytes;
inline constexpr uint32_t kMaxOperations = 160;
inline constexpr uint32_t kProcessSlots = 4096;
inline constexpr uint32_t kThreadSlots = 4096;
inline constexpr uint32_t kMaxChunks = 16384;
inline constexpr uint32_t kMinChunks = 64;

// Hook families: bits of the control word; a summary groups operations by them.
enum Family : uint32_t {
  kFamilyThread = 1u << 0,  // life of threads
  kFamilyLock = 1u << 1,    // mutex, rwlock, cond, barrier, semaphore, join
  kFamilySleep = 1u << 2,
  kFamilyIo = 1u << 3,
  kFamilyProcess = 1u << 4,  // fork, exec, spawn, wait for children
  kFamilyMalloc = 1u << 5,
  kFamilyGpu = 1u << 6,
  kFamilyAnnotation = 1u << 7,  // the program's own annotations: NVTX
  kFamilyAll = (1u << 8) - 1,
};

// The meaning of a call's object and result; recorded per operation, so that a new hook is one row in one table.
enum class ObjectRole : uint8_t { kNone, kAddress, kDescriptor, kProcessId, kThread };
enum class ResultRole : uint8_t { kNone, kBytes, kStatus, kProcessId, kDescriptor, kCount };

struct Operation {
  char name[40];  // the function's name, NUL-terminated
  uint32_t family;
  ObjectRole object;
  ResultRole result;
  uint16_t reserved;
};
static_assert(sizeof(Operation) == 48);

enum class SlotState : uint32_t {
  kFree = 0,
  kClaimed = 1,  // being filled in by its owner
  kLive = 2,
  kExited = 3,  // complete; the launcher reads the slot and frees it
};

// Why records were dropped; counted per thread or, if there is no thread slot, per segment.
enum DropCause : uint32_t {
  kDropNoChunk,  // every chunk is full: the launcher could not keep up or is gone
  kDropNoThreadSlot,
  kDropNoProcessSlot,
  kDropThreadEnding,  // after the thread's last destructor
  kDropTooLong,
  kDropCauses = 8,
};

struct CallCount {
  uint64_t calls;  // calls that were counted without a record
  uint64_t ticks;  // time inside those calls; 0 if it was not measured
};

// Counters of a thread that do not depend on its records, so that a profile can be compared with the calls that were
// made: first calls, by the bit number of their family, then records, by their subject.
enum CountedKind : uint32_t {
  kCountedFamilies = 8,    // smaller values: bit number of Family
  kCountedSample = 8,      // AllocationSample
  kCountedAnnotation = 9,  // ranges and marks, except those of PyTorch's observer
  kCountedTorch = 10,      // of PyTorch's observer
  kCountedTensor = 11,     // TensorMemory
  kCountedPythonStack = 12,
  kCountedBlock = 13,      // Allocation; `made` is 0: ThreadSlot::allocations and frees count them
  kCountedGpuKernel = 14,  // GpuKernel, and likewise below: counted if a record is made from data of CUPTI or a hook
  kCountedGpuCopy = 15,
  kCountedGpuCall = 16,
  kCountedKinds = 24,
};
constexpr uint8_t CountedKindOf(Family family) { return static_cast<uint8_t>(__builtin_ctz(family)); }

// One page per thread: written by its thread alone, read by the launcher at any time.
struct ThreadSlot {
  uint32_t state;   // SlotState
  uint32_t serial;  // unique in the segment, > 0
  uint32_t process_serial;
  int32_t tid;  // as the thread sees it (in its own pid namespace)
  uint64_t start_ticks;
  uint64_t end_ticks;       // 0 while alive
  uint32_t creator_serial;  // thread that called pthread_create; 0 = not known
  uint32_t process_slot;
  uint64_t start_routine;
  char name[16];  // NUL-terminated; empty if no hook has seen it

  // The call in which the thread is blocked now; wait_since == 0: none.
  uint64_t wait_since;
  uint64_t wait_object;
  uint64_t wait_site;
  uint32_t wait_operation;
  uint32_t wait_resumed;  // 1: a signal handler has waited and recorded meanwhile; the thread is back in this wait

  // Allocator calls, counted while the family is armed.
  uint64_t allocations;
  uint64_t frees;
  uint64_t allocated_bytes;  // usable sizes, so that live = allocated - freed
  uint64_t freed_bytes;

  uint64_t records;
  uint64_t dropped[kDropCauses];
  uint8_t reserved1[56];

  // By CountedKind. A call is counted before it begins, and a record before there is room for it.
  uint64_t made[kCountedKinds];
  uint64_t no_room[kCountedKinds];  // of these, the records for which no chunk had room
  uint64_t left[kCountedFamilies];  // at most this many calls never returned (a jump, an exception, a cancellation)
  uint64_t not_large;               // timed calls of the allocator that were neither large nor slow
  uint8_t reserved2[824];
  CallCount short_calls[kMaxOperations];  // below the wait threshold
};
static_assert(sizeof(ThreadSlot) == 4096);
static_assert(offsetof(ThreadSlot, made) % 64 == 0);
static_assert(offsetof(ThreadSlot, short_calls) == 4096 - sizeof(CallCount) * kMaxOperations);

struct ProcessSlot {
  uint32_t state;          // SlotState
  uint32_t serial;         // unique in the segment, > 0
  uint32_t parent_serial;  // 0: made by exec, not by fork
  int32_t pid;             // as the process sees it
  int32_t parent_pid;
  uint32_t flags;  // ProcessFlag
  uint64_t start_ticks;
  int64_t live_bytes;  // each thread adds its changes, about every 64 KiB
  int64_t peak_bytes;
  uint64_t late_frees;  // by threads past their last destructor
  uint64_t late_freed_bytes;
  uint64_t late_allocations;
  uint64_t late_allocated_bytes;
  int64_t inherited_bytes;  // live in the parent at the fork: part of live_bytes from the start
  uint32_t start_cost;      // cost of attaching, in ns of CPU time, or of registering a fork child, in ticks
  uint32_t gpu_state;       // GpuState
  // Flushes of all finished device work: the number requested and the number done. The library waits on the first with
  // a futex.
  uint32_t gpu_flush_requested;
  uint32_t gpu_flush_done;
  uint32_t ranges_open;      // number of open ranges of the kind that opens a window (Triggers)
  uint32_t torch_recording;  // TorchRecording
  uint64_t gpu_held_since;   // since then CUPTI may hold records that a kill would lose; 0: it holds none
  uint8_t reserved[136];
};
static_assert(sizeof(ProcessSlot) == 256);

enum class GpuState : uint32_t {
  kNone = 0,       // the process has not used CUDA
  kRecording = 1,  // its device activity is recorded
  kPaused = 2,     // the program uses CUPTI itself, or no window is open
  kOff = 3,        // cannot be recorded; a GpuInfo has the cause
  kLimited = 4,    // recorded only while a window is open (SegmentHeader::gpu_windows): kernels had no valid times
};
inline constexpr uint32_t kGpuWindowOpen = 1;

enum class TorchRecording : uint32_t {
  kNone = 0,     // PyTorch is not observed, or --torch fixes what is recorded
  kSampled = 1,  // some of its operations, because all would cost too much
  kAll = 2,      // all of them, since SegmentHeader::torch_all was seen
};

enum ProcessFlag : uint32_t {
  kProcessAllocatorSeen = 1u << 0,    // the program finds malloc in this library
  kProcessAllocatorMissed = 1u << 1,  // the program has its own allocator
  kProcessLeaving = 1u << 2,          // exit handlers have begun
  kProcessHandlesSignal =
      1u << 3,  // the capture signal's handler is the library's; reported by the exec'ed process only
  kProcessSizesUnknown = 1u << 4,  // the real allocator does not return the size of a block
  kProcessPlainPython = 1u << 5,   // PYTHONMALLOC makes Python call malloc for every object
  kProcessSanitized = 1u << 6,     // AddressSanitizer or LeakSanitizer: its allocator is not recorded
  kProcessAttached = 1u << 7,      // started without the library: the launcher made the segment, and only samples it
};
// Family bits, from this bit on, of families whose functions the program finds in another module.
inline constexpr uint32_t kProcessMissedShift = 8;

// State word of a chunk: state | generation << 16 | thread slot << 32.
enum class ChunkState : uint32_t { kFree = 0, kOwned = 1, kFull = 2 };
inline constexpr uint64_t ChunkWord(ChunkState state, uint16_t generation, uint32_t thread_slot) {
  return static_cast<uint64_t>(state) | static_cast<uint64_t>(generation) << 16 |
         static_cast<uint64_t>(thread_slot) << 32;
}
inline constexpr ChunkState StateOfChunk(uint64_t word) { return static_cast<ChunkState>(word & 0xff); }
inline constexpr uint16_t GenerationOfChunk(uint64_t word) { return static_cast<uint16_t>(word >> 16); }
inline constexpr uint32_t ThreadSlotOfChunk(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

// What is recorded about GPUs and frameworks, and by which means: --cuda and related options, --torch.
enum GpuOption : uint32_t {
  kGpuByCupti = 1u << 0,
  kGpuByHooks = 1u << 1,         // where CUPTI is unavailable or disabled
  kGpuWholeGraphs = 1u << 2,     // a graph is recorded as a whole, not by its nodes
  kGpuUnifiedMemory = 1u << 3,   // page faults and migrations of unified memory
  kGpuXlaAnnotations = 1u << 4,  // XLA's NVTX domain is accepted: XLA then reports nothing to its own profiler
  kTorch = 1u << 5,              // PyTorch's ranges of optimizers and data loaders, and those that programs name
  kTorchOperations = 1u << 6,    // also its operations, as long as they cost little
  kTorchAll = 1u << 7,           // also its operations, whatever they cost
  kTorchShapes = 1u << 8,        // also the shapes of the operations' inputs
};

struct SegmentHeader {
  uint64_t magic;
  uint32_t abi;
  uint32_t header_bytes;
  uint32_t slot_bytes, chunk_bytes;
  uint32_t operation_bytes, process_slot_bytes, thread_slot_bytes;
  uint32_t operation_count, process_slot_count, thread_slot_count, chunk_count;
  uint32_t clock_kind;  // ClockKind
  uint64_t segment_bytes;
  uint64_t operations_offset, process_slots_offset, thread_slots_offset, chunk_states_offset, chunks_offset;
  uint64_t nonce;  // of the session
  uint64_t attach_ticks;
  uint64_t attach_monotonic_ns;  // taken with attach_ticks
  int32_t pid;
  uint32_t wait_threshold_shift;  // reserved, 0
  uint8_t reserved0[120];

  // Its own cache line: loaded by every hook, written by the launcher when a window opens or closes.
  uint32_t control;                // armed families; above them the counter of kControlTurn
  uint32_t malloc_stamp_every;     // --malloc=exact: every Nth Allocation has a time; 0: no Allocation is recorded
  uint64_t wait_threshold_ticks;   // shorter calls are counted only
  uint64_t malloc_interval;        // mean bytes between allocator samples; the launcher raises and lowers it
  uint64_t large_allocation;       // bytes from which an allocation is a record of its own
  uint64_t slow_allocation_ticks;  // duration from which an allocation is a record of its own
  uint32_t sample_stack_bytes;     // most stack bytes of an allocator sample; the launcher changes it
  uint32_t torch_all;              // 1: a window is open for which all of PyTorch's operations are recorded
  // Windows that record GPUs and end by themselves: kGpuWindowOpen is set while one is open; the bits above it count
  // them.
  uint32_t gpu_windows;
  uint8_t reserved2[4];
  uint64_t python_wait_ticks;  // calls at least that long carry a Python stack; 0: no record does

  // Its own cache line: written by claiming threads.
  uint32_t chunk_hint;
  uint32_t chunk_high;  // chunks at or above this index have never been claimed
  uint32_t thread_hint;
  uint32_t thread_high;
  uint32_t process_high;
  uint32_t next_process_serial;
  uint32_t next_thread_serial;
  uint32_t modules_missed;        // addresses seen in no recorded module: the launcher reads the maps again
  uint64_t dropped[kDropCauses];  // records dropped without a thread slot
  uint32_t capture_requests;      // by the capture signal, caught in the target
  uint32_t threads_exited;        // how many slots the launcher may free
  uint32_t process_hint;          // no process slot below it is free, as far as is known
  uint32_t gpu_options;           // GpuOption
  uint8_t reserved3[16];
};
static_assert(offsetof(SegmentHeader, control) == 256);
static_assert(offsetof(SegmentHeader, chunk_hint) == 320);
static_assert(sizeof(SegmentHeader) == 448);

// Ranges of the program that open windows (--window=nvtx:NAME, cuda-profiler); stored in the header's page. The library
// arms its own segment when such a range begins, and reports the border; the launcher makes windows from the borders. A
// range that begins while another one of its process is open has no border of its own.
enum class TriggerKind : uint32_t { kNone = 0, kRange = 1, kCudaProfiler = 2 };

struct RangeBorder {
  uint64_t ticks;
  uint32_t process_serial;
  uint32_t turn;  // stored last: the border's number from 1, times 2, plus 1 if a range ends
};
inline constexpr uint32_t kRangeBorders = 128;
// The control word's bits from this one on count how often the library has armed the segment.
inline constexpr uint32_t kControlTurn = 1u << 8;
static_assert(kControlTurn == kFamilyAll + 1);

struct Triggers {
  uint64_t name;      // NameNumberOf the range's name
  uint32_t kind;      // TriggerKind
  uint32_t families;  // armed when a range begins; the launcher disarms them if no further window follows
  uint32_t reported;  // borders so far; the first has the number 1
  uint32_t reserved[11];
  RangeBorder borders[kRangeBorders];  // indexed by the border's number modulo kRangeBorders
};
inline constexpr uint64_t kTriggersOffset = 1024;
static_assert(offsetof(Triggers, borders) == 64);
static_assert(kTriggersOffset >= sizeof(SegmentHeader) && kTriggersOffset + sizeof(Triggers) <= 4096);
inline Triggers* TriggersOf(SegmentHeader* header) {
  return reinterpret_cast<Triggers*>(reinterpret_cast<uint8_t*>(header) + kTriggersOffset);
}

inline constexpr uint64_t kPage = 4096;
constexpr uint64_t RoundToPage(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Segments are mapped at a multiple of this: a fork child has no page of the mapping, and the kernel maps this many
// bytes around the first page that the child reads (fault_around_bytes). In its first 64 KiB a child needs the header,
// the states of the low chunks and the low process slots.
inline constexpr uint64_t kFaultAround = 64 * 1024;

// Offsets of a segment with `chunks` chunks; only this code defines the layout.
struct SegmentLayout {
  uint64_t operations, chunk_states, process_slots, thread_slots, chunks, bytes;
};
constexpr SegmentLayout LayoutFor(uint32_t chunk_count) {
  SegmentLayout layout{};
  layout.operations = RoundToPage(sizeof(SegmentHeader));
  layout.chunk_states = RoundToPage(layout.operations + sizeof(Operation) * kMaxOperations);
  layout.process_slots = RoundToPage(layout.chunk_states + sizeof(uint64_t) * chunk_count);
  layout.thread_slots = RoundToPage(layout.process_slots + sizeof(ProcessSlot) * kProcessSlots);
  layout.chunks = RoundToPage(layout.thread_slots + sizeof(ThreadSlot) * kThreadSlots);
  layout.bytes = layout.chunks + static_cast<uint64_t>(kChunkBytes) * chunk_count;
  return layout;
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_LAYOUT_H_
