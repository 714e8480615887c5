// SPDX-License-Identifier: Apache-2.0
//
// Records as they lie in chunks and spools: a tag word, then fields, in slots of 32 bytes. The tag is stored last, with
// release order, and carries the chunk's generation: a record is there when its tag is.
//
// Process: target (writes), launcher and converter (read). Plain structs.
#ifndef TBPROF_WIRE_RECORDS_H_
#define TBPROF_WIRE_RECORDS_H_

#include <stdint.h>

#include "wire/layout.h"

namespace tbprof {

enum class RecordKind : uint8_t {
#define TBPROF_RECORD(number, Name, fixed_slots, variable) k##Name = number,
#include "wire/records.def"
#undef TBPROF_RECORD
};

// generation:16 | kind:8 | flags:8 | slots:16 | aux:16. Generation 0 is never used, so that zeroed memory is no record.
struct Tag {
  uint16_t generation;
  RecordKind kind;
  uint8_t flags;
  uint16_t slots;
  uint16_t aux;  // operation number, ProcessInfoKey or text length; as the kind says
};
static_assert(sizeof(Tag) == 8);

enum RecordFlag : uint8_t {
  kRecordFailed = 1,           // the call reported an error; `error` holds errno
  kRecordEnvironmentLost = 2,  // Exec: the new program's environment lacks our variables
  kRecordSpawned = 4,          // Exec: of another process, `pid`; the recording one goes on
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
  uint32_t reserved;
  uint64_t reserved1;
};

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
  uint32_t thread_serial;  // whose name; 0 = the recording thread
  int32_t tid;             // used when thread_serial is 0 and tid is not
  uint64_t text_length;
};

enum class ProcessInfoKey : uint16_t {
  kExecutable = 1,
  kArgument = 2,  // one record per argument, in order
  kRank = 3,      // `VARIABLE=value` of the variables in ranks.h, nothing else of the environment
  kSignalDisposition = 5,
  kInterposer = 6,  // `FUNCTION=PATH`: the program finds it in that module, not in ours; no path: in itself
  kStopped = 7,     // nothing more is recorded in this process, and why: `PR_SET_TSC`
};

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
  uint64_t size;    // asked for
  uint64_t weight;  // bytes this sample stands for
  uint64_t stack_address;
  uint32_t stack_bytes;
  uint32_t reserved;
  uint64_t call_site;
  uint64_t registers[kSnapshotRegisters];
  uint64_t reserved1[4];
};

// aux = operation.
struct ExecRecord {
  Tag tag;
  uint64_t ticks;
  uint64_t text_length;
  int32_t pid;  // with kRecordSpawned: of the new program, as the recording process sees it; 0: not known
  uint32_t reserved;
};

#define TBPROF_RECORD(number, Name, fixed_slots, variable) \
  static_assert(sizeof(Name##Record) == (fixed_slots)*kSlotBytes);
#include "wire/records.def"
#undef TBPROF_RECORD

inline constexpr uint32_t SlotsFor(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + kSlotBytes - 1) / kSlotBytes);
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_RECORDS_H_
