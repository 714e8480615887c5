// SPDX-License-Identifier: Apache-2.0
//
// The spool: files of frames that hold everything a session drained, enough to make every output again. Layout byte
// by byte in docs/wire-records.md.
//
//   SpoolHeader, then frames: FrameHeader, payload, zeros up to a multiple of 8.
//
// The main file has all facts, and the first records. Further records are in parts beside it (`X.spool.000001`), which
// the launcher may drop, oldest first; the main file lists which (decision 013).
//
// Both header and payload carry a CRC-32C. A reader takes the longest valid prefix; behind damage it looks for the next
// frame's magic on the 8-byte grid, and counts what it passed over.
//
// Process: FrameBuffer in the launcher (one thread at a time), SpoolReader in the converter. Hostile input throughout.
#ifndef TBPROF_WRITER_SPOOL_SPOOL_H_
#define TBPROF_WRITER_SPOOL_SPOOL_H_

#include <fcntl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/layout.h"
#include "wire/records.h"
#include "writer/base/proto_encoder.h"
#include "writer/spool/usage_rows.h"

namespace tbprof {

inline constexpr char kSpoolMagic[8] = {'T', 'B', 'P', 'S', 'P', 'O', 'L', '1'};
// Apart from the segment's number: what was recorded on a machine that is gone can be read by every later tbprof. A
// kind of record or frame that is added leaves it; one that changes raises it, and the reader supports both.
inline constexpr uint32_t kSpoolVersion = 5;
inline constexpr uint32_t kOldestSpoolVersion = 4;
inline constexpr uint32_t kFrameMagic = 0x4d524654;  // "TFRM"
inline constexpr uint32_t kMaxFramePayload = 8u << 20;

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
  kSession = 1,            // JSON: what was run, how, when
  kSegment = 2,            // SegmentFact, SegmentHeader, operations
  kChunk = 3,              // ChunkFact, slots
  kThread = 4,             // ThreadFact, CountFact[]; the latest of a thread counts
  kProcess = 5,            // ProcessFact; the latest of a process counts
  kClock = 6,              // ClockFact
  kCounters = 7,           // CounterFact
  kWindow = 8,             // WindowFact
  kMaps = 9,               // text of /proc/PID/maps of the segment's process
  kNote = 10,              // text: a warning for the profile
  kEnd = 11,               // EndFact: the session ended in order
  kInert = 12,             // InertFact, path: a process whose library stayed out of the way
  kKept = 13,              // ChunkFact, slots: a chunk frame's facts, in a part, of threads, processes and modules
  kPart = 14,              // PartFact: a part was begun
  kDropped = 15,           // PartFact: a part was removed
  kTotals = 16,            // TotalsFact, TotalRow[]: the calls in all parts dropped so far
  kGap = 17,               // GapFact: records that were drained and not kept
  kGpuTotals = 18,         // TotalsFact, GpuTotalRow[]: the GPU records in all parts dropped so far
  kGpuMemory = 19,         // TotalsFact, GpuMemoryRow[]: what in them was allocated or released of device memory
  kSampling = 20,          // SamplingFact: allocator samples are taken at another distance from now on
  kExit = 21,              // ExitFact: how a process ended, where the kernel reported it
  kPythonCode = 22,        // PythonCodeFact, name, file, line table: a code object of a process
  kPythonStacks = 23,      // PythonStacksFact, PythonNode[]
  kPythonSamples = 24,     // PythonSamplesFact, PythonSample[]
  kPythonStatus = 25,      // PythonStatusFact, reason: one line of text; the latest of a process counts
  kPythonThread = 26,      // PythonThreadFact, name: that Python gave a thread; the latest of a thread counts
  kNativeStacks = 27,      // NativeStacksFact, NativeNode[]
  kNativeSamples = 28,     // NativeSamplesFact, NativeSample[]
  kNativeStatus = 29,      // NativeStatusFact, reason: one line of text; the latest of a process counts
  kCore = 30,              // CoreFact, CoreThread[], CoreModule[], path, reason, of each module its path and build id
  kThreadUsage = 31,       // ThreadUsageFact, ThreadUsageRow[]
  kCpuLimits = 32,         // CpuLimitsFact: of a process, when sampling begins, when it changes, and at the end
  kPythonCollecting = 33,  // PythonSamplesFact, PythonSample[]: samples in which the thread collected garbage
  kCallCounts = 34,        // CallCountsFact; the latest of a thread counts
  kNotKept = 35,           // NotKeptFact, NotKeptRow[]: what the records of GapFacts were, of all so far
  kThreadBlocked = 36,     // ThreadUsageFact, ThreadBlockedRow[]
};

enum FrameFlag : uint16_t {
  kFrameLasting = 1,  // a thread or process fact that no later one follows: it stays in the main file
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
  int32_t pid;  // as the launcher sees it
  uint32_t uid;
  uint64_t seen_ticks;
  uint64_t reserved[2];
};
struct ChunkFact {
  uint32_t chunk;
  uint16_t generation;
  uint16_t first_slot;
  uint32_t slots;
  uint32_t lost;  // unfinished records passed over before these slots
  uint32_t process_serial;
  uint32_t thread_serial;
  uint64_t taken_ticks;  // when the pass over the segment began: what was made before is here, or in an earlier frame
};
// Of a chunk's records as they are in the frame (chunk_summary.h).
struct ChunkSummary {
  ChunkFact chunk;
  ChunkBeginRecord begin;  // zeros where the frame does not begin the chunk
  uint64_t last_ticks;     // the latest plausible time of a record; 0: none has one
  uint64_t failed[3];      // a bit for each operation of which a call has failed
  uint32_t records, spans;
  uint32_t gpu;  // 1: there are events of a GPU
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
// What ThreadSlot counts by CountedKind, read together with a ThreadFact. There is none where all of it is 0.
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
  int32_t pid;        // as it sees itself
  int32_t outer_pid;  // as the launcher sees it; 0: not known
  uint32_t state;     // SlotState
  uint32_t flags;     // ProcessFlag
  uint64_t start_ticks;
  uint64_t end_ticks;  // when the launcher found it ended; 0: alive
  int64_t live_bytes, peak_bytes;
  uint64_t late_frees, late_freed_bytes, late_allocations, late_allocated_bytes;
  int64_t inherited_bytes;        // of live_bytes, what was the parent's at the fork
  uint64_t dropped[kDropCauses];  // of the segment; the same in each process of it
  uint64_t taken_ticks;
  int32_t parent_pid;  // as it sees it
  uint32_t start_cost;
};
struct ExitFact {
  uint64_t ticks;  // when the launcher found it ended
  uint32_t process_serial;
  int32_t exit_code;    // -1: a signal ended it
  int32_t exit_signal;  // 0: it exited
  uint32_t flags;       // ExitFlag
};
enum ExitFlag : uint32_t {
  kExitOutOfMemory = 1,  // by SIGKILL, and the memory cgroup had counted an OOM kill since the last such end
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
  int32_t pid;        // as the launcher sees it
  int32_t inner_pid;  // as it sees itself
  uint32_t reason;    // InertReason (wire/rendezvous.h)
  int32_t error;      // error number of the call that failed, or 0
};
enum class WindowEvent : uint32_t {
  kOpened = 1,
  kClosed = 2,
  kPublished = 3,  // its profile is written: nothing to recover
  kReplaced = 4,   // shown by other windows: the run's own, when it became start, steady and end
};
// 0: the run's own window; captures from 1; what --window=auto makes of a run that does not fit one profile.
inline constexpr uint32_t kStartWindow = 0x40000000, kSteadyWindow = 0x40000001, kEndWindow = 0x40000002;
// `capture 1`, `start`; empty for the run's own.
std::string WindowName(uint32_t number);
struct WindowFact {
  uint64_t ticks;
  uint32_t number;
  WindowEvent event;
  uint32_t families;
  uint32_t length_ms;  // kOpened: not 0 if only the last so many milliseconds before the close belong to it
};
struct SamplingFact {
  uint64_t ticks;
  uint64_t interval;  // mean bytes allocated between two samples, from then on
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
  uint32_t drops;  // dropped parts counted here: those of the first so many kDropped frames
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
  kKernel = 1,         // id: of its name; 0: several
  kCopy = 2,           // id: GpuCopyKind
  kGraph = 3,          // id: 0
  kCall = 4,           // id: callback | 1 << 16 of the driver interface
  kWait = 5,           // id: context
  kBusy = 6,           // ns: of kernels, copies and graphs together, what runs side by side once
  kUnifiedMemory = 7,  // id: GpuUnifiedKind; device: or kNoDevice; bytes: values summed
};

struct GpuTotalRow {
  uint32_t segment, process_serial;
  GpuTotalKind kind;
  uint16_t device;  // 0 of calls and waits
  uint32_t id;
  uint64_t calls;
  uint64_t bytes;
  uint64_t ns, longest;
  uint64_t untimed;     // not in `calls`
  uint64_t unfinished;  // of `calls`, and in no time
};
struct GpuMemoryRow {
  uint32_t segment, process_serial;
  GpuMemoryRecord memory;  // tag.aux: the device
};
enum class GapCause : uint32_t { kSlowDisk = 1, kLimit = 2, kWriteError = 3 };
struct GapFact {
  uint64_t first_ticks, last_ticks;  // when they were drained
  uint64_t records;
  GapCause cause;
  int32_t error;  // kWriteError: errno
};
struct NotKeptFact {
  uint32_t rows;
  uint32_t reserved;
  uint64_t records;  // of all rows and of those that no row has room for
};
struct NotKeptRow {
  uint32_t segment;
  RecordKind kind;
  uint8_t reserved[3];
  uint32_t aux;  // of spans and Exec the operation, of annotations the domain; else 0
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
  kPythonCodeNoTable = 1,  // its line table is longer than 8 KiB and left out
};
struct PythonStacksFact {
  uint32_t process_serial;
  uint32_t count;
};
static_assert(sizeof(PythonStacksFact) == 8);
// One frame and those that called it.
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
  uint32_t node;     // of the innermost frame; 0: the thread holds a Python thread state and has no frames
  uint32_t samples;  // at least 1
  uint32_t on_cpu;   // of them, those before which the thread had used CPU since the sample before
};
static_assert(sizeof(PythonSample) == 32);
enum PythonState : uint16_t {
  kPythonSampled = 1,
  kPythonNoPermission = 2,    // the launcher may not read its memory
  kPythonUnknownVersion = 3,  // of CPython
  kPythonFreeThreaded = 4,    // a build without the GIL
  kPythonLayoutMismatch = 5,  // the interpreter's structures are not where they are expected
  kPythonNotCPython = 6,      // PyPy and others
  kPythonOff = 7,             // not wanted
};
struct PythonStatusFact {
  uint64_t ticks;
  uint32_t process_serial;
  uint16_t minor;
  uint16_t state;        // PythonState
  uint32_t interval_us;  // between two samples of a thread, from then on
  uint32_t reserved;
  uint64_t samples;     // stacks accepted so far
  uint64_t torn;        // dropped: two copies of the frames differed
  uint64_t unreadable;  // dropped: memory could not be read, or made no sense
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
// One frame and those that called it.
struct NativeNode {
  uint32_t node;     // from 1, counted per process
  uint32_t parent;   // 0: the outermost frame that is known
  uint64_t address;  // the one before is meant, as of a return address; 0: outer frames are missing here
};
static_assert(sizeof(NativeNode) == 16);
struct NativeSamplesFact {
  uint32_t process_serial;
  uint32_t count;
};
static_assert(sizeof(NativeSamplesFact) == 8);
// A thread that was running.
struct NativeSample {
  uint64_t ticks;
  int32_t tid;         // as ThreadFact::tid
  uint32_t node;       // of the innermost frame; 0: not known
  uint32_t period_us;  // of CPU time that it stands for
  uint32_t reserved;
};
static_assert(sizeof(NativeSample) == 24);
enum NativeState : uint16_t {
  kNativeSampled = 1,
  kNativeNoPermission = 2,  // the kernel does not allow it
  kNativeNoEvents = 3,      // the kernel has no such events
  kNativeOff = 4,           // not wanted
};
struct NativeStatusFact {
  uint64_t ticks;
  uint32_t process_serial;
  uint16_t state;  // NativeState
  uint16_t reserved;
  int32_t error;         // error number of the call that failed, or 0
  uint32_t interval_us;  // of CPU time between two samples of a thread
  uint64_t samples;      // taken so far
  uint64_t lost;         // by the kernel, whose buffer was full
  uint64_t cut;          // whose outer frames could not be found
};
static_assert(sizeof(NativeStatusFact) == 48);
enum CoreState : uint16_t {
  kCoreRead = 1,
  kCorePiped = 2,   // a program took it: `path` is that program's
  kCoreUnread = 3,  // there is one, which was not found or is not to be believed: `reason`
};
enum CoreFlag : uint16_t {
  kCoreFaultAddress = 1,  // there is one
};
// Codes and nodes of a core file are numbered from here on, apart from those of samples.
inline constexpr uint32_t kCoreNumbers = 0x80000000;
// The core file of a process that a signal ended.
struct CoreFact {
  uint64_t ticks;  // when the launcher found the process ended
  uint32_t process_serial;
  uint16_t state;          // CoreState
  uint16_t flags;          // CoreFlag
  int32_t signal;          // 0: not known
  uint32_t threads;        // CoreThread rows, that which got the signal first
  uint64_t fault_address;  // that was accessed
  uint64_t thread_count;   // in the core file
  uint32_t modules;        // CoreModule rows
  uint32_t path_bytes;
  uint32_t reason_bytes;  // of kCoreRead: what is missing
  uint32_t reserved;
};
static_assert(sizeof(CoreFact) == 56);
struct CoreThread {
  int32_t tid;           // as ThreadFact::tid
  uint32_t python_node;  // of the innermost frame; 0: none
  uint32_t native_node;  // likewise
  uint32_t reserved;
};
static_assert(sizeof(CoreThread) == 16);
// A file with code in which native frames of the core file lie.
struct CoreModule {
  uint64_t start, end;
  uint64_t load_bias;  // what is added to the file's virtual addresses
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

// Frames one after the other in memory, ready to be written.
class FrameBuffer {
 public:
  explicit FrameBuffer(size_t reserve) { bytes_.Reserve(reserve); }

  // Room for a payload of `size` bytes, which hold anything; fill them all in, then Seal. One frame at a time.
  uint8_t* Begin(FrameType type, uint32_t segment, uint32_t size, uint16_t flags = 0);
  void Seal(uint16_t more_flags = 0);
  // Takes the last `bytes` of the payload that was begun off again, a multiple of 8.
  void Shorten(uint32_t bytes);
  // Begin, copy, Seal.
  void Append(FrameType type, uint32_t segment, const void* payload, size_t size);
  template <typename Fact>
  void AppendFact(FrameType type, uint32_t segment, const Fact& fact, uint16_t flags = 0) {
    __builtin_memcpy(Begin(type, segment, sizeof(fact), flags), &fact, sizeof(fact));
    Seal();
  }
  void AppendRaw(const uint8_t* frame, size_t size);
  // Leaves out chunk frames.
  void RemoveChunks();

  std::span<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(bytes_.view().data()), bytes_.size()};
  }
  size_t size() const { return bytes_.size(); }
  void Clear() { bytes_.Commit(bytes_.at(0)); }

 private:
  ByteBuffer bytes_;
  size_t open_ = 0;  // offset of the frame begun
};

uint32_t SummaryCrc(const ChunkSummary& summary);

SpoolHeader MakeSpoolHeader(uint64_t session = 0, uint32_t part = 0);

// Calls consume(header, frame, size) for each frame of a buffer of our own: its header, its first byte and its size
// with header and padding.
template <typename Consume>
void ForEachFrame(std::span<const uint8_t> bytes, Consume consume) {
  for (size_t at = 0; at + sizeof(FrameHeader) <= bytes.size();) {
    FrameHeader header;
    __builtin_memcpy(&header, &bytes[at], sizeof(header));
    const size_t size = sizeof(header) + (header.payload_bytes + 7u) / 8 * 8;
    consume(header, &bytes[at], size);
    at += size;
  }
}

// ---- the files of a spool

// `<spool>.000001`
std::string PartPath(const std::string& spool, uint32_t part);
// Numbers of the parts that lie beside the main file, ascending.
std::vector<uint32_t> FindParts(const std::string& spool);
// The parts, then the main file; of a link, what it points to as well.
void RemoveSpoolFiles(const std::string& spool);

// What to read of a spool.
struct SpoolExtent {
  uint64_t main_bytes = 0;  // of the main file; 0: all
  uint32_t first_part = 0, last_part = UINT32_MAX;
};

// A frame's payload, valid until the next call of Next.
struct Frame {
  FrameType type;
  uint32_t segment;
  uint32_t part = 0;  // the file it is in; 0: the main file
  std::string_view payload;
  const ChunkSummary* summary = nullptr;  // of a chunk frame that was passed over, whose payload is empty

  // The payload's beginning as a struct; false if it is shorter.
  template <typename Fact>
  bool Read(Fact* fact) const {
    if (payload.size() < sizeof(Fact)) return false;
    __builtin_memcpy(fact, payload.data(), sizeof(Fact));
    return true;
  }
};

// Reads the main file, then the parts in order, those left out that the main file calls dropped.
class SpoolReader {
 public:
  static absl::StatusOr<std::unique_ptr<SpoolReader>> Open(const std::string& path, const SpoolExtent& extent = {});
  // One part alone.
  static absl::StatusOr<std::unique_ptr<SpoolReader>> OpenPart(int directory, const std::string& spool, uint32_t part);
  ~SpoolReader();

  // False at the end. Unreadable parts are passed over and counted.
  bool Next(Frame* frame);

  // From now on chunk frames with a summary that is `enough` are passed over: their slots are not read, so that damage
  // there is not seen. Empty: all is read.
  using SummaryIsEnough = std::function<bool(uint32_t segment, const ChunkSummary& summary)>;
  void PassOver(SummaryIsEnough enough) { enough_ = std::move(enough); }

  absl::Status Rewind();
  uint64_t position() const { return passed_ + position_; }  // over all files
  uint64_t size() const { return total_; }
  uint64_t damaged_bytes() const { return damaged_; }
  bool truncated() const { return truncated_; }  // the last frame of a file was cut off
  uint32_t missing_parts() const { return missing_; }

 private:
  struct File {
    uint32_t part;
    uint64_t size;
  };
  SpoolReader() = default;
  void ListParts(const SpoolExtent& extent);
  bool NextOfFile(Frame* frame);
  bool OpenFile(size_t index);
  bool Fill(size_t need);  // makes `need` bytes available at start_
  bool TakeSummary(const FrameHeader& header, Frame* frame);
  void Skip(size_t bytes);
  int directory_ = AT_FDCWD;
  std::string path_;
  std::vector<File> files_;
  size_t file_ = 0;
  int main_fd_ = -1;
  int fd_ = -1;  // of the file being read; main_fd_ or one of its own
  uint64_t session_ = 0;
  uint64_t total_ = 0, passed_ = 0;
  uint64_t size_ = 0;
  uint64_t position_ = 0;  // file offset of start_
  uint64_t damaged_ = 0;
  uint32_t missing_ = 0;   // on this way through
  uint32_t unlisted_ = 0;  // begun, not dropped, and not there
  bool truncated_ = false;
  std::vector<char> buffer_;
  size_t start_ = 0, end_ = 0;
  size_t read_bytes_;  // at once
  SummaryIsEnough enough_;
  ChunkSummary summary_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_SPOOL_H_
