// SPDX-License-Identifier: Apache-2.0
//
// The first pass over a spool: reads everything except spans and samples, so that the second pass only needs look-ups.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_SPOOL_SPOOL_FACTS_H_
#define TBPROF_WRITER_SPOOL_SPOOL_FACTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "wire/records.h"
#include "writer/spool/chunk_summary.h"
#include "writer/spool/clock_map.h"
#include "writer/spool/core_facts.h"
#include "writer/spool/cpu_limit_facts.h"
#include "writer/spool/gpu_facts.h"
#include "writer/spool/native_facts.h"
#include "writer/spool/python_facts.h"
#include "writer/spool/record_view.h"
#include "writer/spool/records_over_time.h"
#include "writer/spool/spool.h"
#include "writer/spool/torch_sampling.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

// Identifies a process or thread in the whole session: the number of its segment, and its serial in the segment.
struct Identity {
  uint32_t segment = 0;
  uint32_t serial = 0;
  friend bool operator==(const Identity& a, const Identity& b) {
    return a.segment == b.segment && a.serial == b.serial;
  }
  friend bool operator<(const Identity& a, const Identity& b) {
    return a.segment != b.segment ? a.segment < b.segment : a.serial < b.serial;
  }
  template <typename H>
  friend H AbslHashValue(H hash, const Identity& identity) {
    return H::combine(std::move(hash), identity.segment, identity.serial);
  }
};

struct SegmentFacts {
  SegmentFact fact{};
  SegmentHeader header{};
  std::vector<Operation> operations;
  uint32_t chunks_used = 0;  // the highest number that was read, plus one
  uint64_t slots = 0;        // number of slots that were read
};

struct ThreadFacts {
  uint32_t process_serial = 0;
  int32_t tid = 0;
  uint64_t start_ticks = 0, end_ticks = 0, last_ticks = 0;
  uint64_t created_ticks = 0;
  uint32_t creator_serial = 0;
  std::string name;
  uint64_t name_ticks = 0;     // when it was given; 0: only the slot has a name
  ThreadFact first{}, last{};  // counters nearest to the window's opening, and to its close
  bool has_first = false, has_last = false;
  ThreadFact newest{};           // the newest in the spool, for any window
  CallCountsFact call_counts{};  // likewise
  bool is_own = false;           // a thread of tbprof's library, not of the program
  uint64_t spans = 0;            // of all windows
  uint64_t newest_ticks = 0;     // of the facts read so far, which are not in order of time
  std::map<uint32_t, CountFact> first_counts, last_counts, newest_counts;
};

// A code object that was at an address from `ticks` on, as far as is known.
struct PythonCodeAt {
  uint64_t ticks = 0;
  PythonCode code;
};

struct ProcessFacts {
  ProcessFact first{}, last{};
  bool has_first = false, has_last = false;
  uint64_t newest_ticks = 0;
  int32_t pid = 0;
  uint32_t parent_serial = 0;
  int32_t parent_pid = 0;
  uint64_t start_ticks = 0, end_ticks = 0;
  bool forked = false;
  int exit_code = -1;  // -1: not known, or a signal ended it
  int exit_signal = 0;
  bool out_of_memory = false;
  std::optional<uint64_t> gpu_held_since;  // of its GpuHeldFact; 0: CUPTI held nothing when it ended
  std::string torch;         // text of ProcessInfoKey::kTorch: a first character and the rest; empty: not read
  std::string python;        // text of ProcessInfoKey::kPython, likewise
  std::string torch_shapes;  // why shapes are missing; empty: they are present, or were not requested
  std::vector<TorchSamplingAt> torch_sampling;
  std::string stopped;  // why recording stopped early; empty: it was recorded to its end
  std::string executable;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> ranks;
  std::vector<Module> modules;  // its own; a fork child also has its parent's
  std::vector<CounterFact> counters;
  std::map<std::string, std::string> interposers;  // function: path of the module where the program finds it
  std::map<uint64_t, std::vector<PythonCodeAt>> python_codes;  // of PythonCode records, by address; in order of time
};

// A program that was about to be started; an ExecReturn shows that it was not.
struct ExecFacts {
  Identity process, thread;
  uint64_t ticks = 0;
  uint64_t started_ticks = 0;  // for posix_spawn: when the call began, as far as is known; else `ticks`
  int32_t pid = 0;             // if spawned: of the new program, 0: not known
  bool spawned = false;        // the recording process continues
  bool environment_lost = false;
  std::string path;  // as given
};

// An exec that returned.
struct ExecReturn {
  Identity thread;
  int32_t pid = 0;  // of a vfork child, else 0
  uint64_t ticks = 0;
};

struct InertProcess {
  InertFact fact{};
  std::string path;
};

// The texts that the numbers of annotations refer to.
struct AnnotationFacts {
  absl::flat_hash_map<uint64_t, std::string> names;  // of all processes: by hash
  // By process, since each has its own numbers; a number from before a fork is in the parent.
  std::map<std::pair<Identity, uint64_t>, std::string> domains, categories;
  size_t text_bytes = 0;
  bool left_out = false;  // there were more texts than are kept
};

struct SpoolFacts {
  std::string session_json;
  std::map<uint32_t, SegmentFacts> segments;
  std::map<Identity, ThreadFacts> threads;
  std::map<Identity, ProcessFacts> processes;
  std::map<Identity, GpuFacts> gpus;  // of the processes that used a GPU
  AnnotationFacts annotations;
  PythonFacts python;
  NativeFacts native;
  CoreFileFacts cores;
  CpuLimitFacts cpu_limits;
  ClockMap clock;
  std::vector<WindowFact> windows;
  std::vector<std::string> notes;
  uint64_t coarsest_sampling = 0;  // the largest mean distance of allocator samples in bytes; 0: it never changed
  std::vector<ExecFacts> execs;
  std::vector<ExecReturn> exec_returns;
  std::vector<InertProcess> inert;
  bool only_command = false;  // --follow=none: programs that the command starts are not recorded, as requested
  bool ended = false;
  EndFact end{};
  uint64_t last_ticks = 0;

  // The requested window.
  bool window_found = false;
  uint64_t open_ticks = 0, close_ticks = UINT64_MAX;
  uint32_t families = kFamilyAll;  // of calls that belong to the window
  uint32_t length_ms = 0;          // not 0: only this time before the close belongs to it
  uint64_t run_open_ticks = 0;     // opening of the run's own window; 0: never opened

  // Data that was drained but is not in the spool.
  std::vector<PartFact> dropped;  // in a very long run only the latest
  uint64_t dropped_parts = 0;     // number of all dropped parts
  std::vector<GapFact> gaps;
  std::vector<NotKeptRow> not_kept;  // kinds of the records in the gaps
  uint32_t missing_parts = 0;
  // Calls and GPU records in the dropped parts.
  std::vector<TotalRow> totals;
  std::vector<GpuTotalRow> gpu_totals;
  std::vector<GpuMemoryRow> gpu_memory;
  uint64_t gpu_memory_left_out = 0;
  uint32_t totals_drops = 0, gpu_totals_drops = 0, gpu_memory_drops = 0;  // the numbers of parts that they count

  RecordsOverTime over_time;  // of all windows
  uint64_t records = 0;
  uint64_t lost_records = 0;     // unfinished at a thread's or process's end
  uint64_t corrupt_records = 0;  // with impossible lengths, kinds or times
  uint64_t unknown_records = 0;  // kinds of another version
  uint64_t damaged_bytes = 0;
  bool truncated = false;
};

// `pass_over`: trusts the summaries of chunks instead of reading the chunks. A caller that reads the chunks later and
// finds damage (damaged_bytes) has to read the facts again without it.
absl::Status ReadSpoolFacts(SpoolReader* reader, uint32_t window, const std::function<void(uint64_t)>& progress,
                            SpoolFacts* facts, bool pass_over = false);

// Calls `consume` for each record of a chunk frame. False: the frame is not a valid chunk frame. Adds the number of
// corrupt places to *corrupt.
template <typename Consume>
bool ForEachRecord(const Frame& frame, ChunkFact* chunk, uint64_t* corrupt, Consume consume) {
  if (!frame.Read(chunk) || chunk->slots > kSlotsPerChunk ||
      frame.payload.size() < sizeof(ChunkFact) + static_cast<uint64_t>(chunk->slots) * kSlotBytes) {
    ++*corrupt;
    return false;
  }
  const auto* slots = reinterpret_cast<const uint8_t*>(frame.payload.data()) + sizeof(ChunkFact);
  uint32_t at = 0;
  while (at < chunk->slots) {
    RecordView record;
    record.bytes = slots + static_cast<uint64_t>(at) * kSlotBytes;
    __builtin_memcpy(&record.tag, record.bytes, sizeof(Tag));
    if (record.tag.slots == 0 || record.tag.slots > chunk->slots - at) {
      ++*corrupt;
      return true;
    }
    record.size = static_cast<uint32_t>(record.tag.slots) * kSlotBytes;
    consume(record);
    at += record.tag.slots;
  }
  return true;
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_SPOOL_FACTS_H_
