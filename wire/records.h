// SPDX-License-Identifier: Apache-2.0
//
// Records as they are stored in chunks and spools: a tag word, then fields, in slots of 32 bytes. The tag is stored
// last, with release order, and contains the chunk's generation: a record is complete when its tag is stored.
//
// Process: target (writes), launcher and converter (read). Plain structs.
#ifndef TBPROF_WIRE_RECORDS_H_
#define TBPROF_WIRE_RECORDS_H_

#include <stdint.h>

#include "wire/layout.h"
#include "wire/python_frame.h"

namespace tbprof {

enum class RecordKind : uint8_t {
#define TBPROF_RECORD(number, Name, fixed_slots, variable, Class) k##Name = number,
#include "wire/records.def"
#undef TBPROF_RECORD
};

// generation:16 | kind:8 | flags:8 | slots:16 | aux:16. Generation 0 is never used, so that zeroed memory is no record.
struct Tag {
  uint16_t generation;
  RecordKind kind;
  uint8_t flags;
  uint16_t slots;
  uint16_t aux;  // operation number, ProcessInfoKey or text length; by the kind
};
static_assert(sizeof(Tag) == 8);

enum RecordFlag : uint8_t {
  kRecordFailed = 1,           // the call reported an error; `error` holds errno
  kRecordEnvironmentLost = 2,  // Exec: the new program's environment lacks tbprof's variables
  kRecordNotFollowed = 2,      // SampledFree: the block is not freed yet, but its free will not be recorded
  kRecordSpawned = 4,          // Exec: by another process, `pid`; the recording process goes on
  kRecordOwn = 8,              // ThreadStart: a thread of the library, not of the program
  kRecordDriver = 16,          // GpuApi: a call of the driver interface, else of the runtime
  kRecordApproximate = 32,     // Gpu...: device times from events around the work, not from the device
  kRecordRelease = 64,         // Allocation: the block was released
  kRecordErrorReturned = 128,  // CompactSpan: the call returned its error number, else -1
};

struct PadRecord {
  Tag tag;
  uint64_t unused[3];
};

struct ChunkBeginRecord {
  Tag tag;
  uint32_t process_serial;
  uint32_t thread_serial;
  int32_t pid;
  int32_t tid;
  uint64_t ticks;
};

// aux = operation.
struct SpanRecord {
  Tag tag;
  uint64_t start;
  uint64_t ticks;  // duration
  uint64_t object;
  uint64_t call_site;  // return address in the caller
  int64_t result;
  int32_t error;
  uint32_t python_stack;  // PythonStackRecord::number of the thread; 0: none
  uint64_t reserved1;
};

// A Span with small values, as most are. aux = operation. The top bits of each word hold another number: 8 bits of
// `start` hold the result of a call that did not fail, else its error number; 16 bits of each other word hold the
// duration, the lowest ones in `object`.
struct CompactSpanRecord {
  Tag tag;
  uint64_t start;
  uint64_t object;
  uint64_t call_site;
};
inline constexpr int kCompactStartBits = 56;
inline constexpr int kCompactWordBits = 48;

struct ThreadStartRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t start_routine;
  uint32_t creator_serial;
  int32_t tid;
  uint64_t created_ticks;  // when pthread_create was entered
  uint64_t reserved[3];
};

struct ThreadExitRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t reserved[2];
};

// The text follows.
struct ThreadNameRecord {
  Tag tag;
  uint64_t ticks;
  uint32_t thread_serial;  // the named thread; 0 = the recording thread
  int32_t tid;             // used when thread_serial is 0 and tid is not
  uint64_t text_length;
};

enum class ProcessInfoKey : uint16_t {
  kExecutable = 1,
  kArgument = 2,  // one record per argument, in order
  kRank = 3,      // `VARIABLE=value` of the variables in ranks.h; nothing else of the environment is recorded
  kSignalDisposition = 5,
  kInterposer = 6,      // `FUNCTION=PATH`: the program finds it in that module, not in this library; no path: in itself
  kStopped = 7,         // recording has stopped in this process; the text is the cause: `PR_SET_TSC`
  kTorch = 8,           // `+2.13.0`: its operations are recorded; `-2.14.0 REASON`: they are not
  kTorchShapes = 9,     // why the shapes of PyTorch's operations are not recorded, though they were requested
  kTorchSampling = 10,  // holds a TorchSamplingFact in place of a text
  kPython = 11,         // `+3.11`: its records carry Python stacks; `-3.16 REASON`: they do not
};

// How PyTorch's operations are sampled from this moment on, and how many were skipped before it.
struct TorchSamplingFact {
  uint64_t skipped;  // operations and backward nodes not recorded since the previous TorchSamplingFact, estimated
  uint32_t weight;   // each recorded operation counts this many times; 0: as before
  uint32_t flags;    // TorchSamplingFlag
};
static_assert(sizeof(TorchSamplingFact) == 16);
enum TorchSamplingFlag : uint32_t {
  kTorchMidway = 1u << 0,    // recording begins while operations may be running: the first records may be parts of one
  kTorchUnitEnds = 1u << 1,  // a unit of the sampling ends here; its class in the bits from kTorchClassShift on
};
inline constexpr uint32_t kTorchClassShift = 8, kTorchClassMask = 15;

struct ProcessInfoRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t text_length;  // may exceed what the slots hold: then the text was cut
  uint64_t reserved;
};

struct ModuleRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t load_bias;
  uint64_t start;
  uint64_t end;
  uint8_t build_id[32];
  uint32_t build_id_length;
  uint32_t path_length;
  uint64_t reserved[2];
};

inline constexpr int kSnapshotRegisters =
    8;  // x86-64: rbx rbp r12 r13 r14 r15 rsp rip; arm64: x19 x20 x21 x22 fp lr sp pc
inline constexpr uint32_t kSnapshotBytes = 8 * 1024;

// aux = operation. The stack bytes follow; they begin at registers' stack pointer.
struct AllocationSampleRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t address;
  uint64_t size;    // requested
  uint64_t weight;  // bytes this sample stands for
  uint64_t stack_address;
  uint32_t stack_bytes;
  uint32_t python_stack;  // PythonStackRecord::number of the thread; 0: none
  uint64_t call_site;
  uint64_t registers[kSnapshotRegisters];
  uint64_t interval;   // mean distance of samples at this one; 0: from an older spool, like live_bytes
  int64_t live_bytes;  // of the process, as in its slot
  uint64_t reserved1[2];
};

// aux = operation. A block with an AllocationSample was freed. kRecordFailed: realloc failed, and the block still
// exists; kRecordNotFollowed.
struct SampledFreeRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t address;
  int64_t live_bytes;  // of the process, without the block
};

// aux = operation. Each word holds a number of 48 bits and, above it, 16 bits of the block's size, the lowest in the
// first word. The size is the usable one, so that the sizes add up to the thread's totals. kRecordFailed: realloc
// failed, and the block that was recorded as released still exists.
struct AllocationRecord {
  Tag tag;
  uint64_t address;
  uint64_t call_site;  // return address in the caller
  uint64_t ticks;      // the lowest 48 bits; 0: between the times of the thread's records before and after
};
inline constexpr uint64_t kLow48 = (uint64_t{1} << 48) - 1;

inline void PackAllocation(AllocationRecord* record, uint64_t address, uint64_t size, uint64_t call_site,
                           uint64_t ticks) {
  record->address = (address & kLow48) | size << 48;
  record->call_site = (call_site & kLow48) | (size >> 16) << 48;
  record->ticks = (ticks & kLow48) | (size >> 32) << 48;
}
inline uint64_t SizeOf(const AllocationRecord& record) {
  return record.address >> 48 | (record.call_site >> 48) << 16 | (record.ticks >> 48) << 32;
}

// A code object: recorded once in each process that runs it, and again if another one has taken its place in memory.
// The name, the file and the line table follow.
struct PythonCodeRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t code;  // its address
  int32_t first_line;
  uint16_t minor;        // 11 for CPython 3.11
  uint16_t flags;        // PythonCodeRecordFlag
  uint32_t name_bytes;   // co_qualname (3.11 and later) or co_name
  uint32_t file_bytes;   // co_filename
  uint32_t table_bytes;  // co_lnotab (3.8, 3.9) or co_linetable
  uint32_t reserved;
  uint64_t reserved1[2];
};
enum PythonCodeRecordFlag : uint16_t {
  kPythonRecordNoTable = 1,  // the line table is longer than 8 KiB and left out
};

// The Python frames of a thread, innermost first, each a PythonFrameWord. A later record of the thread with the same
// number replaces it.
struct PythonStackRecord {
  Tag tag;
  uint64_t ticks;
  uint32_t number;  // from 1, for each thread; wraps around past 0
  uint16_t frames;
  uint16_t flags;  // PythonStackFlag
  uint64_t reserved;
};
enum PythonStackFlag : uint16_t {
  kPythonStackDeep = 1,  // outer frames are left out: there are too many
  kPythonStackCut = 2,   // outer frames are left out: a frame held no code object
};
inline constexpr uint32_t kMaxPythonFrames = 256;

// aux = operation.
struct ExecRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t text_length;
  int32_t pid;  // with kRecordSpawned: of the new program, as the recording process sees it; 0: not known
  uint32_t reserved;
};

// In all Gpu records: `start` and `end` are ns of the GPU clock; device, context and stream are CUPTI's numbers, unique
// in the process; `correlation` links a GpuApi to the work that it caused, unique in the process until 32 bits wrap; 0:
// none. start == end == 0: the device took no time stamps. end == 0: the work had not ended at the last, forced flush.
struct GpuKernelRecord {
  Tag tag;  // aux = device
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t name;  // GpuName of kKernel
  uint32_t grid_x;
  uint16_t grid_y, grid_z;
  uint16_t block_x, block_y, block_z;
  uint16_t registers;  // per thread
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t local_bytes;  // per thread
  uint32_t graph;        // 0: not launched by a graph
  uint64_t graph_node;
  uint16_t cluster_x, cluster_y, cluster_z;  // 0: no cluster
  uint8_t launch_type;                       // CUpti_ActivityLaunchType: 0 regular, 1, 2 cooperative
  uint8_t reserved;
  uint64_t reserved1;
};

enum class GpuCopyKind : uint8_t {
  kUnknown = 0,
  kHostToDevice = 1,
  kDeviceToHost = 2,
  kDeviceToDevice = 8,
  kHostToHost = 9,
  kPeerToPeer = 10,
  kSet = 255,  // memset: `value`
};             // the other values are CUpti_ActivityMemcpyKind's, too: 3-7 to, from and between arrays

struct GpuCopyRecord {
  Tag tag;  // aux = device
  uint64_t start;
  uint64_t end;
  uint64_t bytes;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t graph;
  uint32_t value;  // the value of a set; for a peer copy: source device | destination device << 16
  GpuCopyKind copy_kind;
  uint8_t source_kind,
      destination_kind;  // CUpti_ActivityMemoryKind: 1 pageable, 2 pinned, 3 device, 4 array, 5 managed
  uint8_t asynchronous;
  uint64_t graph_node;
};

// aux = callback number; its name is the GpuName of kRuntimeCallback or kDriverCallback.
struct GpuApiRecord {
  Tag tag;
  uint64_t start;
  uint64_t duration_and_result;  // ns << 16 | the call's result; kRecordFailed when that is not 0
  uint32_t correlation;
  int32_t tid;  // as the process sees it
};

enum class GpuSpanKind : uint8_t { kSynchronization = 1, kOverhead = 2, kGraph = 3 };

struct GpuSpanRecord {
  Tag tag;  // aux = device of a graph
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;  // 0xffffffff: no particular stream
  GpuSpanKind span_kind;
  uint8_t reserved[3];
  uint32_t type;    // CUpti_ActivitySynchronizationType; CUpti_ActivityOverheadKind
  uint32_t object;  // event, graph; for an overhead: the thread, if it has one
  uint64_t reserved1[2];
};

enum class GpuMemoryOperation : uint8_t { kAllocation = 1, kRelease = 2 };  // as CUPTI numbers them

struct GpuMemoryRecord {
  Tag tag;        // aux = device
  uint64_t time;  // ns of the GPU clock
  uint64_t address;
  uint64_t bytes;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  GpuMemoryOperation operation;
  uint8_t memory_kind;   // CUpti_ActivityMemoryKind
  uint8_t asynchronous;  // from a pool, in the order of the stream
  uint8_t reserved;
  uint64_t reserved1[2];
};

enum class GpuUnifiedKind : uint8_t {  // as CUPTI numbers its counters
  kToDevice = 1,
  kToHost = 2,
  kHostFault = 3,
  kDeviceFault = 4,
  kThrashing = 5,
  kThrottling = 6,
  kRemoteMap = 7,
  kBetweenDevices = 8,
};
inline constexpr uint16_t kNoDevice = 0xffff;

struct GpuUnifiedMemoryRecord {
  Tag tag;  // aux = the device to or from which the bytes moved, or that faulted; kNoDevice: the host
  uint64_t start;
  uint64_t end;  // 0: an instant
  uint64_t address;
  uint64_t value;                // bytes; kHostFault: the instruction; kDeviceFault: the number of faults of the page
  uint32_t source, destination;  // as CUPTI gives them
  uint32_t cause;                // CUpti_ActivityUnifiedMemoryMigrationCause, ...AccessType, ...RemoteMapCause
  GpuUnifiedKind unified_kind;
  uint8_t reserved[3];
  uint64_t reserved1;
};

// Written by the thread that made the node, at that time. GpuKernelRecord::graph_node refers to `node`.
struct GpuGraphNodeRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t node;
  uint64_t original;  // the node that was copied; 0: not a copy; `node`: a copy of an unknown node
};

// The name follows.
struct GpuDeviceRecord {
  Tag tag;  // aux = device
  uint64_t memory_bytes;
  uint64_t memory_bandwidth;  // kB/s
  uint32_t core_clock_khz;
  uint32_t memory_clock_khz;
  uint16_t compute_major, compute_minor;
  uint32_t multiprocessors;
  uint32_t warps_per_multiprocessor;
  uint32_t blocks_per_multiprocessor;
  uint32_t threads_per_block;
  uint32_t threads_per_warp;
  uint32_t shared_bytes_per_multiprocessor;
  uint32_t registers_per_multiprocessor;
  uint32_t shared_bytes_per_block;
  uint32_t registers_per_block;
  uint32_t l2_bytes;
  uint32_t name_length;
  uint8_t uuid[16];
  int32_t pci_bus, pci_device, pci_domain;
  uint32_t flags;          // 1: a MIG instance; 2: integrated
  uint32_t visible_index;  // as the program numbers it
  uint32_t reserved[3];
};

struct GpuContextRecord {
  Tag tag;  // aux = device
  uint32_t context;
  uint32_t stream;  // of a context: its null stream
  uint32_t is_stream;
  int32_t priority;
  uint32_t stream_flags;  // CUpti_ActivityStreamFlag: 1 default, 2 non-blocking, 3 null
  uint32_t reserved;
};

enum class GpuNameKind : uint16_t {
  kKernel = 1,  // mangled
  kRuntimeCallback = 2,
  kDriverCallback = 3,
  kStream = 4,  // id = stream, or StreamOnDevice; given by the program
  kContext = 5,
  kDevice = 6,
};

// CUPTI numbers streams within a context.
inline constexpr uint64_t StreamOnDevice(uint32_t device, uint32_t stream) {
  return (uint64_t{device} + 1) << 32 | stream;
}

// The text follows.
struct GpuNameRecord {
  Tag tag;  // aux = GpuNameKind
  uint64_t id;
  uint64_t text_length;  // may exceed what the slots hold: then the text was cut
  uint64_t reserved;
};

// Read in this order: ticks_before, the GPU clock, ticks_after.
struct GpuClockRecord {
  Tag tag;
  uint64_t ticks_before;
  uint64_t gpu_ns;
  uint64_t ticks_after;
};

enum class GpuInfoKey : uint16_t {
  kLibrary = 1,      // path of the CUPTI that is used
  kVersions = 2,     // `cupti=130001 runtime=13000 driver=13000`, as their calls give them
  kRecording = 3,    // device activity is recorded from here on
  kPaused = 4,       // not recorded from here on; the text is the reason: `program: the program uses CUPTI itself`
  kUnavailable = 5,  // nothing is recorded of the GPU in this process; the text is the reason, in one line
  kTried = 6,        // a path that was tried for CUPTI, and the result
  kDropped = 7,      // decimal: records that CUPTI has dropped for lack of a buffer since the previous kDropped
  kUnknown = 8,      // decimal: activity records of kinds that were not requested
  kMissingKind = 9,  // an activity that could not be turned on, and why
  kByHooks = 10,     // device times come from events around the work; the text is why CUPTI is not used
  kUnread = 11,      // decimal: bytes of CUPTI's buffers that it could not step through, and its error
  kLeft = 12,        // holds a CuptiLeftFact and a function's name in place of a text
};

// The cause of a pause is the first word of kPaused's text. `: ` and the reason follow, except after kPauseEnd.
inline constexpr char kPauseProgram[] = "program", kPauseWindow[] = "window", kPauseRestart[] = "restart",
                      kPauseLimited[] = "limited", kPauseEnd[] = "end";
constexpr bool HasPauseCause(const char* text, const char* cause) {
  while (*cause != '\0') {
    if (*text++ != *cause++) return false;
  }
  return *text == ':' || *text == '\0';
}

// The part of the program's own use of CUPTI that keeps tbprof from using it.
enum class CuptiLeft : uint32_t {
  kNothing = 0,
  kSubscriberV2 = 1,        // a subscriber of cuptiSubscribe_v2
  kTooManySubscribers = 2,  // there were more subscribers than are counted
  kContextKinds = 3,        // kinds of single contexts were enabled
  kKinds = 4,               // a kind is enabled, or the recording of a single API call
  kCallbacks = 5,           // callbacks of API calls are enabled
  kUnflushed = 6,           // no flush came after the last kind was disabled
  kCall = 7,                // a call has not returned
  kQuietTime = 8,           // the latest call was less than a second ago
  kOtherCopy = 9,           // as kQuietTime, and the call was to another copy of CUPTI, which the driver rejected
};

// Recorded while GPU recording is paused for the program: when the pause begins and whenever the fact changes. The name
// of the program's first call since tbprof used CUPTI follows; empty: not known.
struct CuptiLeftFact {
  uint64_t caller;  // the return address of that call
  CuptiLeft left;
  uint32_t reserved;
};
static_assert(sizeof(CuptiLeftFact) == 16);

// The text of kByHooks where CUPTI was not tried.
inline constexpr char kHooksAskedFor[] = "as asked for by --cuda=hooks";

// The text follows; for kLeft a CuptiLeftFact and a text.
struct GpuInfoRecord {
  Tag tag;  // aux = GpuInfoKey
  uint64_t ticks;
  uint64_t text_length;
  uint64_t reserved;
};

enum class AnnotationAction : uint8_t {
  kPush = 1,  // begins a range of this thread and domain, inside those that are open
  kPop = 2,   // ends the innermost range
  kMark = 3,
  kStart = 4,  // begins a range that any thread may end
  kEnd = 5,
};

// The domain of PyTorch's own ranges and operations, in addition to the program's domains; category = TorchScope.
// Payload of an operation that takes part in automatic differentiation: bits = its sequence number, name = PyTorch's
// number of the thread that runs it or, for a backward node, of the thread that ran the node's operation. Payload of an
// operation whose shapes are recorded: shapes.
inline constexpr uint16_t kTorchDomain = 256;
// The domain of TensorFlow's calls of operations and functions.
inline constexpr uint16_t kTensorFlowDomain = 257;
// The name of the ranges in which operations are not recorded; such a range may end on another thread.
inline constexpr char kTorchPause[] = "operations not recorded";
enum class TorchScope : uint32_t {
  kOperation = 1,
  kBackward = 2,
  kUser = 3,   // begins and ends by a number if another thread may end it
  kPause = 4,  // with kStart: operations and backward nodes are not recorded until the range ends
};

inline constexpr uint16_t kNoLevel = 0xffff;  // the levels of the domain are not counted

// flags = AnnotationAction; aux = domain, 0 the default one.
struct AnnotationRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t
      name;  // hash of the text: AnnotationName; 0: there was no room for more names. For kStart and kEnd: the range
  uint32_t category;
  uint16_t level;  // push and pop: number of ranges open before the push, as counted by this thread
  uint16_t reserved;
};

enum class PayloadType : uint32_t { kUnsigned = 1, kSigned = 2, kDouble = 3 };

// Follows an AnnotationRecord that has more than one slot. It holds the `name` of a kStart.
struct AnnotationPayload {
  uint64_t name;
  uint64_t bits;
  PayloadType type;  // 0: no payload
  uint32_t reserved;
  uint64_t shapes;  // hash of the text with the shapes of an operation's inputs; 0: they are not recorded
};

enum class AnnotationNameKey : uint16_t {
  kName = 1,      // number = hash
  kDomain = 2,    // number = domain of this process image
  kCategory = 3,  // number = domain << 32 | category
};

// The text follows.
struct AnnotationNameRecord {
  Tag tag;  // aux = AnnotationNameKey
  uint64_t number;
  uint64_t text_length;  // may exceed what the slots hold: then the text was cut
  uint64_t reserved;
};

// aux = device, as PyTorch numbers it.
struct TensorMemoryRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t address;
  int64_t bytes;                 // below 0: released
  uint64_t allocated, reserved;  // after it, in this process: by tensors, and taken from the driver
  uint32_t device_type;          // c10::DeviceType
  uint32_t reserved1;
  uint64_t reserved2;
};

#define TBPROF_RECORD(number, Name, fixed_slots, variable, Class) \
  static_assert(sizeof(Name##Record) == (fixed_slots)*kSlotBytes);
#include "wire/records.def"
#undef TBPROF_RECORD

inline constexpr uint32_t SlotsFor(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + kSlotBytes - 1) / kSlotBytes);
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_RECORDS_H_
