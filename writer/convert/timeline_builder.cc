// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/timeline_builder.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "wire/python_current.h"
#include "writer/base/arguments.h"
#include "writer/base/text.h"
#include "writer/convert/allocation_sites.h"
#include "writer/convert/annotation_lines.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/conservation.h"
#include "writer/convert/core_stacks.h"
#include "writer/convert/cpu_delay.h"
#include "writer/convert/derived_events.h"
#include "writer/convert/driver_memory.h"
#include "writer/convert/failed_processes.h"
#include "writer/convert/gil_holders.h"
#include "writer/convert/gpu_builder.h"
#include "writer/convert/gpu_call_stacks.h"
#include "writer/convert/gpu_in_steps.h"
#include "writer/convert/heap_totals.h"
#include "writer/convert/host_parts.h"
#include "writer/convert/native_samples.h"
#include "writer/convert/native_spans.h"
#include "writer/convert/notebook_names.h"
#include "writer/convert/own_cost.h"
#include "writer/convert/process_memory.h"
#include "writer/convert/profile_warnings.h"
#include "writer/convert/python_exact.h"
#include "writer/convert/python_samples.h"
#include "writer/convert/python_stacks.h"
#include "writer/convert/rank_report.h"
#include "writer/convert/ranks.h"
#include "writer/convert/resident_memory.h"
#include "writer/convert/sample_cpu.h"
#include "writer/convert/sampled_heap.h"
#include "writer/convert/sampled_waits.h"
#include "writer/convert/session_facts.h"
#include "writer/convert/step_amounts.h"
#include "writer/convert/step_choice.h"
#include "writer/convert/thread_blocked.h"
#include "writer/convert/thread_usage.h"
#include "writer/convert/torch_memory.h"
#include "writer/convert/torch_operations.h"
#include "writer/spool/record_view.h"
#include "writer/spool/spool_facts.h"
#include "writer/steps/step_evidence.h"
#include "writer/timeline/event_size.h"
#include "writer/verdict/step_change.h"
#include "writer/verdict/verdict.h"

namespace tbprof {
namespace {

constexpr size_t kMostGraphNodes = 1u << 20;
constexpr uint64_t kProgressBytes = 16u << 20;

// A chunk, with the indices of its thread and process in the timeline.
struct Place {
  uint32_t segment;
  Identity thread, process;
  uint32_t line, owner;  // kNoLine, kNoProcess: not shown
};

class Builder {
 public:
  Builder(const TimelineRequest& request, const ProgressFunction& progress) : request_(request), progress_(progress) {}

  // `pass_over`: as in ReadSpoolFacts.
  absl::StatusOr<Timeline> Build(bool pass_over) {
    if (absl::Status status = ReadFacts(pass_over); !status.ok()) return status;
    model_.AddProcesses(request_.rank, &ranks_);
    model_.AddThreads(&events_);
    timeline_.failed_processes = FindFailedProcesses(window_, &facts_);
    // Threads of a process that tbprof attached to had begun before.
    if (!session_.attached) AddThreadStarts(facts_, window_, host_);
    AddUnrecordedCommand(facts_, window_, CommandName(), request_.warnings, host_, &timeline_);
    if (absl::Status status = ReadRecords(); !status.ok()) return status;
    annotations_->Finish();
    AddDroppedTotals();
    AddOpenWaits(facts_, window_, host_, timeline_);
    gpu_.Finish();
    LinkThreads(facts_, host_, &timeline_);
    gpu_.FinishTimes();
    gpu_call_stacks_.Finish(&events_, &timeline_);
    timeline_.expected_bytes = events_.Bytes();
    AddSampled();
    events_.Finish(totals_.NameSites(&python_exact_));
    timeline_.expected_bytes += CutSpansAtWaits(&timeline_, BytesLeft());
    MeasureCpuOfSamples(&timeline_);
    python_exact_.Finish();
    allocation_sites_.Finish(&timeline_);
    heap_.AddAllocatorTotals(&types_, &totals_);
    heap_.AddExactHeaps(/*is_own_window=*/request_.window == 0);
    totals_.Finish(window_);
    if ((families_ & kFamilyMalloc) != 0) heap_.AddCounters();
    conservation_.Finish({request_.window == 0, HasBlocks(), allocation_sites_.samples()}, &timeline_);
    AddSteps();
    // Behind the steps, which need exact times.
    // Where recording begins with the program, no call began before it.
    if (session_.attached || (timeline_.window != "auto" && timeline_.window != "all"))
      timeline_.expected_bytes += AddSampledWaits(BytesLeft(), &types_, &timeline_);
    AddCpuDelayTrack(&timeline_);
    AddMemory();
    AddProfileWarnings({request_, window_, model_, ranks_, families_}, &*annotations_, &gpu_, &facts_, &timeline_);
    if (!events_.CutsGpu() || timeline_.steps_in_detail) MeasureGpuInSteps(&timeline_);
    AddOwnCost();
    SortGraphNodes();
    NameOfOperations();
    AddDeviceMemory();
    MeasureStepAmounts(&timeline_, /*own_window=*/request_.window == 0);
    timeline_.step_change = FindStepChange(timeline_);
    timeline_.verdict = MakeVerdict(timeline_);
    FillRankReport(&timeline_);
    return std::move(timeline_);
  }

  // Whether the chunks had damage that the first pass did not find.
  bool FoundDamage() const { return reader_ != nullptr && reader_->damaged_bytes() > facts_.damaged_bytes; }

 private:
  // The first pass: the facts about processes, threads and windows.
  absl::Status ReadFacts(bool pass_over) {
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
    NameNotebookCells(session_.command, &facts_);
    window_ = FindCaptureWindow(session_, request_, &facts_, &timeline_);
    BeginEvents();
    return absl::OkStatus();
  }

  // If events must be cut, those around the middle stay, where the program is neither starting nor ending.
  void BeginEvents() {
    constexpr double kMiddle = 2.0 / 3;
    const uint64_t close = std::min(window_.close, facts_.last_ticks);
    events_.Begin(MostEvents(request_.max_profile_size) * kBytesPerEvent, window_.open, close,
                  facts_.over_time.TimeOf(kMiddle, window_.open, close));
  }

  void TakeSession() {
    timeline_.host = !request_.host.empty() ? request_.host : session_.host;
    timeline_.run = session_.run;
    timeline_.machine = {session_.cpu_model, session_.kernel, session_.cpus, session_.memory_bytes,
                         static_cast<int64_t>(session_.page_cost_ns * 1000)};
    timeline_.ranks_recorded = session_.ranks;
    families_ = session_.families;
    // Other windows that were open at the same time may have requested more families.
    less_than_recorded_ = facts_.window_found && (families_ & ~facts_.families) != 0;
    if (facts_.window_found) families_ &= facts_.families;
    timeline_.counts_allocator = (families_ & kFamilyMalloc) != 0;
    constexpr uint32_t kFamiliesOfWaits = kFamilyLock | kFamilySleep | kFamilyIo | kFamilyProcess | kFamilyAnnotation;
    timeline_.waits_recorded = (families_ & kFamiliesOfWaits) == kFamiliesOfWaits;
    timeline_.attached = session_.attached;
    facts_.only_command = session_.only_command;
    timeline_.command_line = CommandLine(session_.command);
  }

  std::string CommandName() const {
    return session_.command.empty() ? "command" : std::string(BaseName(session_.command[0]));
  }
  const std::string& StepMarker() const {
    return request_.step_marker.empty() ? session_.step_marker : request_.step_marker;
  }

  void Progress(uint64_t position, uint64_t base) {
    if (position < next_progress_) return;
    next_progress_ = position + kProgressBytes;
    progress_(base + position, 2 * reader_->size());
  }

  // The second pass: every record of the chunks.
  absl::Status ReadRecords() {
    if (absl::Status status = reader_->Rewind(); !status.ok()) return status;
    annotations_.emplace(StepMarker(), &window_, &facts_, host_, &timeline_);
    next_progress_ = 0;
    Frame frame;
    while (reader_->Next(&frame)) {
      Progress(reader_->position(), reader_->size());
      ChunkFact chunk{};
      if (frame.type == FrameType::kChunk && frame.Read(&chunk)) ReadChunk(frame, chunk);
      python_.Take(frame);
      if (frame.type == FrameType::kNativeSamples) native_.Take(frame);
      usage_.Take(frame);
      blocked_.Take(frame);
      holders_.Take(frame);
      resident_.Take(frame);
    }
    return absl::OkStatus();
  }

  void ReadChunk(const Frame& frame, ChunkFact chunk) {
    Place place{frame.segment, {frame.segment, chunk.thread_serial}, {frame.segment, chunk.process_serial}, 0, 0};
    place.line = model_.IndexOfThread(place.thread);
    uint64_t read = 0;
    place.owner = model_.IndexOfProcess(place.process);
    if (HasBlocks() && place.owner != kNoProcess) heap_.TakeBlocks(frame, chunk, place.process);
    uint64_t ignored = 0, records = 0;
    if (place.line == kNoLine || place.owner == kNoProcess) {
      // The process or thread ended before the timeline begins, or the thread belongs to the library.
      const bool counts = window_.whole_run && (place.owner != kNoProcess || IsOfRank(place.process));
      const bool passed = !counts && place.owner == kNoProcess;
      ForEachRecord(frame, &chunk, &ignored, [&](const RecordView& record) {
        read += IsLayout(record) ? 0 : 1;
        const ConservedKind kind = conservation_.Take(frame.segment, record);
        const bool wanted = !less_than_recorded_ || IsWanted(frame.segment, record);
        if ((passed || !wanted || !IsFollowed(kind)) && !IsOnlyRead(kind)) {
          conservation_.Count(kind, wanted ? ConservedCause::kNotShown : ConservedCause::kNotWanted);
        }
        if (!passed && wanted) TakeUnshown(place, counts, record, kind);
      });
      conservation_.TakeChunk(place.thread, read);
      return;
    }
    ForEachRecord(frame, &chunk, &ignored, [&](const RecordView& record) {
      read += IsLayout(record) ? 0 : 1;
      const ConservedKind kind = conservation_.Take(frame.segment, record);
      if (less_than_recorded_ && !IsWanted(frame.segment, record)) {
        if (!IsOnlyRead(kind)) conservation_.Count(kind, ConservedCause::kNotWanted);
        return;
      }
      TakeShown(place, record, kind);
      if (!IsLayout(record)) ++records;
    });
    conservation_.TakeChunk(place.thread, read);
    timeline_.processes[place.owner].records += records;
  }

  // --malloc=exact: each chunk is first read for blocks, and for the Python stacks among them.
  bool HasBlocks() const { return session_.malloc_stamp_every > 0; }

  static bool IsLayout(const RecordView& record) { return ClassOf(record.tag.kind) == RecordClass::kLayout; }

  // Whether a record of this kind is counted where it is taken, even without a line for its thread or process.
  static bool IsFollowed(ConservedKind kind) {
    return kind == ConservedKind::kAnnotation || kind == ConservedKind::kTorch || IsGpu(kind);
  }
  static bool IsGpu(ConservedKind kind) {
    return kind == ConservedKind::kGpuCall || kind == ConservedKind::kGpuKernel || kind == ConservedKind::kGpuCopy;
  }
  static bool IsOnlyRead(ConservedKind kind) {
    return kind == ConservedKind::kBlock || kind == ConservedKind::kPythonStack || kind == ConservedKind::kTensorMemory;
  }

  // A record of a GPU that becomes no event is outside the window, has no usable time, or is corrupt.
  void TakeGpu(const Place& place, const RecordView& record, ConservedKind kind) {
    const uint64_t kept = timeline_.records, corrupt = timeline_.corrupt_records;
    gpu_.Take(place.process, place.owner, record);
    if (!IsGpu(kind) || timeline_.records != kept) return;
    conservation_.Count(kind, timeline_.corrupt_records != corrupt ? ConservedCause::kCorrupt
                              : place.owner == kNoProcess          ? ConservedCause::kNotShown
                                                                   : ConservedCause::kUntimed);
  }

  void TakeAnnotation(const Place& place, const RecordView& record, ConservedKind kind) {
    if (annotations_->Take(place.thread, place.process, record)) return;
    ++timeline_.corrupt_records;
    conservation_.Count(kind, ConservedCause::kCorrupt);
  }

  void TakeShown(const Place& place, const RecordView& record, ConservedKind kind) {
    switch (record.tag.kind) {
      case RecordKind::kSpan:
      case RecordKind::kCompactSpan:
        return TakeSpan(place, record, kind);
      case RecordKind::kAllocationSample:
        return TakeSample(place, record);
      case RecordKind::kSampledFree:
        return TakeSampledFree(place, record);
      case RecordKind::kAnnotation:
        return TakeAnnotation(place, record, kind);
      case RecordKind::kTensorMemory:
        return TakeTensorMemory(place, record);
      case RecordKind::kGpuGraphNode:
        return TakeGraphNode(place, record);
      case RecordKind::kExec:
        return TakeExec(place, record);
      case RecordKind::kPythonStack:
        return TakePythonStack(place, record);
      default:
        if (GpuBuilder::IsGpu(record.tag.kind)) TakeGpu(place, record, kind);
    }
  }

  void TakePythonStack(const Place& place, const RecordView& record) {
    if (!HasBlocks()) python_exact_.Take(place.process, place.thread, record);
    PythonStackRecord stack;
    if (!record.Read(&stack) || (stack.flags & kPythonStackCall) == 0) return;
    if (stack.ticks < window_.open || stack.ticks >= window_.close) return;
    gpu_call_stacks_.Take(place.line, stack.ticks, python_exact_.ReferenceTo(place.thread, stack.number));
  }

  // `counts`: the record is in the totals, though no event of it is shown.
  void TakeUnshown(const Place& place, bool counts, const RecordView& record, ConservedKind kind) {
    if (GpuBuilder::IsGpu(record.tag.kind)) return TakeGpu(place, record, kind);
    // A thread that is shown may end the range.
    if (record.tag.kind == RecordKind::kAnnotation) return TakeAnnotation(place, record, kind);
    SpanRecord span;
    if (!counts || !record.ReadSpan(&span) || span.start + span.ticks < span.start) return;
    const uint16_t type = types_.OfOperation(place.segment, record.tag.aux);
    if (type == kNoType || span.start >= window_.close) return;
    totals_.Count(place.process, place.owner, type, span.call_site, {.ticks = span.ticks, .longest = span.ticks});
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
      case RecordKind::kSampledFree:
        return (families_ & kFamilyMalloc) != 0;
      case RecordKind::kAnnotation:
      case RecordKind::kTensorMemory:
        return (families_ & kFamilyAnnotation) != 0;
      default:
        return (!GpuBuilder::IsGpu(record.tag.kind) && record.tag.kind != RecordKind::kGpuGraphNode) ||
               (families_ & kFamilyGpu) != 0;
    }
  }

  // Whether a process without a place in the file belongs to the rank of the file.
  bool IsOfRank(const Identity& identity) {
    if (timeline_.rank < 0) return true;
    const int rank = ranks_.OwnRankOf(ImageOf(identity, &facts_)).rank;
    return rank < 0 || rank == timeline_.rank;
  }

  void TakeSpan(const Place& place, const RecordView& record, ConservedKind kind) {
    SpanRecord span;
    if (!record.ReadSpan(&span)) return conservation_.Count(kind, ConservedCause::kCorrupt);
    const uint16_t type = types_.OfOperation(place.segment, record.tag.aux);
    const uint64_t end = span.start + span.ticks;
    if (type == kNoType || end < span.start || IsFarBehind(span.start, facts_.last_ticks)) {
      ++timeline_.corrupt_records;
      return conservation_.Count(kind, ConservedCause::kCorrupt);
    }
    if (end <= window_.totals_open || span.start >= window_.close) {
      return conservation_.Count(kind, ConservedCause::kOutsideWindow);
    }
    const uint64_t ticks = std::min(end, window_.close) - std::max(span.start, window_.totals_open);
    RawEvent event;
    event.python = python_exact_.ReferenceTo(place.thread, span.python_stack);
    event.site = totals_.Count(place.process, place.owner, type, span.call_site, {.ticks = ticks, .longest = ticks},
                               python_exact_.PlaceOf(event.python));
    if (end <= window_.open) return conservation_.Count(kind, ConservedCause::kOutsideWindow);
    ++timeline_.records;
    ClipTo(window_.open, window_.close, span.start, end, &event);
    event.object = span.object;
    event.value = timeline_.types[type].value == ValueKind::kFlowOut ? 0 : span.result;
    event.type = type;
    event.error = (record.tag.flags & kRecordFailed) != 0 ? span.error : 0;
    if (event.error != 0) event.flags |= Event::kFailed;
    if (event.error == EAGAIN && timeline_.types[type].value == ValueKind::kFlowOut) ++timeline_.refused_threads;
    events_.Keep(place.line, event);
  }

  void TakeSample(const Place& place, const RecordView& record) {
    AllocationSampleRecord sample;
    if (!record.Read(&sample) || sample.ticks < window_.totals_open || sample.ticks >= window_.close) {
      return conservation_.Count(ConservedKind::kSample, ConservedCause::kOutsideWindow);
    }
    if (sample.ticks >= window_.open) ++timeline_.records;
    const uint32_t site = allocation_sites_.Add(place.process, sample, record,
                                                python_exact_.ReferenceTo(place.thread, sample.python_stack));
    sampled_heap_.TakeSample(place.process, sample, site);
  }

  void TakeSampledFree(const Place& place, const RecordView& record) {
    SampledFreeRecord freed;
    if (!record.Read(&freed) || freed.ticks < window_.totals_open || freed.ticks >= window_.close) return;
    sampled_heap_.TakeFree(place.process, record.tag.flags, freed);
  }

  bool IsInWindow(uint64_t ticks) const { return ticks >= window_.open && ticks < window_.close; }

  void TakeTensorMemory(const Place& place, const RecordView& record) {
    TensorMemoryRecord memory;
    if (!record.Read(&memory) || !IsInWindow(memory.ticks)) return;
    if (!torch_memory_.Take(place.owner, place.line, record)) ++timeline_.corrupt_records;
  }

  // Beyond the limit, kernels are assigned to the call that launched their graph.
  void TakeGraphNode(const Place& place, const RecordView& record) {
    GpuGraphNodeRecord made;
    if (!record.Read(&made) || !IsInWindow(made.ticks)) return;
    if (made.node == 0 || timeline_.graph_nodes.size() >= kMostGraphNodes) return;
    timeline_.graph_nodes.push_back({place.line, PsInWindow(facts_, timeline_, made.ticks), made.node, made.original});
  }

  void TakeExec(const Place& place, const RecordView& record) {
    ExecRecord exec;
    const auto leave_out = [&](ConservedCause cause) { conservation_.Count(ConservedKind::kProcess, cause); };
    if (!record.Read(&exec) || !IsInWindow(exec.ticks)) return leave_out(ConservedCause::kOutsideWindow);
    const uint16_t type = types_.OfOperation(place.segment, record.tag.aux);
    if (type == kNoType) return leave_out(ConservedCause::kCorrupt);
    RawEvent event;
    event.start = exec.ticks;
    event.type = types_.Find(timeline_.types[type].name, EventFamily::kProcess, ObjectKind::kNone, ValueKind::kNone);
    if (event.type == kNoType) return leave_out(ConservedCause::kTooMany);
    event.detail = timeline_.strings.Intern(record.Text(sizeof(exec), exec.text_length));
    events_.Keep(place.line, event);
  }

  // Adds the totals of dropped parts, if the totals cover the whole run.
  void AddDroppedTotals() {
    const auto for_each = [&](const auto& rows, const auto& take) {
      for (const auto& row : rows) {
        const Identity identity{row.segment, row.process_serial};
        const uint32_t owner = model_.IndexOfProcess(identity);
        if (owner != kNoProcess || IsOfRank(identity)) take(identity, owner, row);
      }
    };
    // Memory that is in use in a window may have been allocated long before it.
    for_each(facts_.gpu_memory, [&](const Identity& identity, uint32_t owner, const GpuMemoryRow& row) {
      gpu_.TakeDroppedMemory(identity, owner, row.memory);
    });
    if (!window_.whole_run) return;
    for_each(facts_.totals, [&](const Identity& identity, uint32_t owner, const TotalRow& row) {
      const uint16_t type = types_.OfOperation(row.segment, row.operation);
      if (type != kNoType) totals_.Count(identity, owner, type, row.call_site, {row.calls, row.ticks, row.longest});
    });
    for_each(facts_.gpu_totals, [&](const Identity& identity, uint32_t owner, const GpuTotalRow& row) {
      gpu_.TakeTotal(identity, owner, row);
    });
  }

  // Of the budget.
  uint64_t BytesLeft() const {
    const uint64_t most = MostEvents(request_.max_profile_size) * kBytesPerEvent;
    return most - std::min(most, timeline_.expected_bytes);
  }

  // Samples get the bytes that exact events left of the budget, and at least a small part of it: exact events are never
  // removed for samples.
  void AddSampled() {
    constexpr uint64_t kLeastShare = 16, kLeastShareOfGil = 64;
    const uint64_t most = MostEvents(request_.max_profile_size) * kBytesPerEvent;
    const uint64_t left = BytesLeft();
    // Before python_.Finish: exact stacks replace the last samples.
    AddCores(window_, facts_, {&python_stacks_, native_.stacks(), &modules_}, &model_, &timeline_);
    const uint64_t gil = holders_.Finish(most / kLeastShareOfGil);
    const uint64_t python = python_.Finish(std::max(left, most / kLeastShare));
    AddCoreNotes(&timeline_);
    const uint64_t native = native_.Finish(std::max(left - std::min(left, python), most / kLeastShare));
    timeline_.expected_bytes += gil + python + native;
    usage_.Finish();
    blocked_.Finish();
    if (session_.attached) CountBlockedAsOffCpu(&timeline_);
  }

  void AddSteps() {
    if (timeline_.threads.empty()) return;
    const uint32_t process = model_.ProcessOfInterest(gpu_.device_ps());
    for (const auto& [identity, index] : model_.processes()) {
      if (index != process) continue;
      NumericLibrary& library = timeline_.processes[index].library;
      for (const Module& module : modules_.Of(identity).modules()) {
        library = std::max(library, NumericLibraryOf(module.path));
      }
    }
    const bool cut = events_.CutsGpu() || (timeline_.gpu_streams.empty() && events_.CutsHost());
    ChooseSteps({process, StepMarker(), cut}, &timeline_);
  }

  void AddMemory() {
    resident_.Finish();
    if ((families_ & kFamilyMalloc) == 0 && !session_.attached) return;
    sampled_heap_.Finish();
    ProcessMemories({window_, model_, facts_, modules_, python_exact_, heap_, allocation_sites_, sampled_heap_},
                    &timeline_)
        .Add();
  }

  void AddDeviceMemory() {
    std::vector<DeviceMemory>& devices = timeline_.device_memory;
    timeline_.tensor_memory = torch_memory_.Finish(
        timeline_, [this](uint64_t ticks) { return PsInWindow(facts_, timeline_, ticks); }, &devices);
    AddDriverMemory(timeline_, &devices);
    for (DeviceMemory& device : devices) {
      for (HeldBytes& row : device.at_peak) {
        if (row.python_stack != 0) row.python = python_exact_.LabelOf(python_exact_.PlaceOf(row.python_stack));
      }
    }
    std::ranges::stable_sort(devices, std::ranges::greater(), &DeviceMemory::peak_bytes);
  }

  void AddOwnCost() {
    timeline_.own_cost_seconds = OwnCostNs({facts_, session_, model_.processes(), window_.open, window_.whole_run,
                                            request_.window != 0, allocation_sites_.samples()},
                                           timeline_) /
                                 1e9;
    SetObservingCosts(session_, &timeline_);
  }

  void SortGraphNodes() {
    std::stable_sort(timeline_.graph_nodes.begin(), timeline_.graph_nodes.end(),
                     [](const GraphNode& a, const GraphNode& b) {
                       return a.thread != b.thread ? a.thread < b.thread : a.at_ps < b.at_ps;
                     });
  }

  // The expected size includes the name of an operation for all of PyTorch's work; nested work has none.
  void NameOfOperations() {
    const uint64_t without = kTextStatBytes * NameOperations(&timeline_).nested;
    timeline_.expected_bytes -= std::min(timeline_.expected_bytes, without);
  }

  const TimelineRequest& request_;
  const ProgressFunction& progress_;
  std::unique_ptr<SpoolReader> reader_;
  uint64_t next_progress_ = 0;
  SpoolFacts facts_;
  SessionFacts session_;
  CaptureWindow window_;
  Timeline timeline_;
  uint32_t families_ = 0;            // families that are shown
  bool less_than_recorded_ = false;  // records of other families are left out

  Ranks ranks_{session_, window_, &facts_, &timeline_};
  EventTypes types_{&facts_, &timeline_};
  ProcessModel model_{&window_, &facts_, &timeline_};
  ProcessModules modules_{&facts_, &timeline_.strings};
  CallTotals totals_{&facts_, &modules_, &timeline_};
  Conservation conservation_{&facts_};
  HostEvents events_{&facts_, &conservation_, &timeline_};
  const HostParts host_{&types_, &model_, &modules_, &totals_, &events_, &conservation_};
  GpuBuilder gpu_{&window_, &facts_, host_, &timeline_};
  PythonStacks python_stacks_{&timeline_};
  PythonExact python_exact_{&facts_, &python_stacks_, &timeline_};
  GpuCallStacks gpu_call_stacks_{&facts_};
  HeapTotals heap_{&window_, &model_, &modules_, &facts_, &timeline_, &python_exact_};
  AllocationSites allocation_sites_{&modules_, &python_exact_};
  SampledHeap sampled_heap_{&facts_};
  TorchMemory torch_memory_;
  PythonSamples python_{&window_, &facts_, &model_, &python_stacks_, &conservation_, &timeline_};
  NativeSamples native_{&window_, &facts_, &model_, &modules_, &conservation_, &timeline_};
  UsageLines usage_{&window_, &facts_, &model_, &timeline_};
  BlockedLines blocked_{&window_, &facts_, &model_, &modules_, &timeline_};
  GilHolders holders_{&window_, &facts_, &model_, &python_stacks_, &timeline_};
  ResidentLines resident_{&window_, &facts_, &model_, &timeline_};
  std::optional<AnnotationLines> annotations_;  // from the second pass on
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
