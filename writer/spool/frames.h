// SPDX-License-Identifier: Apache-2.0
//
// The format of a spool: its header, the types of its frames, and their payloads. docs/wire-records.md has the layout
// byte by byte.
//
//   SpoolHeader, then frames: FrameHeader, payload, zeros up to a multiple of 8.
//
// Both header and payload carry a CRC-32C.
//
// Process: the launcher writes, the converter reads and does not trust the values.
#ifndef TBPROF_WRITER_SPOOL_FRAMES_H_
#define TBPROF_WRITER_SPOOL_FRAMES_H_

#include <cstdint>

#include "wire/layout.h"
#include "wire/records.h"

namespace tbprof {

inline constexpr char kSpoolMagic[8] = {'T', 'B', 'P', 'S', 'P', 'O', 'L', '1'};
// Independent of the segment's version: every later tbprof can read a spool from a machine that no longer exists.
// Adding a kind of record or frame does not change it; changing a kind raises it, and the reader supports both.
inline constexpr uint32_t kSpoolVersion = 5;
inline constexpr uint32_t kOldestSpoolVersion = 4;
inline constexpr uint32_t kFrameMagic = 0x4d524654;  // "TFRM"
inline constexpr uint32_t kMaxFramePayload = 8u << 20;
inline constexpr uint64_t kLatestTicks = uint64_t{1} << 62;  // a fact with a later time is corrupt

struct SpoolHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t part;  // 0: the main file
  uint32_t reserved;
  uint64_t session;  // the same in all files of a spool
};
static_assert(sizeof(SpoolHeader) == 32);

enum class FrameType : uint16_t {
  kSession = 1,            // JSON: the command, its settings and times
  kSegment = 2,            // SegmentFact, SegmentHeader, operations
  kChunk = 3,              // ChunkFact, slots
  kThread = 4,             // ThreadFact, CountFact[]; the latest of each thread counts
  kProcess = 5,            // ProcessFact; the latest of each process counts
  kClock = 6,              // ClockFact
  kCounters = 7,           // CounterFact
  kWindow = 8,             // WindowFact
  kMaps = 9,               // text of /proc/PID/maps of the segment's process
  kNote = 10,              // text: a warning for the profile
  kEnd = 11,               // EndFact: the session ended in order
  kInert = 12,             // InertFact, path: a process whose library was inactive
  kKept = 13,              // ChunkFact, slots: facts about threads, processes and modules from a chunk frame in a part
  kPart = 14,              // PartFact: a part was started
  kDropped = 15,           // PartFact: a part was removed
  kTotals = 16,            // TotalsFact, TotalRow[]: the calls in all parts dropped so far
  kGap = 17,               // GapFact: records that were drained but not kept
  kGpuTotals = 18,         // TotalsFact, GpuTotalRow[]: the GPU records in all parts dropped so far
  kGpuMemory = 19,         // TotalsFact, GpuMemoryRow[]: allocations and releases of device memory
  kSampling = 20,          // SamplingFact: the distance of allocator samples changes at this time
  kExit = 21,              // ExitFact: how a process ended, if the kernel reported it
  kPythonCode = 22,        // PythonCodeFact, name, file, line table: a code object of a process
  kPythonStacks = 23,      // PythonStacksFact, PythonNode[]
  kPythonSamples = 24,     // PythonSamplesFact, PythonSample[]
  kPythonStatus = 25,      // PythonStatusFact, reason: one line of text; the latest of each process counts
  kPythonThread = 26,      // PythonThreadFact, name that Python gave the thread; the latest of each thread counts
  kNativeStacks = 27,      // NativeStacksFact, NativeNode[]
  kNativeSamples = 28,     // NativeSamplesFact, NativeSample[]
  kNativeStatus = 29,      // NativeStatusFact, reason: one line of text; the latest of each process counts
  kCore = 30,              // CoreFact, CoreThread[], CoreModule[], path, reason, path and build id of each module
  kThreadUsage = 31,       // ThreadUsageFact, ThreadUsageRow[]
  kCpuLimits = 32,         // CpuLimitsFact of a process: at the start of sampling, at each change, and at the end
  kPythonCollecting = 33,  // PythonSamplesFact, PythonSample[]: samples in which the thread collected garbage
  kCallCounts = 34,        // CallCountsFact; the latest of each thread counts
  kNotKept = 35,           // NotKeptFact, NotKeptRow[]: kinds of the records in all GapFacts so far
  kThreadBlocked = 36,     // ThreadUsageFact, ThreadBlockedRow[]: of older spools
  kGpuHeld = 37,           // GpuHeldFact: what CUPTI held when a process ended
  kGilHolders = 38,        // ThreadUsageFact, GilHolderRow[]
  kResidentMemory = 39,    // ThreadUsageFact, ResidentRow[]
  kBlockedCalls = 40,      // ThreadUsageFact, BlockedCallRow[]
  kNotebook = 41,          // NotebookFact, working directory of a process that runs cells of a notebook
};

enum FrameFlag : uint16_t {
  kFrameLasting = 1,  // the last fact of a thread or process: it stays in the main file
  kFrameFacts = 2,    // a chunk with records of which the launcher keeps something besides the chunk
  kFrameSummary = 4,  // a chunk with a ChunkSummary behind its slots
};

struct FrameHeader {
  uint32_t magic;
  FrameType type;
  uint16_t flags;    // FrameFlag
  uint32_t segment;  // number of the segment in the session, from 1; 0: the session as a whole
  uint32_t payload_bytes;
  uint32_t payload_crc;
  uint32_t header_crc;  // over the fields above
};
static_assert(sizeof(FrameHeader) == 24);

struct SegmentFact {
  int32_t pid;  // as seen by the launcher
  uint32_t uid;
  uint64_t seen_ticks;
  uint64_t reserved[2];
};
struct ChunkFact {
  uint32_t chunk;
  uint16_t generation;
  uint16_t first_slot;
  uint32_t slots;
  uint32_t lost;  // unfinished records skipped before these slots
  uint32_t process_serial;
  uint32_t thread_serial;
  uint64_t taken_ticks;  // start of the pass over the segment: records made before it are here, or in an earlier frame
};
// Summary of a chunk's records in the frame (chunk_summary.h).
struct ChunkSummary {
  ChunkFact chunk;
  ChunkBeginRecord begin;  // zeros if the frame does not begin the chunk
  uint64_t last_ticks;     // the latest plausible time of a record; 0: no record has one
  uint64_t failed[3];      // one bit per operation: a call of it failed
  uint32_t records, spans;
  uint32_t gpu;  // 1: the chunk has events of a GPU
  uint32_t crc;  // over the fields above
};
static_assert(sizeof(ChunkSummary) == 112);
struct ThreadFact {
  uint32_t serial, process_serial;
  int32_t tid;
  uint32_t state;  // SlotState
  uint64_t start_ticks, end_ticks;
  uint64_t start_routine;
  uint32_t creator_serial;
  uint32_t wait_operation;
  char name[16];
  uint64_t wait_since, wait_object, wait_site;
  uint64_t allocations, frees, allocated_bytes, freed_bytes;
  uint64_t records;
  uint64_t dropped[kDropCauses];
  uint32_t count_facts;
  uint32_t wait_resumed;
  uint64_t taken_ticks;  // when the launcher read the counters, which are cumulative
};
struct CountFact {
  uint32_t operation;
  uint32_t reserved;
  uint64_t calls, ticks;
};
// The counts of ThreadSlot by CountedKind, read together with a ThreadFact. Omitted if all of them are 0.
struct CallCountsFact {
  uint32_t serial, process_serial;    // of the thread
  uint64_t start_ticks, taken_ticks;  // as in ThreadFact
  uint64_t made[kCountedKinds];
  uint64_t no_room[kCountedKinds];
  uint64_t left[kCountedFamilies];
  uint64_t not_large;
};
struct ProcessFact {
  uint32_t serial, parent_serial;
  int32_t pid;        // as seen by itself
  int32_t outer_pid;  // as seen by the launcher; 0: not known
  uint32_t state;     // SlotState
  uint32_t flags;     // ProcessFlag
  uint64_t start_ticks;
  uint64_t end_ticks;  // when the launcher detected its end; 0: alive
  int64_t live_bytes, peak_bytes;
  uint64_t late_frees, late_freed_bytes, late_allocations, late_allocated_bytes;
  int64_t inherited_bytes;        // part of live_bytes that was the parent's at the fork
  uint64_t dropped[kDropCauses];  // of the segment; the same for each of its processes
  uint64_t taken_ticks;
  int32_t parent_pid;  // as seen by the process
  uint32_t start_cost;
};
struct ExitFact {
  uint64_t ticks;  // when the launcher detected the end
  uint32_t process_serial;
  int32_t exit_code;    // -1: a signal ended it
  int32_t exit_signal;  // 0: it exited
  uint32_t flags;       // ExitFlag
};
// Only of a process that used CUDA.
struct GpuHeldFact {
  uint64_t since_ticks;  // ProcessSlot::gpu_held_since
  uint32_t process_serial;
  uint32_t reserved;
};
enum ExitFlag : uint32_t {
  kExitOutOfMemory = 1,  // ended by SIGKILL, and the memory cgroup counted an OOM kill since the last such end
};
struct ClockFact {
  uint64_t ticks, monotonic_ns, realtime_ns;
};
struct CounterFact {
  uint64_t ticks;
  uint32_t process_serial;
  uint32_t reserved;
  int64_t live_bytes;
};
struct InertFact {
  uint64_t ticks;
  int32_t pid;        // as seen by the launcher
  int32_t inner_pid;  // as seen by itself
  uint32_t reason;    // InertReason (wire/rendezvous.h)
  int32_t error;      // error number of the call that failed, or 0
};
enum class WindowEvent : uint32_t {
  kOpened = 1,
  kClosed = 2,
  kPublished = 3,  // its profile is written: no recovery needed
  kReplaced = 4,   // the run's own window, which start, steady and end show instead
};
// 0: the run's own window; from 1: captures. These: windows that --window=auto makes if a run does not fit one profile.
inline constexpr uint32_t kStartWindow = 0x40000000, kSteadyWindow = 0x40000001, kEndWindow = 0x40000002;
struct WindowFact {
  uint64_t ticks;
  uint32_t number;
  WindowEvent event;
  uint32_t families;
  uint32_t length_ms;  // kOpened: if not 0, only this many milliseconds before the close belong to the window
};
struct SamplingFact {
  uint64_t ticks;
  uint64_t interval;  // mean bytes allocated between two samples, from this time on
  uint32_t stack_bytes;
  uint32_t reserved;
};
struct PartFact {
  uint32_t part;
  uint32_t reserved;
  uint64_t first_ticks, last_ticks;  // when its records were drained
  uint64_t records, bytes;
};
struct TotalsFact {
  uint32_t drops;  // number of dropped parts in these totals: those of the first `drops` kDropped frames
  uint32_t rows;
  uint64_t lost;  // ChunkFact::lost, summed
};
struct TotalRow {
  uint32_t segment, process_serial;
  uint32_t operation;
  uint32_t reserved;
  uint64_t call_site;
  uint64_t calls, ticks, longest;
};
enum class GpuTotalKind : uint16_t {
  kKernel = 1,         // id: number of its name; 0: several kernels
  kCopy = 2,           // id: GpuCopyKind
  kGraph = 3,          // id: 0
  kCall = 4,           // id: callback | 1 << 16 of the driver interface
  kWait = 5,           // id: context
  kBusy = 6,           // ns: time of kernels, copies and graphs together; concurrent ones count once
  kUnifiedMemory = 7,  // id: GpuUnifiedKind; device: may be kNoDevice; bytes: sum of the values
};

struct GpuTotalRow {
  uint32_t segment, process_serial;
  GpuTotalKind kind;
  uint16_t device;  // 0 for calls and waits
  uint32_t id;
  uint64_t calls;
  uint64_t bytes;
  uint64_t ns, longest;
  uint64_t untimed;     // not in `calls`
  uint64_t unfinished;  // included in `calls`, but not in times
};
struct GpuMemoryRow {
  uint32_t segment, process_serial;
  GpuMemoryRecord memory;  // tag.aux: the device
};
enum class GapCause : uint32_t { kSlowDisk = 1, kLimit = 2, kWriteError = 3 };
struct GapFact {
  uint64_t first_ticks, last_ticks;  // when the records were drained
  uint64_t records;
  GapCause cause;
  int32_t error;  // kWriteError: errno
};
struct NotKeptFact {
  uint32_t rows;
  uint32_t reserved;
  uint64_t records;  // records of all rows, and of those without a row
};
struct NotKeptRow {
  uint32_t segment;
  RecordKind kind;
  uint8_t reserved[3];
  uint32_t aux;  // for spans and Exec the operation, for annotations the domain; else 0
  uint32_t reserved1;
  uint64_t records;
};
static_assert(sizeof(NotKeptRow) == 24);
struct PythonCodeFact {
  uint32_t process_serial;
  uint32_t code;  // from 1, counted per process
  int32_t first_line;
  uint16_t minor;        // 11 for CPython 3.11
  uint16_t flags;        // PythonCodeFlag
  uint32_t name_bytes;   // co_qualname (3.11 and later) or co_name
  uint32_t file_bytes;   // co_filename
  uint32_t table_bytes;  // co_lnotab (3.8, 3.9) or co_linetable
  uint32_t reserved;
};
static_assert(sizeof(PythonCodeFact) == 32);
enum PythonCodeFlag : uint16_t {
  kPythonCodeNoTable = 1,  // its line table is longer than 8 KiB and omitted
};
struct NotebookFact {
  uint32_t process_serial;
  uint32_t directory_bytes;
};
static_assert(sizeof(NotebookFact) == 8);
struct PythonStacksFact {
  uint32_t process_serial;
  uint32_t count;
};
static_assert(sizeof(PythonStacksFact) == 8);
// One frame and its callers.
struct PythonNode {
  uint32_t node;        // from 1, counted per process
  uint32_t parent;      // 0: the outermost frame
  uint32_t code;        // PythonCodeFact::code
  int32_t instruction;  // byte offset in the code, as PyCode_Addr2Line takes it; -1: not known
};
static_assert(sizeof(PythonNode) == 16);
struct PythonSamplesFact {
  uint32_t process_serial;
  uint32_t count;
};
static_assert(sizeof(PythonSamplesFact) == 8);
// Consecutive samples of a thread with the same stack.
struct PythonSample {
  uint64_t first_ticks, last_ticks;
  int32_t tid;       // as ThreadFact::tid
  uint32_t node;     // node of the innermost frame; 0: the thread holds a Python thread state and has no frames
  uint32_t samples;  // at least 1
  uint32_t on_cpu;   // samples in which the thread had used CPU since the sample before
};
static_assert(sizeof(PythonSample) == 32);
enum PythonState : uint16_t {
  kPythonSampled = 1,
  kPythonNoPermission = 2,    // the launcher may not read the process's memory
  kPythonUnknownVersion = 3,  // unknown version of CPython
  kPythonFreeThreaded = 4,    // a build without the GIL
  kPythonLayoutMismatch = 5,  // the interpreter's structures are not at the expected places
  kPythonNotCPython = 6,      // PyPy and others
  kPythonOff = 7,             // disabled
};
struct PythonStatusFact {
  uint64_t ticks;
  uint32_t process_serial;
  uint16_t minor;
  uint16_t state;        // PythonState
  uint32_t interval_us;  // between two samples of a thread, from this time on
  uint32_t reserved;
  uint64_t samples;     // stacks accepted so far
  uint64_t torn;        // dropped: two copies of the frames differed
  uint64_t unreadable;  // dropped: memory could not be read, or was invalid
};
static_assert(sizeof(PythonStatusFact) == 48);
struct PythonThreadFact {
  uint32_t process_serial;
  int32_t tid;  // as ThreadFact::tid
  uint32_t name_bytes;
  uint32_t reserved;
};
static_assert(sizeof(PythonThreadFact) == 16);
struct NativeStacksFact {
  uint32_t process_serial;
  uint32_t count;
};
static_assert(sizeof(NativeStacksFact) == 8);
// One frame and its callers.
struct NativeNode {
  uint32_t node;     // from 1, counted per process
  uint32_t parent;   // 0: the outermost frame that is known
  uint64_t address;  // the instruction before it is meant, as with a return address; 0: outer frames are missing here
};
static_assert(sizeof(NativeNode) == 16);
struct NativeSamplesFact {
  uint32_t process_serial;
  uint32_t count;
};
static_assert(sizeof(NativeSamplesFact) == 8);
// A sample of a running thread.
struct NativeSample {
  uint64_t ticks;
  int32_t tid;         // as ThreadFact::tid
  uint32_t node;       // node of the innermost frame; 0: not known
  uint32_t period_us;  // CPU time that the sample stands for
  uint32_t reserved;
};
static_assert(sizeof(NativeSample) == 24);
enum NativeState : uint16_t {
  kNativeSampled = 1,
  kNativeNoPermission = 2,  // the kernel does not allow it
  kNativeNoEvents = 3,      // the kernel has no such events
  kNativeOff = 4,           // disabled
};
enum NativeStatusFlag : uint16_t {
  kNativePaused = 1,  // threads were not sampled for a time, since they switched too often
};
struct NativeStatusFact {
  uint64_t ticks;
  uint32_t process_serial;
  uint16_t state;        // NativeState
  uint16_t flags;        // NativeStatusFlag
  int32_t error;         // error number of the call that failed, or 0
  uint32_t interval_us;  // CPU time between two samples of a thread
  uint64_t samples;      // samples taken so far
  uint64_t lost;         // samples lost by the kernel because its buffer was full
  uint64_t cut;          // samples whose outer frames could not be found
};
static_assert(sizeof(NativeStatusFact) == 48);
enum CoreState : uint16_t {
  kCoreRead = 1,
  kCorePiped = 2,   // the kernel piped it to a program: `path` is that program's
  kCoreUnread = 3,  // a core file exists, but was not found or is not trusted: see `reason`
};
enum CoreFlag : uint16_t {
  kCoreFaultAddress = 1,  // fault_address is valid
};
// First number of the codes and nodes of a core file, which are separate from those of samples.
inline constexpr uint32_t kCoreNumbers = 0x80000000;
// The core file of a process that a signal ended.
struct CoreFact {
  uint64_t ticks;  // when the launcher detected the process's end
  uint32_t process_serial;
  uint16_t state;          // CoreState
  uint16_t flags;          // CoreFlag
  int32_t signal;          // 0: not known
  uint32_t threads;        // CoreThread rows; the thread that got the signal comes first
  uint64_t fault_address;  // the address that was accessed
  uint64_t thread_count;   // threads in the core file
  uint32_t modules;        // CoreModule rows
  uint32_t path_bytes;
  uint32_t reason_bytes;  // kCoreRead: the missing parts
  uint32_t reserved;
};
static_assert(sizeof(CoreFact) == 56);
struct CoreThread {
  int32_t tid;           // as ThreadFact::tid
  uint32_t python_node;  // node of the innermost frame; 0: none
  uint32_t native_node;  // likewise
  uint32_t reserved;
};
static_assert(sizeof(CoreThread) == 16);
// A file whose code contains native frames of the core file.
struct CoreModule {
  uint64_t start, end;
  uint64_t load_bias;  // is added to the file's virtual addresses
  uint32_t path_bytes;
  uint32_t build_id_bytes;
};
static_assert(sizeof(CoreModule) == 32);
struct EndFact {
  uint64_t ticks;
  int32_t exit_code;  // -1: not known
  int32_t exit_signal;
  int64_t user_cpu_us, system_cpu_us;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_FRAMES_H_
