// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/timeline_builder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "writer/base/arguments.h"
#include "writer/base/clip.h"
#include "writer/base/nearly_sorted.h"
#include "writer/base/saturating.h"
#include "writer/base/secrets.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/event_budget.h"
#include "writer/convert/event_types.h"
#include "writer/convert/gpu_builder.h"
#include "writer/convert/heap_blocks.h"
#include "writer/convert/heap_levels.h"
#include "writer/convert/input_wait.h"
#include "writer/convert/own_cost.h"
#include "writer/convert/rank_report.h"
#include "writer/convert/ranks.h"
#include "writer/convert/session_facts.h"
#include "writer/convert/torch_memory.h"
#include "writer/convert/torch_operations.h"
#include "writer/spool/annotations.h"
#include "writer/spool/exec_images.h"
#include "writer/spool/spool_facts.h"
#include "writer/spool/torch_sampling.h"
#include "writer/steps/inferred_steps.h"
#include "writer/steps/step_evidence.h"
#include "writer/steps/step_markers.h"
#include "writer/steps/torch_steps.h"
#include "writer/symbols/symbolize.h"
#include "writer/symbols/unwind.h"
#include "writer/timeline/event_size.h"
#include "writer/timeline/schema.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

constexpr size_t kMaxSites = 1u << 20;
constexpr size_t kMaxCounterSamples = 4000;
constexpr size_t kMostGraphNodes = 1u << 20;
constexpr int kMaxFrames = 48;
constexpr size_t kMaxAllocationSites = 200;
// Blocks of all processes that --malloc=exact follows at a time: as many as its table takes 100 MB for.
constexpr size_t kMaxBlocks = (1u << 22) / 8 * 7;
constexpr uint64_t kProgressBytes = 16u << 20;
// Threads of which no more is known than that they called CUDA.
constexpr size_t kMaxUnknownThreads = 1000;
constexpr const char* kTooManyNames = "(more names than are kept)";
constexpr const char* kLostName = "(name lost)";
constexpr const char* kAcrossLine = "ranges by number";
constexpr const char* kTorchLine = "PyTorch";
constexpr size_t kMaxAcross = 1u << 19;
constexpr size_t kTypesOfCalls = 8192;
constexpr size_t kMaxDomainTexts = 10'000;
// Of a budget, for ranges that may be steps.
constexpr uint64_t kShareOfSteps = 4;
// Among the flags of an event until FinishTimes: is in that share.
constexpr uint16_t kNotCut = 1u << 15;
constexpr int64_t kJitterPs = 1'000'000;
constexpr size_t kMaxLanes = 32;
// 24 bytes each.
constexpr size_t kMostCutWaits = 2'000'000;
// What an event of a device takes in the file, its arrow and its name apart.
constexpr uint64_t kDeviceEventBytes = 2 * kBytesPerEvent;

// Of counters that only a hostile target lets run backwards.
uint64_t Difference(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

void AddTicks(int64_t* sum, uint64_t ticks) {
  AddSaturating(sum, static_cast<int64_t>(std::min<uint64_t>(ticks, INT64_MAX)));
}

struct Site {
  Identity process;
  uint64_t address = 0;
  uint16_t type = 0;
  uint64_t calls = 0, ticks = 0, longest = 0;
};
struct SiteKey {
  Identity process;
  uint64_t address;
  uint16_t type;
  friend bool operator==(const SiteKey& a, const SiteKey& b) {
    return a.process == b.process && a.address == b.address && a.type == b.type;
  }
  template <typename H>
  friend H AbslHashValue(H hash, const SiteKey& key) {
    return H::combine(std::move(hash), key.process, key.address, key.type);
  }
};

class Builder : private HostLines {
 public:
  Builder(const TimelineRequest& request, const ProgressFunction& progress)
      : request_(request), progress_(progress), gpu_(&facts_, &timeline_, this) {}

  // `pass_over`: as ReadSpoolFacts.
  absl::StatusOr<Timeline> Build(bool pass_over) {
    auto opened = SpoolReader::Open(request_.spool, request_.extent);
    if (!opened.ok()) return opened.status();
    reader_ = std::move(*opened);
    absl::Status status = ReadSpoolFacts(
        reader_.get(), request_.window, [&](uint64_t at) { Progress(at, 0); }, &facts_, pass_over);
    if (!status.ok()) return status;
    auto session = ParseSession(facts_.session_json);
    if (!session.ok()) return session.status();
    session_ = *std::move(session);
    TakeSession();
    byte_limit_ = MostEvents(request_.max_profile_size) * kBytesPerEvent;
    window_ = FindCaptureWindow(session_, request_, &facts_, &timeline_);
    ps_per_tick_ = facts_.clock.ns_per_tick() * 1000;
    MakeProcesses();
    MakeThreads();
    AddLifeEvents();
    AddUnrecordedCommand();
    status = reader_->Rewind();
    if (!status.ok()) return status;
    gpu_.Begin({window_.open, window_.close, window_.totals_open});
    annotations_.emplace(PeriodsOf(facts_.windows));
    step_names_.emplace(StepMarker());
    ReadSpans();
    annotations_->Finish(window_.close, take_range_);
    AddAcrossRanges();
    TakeDroppedTotals();
    AddOpenWaits();
    gpu_.Finish();
    LinkThreads();
    FinishTimes();
    gpu_.FinishTimes();
    NameSites();
    TakeAllocatorTotals();
    AddExactHeaps();
    FinishTorchTotals();
    TakeOperationTotals();
    AddCounters();
    AddSteps();
    AddDiagnostics();
    std::stable_sort(timeline_.graph_nodes.begin(), timeline_.graph_nodes.end(),
                     [](const GraphNode& a, const GraphNode& b) {
                       return a.thread != b.thread ? a.thread < b.thread : a.at_ps < b.at_ps;
                     });
    // All of PyTorch's work was taken to have a name.
    timeline_.expected_bytes = Bytes() - std::min(Bytes(), kTextStatBytes * NameOperations(&timeline_).nested);
    timeline_.tensor_memory = torch_memory_.Finish(timeline_, [this](uint64_t ticks) { return ClampedPs(ticks); });
    FillRankReport(&timeline_);
    return std::move(timeline_);
  }

  // Whether the chunks had damage that the facts say nothing of.
  bool FoundDamage() const { return reader_ != nullptr && reader_->damaged_bytes() > facts_.damaged_bytes; }

 private:
  void Progress(uint64_t position, uint64_t base) {
    if (position < next_progress_) return;
    next_progress_ = position + kProgressBytes;
    progress_(base + position, 2 * reader_->size());
  }

  void TakeSession() {
    timeline_.host = !request_.host.empty() ? request_.host : session_.host;
    timeline_.run = session_.run;
    timeline_.ranks_recorded = session_.ranks;
    families_ = session_.families;
    // Other windows, open at the same time, may have wanted more.
    less_than_recorded_ = facts_.window_found && (families_ & ~facts_.families) != 0;
    if (facts_.window_found) families_ &= facts_.families;
    timeline_.counts_allocator = (families_ & kFamilyMalloc) != 0;
    constexpr uint32_t kFamiliesOfWaits = kFamilyLock | kFamilySleep | kFamilyIo | kFamilyProcess | kFamilyAnnotation;
    timeline_.waits_recorded = (families_ & kFamiliesOfWaits) == kFamiliesOfWaits;
    facts_.only_command = session_.only_command;
    timeline_.command_line = CommandLine(session_.command);
    command_name_ = session_.command.empty() ? "command" : std::string(BaseName(session_.command[0]));
  }

  int64_t ClampedPs(uint64_t ticks) const {
    return std::clamp<int64_t>(facts_.clock.ToPs(ticks), 0, timeline_.duration_ps);
  }

  void MakeProcesses() {
    std::vector<std::pair<uint64_t, Identity>> order;
    for (auto& [identity, process] : facts_.processes) {
      if (process.start_ticks == 0 && process.modules.empty()) continue;
      if (process.start_ticks > window_.close || (process.end_ticks != 0 && process.end_ticks < window_.open)) continue;
      order.emplace_back(process.start_ticks, identity);
    }
    std::sort(order.begin(), order.end());
    ranks_.Choose(request_.rank, &order);
    images_ = FindExecImages(facts_, order);
    for (const auto& [ticks, identity] : order) {
      const ProcessFacts& facts = facts_.processes[identity];
      // A fork child that has become another program by exec is one process with it.
      const uint32_t next = static_cast<uint32_t>(timeline_.processes.size());
      const uint32_t index = HasForkedImage(identity) ? process_index_[images_.before[identity]] : next;
      process_index_[identity] = index;
      Process process;
      process.pid = facts.pid;
      process.forked = facts.forked;
      const ProcessFacts& image = ImageOf(identity, &facts_);
      process.executable = image.executable;
      process.arguments = MaskSecrets(image.arguments);
      process.name = ProcessName(process.executable, process.arguments);
      process.start_ps = ClampedPs(facts.start_ticks);
      process.end_ps =
          facts.end_ticks == 0 ? timeline_.duration_ps : std::max(process.start_ps, ClampedPs(facts.end_ticks));
      if (window_.HasEnded(facts.end_ticks, facts_)) {
        process.exit_code = facts.exit_code;
        process.exit_signal = facts.exit_signal;
      }
      const RankFacts rank = ranks_.OwnRankOf(image);
      process.rank = rank.rank;
      process.local_rank = rank.local_rank;
      process.world_size = rank.world_size;
      process.replaced = images_.after.contains(identity);
      if (index != next) {
        process.start_ps = timeline_.processes[index].start_ps;
        timeline_.processes[index] = std::move(process);
        continue;
      }
      timeline_.processes.push_back(std::move(process));
    }
    for (const auto& [identity, index] : process_index_) {
      if (HasForkedImage(identity)) continue;
      Process& process = timeline_.processes[index];
      process.parent = ParentOf(identity, index);
    }
    MarkCommand();
  }

  // Whether the image was a fork child before its exec, which has no entry of its own.
  bool HasForkedImage(const Identity& identity) const {
    const auto before = images_.before.find(identity);
    return before != images_.before.end() && facts_.processes.at(before->second).forked;
  }
  // Whether it is that fork child.
  bool IsForkedImage(const Identity& identity) const {
    return facts_.processes.at(identity).forked && images_.after.contains(identity);
  }

  // The first process, in the image that its last exec gave it: a shim or `env` before it is not the command.
  void MarkCommand() {
    if (timeline_.processes.empty()) return;
    uint32_t command = 0;
    for (uint32_t i = 1; i < timeline_.processes.size(); ++i) {
      if (timeline_.processes[i].pid == timeline_.processes[0].pid && !timeline_.processes[i].forked) command = i;
    }
    Process& process = timeline_.processes[command];
    process.is_command = true;
    if (facts_.ended && process.exit_code < 0 && process.exit_signal == 0) {
      process.exit_code = facts_.end.exit_code;
      process.exit_signal = facts_.end.exit_signal;
    }
  }

  // Whose steps the reader shows: the command, or where that only waits for a child (a shell, a launcher), the child
  // that lived longest.
  uint32_t ProcessOfInterest() const {
    uint32_t at = 0;
    // Device events belong to a step only if the calls that caused them do.
    int64_t most = 0;
    for (uint32_t i = 0; i < timeline_.processes.size(); ++i) {
      if (gpu_.DevicePs(i) > most) at = i, most = gpu_.DevicePs(i);
    }
    if (most > 0) return at;
    for (uint32_t i = 0; i < timeline_.processes.size(); ++i) {
      if (timeline_.processes[i].is_command) at = i;
    }
    for (int depth = 0; depth < 16; ++depth) {
      const Process& process = timeline_.processes[at];
      int64_t waited = 0;
      for (const OperationTotal& total : process.operations) {
        if (timeline_.types[total.type].family == EventFamily::kProcess) waited += total.total_ps;
      }
      if (waited < (process.end_ps - process.start_ps) / 2) break;
      int child = -1;
      for (uint32_t i = 0; i < timeline_.processes.size(); ++i) {
        const Process& other = timeline_.processes[i];
        if (other.parent != static_cast<int>(at) || i == at || other.pid == process.pid) continue;
        const auto life = [&](const Process& p) { return p.end_ps - p.start_ps; };
        if (child < 0 || life(other) >= life(timeline_.processes[static_cast<uint32_t>(child)]))
          child = static_cast<int>(i);
      }
      if (child < 0) break;
      at = static_cast<uint32_t>(child);
      // The image that its own last exec gave it.
      for (uint32_t i = 0; i < timeline_.processes.size(); ++i) {
        if (timeline_.processes[i].pid == timeline_.processes[at].pid &&
            timeline_.processes[i].start_ps > timeline_.processes[at].start_ps && !timeline_.processes[i].forked) {
          at = i;
        }
      }
    }
    return at;
  }

  int ParentOf(const Identity& identity, uint32_t index) {
    const ProcessFacts& facts = facts_.processes[identity];
    if (facts.parent_serial != 0) {
      const auto parent = process_index_.find({identity.segment, facts.parent_serial});
      if (parent != process_index_.end() && parent->second < index) return static_cast<int>(parent->second);
    }
    // By number: the latest process with that pid that had begun before us. Never a later one: no circles.
    int best = -1;
    for (uint32_t i = 0; i < index; ++i) {
      const Process& other = timeline_.processes[i];
      // exec: the earlier image of the same process.
      if ((other.pid == facts.parent_pid || other.pid == facts.pid) && other.pid != 0) best = static_cast<int>(i);
    }
    return best;
  }

  void MakeThreads() {
    std::vector<std::pair<uint64_t, Identity>> order;
    for (auto& [identity, thread] : facts_.threads) {
      if (process_index_.find({identity.segment, thread.process_serial}) == process_index_.end()) continue;
      if (thread.start_ticks > window_.close || (thread.end_ticks != 0 && thread.end_ticks < window_.open)) continue;
      if (thread.is_own) continue;
      order.emplace_back(thread.start_ticks, identity);
    }
    std::sort(order.begin(), order.end());
    constexpr uint64_t kMinReserved = 1000, kMaxReserved = 8'000'000;
    uint64_t reserved = 0;
    for (const auto& [ticks, identity] : order) {
      const ThreadFacts& facts = facts_.threads[identity];
      const Identity owner{identity.segment, facts.process_serial};
      if (ContinueThread(identity, owner)) continue;
      thread_index_[identity] = static_cast<uint32_t>(timeline_.threads.size());
      Thread thread;
      // Untouched room costs nothing; growing would copy each event once more.
      const uint64_t room =
          std::min(facts.spans, std::min<uint64_t>(byte_limit_ / kBytesPerEvent, kMaxReserved) - reserved);
      if (room >= kMinReserved) thread.events.reserve(room);
      reserved += room >= kMinReserved ? room : 0;
      thread.process = process_index_[owner];
      thread.tid = facts.tid;
      thread.line_id = timeline_.threads.size() + 1;
      thread.name = facts.name;
      const ProcessFacts& process = facts_.processes[owner];
      thread.is_main = IsMainThread(facts, process);
      if (thread.is_main && IsForkedImage(owner)) main_threads_[owner] = thread_index_[identity];
      thread.start_ps = ClampedPs(facts.start_ticks);
      const uint64_t end = facts.end_ticks != 0 ? facts.end_ticks : process.end_ticks;
      thread.end_ps = end == 0 ? timeline_.duration_ps : std::max(thread.start_ps, ClampedPs(end));
      threads_of_tid_[{thread.process, facts.tid}].push_back(
          {facts.start_ticks, end == 0 ? UINT64_MAX : end, thread_index_[identity]});
      timeline_.threads.push_back(std::move(thread));
    }
  }

  // Readers show nothing of a profile without an event, not even why there is none: the command has one, from its start
  // to its end.
  void AddUnrecordedCommand() {
    if (!timeline_.processes.empty() || !facts_.processes.empty()) return;
    Process& process = timeline_.processes.emplace_back();
    process.name = command_name_;
    process.is_command = true;
    process.is_unrecorded = true;
    process.end_ps = timeline_.duration_ps;
    const uint32_t line = LineOf(0, command_name_);
    if (line == kNoLine) return;
    Event event;
    const uint64_t end = facts_.ended ? std::min(facts_.end.ticks, window_.close) : window_.close;
    ClipTo(window_.open, window_.close, window_.open, std::max(end, window_.open + 1), &event);
    const std::string end_text = timeline_.exit_signal != 0 ? StrCat("ended by signal ", timeline_.exit_signal)
                                 : timeline_.exit_code >= 0 ? StrCat("exit status ", timeline_.exit_code)
                                                            : "running";
    event.type = types_.Find(StrCat("command not recorded, ", end_text), EventFamily::kProcess, ObjectKind::kNone,
                             ValueKind::kNone);
    std::string detail = end_text;
    for (const std::string& note : facts_.notes) StrAppend(&detail, "; ", ValidUtf8(note));
    for (const std::string& note : request_.warnings) {
      if (std::find(facts_.notes.begin(), facts_.notes.end(), note) == facts_.notes.end()) {
        StrAppend(&detail, "; ", ValidUtf8(note));
      }
    }
    event.detail = timeline_.strings.Intern(detail);
    Keep(line, event);
  }

  bool IsMainThread(const ThreadFacts& thread, const ProcessFacts& process) const {
    return process.has_last ? thread.tid == process.last.pid : thread.tid == process.pid;
  }

  // exec keeps the process's first thread: the line of the fork child goes on.
  bool ContinueThread(const Identity& identity, const Identity& owner) {
    const ThreadFacts& facts = facts_.threads[identity];
    const ProcessFacts& process = facts_.processes[owner];
    if (!HasForkedImage(owner) || !IsMainThread(facts, process)) return false;
    const auto known = main_threads_.find(images_.before[owner]);
    if (known == main_threads_.end()) return false;
    Thread& thread = timeline_.threads[known->second];
    thread_index_[identity] = known->second;
    continued_.insert(identity);
    const uint64_t end = facts.end_ticks != 0 ? facts.end_ticks : process.end_ticks;
    thread.name = facts.name;
    thread.end_ps = end == 0 ? timeline_.duration_ps : std::max(thread.start_ps, ClampedPs(end));
    threads_of_tid_[{thread.process, facts.tid}].push_back(
        {facts.start_ticks, end == 0 ? UINT64_MAX : end, known->second});
    return true;
  }

  // Times of events are ticks until FinishTimes.
  void AddLifeEvents() {
    const uint16_t start_type =
        types_.Find("thread start", EventFamily::kThread, ObjectKind::kNone, ValueKind::kFlowIn);
    for (const auto& [identity, index] : thread_index_) {
      const ThreadFacts& facts = facts_.threads[identity];
      if (facts.start_ticks < window_.open || facts.start_ticks > window_.close || continued_.contains(identity))
        continue;
      Event event;
      event.start_ps = static_cast<int64_t>(facts.start_ticks);
      event.type = start_type;
      Keep(index, event);
    }
  }

  void ReadSpans() {
    Frame frame;
    next_progress_ = 0;
    while (reader_->Next(&frame)) {
      Progress(reader_->position(), reader_->size());
      if (frame.type != FrameType::kChunk) continue;
      ChunkFact chunk{};
      if (!frame.Read(&chunk)) continue;
      const auto thread = thread_index_.find({frame.segment, chunk.thread_serial});
      const auto process = process_index_.find({frame.segment, chunk.process_serial});
      uint64_t ignored = 0;
      if (session_.malloc_stamp_every > 0 && process != process_index_.end()) TakeBlocks(frame, chunk, process->first);
      if (thread == thread_index_.end() || process == process_index_.end()) {
        // Of a process or thread that had ended before the timeline begins, or of a thread of the library's.
        const uint32_t owner = process == process_index_.end() ? kNoProcess : process->second;
        const bool counts =
            window_.whole_run && (owner != kNoProcess || IsOfRank({frame.segment, chunk.process_serial}));
        if (!counts && owner == kNoProcess) continue;
        ForEachRecord(frame, &chunk, &ignored, [&](const RecordView& record) {
          if (less_than_recorded_ && !IsWanted(frame.segment, record)) return;
          if (GpuBuilder::IsGpu(record.tag.kind)) {
            gpu_.Take({frame.segment, chunk.process_serial}, owner, record);
            return;
          }
          // A range may be ended by a thread that is there.
          if (record.tag.kind == RecordKind::kAnnotation) {
            annotations_->Take({frame.segment, chunk.thread_serial}, {frame.segment, chunk.process_serial}, record,
                               take_range_);
            return;
          }
          if (!counts) return;
          SpanRecord span;
          if (!record.ReadSpan(&span) || span.start + span.ticks < span.start) return;
          const uint16_t type = types_.OfOperation(frame.segment, record.tag.aux);
          if (type == kNoType || span.start >= window_.close) return;
          Count({frame.segment, chunk.process_serial}, owner, type, span.call_site, 1, span.ticks, span.ticks);
        });
        continue;
      }
      uint64_t records = 0;
      ForEachRecord(frame, &chunk, &ignored, [&](const RecordView& record) {
        if (less_than_recorded_ && !IsWanted(frame.segment, record)) return;
        if (IsSpan(record.tag.kind)) {
          TakeSpan(frame.segment, chunk, thread->second, process->second, record);
        } else if (record.tag.kind == RecordKind::kAllocationSample) {
          TakeSample({frame.segment, chunk.process_serial}, record);
        } else if (record.tag.kind == RecordKind::kAnnotation) {
          if (!annotations_->Take(thread->first, process->first, record, take_range_)) ++timeline_.corrupt_records;
        } else if (record.tag.kind == RecordKind::kTensorMemory) {
          TakeTensorMemory(thread->second, process->second, record);
        } else if (record.tag.kind == RecordKind::kGpuGraphNode) {
          TakeGraphNode(thread->second, record);
        } else if (record.tag.kind == RecordKind::kExec) {
          TakeExec(frame.segment, thread->second, record);
        } else if (GpuBuilder::IsGpu(record.tag.kind)) {
          gpu_.Take(process->first, process->second, record);
        }
        if (record.tag.kind != RecordKind::kPad && record.tag.kind != RecordKind::kChunkBegin) ++records;
      });
      timeline_.processes[process->second].records += records;
    }
  }

  bool IsWanted(uint32_t segment, const RecordView& record) const {
    switch (record.tag.kind) {
      case RecordKind::kSpan:
      case RecordKind::kCompactSpan: {
        const auto found = facts_.segments.find(segment);
        if (found == facts_.segments.end() || record.tag.aux >= found->second.operations.size()) return true;
        return (found->second.operations[record.tag.aux].family & families_) != 0;
      }
      case RecordKind::kAllocationSample:
        return (families_ & kFamilyMalloc) != 0;
      case RecordKind::kAnnotation:
      case RecordKind::kTensorMemory:
        return (families_ & kFamilyAnnotation) != 0;
      default:
        return (!GpuBuilder::IsGpu(record.tag.kind) && record.tag.kind != RecordKind::kGpuGraphNode) ||
               (families_ & kFamilyGpu) != 0;
    }
  }

  void TakeBlocks(const Frame& frame, ChunkFact chunk, const Identity& identity) {
    HeapBlocks& blocks = heaps_.try_emplace(identity, window_.open, window_.close, &room_for_blocks_).first->second;
    blocks.BeginFrame(chunk);
    uint64_t ignored = 0;
    ForEachRecord(frame, &chunk, &ignored, [&](const RecordView& record) {
      AllocationRecord allocation;
      AllocationSampleRecord sample;
      ChunkBeginRecord begin;
      ThreadExitRecord exit;
      SpanRecord span;
      if (record.tag.kind == RecordKind::kAllocation) {
        if (record.Read(&allocation)) blocks.Take(allocation);
      } else if (IsSpan(record.tag.kind)) {
        const bool is_time = record.ReadSpan(&span) && span.start + span.ticks >= span.start &&
                             !IsFarBehind(span.start + span.ticks, facts_.last_ticks);
        if (is_time) blocks.Time(span.start + span.ticks);
      } else if (record.tag.kind == RecordKind::kAllocationSample) {
        if (record.Read(&sample)) blocks.Time(sample.ticks);
      } else if (record.tag.kind == RecordKind::kChunkBegin) {
        if (record.Read(&begin)) blocks.Time(begin.ticks);
      } else if (record.tag.kind == RecordKind::kThreadExit) {
        if (record.Read(&exit)) blocks.Time(exit.ticks);
      }
    });
  }

  void TakeSpan(uint32_t segment, const ChunkFact& chunk, uint32_t thread, uint32_t process, const RecordView& record) {
    SpanRecord span;
    if (!record.ReadSpan(&span)) return;
    const uint16_t type = types_.OfOperation(segment, record.tag.aux);
    const uint64_t end = span.start + span.ticks;
    if (type == kNoType || end < span.start || IsFarBehind(span.start, facts_.last_ticks)) {
      ++timeline_.corrupt_records;
      return;
    }
    if (end <= window_.totals_open || span.start >= window_.close) return;
    const uint64_t stop = std::min(end, window_.close);
    const uint64_t counted = stop - std::max(span.start, window_.totals_open);
    const uint32_t site = Count({segment, chunk.process_serial}, process, type, span.call_site, 1, counted, counted);
    if (end <= window_.open) return;
    ++timeline_.records;
    Event event;
    ClipTo(window_.open, window_.close, span.start, end, &event);
    event.object = span.object;
    event.value = timeline_.types[type].value == ValueKind::kFlowOut ? 0 : span.result;
    event.call_site = site;
    event.type = type;
    event.error = (record.tag.flags & kRecordFailed) != 0 ? span.error : 0;
    if (event.error != 0) event.flags |= Event::kFailed;
    Keep(thread, event);
  }

  static RangeOrigin OriginOf(const Annotations::Range& range, std::string_view name) {
    if (range.domain == kTensorFlowDomain) return RangeOrigin::kTensorFlow;
    if (range.domain != kTorchDomain) return RangeOrigin::kProgram;
    if (name.starts_with(kEvaluateNode)) return RangeOrigin::kTorchBackward;
    switch (static_cast<TorchScope>(range.category)) {
      case TorchScope::kBackward:
        return RangeOrigin::kTorchBackward;
      case TorchScope::kUser:
      case TorchScope::kPause:
        return RangeOrigin::kTorchUser;
      case TorchScope::kOperation:
        break;
    }
    return RangeOrigin::kTorchOperation;
  }

  // What a range is called, and what is counted for it.
  uint16_t TypeOfRange(const Annotations::Range& range) {
    // Before all others, so that it is there when they are too many.
    if (nameless_ == kNoType)
      nameless_ = types_.Find(kTooManyNames, EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone);
    NamedRange& last =
        named_[(range.name ^ range.name >> 8 ^ range.category ^ uint64_t{range.domain} << 3) % kNamedPlaces];
    if (last.type != kNoType && last.name == range.name && last.category == range.category &&
        last.domain == range.domain && last.payload_type == range.payload_type) {
      return last.type;
    }
    const uint16_t type = FindTypeOfRange(range);
    if (range.name != 0) last = {range.name, range.category, range.domain, range.payload_type, type};
    return type;
  }

  uint16_t FindTypeOfRange(const Annotations::Range& range) {
    const auto name = facts_.annotations.names.find(range.name);
    if (range.name == 0 || name == facts_.annotations.names.end()) {
      names_left_out_ |= range.name == 0;
      if (range.name == 0) return nameless_;
      if (lost_name_ == kNoType)
        lost_name_ = types_.Find(kLostName, EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kNone);
      return lost_name_;
    }
    const ValueKind value = range.payload_type == PayloadType{}            ? ValueKind::kNone
                            : range.domain == kTorchDomain                 ? ValueKind::kSequence
                            : range.payload_type == PayloadType::kDouble   ? ValueKind::kPayloadDouble
                            : range.payload_type == PayloadType::kUnsigned ? ValueKind::kPayloadUnsigned
                                                                           : ValueKind::kPayload;
    const std::string_view text = name->second.empty() ? std::string_view("(no name)") : std::string_view(name->second);
    const RangeOrigin origin = OriginOf(range, text);
    const auto [known, added] = range_types_.try_emplace({range.name, value, origin}, nameless_);
    if (!added) return known->second;
    // Calls of later processes need numbers, too.
    if (timeline_.types.size() >= kMaxTypes - kTypesOfCalls) {
      names_left_out_ = true;
      return nameless_;
    }
    const uint16_t type = types_.Find(text, EventFamily::kAnnotation, ObjectKind::kNone, value, origin);
    if (MakesTorchSteps(origin, text) || (step_names_.has_value() && step_names_->Match(timeline_.types[type].name))) {
      step_types_.resize(std::max<size_t>(step_types_.size(), type + 1u));
      step_types_[type] = true;
    }
    return known->second = type;
  }

  // A text that a process has told, or one of those that it was forked from.
  const std::string* ToldBy(Identity process, const std::map<std::pair<Identity, uint64_t>, std::string>& texts,
                            uint64_t number) const {
    for (int depth = 0; depth < 64; ++depth) {
      const auto text = texts.find({process, number});
      if (text != texts.end()) return &text->second;
      const auto facts = facts_.processes.find(process);
      if (facts == facts_.processes.end() || facts->second.parent_serial == 0) return nullptr;
      process.serial = facts->second.parent_serial;
    }
    return nullptr;
  }

  // `domain`, or `domain/category` where the category has a name; empty for what has neither.
  StringId DomainText(const Annotations::Range& range) {
    if ((range.domain == 0 && range.category == 0) || range.domain >= kTorchDomain) return 0;
    // Categories are numbers that programs make up.
    const uint32_t shown_category = domain_texts_.size() < kMaxDomainTexts ? range.category : 0;
    const auto [known, added] = domain_texts_.try_emplace({range.process, range.domain, shown_category}, StringId{0});
    if (!added) return known->second;
    std::string text;
    if (range.domain != 0) {
      const std::string* domain = ToldBy(range.process, facts_.annotations.domains, range.domain);
      text = domain == nullptr ? StrCat("domain ", range.domain) : *domain;
    }
    const std::string* category =
        ToldBy(range.process, facts_.annotations.categories, uint64_t{range.domain} << 32 | shown_category);
    if (category != nullptr) {
      StrAppend(&text, text.empty() ? "" : "/", *category);
    } else if (shown_category != 0) {
      StrAppend(&text, text.empty() ? "" : "/", "category ", shown_category);
    }
    return known->second = timeline_.strings.Intern(ValidUtf8(text));
  }

  StringId ShapesText(const Annotations::Range& range, uint16_t type) {
    if (range.shapes == 0 || timeline_.types[type].origin != RangeOrigin::kTorchOperation) return 0;
    const auto [known, added] = shapes_texts_.try_emplace(range.shapes, StringId{0});
    if (!added) return known->second;
    const auto text = facts_.annotations.names.find(range.shapes);
    // Nothing else begins so, whatever a file says.
    if (text == facts_.annotations.names.end() || !text->second.starts_with('[')) return 0;
    return known->second = timeline_.strings.Intern(ValidUtf8(text->second));
  }

  void TakeRange(const Annotations::Range& range) {
    if (!range.end_lost) return TakeEnded(range);
    Annotations::Range ended = range;
    const auto thread = facts_.threads.find(range.thread);
    const auto process = facts_.processes.find(range.process);
    if (range.kind == Annotations::Kind::kRange && thread != facts_.threads.end() && thread->second.end_ticks != 0) {
      ended.end = std::min(ended.end, thread->second.end_ticks);
    }
    if (process != facts_.processes.end() && process->second.end_ticks != 0) {
      ended.end = std::min(ended.end, process->second.end_ticks);
    }
    ended.end = std::max(ended.end, ended.start);
    TakeEnded(ended);
  }

  void TakeEnded(const Annotations::Range& range) {
    const bool mark = range.kind == Annotations::Kind::kMark;
    if (range.start >= window_.close || (mark ? range.start < window_.totals_open : range.end <= window_.totals_open))
      return;
    const uint32_t owner = IndexOf(process_index_, range.process, kNoProcess, &last_owner_);
    if (owner == kNoProcess) return;
    const uint16_t type = TypeOfRange(range);
    if (type == kNoType) return;
    const uint64_t counted = std::min(range.end, window_.close) - std::max(range.start, window_.totals_open);
    Count(range.process, owner, type, 0, 1, mark ? 0 : counted, mark ? 0 : counted);
    if (range.kind == Annotations::Kind::kRange && IsTorchWork(timeline_.types[type])) {
      const auto known = torch_totals_.find(owner);
      TorchTotals& totals =
          known != torch_totals_.end()
              ? known->second
              : torch_totals_.try_emplace(owner, facts_.processes[range.process].torch_sampling).first->second;
      totals.Take({type, range.start, counted, counted - std::min(counted, range.inside)});
    }
    if (mark ? range.start < window_.open : range.end <= window_.open) return;
    ++timeline_.records;
    Event event;
    if (mark) {
      event.start_ps = static_cast<int64_t>(range.start);
    } else {
      ClipTo(window_.open, window_.close, range.start, range.end, &event);
    }
    if (range.end_lost) event.flags |= Event::kClippedAtEnd;
    event.type = type;
    event.value = static_cast<int64_t>(range.payload);
    event.object = range.torch_thread;
    event.detail = DomainText(range);
    event.call_site = ShapesText(range, type);
    if (range.kind == Annotations::Kind::kAcross) {
      if (across_.size() < kMaxAcross) {
        across_.push_back({owner, event});
      } else {
        ++timeline_.events_over_budget;
      }
      return;
    }
    const uint32_t thread = IndexOf(thread_index_, range.thread, kNoLine, &last_line_);
    if (thread != kNoLine) Keep(thread, event);
  }

  // The index of a process or of a thread, the last of which is asked for again and again. `none`: it has no index.
  template <typename Indices>
  static uint32_t IndexOf(const Indices& indices, const Identity& identity, uint32_t none,
                          std::pair<Identity, uint32_t>* last) {
    if (last->second != none && last->first == identity) return last->second;
    const auto found = indices.find(identity);
    if (found == indices.end()) return none;
    *last = {identity, found->second};
    return found->second;
  }

  // Ranges that begin and end by number nest in nothing: on lines of their own, as few as have no two at a time.
  void AddAcrossRanges() {
    std::sort(across_.begin(), across_.end(), [](const Across& a, const Across& b) {
      if (a.owner != b.owner) return a.owner < b.owner;
      return a.event.start_ps != b.event.start_ps ? a.event.start_ps < b.event.start_ps
                                                  : a.event.duration_ps > b.event.duration_ps;
    });
    std::vector<int64_t> ends;
    for (size_t i = 0; i < across_.size(); ++i) {
      const Across& range = across_[i];
      if (i == 0 || across_[i - 1].owner != range.owner) ends.clear();
      if (IsTorchPause(timeline_.types[range.event.type])) {
        // One at a time, and the program's ranges need not move for it.
        KeepOn(LineOf(range.owner, kTorchLine), range.event);
        continue;
      }
      size_t lane = 0;
      while (lane < ends.size() && ends[lane] > range.event.start_ps) ++lane;
      if (lane == ends.size() && lane < kMaxLanes) ends.push_back(0);
      const uint32_t line = lane == ends.size() ? kNoLine
                                                : LineOf(range.owner, lane == 0 ? std::string(kAcrossLine)
                                                                                : StrCat(kAcrossLine, " ", lane + 1));
      if (KeepOn(line, range.event)) ends[lane] = range.event.start_ps + range.event.duration_ps;
    }
    across_ = {};
  }

  // False: there is no such line, and the event is counted as not drawn.
  bool KeepOn(uint32_t line, const Event& event) {
    if (line == kNoLine) {
      ++timeline_.events_over_budget;
      return false;
    }
    Keep(line, event);
    return true;
  }

  // Adds calls to the totals of their operation and of their site, whose index is returned. `owner`: kNoProcess: not
  // shown, so that it has no totals of its own.
  uint32_t Count(const Identity& process, uint32_t owner, uint16_t type, uint64_t address, uint64_t calls,
                 uint64_t ticks, uint64_t longest) {
    const SiteKey key{process, address, type};
    Counted& counted = counted_[(address ^ address >> 8 ^ type ^ uint64_t{process.serial} << 3) % kCountedPlaces];
    if (counted.total == kNoTotal || counted.owner != owner || !(counted.key == key)) {
      counted = {key, owner, owner == kNoProcess ? 0 : TotalId(owner, type), SiteId(key)};
    }
    if (owner != kNoProcess) {
      OperationTotal& total = totals_[counted.total];
      total.calls += calls;
      total.recorded += calls;
      AddTicks(&total.total_ps, ticks);
      total.longest_ps = std::max(total.longest_ps, static_cast<int64_t>(std::min<uint64_t>(longest, INT64_MAX)));
    }
    const uint32_t id = counted.site;
    if (id == 0) return 0;
    Site& site = sites_[id];
    site.calls += calls;
    if (__builtin_add_overflow(site.ticks, ticks, &site.ticks)) site.ticks = UINT64_MAX;
    site.longest = std::max(site.longest, longest);
    return id;
  }

  // Whether the file is of that process' rank, for one that has no place in it.
  bool IsOfRank(const Identity& identity) {
    if (timeline_.rank < 0) return true;
    const int rank = ranks_.OwnRankOf(ImageOf(identity, &facts_)).rank;
    return rank < 0 || rank == timeline_.rank;
  }

  // What the dropped parts held, where the totals are those of the whole run.
  void TakeDroppedTotals() {
    const auto for_each = [&](const auto& rows, const auto& take) {
      for (const auto& row : rows) {
        const Identity identity{row.segment, row.process_serial};
        const auto process = process_index_.find(identity);
        const uint32_t owner = process == process_index_.end() ? kNoProcess : process->second;
        if (owner != kNoProcess || IsOfRank(identity)) take(identity, owner, row);
      }
    };
    // What is in use in any window may have been allocated long before.
    for_each(facts_.gpu_memory, [&](const Identity& identity, uint32_t owner, const GpuMemoryRow& row) {
      gpu_.TakeDroppedMemory(identity, owner, row.memory);
    });
    if (!window_.whole_run) return;
    for_each(facts_.totals, [&](const Identity& identity, uint32_t owner, const TotalRow& row) {
      const uint16_t type = types_.OfOperation(row.segment, row.operation);
      if (type != kNoType) Count(identity, owner, type, row.call_site, row.calls, row.ticks, row.longest);
    });
    for_each(facts_.gpu_totals, [&](const Identity& identity, uint32_t owner, const GpuTotalRow& row) {
      gpu_.TakeTotal(identity, owner, row);
    });
  }

  void TakeTensorMemory(uint32_t thread, uint32_t process, const RecordView& view) {
    TensorMemoryRecord record;
    if (!view.Read(&record) || record.ticks < window_.open || record.ticks >= window_.close) return;
    if (!torch_memory_.Take(process, thread, view)) ++timeline_.corrupt_records;
  }

  // Beyond the bound kernels belong to what launched their graph.
  void TakeGraphNode(uint32_t thread, const RecordView& record) {
    GpuGraphNodeRecord made;
    if (!record.Read(&made) || made.ticks < window_.open || made.ticks >= window_.close) return;
    if (made.node == 0 || timeline_.graph_nodes.size() >= kMostGraphNodes) return;
    timeline_.graph_nodes.push_back({thread, ClampedPs(made.ticks), made.node, made.original});
  }

  void TakeExec(uint32_t segment, uint32_t thread, const RecordView& record) {
    ExecRecord exec;
    if (!record.Read(&exec) || exec.ticks < window_.open || exec.ticks >= window_.close) return;
    uint16_t type = types_.OfOperation(segment, record.tag.aux);
    if (type == kNoType) return;
    Event event;
    event.start_ps = static_cast<int64_t>(exec.ticks);
    event.type = types_.Find(timeline_.types[type].name, EventFamily::kProcess, ObjectKind::kNone, ValueKind::kNone);
    if (event.type == kNoType) return;
    event.detail = timeline_.strings.Intern(record.Text(sizeof(exec), exec.text_length));
    Keep(thread, event);
  }

  uint32_t SiteId(const SiteKey& key) {
    if (sites_.empty()) sites_.emplace_back();
    if (key.address == 0) return 0;
    const auto found = site_ids_.find(key);
    if (found != site_ids_.end()) return found->second;
    if (sites_.size() >= kMaxSites) return 0;
    const auto id = static_cast<uint32_t>(sites_.size());
    site_ids_.emplace(key, id);
    Site site;
    site.process = key.process;
    site.address = key.address;
    site.type = key.type;
    sites_.push_back(site);
    return id;
  }

  // Index of the totals of a process' operation.
  uint32_t TotalId(uint32_t owner, uint16_t type) {
    const auto [known, added] = total_ids_.try_emplace({owner, type}, static_cast<uint32_t>(totals_.size()));
    if (added) totals_.emplace_back().type = type;
    return known->second;
  }

  // Events that the budget may cut: those of the host go first, then calls of CUDA, what ran on devices last.
  enum Cuttable { kHostSpans, kGpuCalls, kGpuWork, kCuttables };
  Cuttable CuttableOf(const Event& event) const {
    return timeline_.types[event.type].value == ValueKind::kCorrelation ? kGpuCalls : kHostSpans;
  }

  // The memory of the timeline is bounded by the same budget: no event counts for less than kBytesPerEvent.
  uint64_t BytesOf(const Event& event) const {
    const double duration_ps = static_cast<double>(event.duration_ps) * ps_per_tick_;
    const EventType& type = timeline_.types[event.type];
    const uint64_t name = IsFrameworkWork(type) ? kTextStatBytes : 0;
    return std::max(kBytesPerEvent, name + EventBytes(type, event, static_cast<uint64_t>(timeline_.duration_ps),
                                                      static_cast<uint64_t>(std::min(duration_ps, 9e18))));
  }

  // Keeps the event if the budget allows its length; when there are too many, the shortest go. Instants have no length
  // to go by: they get half of the budget, first come, first served.
  void Keep(uint32_t thread, const Event& event) {
    if (MayBeStep(event) && step_bytes_ < byte_limit_ / kShareOfSteps) {
      step_bytes_ += BytesOf(event);
      timeline_.threads[thread].events.push_back(event);
      timeline_.threads[thread].events.back().flags |= kNotCut;
      return Trim();
    }
    const bool instant = event.duration_ps == 0;
    const Cuttable kind = CuttableOf(event);
    if (instant ? instants_ >= byte_limit_ / 2
                : !cuts_by_length_[kind].Keeps(static_cast<uint64_t>(event.duration_ps),
                                               static_cast<uint64_t>(event.start_ps))) {
      ++timeline_.events_over_budget;
      RememberCut(&timeline_.threads[thread], event);
      return;
    }
    (instant ? instants_ : kept_[kind]) += BytesOf(event);
    timeline_.threads[thread].events.push_back(event);
    Trim();
  }

  // In ticks, as the event.
  void RememberCut(Thread* thread, const Event& event) {
    const EventType& type = timeline_.types[event.type];
    const bool is_batch = IsIteratorCall(type) || IsNextBatch(type);
    if (!is_batch && !(thread->is_main && IsWait(type.family))) return;
    if (event.duration_ps <= 0 || cut_waits_ >= kMostCutWaits) return;
    ++cut_waits_;
    thread->cut_waits.push_back({event.start_ps, event.duration_ps, event.call_site, event.type});
  }

  uint64_t DeviceBytes() const { return kDeviceEventBytes * gpu_.kept(); }
  bool MayBeStep(const Event& event) const { return event.type < step_types_.size() && step_types_[event.type]; }
  uint64_t Bytes() const { return step_bytes_ + instants_ + kept_[kHostSpans] + kept_[kGpuCalls] + DeviceBytes(); }

  // What of a kind can go; what is left of it is about `most` bytes.
  LengthCut CutTo(Cuttable kind, uint64_t most) const {
    LengthHistogram histogram;
    for (const Thread& thread : timeline_.threads) {
      for (const Event& event : thread.events) {
        if (event.duration_ps <= 0 || CuttableOf(event) != kind || (event.flags & kNotCut) != 0) continue;
        histogram.Add(static_cast<uint64_t>(event.duration_ps), BytesOf(event));
      }
    }
    return histogram.CutTo(most, cuts_by_length_[kind]);
  }

  // Down to three quarters. A kind that is cut keeps its part of the budget at least, so that cutting comes to an end.
  void Trim() {
    if (Bytes() <= byte_limit_) return;
    const uint64_t wanted = byte_limit_ / 4 * 3;
    uint64_t before = UINT64_MAX;
    while (Bytes() > wanted && Bytes() < before) {
      before = Bytes();
      const uint64_t share = byte_limit_ / 8;
      const Cuttable kind = kept_[kHostSpans] > share  ? kHostSpans
                            : kept_[kGpuCalls] > share ? kGpuCalls
                            : gpu_.kept() > 0          ? kGpuWork
                                                       : kHostSpans;
      // What ran on devices goes only where nothing else makes room.
      if (kind == kGpuWork && Bytes() <= byte_limit_ / 16 * 15) return;
      LengthCut& cut = cuts_by_length_[kind];
      const uint64_t kept = kind == kGpuWork ? DeviceBytes() : kept_[kind];
      const uint64_t others = Bytes() - kept;
      const uint64_t most = std::max(wanted > others ? wanted - others : 0, share / 2);
      if (kind == kGpuWork) {
        cut = gpu_.CutTo(most / kDeviceEventBytes);
        continue;
      }
      cut = CutTo(kind, most);
      kept_[kind] = 0;
      for (Thread& owner : timeline_.threads) {
        timeline_.events_over_budget += std::erase_if(owner.events, [&](const Event& old) {
          if (old.duration_ps <= 0 || CuttableOf(old) != kind || (old.flags & kNotCut) != 0) return false;
          if (!cut.Keeps(static_cast<uint64_t>(old.duration_ps), static_cast<uint64_t>(old.start_ps))) {
            RememberCut(&owner, old);
            return true;
          }
          kept_[kind] += BytesOf(old);
          return false;
        });
      }
    }
  }

  // HostLines, for the GPU part.
  uint16_t TypeOf(std::string_view name, ObjectKind object, ValueKind value) override {
    return types_.Find(name, EventFamily::kGpu, object, value);
  }
  void CountCalls(const Identity& process, uint32_t owner, uint16_t type, uint64_t calls, uint64_t ticks,
                  uint64_t longest) override {
    Count(process, owner, type, 0, calls, ticks, longest);
  }
  uint32_t SiteOf(const Identity& process, uint16_t type, uint64_t address) override {
    return SiteId({process, address, type});
  }
  std::string ModuleOf(const Identity& process, uint64_t return_address) override {
    const Module* const module = Modules(process).Find(return_address - 1);
    return module == nullptr ? "" : PrintableUtf8(BaseName(module->path));
  }
  void KeepCall(uint32_t line, const Event& event) override { Keep(line, event); }
  void DeviceEventKept() override { Trim(); }
  int64_t PsOf(uint64_t ticks) const override { return ClampedPs(ticks); }
  uint32_t LineOf(uint32_t owner, const std::string& name) override {
    const auto known = extra_lines_.find({owner, name});
    if (known != extra_lines_.end()) return known->second;
    if (extra_lines_.size() >= kMaxUnknownThreads) return kNoLine;
    const auto index = static_cast<uint32_t>(timeline_.threads.size());
    extra_lines_[{owner, name}] = index;
    Thread& line = timeline_.threads.emplace_back();
    line.process = owner;
    line.line_id = timeline_.threads.size();
    line.name = name;
    line.is_line = true;
    line.start_ps = timeline_.processes[owner].start_ps;
    line.end_ps = timeline_.processes[owner].end_ps;
    return index;
  }
  uint32_t ThreadOf(const Identity&, uint32_t owner, int32_t tid, uint64_t ticks) override {
    const auto known = threads_of_tid_.find({owner, tid});
    if (known == threads_of_tid_.end()) return LineOf(owner, StrCat("thread ", tid));
    // Numbers are used again: the one that was there then, else the latest that had begun.
    const ThreadLife* best = &known->second.front();
    for (const ThreadLife& thread : known->second) {
      if (thread.start <= ticks && ticks <= thread.end) return thread.index;
      if (thread.start <= ticks) best = &thread;
    }
    return best->index;
  }

  // What a thread was blocked in when the window closed or its process died.
  void AddOpenWaits() {
    for (const auto& [identity, index] : thread_index_) {
      const ThreadFacts& facts = facts_.threads[identity];
      const uint64_t since = facts.last.wait_since;
      if (!facts.has_last || since == 0 || since >= window_.close) continue;
      // Left behind by a call that never returned (an exception out of a handler): the thread did other things since.
      if (since < facts.last_ticks && facts.last.wait_resumed == 0) continue;
      const ProcessFacts& process = facts_.processes[{identity.segment, facts.process_serial}];
      uint64_t end = window_.close;
      if (process.end_ticks != 0) end = std::min(end, process.end_ticks);
      if (facts.end_ticks != 0) end = std::min(end, facts.end_ticks);
      const uint64_t start = std::max(since, window_.open);
      const uint16_t type = types_.OfOperation(identity.segment, facts.last.wait_operation);
      if (end <= start || type == kNoType) continue;
      Event event;
      event.start_ps = static_cast<int64_t>(start);
      event.duration_ps = static_cast<int64_t>(end - start);
      event.object = facts.last.wait_object;
      event.type = type;
      event.flags = Event::kClippedAtEnd | Event::kOpen;
      if (since < window_.open) event.flags |= Event::kClippedAtStart;
      const uint64_t counted = end - std::max(since, window_.totals_open);
      event.call_site = Count({identity.segment, facts.process_serial}, timeline_.threads[index].process, type,
                              facts.last.wait_site, 1, counted, counted);
      Keep(index, event);
    }
  }

  // pthread_create to the thread it made, as a flow.
  void LinkThreads() {
    const uint16_t start_type =
        types_.Find("thread start", EventFamily::kThread, ObjectKind::kNone, ValueKind::kFlowIn);
    absl::flat_hash_map<Identity, std::vector<std::pair<uint64_t, uint64_t>>> created;  // creator -> (ticks, flow)
    for (const auto& [identity, index] : thread_index_) {
      const ThreadFacts& facts = facts_.threads[identity];
      if (facts.creator_serial == 0 || facts.created_ticks == 0) continue;
      const uint64_t flow = timeline_.threads[index].line_id;
      created[{identity.segment, facts.creator_serial}].emplace_back(facts.created_ticks, flow);
    }
    for (auto& [creator, children] : created) {
      const auto index = thread_index_.find(creator);
      if (index == thread_index_.end()) continue;
      std::sort(children.begin(), children.end());
      for (Event& event : timeline_.threads[index->second].events) {
        if (timeline_.types[event.type].value != ValueKind::kFlowOut) continue;
        const auto child = std::lower_bound(children.begin(), children.end(),
                                            std::make_pair(static_cast<uint64_t>(event.start_ps), uint64_t{0}));
        if (child == children.end() || child->first != static_cast<uint64_t>(event.start_ps)) continue;
        event.value = static_cast<int64_t>(child->second);
        timeline_.threads[child->second - 1].flow_id = child->second;
      }
    }
    for (Thread& thread : timeline_.threads) {
      if (thread.flow_id == 0) continue;
      for (Event& event : thread.events) {
        if (event.type == start_type) event.value = static_cast<int64_t>(thread.flow_id);
      }
    }
  }

  // Ticks to picoseconds, order, nesting.
  void FinishTimes() {
    for (Thread& thread : timeline_.threads) {
      for (Event& event : thread.events) {
        event.flags &= static_cast<uint16_t>(~kNotCut);
        const auto start = static_cast<uint64_t>(event.start_ps);
        const auto length = static_cast<uint64_t>(event.duration_ps);
        event.start_ps = ClampedPs(start);
        event.duration_ps = length == 0 ? 0 : std::max<int64_t>(ClampedPs(start + length) - event.start_ps, 0);
      }
      for (CutWait& wait : thread.cut_waits) {
        const auto start = static_cast<uint64_t>(wait.start_ps);
        wait.start_ps = ClampedPs(start);
        wait.duration_ps =
            std::max<int64_t>(ClampedPs(start + static_cast<uint64_t>(wait.duration_ps)) - wait.start_ps, 0);
      }
      std::ranges::sort(thread.cut_waits, [](const CutWait& a, const CutWait& b) {
        return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
      });
      // What contains another comes first.
      SortNearlySorted(&thread.events, [](const Event& a, const Event& b) {
        return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
      });
      // The viewer nests by containment: what sticks out of its parent by the clock's jitter is cut to it.
      std::vector<int64_t> ends;
      for (Event& event : thread.events) {
        while (!ends.empty() && ends.back() <= event.start_ps) ends.pop_back();
        if (!ends.empty() && event.start_ps + event.duration_ps > ends.back()) {
          // Ranges of two domains need not nest; what is more than jitter is told.
          if (event.start_ps + event.duration_ps > ends.back() + kJitterPs) event.flags |= Event::kClippedAtEnd;
          event.duration_ps = ends.back() - event.start_ps;
        }
        ends.push_back(event.start_ps + event.duration_ps);
      }
    }
    const auto longest = [&](uint64_t (LengthCut::*length)() const) {
      return facts_.clock.DurationPs(
          std::max((cuts_by_length_[kHostSpans].*length)(), (cuts_by_length_[kGpuCalls].*length)()));
    };
    timeline_.shortest_shown_ps = longest(&LengthCut::shortest);
    timeline_.all_shown_from_ps = longest(&LengthCut::all_from);
    timeline_.shortest_gpu_shown_ps = facts_.clock.DurationPs(cuts_by_length_[kGpuWork].shortest());
    timeline_.all_gpu_shown_from_ps = facts_.clock.DurationPs(cuts_by_length_[kGpuWork].all_from());
  }

  const ModuleMap& Modules(const Identity& identity) {
    auto& map = module_maps_[identity];
    if (map != nullptr) return *map;
    auto made = std::make_unique<ModuleMap>();
    std::vector<const ProcessFacts*> chain;
    Identity at = identity;
    for (int depth = 0; depth < 64; ++depth) {
      const auto found = facts_.processes.find(at);
      if (found == facts_.processes.end()) break;
      chain.push_back(&found->second);
      if (found->second.parent_serial == 0) break;
      at.serial = found->second.parent_serial;
    }
    for (auto facts = chain.rbegin(); facts != chain.rend(); ++facts) {
      for (const Module& module : (*facts)->modules) made->Add(module);
    }
    map = std::move(made);
    return *map;
  }

  StringId NameOf(const Identity& process, uint64_t address, bool is_return_address) {
    return timeline_.strings.Intern(symbolizer_.Find(Modules(process), address, is_return_address).Text());
  }

  void NameSites() {
    std::vector<StringId> names(std::max<size_t>(sites_.size(), 1), 0);
    std::map<std::pair<StringId, uint16_t>, CallSiteTotal> merged;
    for (size_t i = 1; i < sites_.size(); ++i) {
      const Site& site = sites_[i];
      names[i] = NameOf(site.process, site.address, true);
      CallSiteTotal& total = merged[{names[i], site.type}];
      total.site = names[i];
      total.type = site.type;
      total.calls += site.calls;
      AddSaturating(&total.total_ps, facts_.clock.DurationPs(site.ticks));
      total.longest_ps = std::max(total.longest_ps, facts_.clock.DurationPs(site.longest));
    }
    for (Thread& thread : timeline_.threads) {
      for (Event& event : thread.events) {
        // Shapes are there as they are.
        if (IsFrameworkWork(timeline_.types[event.type])) continue;
        event.call_site = event.call_site < names.size() ? names[event.call_site] : 0;
      }
      for (CutWait& wait : thread.cut_waits) wait.call_site = wait.call_site < names.size() ? names[wait.call_site] : 0;
    }
    for (const auto& [key, total] : merged) {
      if (total.calls > 0 && timeline_.types[total.type].family != EventFamily::kMemory) {
        timeline_.wait_sites.push_back(total);
      }
    }
    std::sort(timeline_.wait_sites.begin(), timeline_.wait_sites.end(),
              [](const CallSiteTotal& a, const CallSiteTotal& b) { return a.total_ps > b.total_ps; });
    NameAllocationSites();
  }

  void TakeSample(const Identity& process, const RecordView& record) {
    AllocationSampleRecord sample;
    if (!record.Read(&sample) || sample.ticks < window_.totals_open || sample.ticks >= window_.close) return;
    if (sample.ticks >= window_.open) ++timeline_.records;
    StackSnapshot snapshot;
    snapshot.register_count = kSnapshotRegisters;
    memcpy(snapshot.registers, sample.registers, sizeof(sample.registers));
    snapshot.stack_address = sample.stack_address;
    snapshot.stack = record.bytes + sizeof(sample);
    snapshot.stack_size = std::min<size_t>(sample.stack_bytes, record.size - sizeof(sample));
    std::vector<uint64_t> addresses = unwinder_.Unwind(Modules(process), snapshot, kMaxFrames);
    AllocationSite& site = allocation_sites_[std::make_pair(process, std::move(addresses))];
    ++site.samples;
    site.bytes += static_cast<double>(sample.weight);
    site.call_site = sample.call_site;
  }

  // Whether it is a library of tbprof's: its frames are not the program's.
  static bool IsTbprof(const Module& module) { return BaseName(module.path).starts_with("libtbprof_"); }

  void NameAllocationSites() {
    std::map<std::vector<StringId>, AllocationSiteTotal> merged;
    for (const auto& [key, site] : allocation_sites_) {
      const auto& [process, addresses] = key;
      std::vector<StringId> frames;
      for (const uint64_t address : addresses) {
        // A hook is below what it calls, too: pthread_create's allocates the thread's stack.
        const Module* module = Modules(process).Find(address);
        if (module == nullptr || !IsTbprof(*module)) frames.push_back(NameOf(process, address, true));
      }
      // Nothing to be made of the stack: at least the caller is known.
      if (frames.empty()) frames.push_back(NameOf(process, site.call_site, true));
      AllocationSiteTotal& total = merged[frames];
      total.samples += site.samples;
      total.bytes += site.bytes;
    }
    for (auto& [frames, total] : merged) {
      total.frames = frames;
      timeline_.allocation_sites.push_back(std::move(total));
    }
    std::sort(timeline_.allocation_sites.begin(), timeline_.allocation_sites.end(),
              [](const AllocationSiteTotal& a, const AllocationSiteTotal& b) { return a.bytes > b.bytes; });
    if (timeline_.allocation_sites.size() > kMaxAllocationSites) timeline_.allocation_sites.resize(kMaxAllocationSites);
  }

  void AddExactHeaps() {
    for (auto& [identity, blocks] : heaps_) {
      blocks.Finish();
      const HeapBlocks::Totals& totals = blocks.totals();
      if (totals.allocations == 0 && totals.releases == 0) continue;
      timeline_.records += totals.allocations + totals.releases;
      // exec has taken the fork child's heap away.
      if (IsForkedImage(identity)) continue;
      Process& process = timeline_.processes[process_index_[identity]];
      ExactHeap& heap = process.exact_heap;
      heap.recorded = true;
      heap.lost = LostBlocks(identity, totals);
      heap.allocations = totals.allocations;
      heap.releases = totals.releases;
      heap.earlier = totals.earlier;
      heap.ambiguous = totals.ambiguous;
      heap.not_followed = totals.not_followed;
      heap.temporary = totals.temporary;
      heap.live_blocks = totals.live_blocks;
      heap.live_bytes = totals.live_bytes;
      heap.peak_bytes = totals.peak_bytes;
      heap.peak_ps = totals.peak_bytes > 0 ? ClampedPs(totals.peak_ticks) : 0;
      heap.widest_ps = facts_.clock.DurationPs(totals.widest_ticks);
      std::map<StringId, HeapSite> merged;
      for (const HeapBlocks::Site& site : blocks.sites()) {
        const StringId name = NameOf(identity, site.address, true);
        HeapSite& all = merged[name];
        all.site = name;
        all.calls += site.calls;
        all.bytes += site.bytes;
        all.temporary += site.temporary;
        all.live_blocks += site.live_blocks;
        AddSaturating(&all.live_bytes, site.live_bytes);
        AddSaturating(&all.peak_bytes, site.peak_bytes);
      }
      for (const auto& [name, site] : merged) heap.sites.push_back(site);
      // Peaks of an incomplete table are no order.
      std::sort(heap.sites.begin(), heap.sites.end(), [&](const HeapSite& a, const HeapSite& b) {
        const bool by_peak = heap.lost == 0 && a.peak_bytes != b.peak_bytes;
        return by_peak ? a.peak_bytes > b.peak_bytes : a.bytes > b.bytes;
      });
      if (heap.lost > 0) {
        timeline_.warnings.push_back(StrCat(
            "the table of blocks of ", process.name, " (", process.pid, ") is incomplete: at least ", heap.lost,
            " records of the process are lost; live bytes and peaks by place are unknown, calls and bytes are at "
            "least what is shown (--buffer-size)"));
      }
    }
  }

  // How many records of blocks of a process are missing, at least; 0: none. A table without them is wrong: a block
  // whose release is missing seems to be live.
  uint64_t LostBlocks(const Identity& identity, const HeapBlocks::Totals& totals) const {
    uint64_t lost = 0, counted = 0;
    for (auto at = facts_.threads.lower_bound({identity.segment, 0});
         at != facts_.threads.end() && at->first.segment == identity.segment; ++at) {
      const ThreadFacts& thread = at->second;
      if (thread.process_serial != identity.serial || !thread.has_last) continue;
      for (uint32_t cause = 0; cause < kDropCauses; ++cause)
        lost += Difference(thread.last.dropped[cause], thread.first.dropped[cause]);
      counted += Difference(thread.last.allocations, thread.first.allocations) +
                 Difference(thread.last.frees, thread.first.frees);
    }
    for (const GapFact& gap : facts_.gaps) {
      if (gap.last_ticks >= window_.open && gap.first_ticks <= window_.close) lost += gap.records;
    }
    lost += facts_.missing_parts + (facts_.damaged_bytes > 0 ? 1 : 0);
    // Of a process that was recorded from its first call to its last it is known how many calls there were.
    const uint64_t taken = totals.allocations + totals.releases;
    const bool whole = request_.window == 0 && window_.totals_open == window_.open &&
                       facts_.processes.at(identity).start_ticks >= window_.open;
    return lost > 0 && whole && counted > taken ? counted - taken : lost;
  }

  void TakeAllocatorTotals() {
    absl::flat_hash_map<Identity, int64_t> live;
    const auto difference = [](uint64_t came, uint64_t went) { return static_cast<int64_t>(came - went); };
    for (const auto& [identity, thread] : facts_.threads) {
      const auto process = process_index_.find({identity.segment, thread.process_serial});
      if (process == process_index_.end() || !thread.has_last) continue;
      AllocatorTotals& totals = timeline_.processes[process->second].allocator;
      totals.allocations += Difference(thread.last.allocations, thread.first.allocations);
      totals.frees += Difference(thread.last.frees, thread.first.frees);
      totals.allocated_bytes += Difference(thread.last.allocated_bytes, thread.first.allocated_bytes);
      totals.freed_bytes += Difference(thread.last.freed_bytes, thread.first.freed_bytes);
      AddSaturating(&live[process->first],
                    difference(Difference(thread.last.allocated_bytes, thread.first.allocated_bytes),
                               Difference(thread.last.freed_bytes, thread.first.freed_bytes)));
      for (const auto& [operation, count] : thread.last_counts) {
        const uint16_t type = types_.OfOperation(identity.segment, operation);
        if (type == kNoType) continue;
        CountFact before{};
        const auto first = thread.first_counts.find(operation);
        if (first != thread.first_counts.end()) before = first->second;
        const uint64_t calls = Difference(count.calls, before.calls);
        if (calls == 0) continue;
        OperationTotal& total = totals_[TotalId(process->second, type)];
        total.calls += calls;
        AddTicks(&total.total_ps, Difference(count.ticks, before.ticks));
      }
      for (uint32_t cause = 0; cause < kDropCauses; ++cause)
        drops_[cause] += Difference(thread.last.dropped[cause], thread.first.dropped[cause]);
    }
    std::set<uint32_t> segments;
    for (const auto& [identity, index] : process_index_) {
      const ProcessFacts& facts = facts_.processes[identity];
      AllocatorTotals& totals = timeline_.processes[index].allocator;
      totals.allocations += Difference(facts.last.late_allocations, facts.first.late_allocations);
      totals.frees += Difference(facts.last.late_frees, facts.first.late_frees);
      totals.allocated_bytes += Difference(facts.last.late_allocated_bytes, facts.first.late_allocated_bytes);
      totals.freed_bytes += Difference(facts.last.late_freed_bytes, facts.first.late_freed_bytes);
      if (segments.insert(identity.segment).second) {
        for (uint32_t cause = 0; cause < kDropCauses; ++cause)
          drops_[cause] += Difference(facts.last.dropped[cause], facts.first.dropped[cause]);
      }
    }
    TakeHeapLevels();
  }

  void TakeHeapLevels() {
    // Threads that ended before the window have had their part in what is live in it.
    std::map<Identity, std::pair<int64_t, int64_t>> counted;  // at the window's opening and at its close
    const auto add = [](int64_t* sum, uint64_t allocated, uint64_t freed) {
      AddSaturating(sum, static_cast<int64_t>(allocated - freed));
    };
    for (const auto& [identity, thread] : facts_.threads) {
      auto& [at_open, at_close] = counted[{identity.segment, thread.process_serial}];
      if (thread.has_first) add(&at_open, thread.first.allocated_bytes, thread.first.freed_bytes);
      if (thread.has_last) add(&at_close, thread.last.allocated_bytes, thread.last.freed_bytes);
    }
    const ArmedPeriods periods = AllocatorPeriods(facts_.windows);
    for (const auto& [identity, index] : process_index_) {
      // exec has taken the fork child's heap away.
      if (IsForkedImage(identity)) continue;
      const ProcessFacts& facts = facts_.processes[identity];
      auto [at_open, at_close] = counted[identity];
      add(&at_open, facts.first.late_allocated_bytes, facts.first.late_freed_bytes);
      add(&at_close, facts.last.late_allocated_bytes, facts.last.late_freed_bytes);
      // By a fork it had blocks from its first moment on, and may free them.
      AddSaturating(&at_open, facts.last.inherited_bytes);
      AddSaturating(&at_close, facts.last.inherited_bytes);
      const HeapLevels levels = HeapLevelsOf(
          {facts, ImageOf(identity, &facts_).start_ticks, window_.open, window_.close, at_open, at_close}, periods);
      AllocatorTotals& totals = timeline_.processes[index].allocator;
      totals.is_absolute = levels.absolute;
      totals.begin_bytes = levels.begin_bytes;
      totals.live_bytes = levels.live_bytes;
      totals.window_peak_bytes = levels.window_peak_bytes;
      totals.peak_bytes = levels.peak_bytes;
      heap_levels_[identity] = levels;
    }
  }

  void FinishTorchTotals() {
    for (auto& [owner, totals] : torch_totals_) {
      // Of the dropped parts of a long run no operation is known.
      totals.Finish(facts_.dropped.empty() ? window_.totals_open : window_.open, window_.close);
      TorchSampled& sampled = timeline_.processes[owner].torch;
      sampled.recorded = totals.recorded();
      sampled.skipped = totals.skipped();
      if (!totals.sampled()) continue;
      for (const TorchTotals::Weight& weight : totals.Weights()) {
        sampled.weights.push_back({ClampedPs(weight.ticks), weight.weight, weight.midway});
      }
    }
  }

  void TakeOperationTotals() {
    const auto ticks = [](double estimated) { return static_cast<uint64_t>(std::clamp(estimated, 0.0, 9e18)); };
    for (const auto& [key, id] : total_ids_) {
      OperationTotal& total = totals_[id];
      const auto torch = torch_totals_.find(key.first);
      if (torch != torch_totals_.end() && IsTorchWork(timeline_.types[total.type])) {
        const EstimatedTotal estimated = torch->second.Of(total.type);
        total.self_ps = facts_.clock.DurationPs(ticks(estimated.self_ticks));
        if (torch->second.sampled()) {
          total.estimated = true;
          total.calls = std::max(total.recorded, estimated.calls);
          total.total_ps = static_cast<int64_t>(ticks(estimated.ticks));
        }
      }
      total.total_ps = facts_.clock.DurationPs(static_cast<uint64_t>(total.total_ps));
      total.longest_ps = facts_.clock.DurationPs(static_cast<uint64_t>(total.longest_ps));
      timeline_.processes[key.first].operations.push_back(total);
    }
    for (Process& process : timeline_.processes) {
      std::sort(process.operations.begin(), process.operations.end(),
                // By type where they took equally long: those come here in the order of a hash table.
                [](const OperationTotal& a, const OperationTotal& b) {
                  return a.total_ps != b.total_ps ? a.total_ps > b.total_ps : a.type < b.type;
                });
    }
  }

  // What the launcher's looks have found, of each bucket the highest: a burst must not fall through.
  void AddLooks(const std::vector<CounterFact>& counters, const HeapLevels& levels, CounterTrack* track) {
    const size_t stride = counters.size() / kMaxCounterSamples + 1;
    int64_t highest = 0;
    uint64_t highest_at = 0;
    size_t in_bucket = 0;
    const auto add = [&](uint64_t ticks, int64_t counted) {
      AddSaturating(&counted, levels.shift);
      track->samples.push_back({ClampedPs(ticks), static_cast<double>(std::max<int64_t>(counted, 0))});
    };
    for (const CounterFact& counter : counters) {
      if (in_bucket == 0 || counter.live_bytes > highest) {
        highest = counter.live_bytes;
        highest_at = counter.ticks;
      }
      if (++in_bucket < stride) continue;
      add(highest_at, highest);
      in_bucket = 0;
    }
    if (in_bucket != 0) add(highest_at, highest);
  }

  void AddCounters() {
    if ((families_ & kFamilyMalloc) == 0) return;
    for (const auto& [identity, index] : process_index_) {
      const ProcessFacts& facts = facts_.processes[identity];
      CounterTrack track;
      track.name = "heap live bytes";
      track.series = "bytes";
      track.process = index;
      if (IsForkedImage(identity)) continue;
      const auto exact = heaps_.find(identity);
      // Of a process that was there before the window, what it had then is not known.
      const bool is_known = exact != heaps_.end() && timeline_.processes[index].exact_heap.lost == 0;
      if (is_known && !facts.forked && facts.start_ticks >= window_.open) {
        for (const HeapBlocks::Sample& sample : exact->second.curve()) {
          track.samples.push_back({ClampedPs(sample.ticks), static_cast<double>(sample.bytes)});
        }
      } else {
        const HeapLevels& levels = heap_levels_[identity];
        track.peak_before = static_cast<double>(levels.peak_before_bytes);
        track.lower_bound = !levels.absolute;
        // What was live before the window.
        const AllocatorTotals& totals = timeline_.processes[index].allocator;
        const bool counted = totals.allocations + totals.frees > 0;
        const bool was_there = facts.start_ticks < window_.open && (levels.begin_bytes > 0 || !facts.counters.empty());
        if (was_there) track.samples.push_back({0, static_cast<double>(levels.begin_bytes)});
        AddLooks(LooksInWindow(facts, window_.open, window_.close), levels, &track);
        // No look comes after a process's end, nor in its last moment.
        if (!track.samples.empty() && counted) {
          track.samples.push_back({timeline_.processes[index].end_ps, static_cast<double>(levels.live_bytes)});
        }
      }
      std::stable_sort(track.samples.begin(), track.samples.end(),
                       [](const CounterSample& a, const CounterSample& b) { return a.time_ps < b.time_ps; });
      if (!track.samples.empty()) timeline_.counters.push_back(std::move(track));
    }
  }

  const std::string& StepMarker() const {
    return request_.step_marker.empty() ? session_.step_marker : request_.step_marker;
  }

  void AddSteps() {
    if (timeline_.threads.empty()) return;
    FindNumericLibrary(ProcessOfInterest());
    const std::string& marker = StepMarker();
    MarkedSteps marked = FindMarkedSteps(timeline_, ProcessOfInterest(), marker);
    if (marked.steps.empty()) {
      if (!marker.empty()) {
        timeline_.warnings.push_back(
            StrCat("no steps: no annotation and no kernel matches --step-marker=", ValidUtf8(marker)));
      }
      marked = FindTorchSteps(timeline_, ProcessOfInterest());
    }
    if (marked.steps.empty()) return InferStepsOrNone();
    timeline_.steps = std::move(marked.steps);
    timeline_.step_source = std::move(marked.source);
    timeline_.step_confidence = marked.confidence;
    timeline_.step_loops = std::move(marked.loops);
  }

  void FindNumericLibrary(uint32_t index) {
    for (const auto& [identity, process] : process_index_) {
      if (process != index) continue;
      for (const Module& module : Modules(identity).modules()) {
        timeline_.processes[index].library =
            std::max(timeline_.processes[index].library, NumericLibraryOf(module.path));
      }
    }
  }

  void InferStepsOrNone() {
    // A timeline that was cut to its budget repeats nothing.
    const bool cut = cuts_by_length_[kGpuCalls].cuts() || cuts_by_length_[kGpuWork].cuts() ||
                     (timeline_.gpu_streams.empty() && cuts_by_length_[kHostSpans].cuts());
    if (cut) return AddWholeCaptureAsStep("events were left out to keep within --max-profile-size");
    InferredSteps inferred = InferSteps(timeline_, ProcessOfInterest());
    if (inferred.steps.empty()) return AddWholeCaptureAsStep(std::move(inferred.unknown));
    timeline_.steps = std::move(inferred.steps);
    timeline_.step_source = std::move(inferred.source);
    timeline_.step_confidence = inferred.confidence;
    timeline_.step_loops = std::move(inferred.loops);
  }

  // TensorBoard's pages need a step: the capture as one.
  void AddWholeCaptureAsStep(std::string why_unknown) {
    if (timeline_.threads.empty()) return;
    Step step;
    step.start_ps = 0;
    step.end_ps = timeline_.duration_ps;
    step.number = 0;
    step.name = "steps unknown, whole capture shown as step";
    const uint32_t process = ProcessOfInterest();
    for (uint32_t i = 0; i < timeline_.threads.size(); ++i) {
      if (timeline_.threads[i].is_main && timeline_.threads[i].process == process) {
        step.thread = i;
        break;
      }
    }
    timeline_.steps.push_back(step);
    timeline_.step_source = "synthetic";
    timeline_.steps_unknown = std::move(why_unknown);
    timeline_.step_confidence = 0;
  }

  void AddDiagnostics() {
    static_assert(kProcessSlots == 4096 && kThreadSlots == 4096, "the texts below");
    static constexpr const char* kCauses[kDropCauses] = {
        "no free chunk (the launcher could not keep up)",
        "more than 4096 threads at a time",
        "fork children without a free slot (of 4096; the launcher frees them when children end)",
        "thread past its last destructor",
        "record too long",
        "",
        "",
        "",
    };
    for (uint32_t cause = 0; cause < kDropCauses; ++cause) {
      if (drops_[cause] > 0) timeline_.drops.push_back({kCauses[cause], drops_[cause]});
    }
    if (facts_.lost_records > 0) {
      timeline_.drops.push_back({"unfinished when its thread or process was killed", facts_.lost_records});
    }
    timeline_.corrupt_records += facts_.corrupt_records + facts_.unknown_records;
    std::vector<std::string>& warnings = timeline_.warnings;
    for (const std::string& cut : window_.cuts) warnings.push_back(cut);
    if (facts_.missing_parts > 0) {
      warnings.push_back(StrCat(facts_.missing_parts, " parts of the spool are not there: what they held is missing"));
    }
    if (window_.whole_run && window_.totals_open < window_.open) {
      warnings.push_back(StrCat("totals are of the whole run, the timeline ",
                                facts_.dropped.empty() ? "is" : "and sampled stacks are", " of its end"));
      if (facts_.totals_drops < facts_.dropped_parts) {
        warnings.push_back(StrCat("the calls of ", facts_.dropped_parts - facts_.totals_drops,
                                  " dropped parts of the spool are not in the totals"));
      }
    }
    for (const std::string& note : facts_.notes) warnings.push_back(note);
    // What the launcher noted is in the spool as well when the session has ended.
    for (const std::string& note : request_.warnings) {
      if (std::find(warnings.begin(), warnings.end(), note) == warnings.end()) warnings.push_back(note);
    }
    if (facts_.damaged_bytes > 0) {
      warnings.push_back(StrCat(facts_.damaged_bytes, " bytes of the spool are unreadable and were passed over"));
    }
    if (facts_.clock.breaks() > 0) {
      warnings.push_back(StrCat("the clock was off by more than 1 ms in ", facts_.clock.breaks(),
                                " intervals (suspend or migration?); times there are interpolated"));
    }
    timeline_.complete = facts_.ended || !request_.recovered;
    if (request_.recovered && !facts_.ended) {
      warnings.push_back("recovered: the launcher was killed before the run ended; what came after is missing");
    }
    if (!timeline_.missing_ranks.empty()) {
      warnings.push_back(StrCat("missing ranks: ", RankList(timeline_.missing_ranks), " of ", timeline_.world_size,
                                ": no process of theirs reached tbprof"));
    }
    if (!ranks_.unended().empty() && timeline_.ranks.size() > 1) {
      warnings.push_back(StrCat(
          "ranks that ran on when the command ended: ", RankList({ranks_.unended().begin(), ranks_.unended().end()}),
          "; their files end there"));
    }
    RankChoice choice;
    if (ParseRankChoice(timeline_.ranks_recorded.c_str(), &choice) && choice.kind == RankChoice::kAuto &&
        timeline_.world_size > kManyRanks) {
      warnings.push_back(StrCat(timeline_.world_size,
                                " ranks: only the first of each node is recorded; --ranks=all for "
                                "all, --ranks=every:8 for some"));
    }
    DiagnoseHooks(process_index_, images_, families_, request_.examine, &facts_, &timeline_);
    timeline_.unrecorded = FindUnrecorded(facts_, window_.open, facts_.close_ticks, facts_.ended, request_.examine);
    const std::string unrecorded = UnrecordedText(timeline_.unrecorded);
    if (!unrecorded.empty()) warnings.push_back(unrecorded);
    for (std::string& note : UnseenNotes(facts_, families_)) timeline_.notes.push_back(std::move(note));
    AddAnnotationNotes();
    gpu_.AddDiagnostics(process_index_);
    if (process_index_.empty()) {
      timeline_.errors.push_back(StrCat(
          "no process was recorded: ", facts_.inert.empty() ? "the library was not loaded, or could not reach tbprof"
                                                            : "the library was loaded and had to stay out of the way"));
    } else if (timeline_.records == 0 && request_.window != 0) {
      warnings.push_back("no traced events in this window: threads were computing or not running");
    }
    uint64_t samples = 0;
    for (const auto& [key, site] : allocation_sites_) samples += site.samples;
    timeline_.own_cost_seconds =
        OwnCostNs({facts_, session_, process_index_, window_.open, window_.whole_run, request_.window != 0, samples},
                  timeline_) /
        1e9;
  }

  void AddAnnotationNotes() {
    std::vector<std::string>& warnings = timeline_.warnings;
    if (annotations_->not_followed() > 0) {
      warnings.push_back(
          StrCat(annotations_->not_followed(), " ranges (NVTX) are missing: too many were open at a time"));
    }
    if (names_left_out_ || facts_.annotations.left_out) {
      warnings.push_back(
          StrCat("the names of annotations (NVTX) were too many or too fast to be kept: those without are "
                 "called `",
                 kTooManyNames, "`"));
    }
    if (nameless_ != kNoType && window_.whole_run && !facts_.dropped.empty()) {
      warnings.push_back("annotations (NVTX) are counted in the timeline's part of the run only");
    }
    if (std::string text = SamplingText(timeline_); !text.empty()) timeline_.warnings.push_back(std::move(text));
    if (facts_.coarsest_sampling > 0) {
      timeline_.notes.push_back(StrCat("heap sites: down to one sample per ",
                                       HumanBytes(static_cast<double>(facts_.coarsest_sampling)),
                                       " allocated, to keep raw records under --spool-rate; totals are exact"));
    }
    // Of a window that opens while the program runs, ranges that were open have their ends in it.
    if (annotations_->unmatched() > 0) {
      timeline_.notes.push_back(
          StrCat(annotations_->unmatched(), " ends of ranges (NVTX) have no beginning in what was recorded"));
    }
  }

  struct AllocationSite {
    uint64_t samples = 0;
    double bytes = 0;
    uint64_t call_site = 0;
  };

  const TimelineRequest& request_;
  const ProgressFunction& progress_;
  std::unique_ptr<SpoolReader> reader_;
  SpoolFacts facts_;
  SessionFacts session_;
  CaptureWindow window_;
  Timeline timeline_;
  bool less_than_recorded_ = false;  // what is not of families_ is left out
  uint32_t families_ = 0;
  double ps_per_tick_ = 1000;
  uint64_t next_progress_ = 0;

  std::optional<Annotations> annotations_;
  std::map<uint32_t, TorchTotals> torch_totals_;  // by process
  TorchMemory torch_memory_;
  const Annotations::Consume take_range_ = [this](const Annotations::Range& range) { TakeRange(range); };
  absl::flat_hash_map<std::tuple<uint64_t, ValueKind, RangeOrigin>, uint16_t> range_types_;
  // What the last ranges were, by their names: most are of few.
  static constexpr size_t kNamedPlaces = 1024;
  struct NamedRange {
    uint64_t name = 0;
    uint32_t category = 0;
    uint16_t domain = 0;
    PayloadType payload_type{};
    uint16_t type = kNoType;
  };
  NamedRange named_[kNamedPlaces];
  absl::flat_hash_map<std::tuple<Identity, uint16_t, uint32_t>, StringId> domain_texts_;
  absl::flat_hash_map<uint64_t, StringId> shapes_texts_;  // by the hashes of the texts
  uint16_t nameless_ = kNoType, lost_name_ = kNoType;
  bool names_left_out_ = false;
  // Ranges that may be steps: the budget does not cut these, as far as they are few.
  std::optional<StepNames> step_names_;
  std::vector<bool> step_types_;
  uint64_t step_bytes_ = 0;
  struct Across {
    uint32_t owner;
    Event event;
  };
  std::vector<Across> across_;
  EventTypes types_{&facts_, &timeline_};
  std::string command_name_;
  std::map<Identity, uint32_t> process_index_;
  Ranks ranks_{session_, window_, &facts_, &timeline_};
  ExecImages images_;
  std::map<Identity, uint32_t> main_threads_;  // of fork children before their exec
  std::set<Identity> continued_;               // threads that are on the line of such a one
  absl::flat_hash_map<Identity, uint32_t> thread_index_;
  std::pair<Identity, uint32_t> last_owner_{{}, kNoProcess};
  std::pair<Identity, uint32_t> last_line_{{}, kNoLine};
  std::vector<OperationTotal> totals_;
  absl::flat_hash_map<std::pair<uint32_t, uint16_t>, uint32_t> total_ids_;
  std::vector<Site> sites_;
  absl::flat_hash_map<SiteKey, uint32_t> site_ids_;
  // What the last calls have counted as, by where they came from: most come from few places.
  static constexpr size_t kCountedPlaces = 256;
  static constexpr uint32_t kNoTotal = UINT32_MAX;
  struct Counted {
    SiteKey key{};
    uint32_t owner = 0;
    uint32_t total = kNoTotal;
    uint32_t site = 0;
  };
  Counted counted_[kCountedPlaces];
  std::map<std::pair<Identity, std::vector<uint64_t>>, AllocationSite> allocation_sites_;
  size_t room_for_blocks_ = kMaxBlocks;
  std::map<Identity, HeapBlocks> heaps_;
  std::map<Identity, HeapLevels> heap_levels_;
  std::map<Identity, std::unique_ptr<ModuleMap>> module_maps_;
  Unwinder unwinder_;
  Symbolizer symbolizer_;
  // Bytes in the file.
  uint64_t byte_limit_ = 0;
  uint64_t kept_[kCuttables] = {};  // but kGpuWork
  uint64_t instants_ = 0;
  size_t cut_waits_ = 0;
  LengthCut cuts_by_length_[kCuttables];  // in ticks
  struct ThreadLife {
    uint64_t start, end;
    uint32_t index;
  };
  std::map<std::pair<uint32_t, int32_t>, std::vector<ThreadLife>> threads_of_tid_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> extra_lines_;
  GpuBuilder gpu_;
  uint64_t drops_[kDropCauses] = {};
};

}  // namespace

absl::StatusOr<Timeline> BuildTimeline(const TimelineRequest& request, const ProgressFunction& progress) {
  {
    Builder builder(request, progress);
    absl::StatusOr<Timeline> timeline = builder.Build(/*pass_over=*/true);
    if (!builder.FoundDamage()) return timeline;
  }
  return Builder(request, progress).Build(/*pass_over=*/false);
}

}  // namespace tbprof
