// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/spool_facts.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "writer/spool/record_facts.h"

namespace tbprof {
namespace {

constexpr size_t kMaxCounters = 1u << 20;
constexpr size_t kMaxThreads = 4u << 20;
constexpr size_t kMaxInert = 20'000;
constexpr size_t kMaxGaps = 100'000;
constexpr size_t kMaxDropped = 100'000;

// Removes a hexadecimal number and the separator behind it from the front.
bool ReadHex(std::string_view* text, char separator, uint64_t* value) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value, 16);
  if (error != std::errc() || end == text->data() + text->size() || *end != separator) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()) + 1);
  return true;
}

uint64_t Distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

class FactReader {
 public:
  FactReader(SpoolFacts* facts, uint32_t window) : facts_(facts), window_(window) {}

  // To be called for each frame of the main file before the first Take: reads the window's borders, so that Take can
  // recognize the counters nearest to them.
  void TakeBorders(const Frame& frame) {
    WindowFact window;
    PartFact part;
    if (frame.type == FrameType::kDropped && frame.Read(&part)) {
      ++facts_->dropped_parts;
      // A part is dropped every few seconds, and a run may last for weeks: the oldest dropped parts are in no window
      // any more.
      if (facts_->dropped.size() == kMaxDropped) {
        facts_->dropped.erase(facts_->dropped.begin(), facts_->dropped.begin() + kMaxDropped / 2);
      }
      facts_->dropped.push_back(part);
    }
    if (frame.type != FrameType::kWindow || !frame.Read(&window)) return;
    if (window.number == 0 && window.event == WindowEvent::kOpened && facts_->run_open_ticks == 0) {
      facts_->run_open_ticks = window.ticks;
    }
    if (window.number != window_) return;
    if (window.event == WindowEvent::kOpened) {
      facts_->window_found = true;
      facts_->open_ticks = window.ticks;
      facts_->close_ticks = UINT64_MAX;
      facts_->length_ms = window.length_ms;
      facts_->families = window.families;
    } else if (window.event == WindowEvent::kClosed) {
      facts_->close_ticks = window.ticks;
    }
  }

  // Returns whether the summary is sufficient. It does not have the times at which an exec failed.
  bool Believes(uint32_t segment, const ChunkSummary& summary) const {
    for (uint16_t operation = 0; operation < kMaxOperations; ++operation) {
      const bool failed = (summary.failed[operation / 64] >> operation % 64 & 1) != 0;
      if (failed && records_.IsExec(segment, operation)) return false;
    }
    return true;
  }

  // After the last frame.
  void Finish() { records_.Finish(); }

  void Take(const Frame& frame) {
    if (TakePython(frame) || facts_->native.Take(frame) || facts_->cores.Take(frame)) return;
    if (facts_->cpu_limits.Take(frame) || IsOfThreadLines(frame) || TakeCounts(frame) || TakeEnd(frame)) return;
    switch (frame.type) {
      case FrameType::kSession:
        facts_->session_json = std::string(frame.payload);
        break;
      case FrameType::kSegment:
        TakeSegment(frame);
        break;
      case FrameType::kChunk:
      case FrameType::kKept:
        if (frame.summary == nullptr) {
          TakeChunk(frame);
          break;
        }
        Taken(frame.summary->chunk);
        if (frame.summary->begin.tag.slots != 0) {
          records_.TakeBegin({frame.segment, frame.summary->chunk.process_serial},
                             {frame.segment, frame.summary->chunk.thread_serial}, frame.summary->begin);
        }
        TakeSummary(frame.segment, *frame.summary);
        break;
      case FrameType::kThread:
        TakeThread(frame);
        break;
      case FrameType::kProcess:
        TakeProcess(frame);
        break;
      case FrameType::kClock:
        TakeClock(frame);
        break;
      case FrameType::kCounters:
        TakeCounters(frame);
        break;
      case FrameType::kWindow:
        TakeWindow(frame);
        break;
      case FrameType::kPart:
      case FrameType::kDropped:
        break;
      case FrameType::kTotals:
        TakeTotals(frame, &facts_->totals, &facts_->totals_drops);
        break;
      case FrameType::kGpuTotals:
        TakeTotals(frame, &facts_->gpu_totals, &facts_->gpu_totals_drops);
        break;
      case FrameType::kGpuMemory:
        TakeTotals(frame, &facts_->gpu_memory, &facts_->gpu_memory_drops, &facts_->gpu_memory_left_out);
        break;
      case FrameType::kGap: {
        GapFact gap;
        if (frame.Read(&gap) && facts_->gaps.size() < kMaxGaps) facts_->gaps.push_back(gap);
        break;
      }
      case FrameType::kMaps:
        TakeMaps(frame);
        break;
      case FrameType::kSampling: {
        SamplingFact sampling;
        if (frame.Read(&sampling)) facts_->coarsest_sampling = std::max(facts_->coarsest_sampling, sampling.interval);
        break;
      }
      case FrameType::kNote:
        facts_->notes.emplace_back(frame.payload);
        break;
      case FrameType::kInert:
        TakeInert(frame);
        break;
      case FrameType::kEnd:
        facts_->ended = frame.Read(&facts_->end);
        Seen(facts_->end.ticks);
        break;
      default:
        ++facts_->unknown_records;
    }
  }

 private:
  // No valid clock reaches 2^62: the difference of two times must fit a signed number.
  void Seen(uint64_t ticks) {
    if (ticks < uint64_t{1} << 62) facts_->last_ticks = std::max(facts_->last_ticks, ticks);
  }

  bool TakePython(const Frame& frame) {
    if (!facts_->python.Take(frame)) return false;
    if (frame.type != FrameType::kPythonSamples && frame.type != FrameType::kPythonCollecting) return true;
    // If the launcher was killed, samples may be later than every record.
    PythonSample sample;
    for (size_t at = sizeof(PythonSamplesFact); at + sizeof(sample) <= frame.payload.size(); at += sizeof(sample)) {
      memcpy(&sample, frame.payload.data() + at, sizeof(sample));
      Seen(sample.last_ticks + 1);
    }
    return true;
  }

  void TakeClock(const Frame& frame) {
    ClockFact pair;
    if (!frame.Read(&pair)) return;
    facts_->clock.Add(pair);
    Seen(pair.ticks);
    launcher_ticks_ = std::max(launcher_ticks_, pair.ticks);
  }

  void TakeCounters(const Frame& frame) {
    CounterFact counter;
    if (!frame.Read(&counter)) return;
    auto& counters = facts_->processes[{frame.segment, counter.process_serial}].counters;
    if (counters.size() < kMaxCounters) counters.push_back(counter);
  }

  void TakeWindow(const Frame& frame) {
    WindowFact window;
    if (!frame.Read(&window)) return;
    facts_->windows.push_back(window);
    Seen(window.ticks);
  }

  void TakeInert(const Frame& frame) {
    InertProcess inert;
    if (!frame.Read(&inert.fact) || facts_->inert.size() >= kMaxInert) return;
    inert.path = frame.payload.substr(sizeof(inert.fact));
    facts_->inert.push_back(std::move(inert));
  }

  void TakeSegment(const Frame& frame) {
    SegmentFacts segment;
    if (frame.payload.size() < sizeof(SegmentFact) + sizeof(SegmentHeader)) {
      ++facts_->corrupt_records;
      return;
    }
    memcpy(&segment.fact, frame.payload.data(), sizeof(SegmentFact));
    memcpy(&segment.header, frame.payload.data() + sizeof(SegmentFact), sizeof(SegmentHeader));
    const std::string_view rest = frame.payload.substr(sizeof(SegmentFact) + sizeof(SegmentHeader));
    segment.operations.resize(std::min<size_t>(rest.size() / sizeof(Operation), kMaxOperations));
    if (!segment.operations.empty()) {
      memcpy(segment.operations.data(), rest.data(), segment.operations.size() * sizeof(Operation));
    }
    for (Operation& operation : segment.operations) operation.name[sizeof(operation.name) - 1] = '\0';
    facts_->segments[frame.segment] = std::move(segment);
  }

  // Takes the latest totals that count no part that still exists.
  template <typename Row>
  void TakeTotals(const Frame& frame, std::vector<Row>* rows, uint32_t* drops, uint64_t* lost = nullptr) {
    TotalsFact fact;
    if (!frame.Read(&fact) || fact.drops > facts_->dropped_parts || fact.drops < *drops) return;
    const std::string_view rest = frame.payload.substr(sizeof(fact));
    rows->resize(std::min<size_t>(fact.rows, rest.size() / sizeof(Row)));
    if (!rows->empty()) memcpy(rows->data(), rest.data(), rows->size() * sizeof(Row));
    *drops = fact.drops;
    if (lost != nullptr) *lost = fact.lost;
  }

  // Returns whether `fact` is the better start for a window's counters. The counters of a thread or process that began
  // in the window start from 0, and so do those of the whole run.
  template <typename Fact>
  bool IsNearerToOpening(const Fact& fact, const Fact& first, bool has_first) const {
    if (window_ == 0 || window_ == kEndWindow) return false;
    if (!facts_->window_found) return true;
    return fact.start_ticks < facts_->open_ticks && (!has_first || Distance(fact.taken_ticks, facts_->open_ticks) <
                                                                       Distance(first.taken_ticks, facts_->open_ticks));
  }

  // Returns whether `fact` is the better end for a window's counters: the first fact after the close, else the latest.
  template <typename Fact>
  bool IsNearerToClose(const Fact& fact, const Fact& last, bool has_last) const {
    if (!has_last) return true;
    if (last.taken_ticks <= facts_->close_ticks) return fact.taken_ticks >= last.taken_ticks;
    return fact.taken_ticks > facts_->close_ticks && fact.taken_ticks < last.taken_ticks;
  }

  void TakeThread(const Frame& frame) {
    ThreadFact fact;
    if (!frame.Read(&fact) || fact.serial == 0) {
      ++facts_->corrupt_records;
      return;
    }
    if (facts_->threads.size() > kMaxThreads) return;
    ThreadFacts& thread = facts_->threads[{frame.segment, fact.serial}];
    const bool newest = fact.taken_ticks >= thread.newest_ticks;
    if (newest) {
      thread.newest_ticks = fact.taken_ticks;
      thread.newest = fact;
      thread.process_serial = fact.process_serial;
      thread.tid = fact.tid;
      thread.start_ticks = fact.start_ticks;
      if (fact.end_ticks != 0) thread.end_ticks = fact.end_ticks;
      thread.creator_serial = fact.creator_serial;
    }
    if (fact.name[0] != '\0' && thread.name_ticks == 0) {
      thread.name.assign(fact.name, strnlen(fact.name, sizeof(fact.name)));
    }
    // The target can overwrite end_ticks; taken_ticks is the launcher's own time.
    Seen(std::min(fact.end_ticks, fact.taken_ticks));
    std::map<uint32_t, CountFact> counts;
    const std::string_view rest = frame.payload.substr(sizeof(fact));
    for (size_t i = 0; i < fact.count_facts && (i + 1) * sizeof(CountFact) <= rest.size(); ++i) {
      CountFact count;
      memcpy(&count, rest.data() + i * sizeof(count), sizeof(count));
      if (count.operation < kMaxOperations) counts[count.operation] = count;
    }
    if (newest) thread.newest_counts = counts;
    if (IsNearerToOpening(fact, thread.first, thread.has_first)) {
      thread.first = fact;
      thread.first_counts = counts;
      thread.has_first = true;
    }
    if (IsNearerToClose(fact, thread.last, thread.has_last)) {
      thread.last = fact;
      thread.last_counts = std::move(counts);
      thread.has_last = true;
    }
  }

  // Frames that the second pass reads.
  static bool IsOfThreadLines(const Frame& frame) {
    return frame.type == FrameType::kThreadUsage || frame.type == FrameType::kThreadBlocked ||
           frame.type == FrameType::kBlockedCalls || frame.type == FrameType::kGilHolders ||
           frame.type == FrameType::kResidentMemory;
  }

  bool TakeCounts(const Frame& frame) {
    if (frame.type == FrameType::kCallCounts) TakeCallCounts(frame);
    if (frame.type == FrameType::kNotKept) TakeNotKept(frame);
    return frame.type == FrameType::kCallCounts || frame.type == FrameType::kNotKept;
  }

  void TakeCallCounts(const Frame& frame) {
    CallCountsFact fact;
    if (!frame.Read(&fact) || fact.serial == 0) {
      ++facts_->corrupt_records;
      return;
    }
    // The thread's ThreadFact comes before it.
    const auto thread = facts_->threads.find({frame.segment, fact.serial});
    if (thread == facts_->threads.end() || fact.taken_ticks < thread->second.call_counts.taken_ticks) return;
    thread->second.call_counts = fact;
  }

  // The rows are sums of all so far: the latest frame has the most.
  void TakeNotKept(const Frame& frame) {
    NotKeptFact fact;
    if (!frame.Read(&fact)) return;
    const std::string_view rest = frame.payload.substr(sizeof(fact));
    facts_->not_kept.resize(std::min<size_t>(fact.rows, rest.size() / sizeof(NotKeptRow)));
    if (!facts_->not_kept.empty()) {
      memcpy(facts_->not_kept.data(), rest.data(), facts_->not_kept.size() * sizeof(NotKeptRow));
    }
  }

  void TakeProcess(const Frame& frame) {
    ProcessFact fact;
    if (!frame.Read(&fact) || fact.serial == 0) {
      ++facts_->corrupt_records;
      return;
    }
    ProcessFacts& process = facts_->processes[{frame.segment, fact.serial}];
    if (fact.taken_ticks >= process.newest_ticks) {
      process.newest_ticks = fact.taken_ticks;
      process.pid = fact.outer_pid > 0 ? fact.outer_pid : fact.pid;
      process.parent_serial = fact.parent_serial;
      process.parent_pid = fact.parent_pid;
      process.start_ticks = fact.start_ticks;
      if (fact.end_ticks != 0) process.end_ticks = fact.end_ticks;
      process.forked = fact.parent_serial != 0;
    }
    Seen(fact.end_ticks);
    if (IsNearerToOpening(fact, process.first, process.has_first)) {
      process.first = fact;
      process.has_first = true;
    }
    if (IsNearerToClose(fact, process.last, process.has_last)) {
      process.last = fact;
      process.has_last = true;
    }
  }

  void TakeExit(const Frame& frame) {
    ExitFact fact;
    if (!frame.Read(&fact) || fact.process_serial == 0) {
      ++facts_->corrupt_records;
      return;
    }
    ProcessFacts& process = facts_->processes[{frame.segment, fact.process_serial}];
    process.exit_code = fact.exit_signal == 0 ? fact.exit_code : -1;
    process.exit_signal = std::clamp(fact.exit_signal, 0, 127);
    process.out_of_memory = (fact.flags & kExitOutOfMemory) != 0;
    if (process.end_ticks == 0 && fact.ticks < uint64_t{1} << 62) process.end_ticks = fact.ticks;
    Seen(fact.ticks);
  }

  bool TakeEnd(const Frame& frame) {
    if (frame.type == FrameType::kExit) TakeExit(frame);
    if (frame.type == FrameType::kGpuHeld) TakeGpuHeld(frame);
    return frame.type == FrameType::kExit || frame.type == FrameType::kGpuHeld;
  }

  void TakeGpuHeld(const Frame& frame) {
    GpuHeldFact fact;
    if (!frame.Read(&fact)) return;
    const auto process = facts_->processes.find({frame.segment, fact.process_serial});
    if (process != facts_->processes.end()) process->second.gpu_held_since = fact.since_ticks;
  }

  void TakeMaps(const Frame& frame) {
    // start-end perms offset dev inode path; a module is the run of lines with one path.
    auto& modules = facts_->processes[{frame.segment, 1}].modules;
    Module module;
    for (std::string_view text = frame.payload; !text.empty();) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      std::string_view rest = line;
      const size_t slash = line.find('/');
      uint64_t start, end, offset;
      if (slash == std::string_view::npos || !ReadHex(&rest, '-', &start) || !ReadHex(&rest, ' ', &end) ||
          rest.size() < 5 || !ReadHex(&(rest = rest.substr(5)), ' ', &offset) || start >= end) {
        continue;
      }
      const std::string path(line.substr(slash));
      if (path == module.path && start >= module.end) {
        module.end = end;
        continue;
      }
      if (!module.path.empty()) MaybeAdd(&modules, module);
      module = Module();
      module.path = path;
      module.start = start;
      module.end = end;
      // Right for files whose first segment is at file offset and address 0, as in shared libraries.
      module.load_bias = start - offset;
    }
    if (!module.path.empty()) MaybeAdd(&modules, module);
  }

  // A module that the target itself reported is better: it has the build id and the loader's own bias.
  static void MaybeAdd(std::vector<Module>* modules, const Module& module) {
    const bool is_code = module.path.find(".so") != std::string::npos;
    for (const Module& known : *modules) {
      if (known.start == module.start && known.path == module.path) return;
      if (known.start < module.end && module.start < known.end && known.path == module.path) return;
    }
    if (is_code) modules->push_back(module);
  }

  void TakeChunk(const Frame& frame) {
    ChunkFact chunk{};
    // Facts of a chunk in a part have a copy in the main file. The copy is not counted as a record.
    const bool is_copy = frame.type == FrameType::kKept;
    const bool has_copy = frame.part != 0;
    if (!frame.Read(&chunk)) {
      ++facts_->corrupt_records;
      return;
    }
    Taken(chunk);
    ChunkSummarizer summarizer(chunk, launcher_ticks_);
    const Identity process{frame.segment, chunk.process_serial};
    const Identity thread{frame.segment, chunk.thread_serial};
    ForEachRecord(frame, &chunk, &facts_->corrupt_records, [&](const RecordView& record) {
      if (summarizer.Take(record)) return records_.TakeSummarized(process, thread, record);
      if (!is_copy) ++facts_->records;
      records_.Take(process, thread, record, has_copy);
    });
    TakeSummary(frame.segment, summarizer.summary(), is_copy);
  }

  void Taken(const ChunkFact& chunk) {
    launcher_ticks_ = std::max(launcher_ticks_, chunk.taken_ticks);
    // If the launcher was killed, this is the last time that is known; not all records' own times are read here.
    Seen(chunk.taken_ticks);
  }

  // Takes the summary of a skipped frame, or that of a frame whose facts were read one by one.
  void TakeSummary(uint32_t segment, const ChunkSummary& summary, bool is_copy = false) {
    const ChunkFact& chunk = summary.chunk;
    const uint32_t slots = std::min(chunk.slots, kSlotsPerChunk);
    const uint32_t records = std::min(summary.records, slots);
    facts_->records += records;
    if (!is_copy) facts_->over_time.Add(chunk.taken_ticks != 0 ? chunk.taken_ticks : summary.last_ticks, records);
    if (summary.spans != 0 || summary.last_ticks != 0) {
      ThreadFacts& thread = facts_->threads[{segment, chunk.thread_serial}];
      thread.spans += std::min(summary.spans, slots);
      thread.last_ticks = std::max(thread.last_ticks, summary.last_ticks);
      Seen(summary.last_ticks);
    }
    if (summary.gpu != 0) facts_->gpus.try_emplace({segment, chunk.process_serial});
    facts_->lost_records += chunk.lost;
    const auto known = facts_->segments.find(segment);
    if (known == facts_->segments.end()) return;
    known->second.chunks_used = std::max(known->second.chunks_used, std::min(chunk.chunk, kMaxChunks - 1) + 1);
    if (!is_copy) known->second.slots += slots;
  }

  SpoolFacts* facts_;
  uint32_t window_;
  uint64_t launcher_ticks_ = 0;
  RecordFacts records_{facts_};
};

}  // namespace

absl::Status ReadSpoolFacts(SpoolReader* reader, uint32_t window, const std::function<void(uint64_t)>& progress,
                            SpoolFacts* facts, bool pass_over) {
  FactReader fact_reader(facts, window);
  Frame frame;
  while (reader->Next(&frame) && frame.part == 0) fact_reader.TakeBorders(frame);
  absl::Status status = reader->Rewind();
  if (!status.ok()) return status;
  if (pass_over) {
    reader->PassOver(
        [&](uint32_t segment, const ChunkSummary& summary) { return fact_reader.Believes(segment, summary); });
  }
  while (reader->Next(&frame)) {
    fact_reader.Take(frame);
    progress(reader->position());
  }
  reader->PassOver({});
  fact_reader.Finish();
  facts->damaged_bytes = reader->damaged_bytes();
  facts->truncated = reader->truncated();
  facts->missing_parts = reader->missing_parts();
  if (facts->session_json.empty()) return absl::DataLossError("the spool has no readable beginning");
  if (!facts->clock.Finish()) return absl::DataLossError("the spool has no clock pair");
  for (auto& [identity, gpu] : facts->gpus) {
    if (gpu.clock.Finish(facts->clock.ns_per_tick())) continue;
    // None of its readings was kept. CUPTI's clock is the wall clock, unless another one was registered.
    for (const ClockFact& pair : facts->clock.pairs()) {
      gpu.clock.Add({Tag{}, pair.ticks, pair.realtime_ns, pair.ticks});
    }
    gpu.clock_assumed = gpu.clock.Finish(facts->clock.ns_per_tick());
  }
  return absl::OkStatus();
}

}  // namespace tbprof
