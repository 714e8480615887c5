// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/input_pipeline.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "writer/convert/input_wait.h"
#include "writer/timeline/file_reads.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

// Enough for the batches of a training of 200,000 steps; 40 bytes each.
constexpr size_t kMostEvents = 250'000;
constexpr std::string_view kWorkerThread = "pt_data_worker";
constexpr std::string_view kWorkersLoader = "_MultiProcessingDataLoaderIter";
// A value of wire's GpuCopyKind.
constexpr uint8_t kHostToDevice = 1;

int64_t EndOf(const Event& event) { return event.start_ps + event.duration_ps; }

bool WaitsForWorkers(const EventType& type) {
  return IsTorchNext(type) && type.name.find(kWorkersLoader) != std::string::npos;
}

// A worker waits for the number of a batch (poll), takes it from a pipe (read, mostly too short for a record), and
// fetches the batch until it waits again.
class Worker {
 public:
  Worker(const Timeline& timeline, const Thread& thread) : timeline_(timeline), files_(timeline, thread.process) {
    int64_t end = 0;
    for (const Event& event : thread.events) {
      if (timeline.types[event.type].family == EventFamily::kAnnotation || event.start_ps < end) continue;
      end = EndOf(event);
      calls_.push_back(&event);
    }
  }

  std::vector<InputEvent> Fetches() const {
    const StringId site = QueueSite();
    std::vector<InputEvent> events;
    std::vector<InputEvent> within;
    int64_t begin = -1;
    const auto finish = [&](int64_t end) {
      if (begin >= 0 && end > begin) {
        events.push_back({begin, end, InputStage::kPrepare});
        events.insert(events.end(), within.begin(), within.end());
      }
      within.clear();
      begin = -1;
    };
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (IsPoll(i) && calls_[i]->call_site == site) {
        finish(calls_[i]->start_ps);
        // After the last poll the worker gets the message to end.
        const bool is_last = i + 1 == calls_.size();
        if (IsReady(i) && !is_last) begin = EndOf(*calls_[IsNumber(i + 1) ? i + 1 : i]);
      } else if (begin >= 0 && files_.IsAccess(*calls_[i]) && calls_[i]->duration_ps > 0 &&
                 calls_[i]->start_ps >= begin) {
        within.push_back({calls_[i]->start_ps, EndOf(*calls_[i]), InputStage::kRead});
      }
    }
    if (!calls_.empty()) finish(EndOf(*calls_.back()));
    return events;
  }

 private:
  const EventType& TypeOf(size_t i) const { return timeline_.types[calls_[i]->type]; }
  bool IsPoll(size_t i) const { return TypeOf(i).name == "poll" || TypeOf(i).name == "ppoll"; }
  bool IsReady(size_t i) const { return (calls_[i]->flags & Event::kFailed) == 0 && calls_[i]->value > 0; }
  bool IsNumber(size_t i) const {
    constexpr int64_t kMostBytes = 4096;
    return TypeOf(i).name == "read" && TypeOf(i).object == ObjectKind::kDescriptor && calls_[i]->value <= kMostBytes;
  }

  // The place where the worker waits for numbers: the call site of most polls that are followed by the read of a
  // number; if equal, the call site of most polls.
  StringId QueueSite() const {
    std::map<StringId, std::pair<size_t, size_t>> sites;
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (!IsPoll(i)) continue;
      auto& [numbers, all] = sites[calls_[i]->call_site];
      ++all;
      if (i + 1 < calls_.size() && IsNumber(i + 1)) ++numbers;
    }
    const auto most =
        std::max_element(sites.begin(), sites.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == sites.end() ? StringId{0} : most->first;
  }

  const Timeline& timeline_;
  const FileReads files_;
  std::vector<const Event*> calls_;  // outermost
};

// The stages of the program's own thread: it gets batches and sends them to a device.
std::vector<InputEvent> OwnEvents(const Timeline& timeline, const Thread& thread) {
  const FileReads files(timeline, thread.process);
  absl::flat_hash_set<uint64_t> copies;
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.process != thread.process) continue;
    for (const GpuEvent& event : stream.events) {
      if (event.kind == GpuEventKind::kCopy && event.copy_kind == kHostToDevice) copies.insert(event.correlation);
    }
  }
  std::vector<InputEvent> events;
  int64_t batch = 0, within = 0;
  bool waits = false;  // workers supply the batch: its reads are of pipes
  for (const Event& event : thread.events) {
    if (event.duration_ps <= 0) continue;
    const EventType& type = timeline.types[event.type];
    if (IsNextBatch(type)) {
      if (event.start_ps < batch) continue;
      batch = EndOf(event);
      waits = WaitsForWorkers(type) || IsDatasetNext(type);
      events.push_back({event.start_ps, batch, waits ? InputStage::kWait : InputStage::kFetch});
    } else if (event.start_ps >= within) {
      const bool copies_to_device = type.value == ValueKind::kCorrelation && event.value > 0 &&
                                    copies.contains(static_cast<uint64_t>(event.value));
      const bool is_read = event.start_ps < batch && !waits && files.IsAccess(event);
      if (!copies_to_device && !is_read) continue;
      within = EndOf(event);
      events.push_back({event.start_ps, within, is_read ? InputStage::kRead : InputStage::kCopy});
    }
  }
  return events;
}

// The events of a thread that pins memory: only the outermost.
std::vector<InputEvent> Pinned(const Timeline& timeline, const Thread& thread) {
  std::vector<InputEvent> events;
  for (const Event& event : thread.events) {
    if (event.duration_ps <= 0 || !IsPinning(timeline.types[event.type])) continue;
    if (!events.empty() && event.start_ps < events.back().end_ps) continue;
    events.push_back({event.start_ps, EndOf(event), InputStage::kPin});
  }
  return events;
}

bool Descends(const Timeline& timeline, uint32_t process, uint32_t from) {
  constexpr int kMostGenerations = 8;
  int at = timeline.processes[process].parent;
  for (int i = 0; i < kMostGenerations && at >= 0 && static_cast<size_t>(at) < timeline.processes.size(); ++i) {
    if (static_cast<uint32_t>(at) == from) return true;
    at = timeline.processes[static_cast<size_t>(at)].parent;
  }
  return false;
}

// The sums of consecutive batches, by stage and by stage nested in another.
struct GroupSums {
  int64_t start = -1;
  int64_t of[kInputStages] = {};
  int64_t within[kInputStages][kInputStages] = {};

  void Write(std::vector<InputEvent>* out) const {
    int64_t at = start;
    for (size_t outer = 0; outer < kInputStages; ++outer) {
      if (of[outer] == 0) continue;
      out->push_back({at, at + of[outer], static_cast<InputStage>(outer)});
      int64_t inner_at = at;
      for (size_t inner = 0; inner < kInputStages; ++inner) {
        if (within[outer][inner] == 0) continue;
        out->push_back({inner_at, inner_at + within[outer][inner], static_cast<InputStage>(inner)});
        inner_at += within[outer][inner];
      }
      at += of[outer];
    }
  }
};

// Replaces each `batches` outermost events by their sums: the page shows the same times, and fewer occurrences. The
// sums fit, because the outermost events are disjoint and those within one are, too.
std::vector<InputEvent> Summed(const std::vector<InputEvent>& events, size_t batches) {
  std::vector<InputEvent> out;
  GroupSums group;
  size_t count = 0, outer = 0;
  int64_t end = 0, inner_end = 0;
  for (const InputEvent& event : events) {
    const auto stage = static_cast<size_t>(event.stage);
    if (event.start_ps >= end) {
      if (count == batches) {
        group.Write(&out);
        group = {};
        count = 0;
      }
      if (count++ == 0) group.start = event.start_ps;
      outer = stage;
      end = inner_end = event.end_ps;
      group.of[stage] += event.end_ps - event.start_ps;
      inner_end = event.start_ps;
    } else if (event.start_ps >= inner_end) {
      inner_end = std::min(event.end_ps, end);
      group.within[outer][stage] += inner_end - event.start_ps;
    }
  }
  if (count > 0) group.Write(&out);
  return out;
}

size_t Count(const std::vector<InputLine>& lines) {
  size_t count = 0;
  for (const InputLine& line : lines) count += line.events.size();
  return count;
}

void Bound(std::vector<InputLine>* lines) {
  if (Count(*lines) <= kMostEvents) return;
  const std::vector<InputLine> all = std::move(*lines);
  size_t batches = 1;
  do {
    lines->clear();
    for (const InputLine& line : all) lines->push_back({line.name, Summed(line.events, batches), batches});
    batches *= 2;
  } while (Count(*lines) > kMostEvents && batches < all.size() + Count(all));
}

}  // namespace

InputThreads InputThreadsOf(const Timeline& timeline, uint32_t process) {
  InputThreads threads;
  if (LoaderOf(timeline).empty()) return threads;
  size_t most = 0;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& thread = timeline.threads[i];
    if (thread.process != process) continue;
    size_t batches = 0;
    bool pins = false;
    for (const Event& event : thread.events) {
      batches += IsNextBatch(timeline.types[event.type]);
      pins |= event.duration_ps > 0 && IsPinning(timeline.types[event.type]);
    }
    if (pins && !thread.is_main) threads.pinning.push_back(i);
    if (batches <= most) continue;
    most = batches;
    threads.loader = static_cast<int>(i);
  }
  std::erase_if(threads.pinning,
                [&](uint32_t i) { return threads.loader < 0 || static_cast<int>(i) == threads.loader; });
  return threads;
}

std::vector<InputLine> InputLines(const Timeline& timeline, uint32_t process) {
  std::vector<InputLine> lines;
  const InputThreads threads = InputThreadsOf(timeline, process);
  if (threads.loader < 0) {
    std::vector<InputEvent> batches;
    for (const StepWait& wait : BatchesOfFunctions(timeline, process)) {
      batches.push_back({wait.start_ps, wait.end_ps, InputStage::kWait});
    }
    if (!batches.empty()) lines.push_back({"input (summary)", std::move(batches)});
    Bound(&lines);
    return lines;
  }
  const Thread& loader = timeline.threads[static_cast<size_t>(threads.loader)];
  lines.push_back({"input (summary)", OwnEvents(timeline, loader)});
  bool has_workers = false;
  for (const Event& event : loader.events) has_workers |= WaitsForWorkers(timeline.types[event.type]);
  std::vector<std::vector<InputEvent>> workers;
  for (const Thread& thread : timeline.threads) {
    if (thread.process == process || !thread.is_main || thread.process >= timeline.processes.size()) continue;
    const Process& of = timeline.processes[thread.process];
    // A worker, or the child of a server that creates workers (spawn, forkserver).
    const bool named = thread.name.starts_with(kWorkerThread) && Descends(timeline, thread.process, process);
    if (!has_workers || !(named || (of.forked && of.parent == static_cast<int>(process)))) continue;
    std::vector<InputEvent> fetches = Worker(timeline, thread).Fetches();
    if (!fetches.empty()) workers.push_back(std::move(fetches));
  }
  std::stable_sort(workers.begin(), workers.end(),
                   [](const std::vector<InputEvent>& a, const std::vector<InputEvent>& b) {
                     return a.front().start_ps < b.front().start_ps;
                   });
  std::vector<int64_t> ends;
  for (std::vector<InputEvent>& fetches : workers) {
    int64_t end = 0;
    for (const InputEvent& event : fetches) end = std::max(end, event.end_ps);
    const auto free =
        std::find_if(ends.begin(), ends.end(), [&](int64_t at) { return at <= fetches.front().start_ps; });
    if (free == ends.end()) {
      lines.push_back({absl::StrFormat("loader %02d input (summary)", ends.size()), std::move(fetches)});
      ends.push_back(end);
    } else {
      std::vector<InputEvent>& events = lines[static_cast<size_t>(free - ends.begin()) + 1].events;
      events.insert(events.end(), fetches.begin(), fetches.end());
      *free = end;
    }
  }
  for (size_t i = 0; i < threads.pinning.size(); ++i) {
    lines.push_back({absl::StrFormat("pin memory %02d input (summary)", i),
                     Pinned(timeline, timeline.threads[threads.pinning[i]])});
  }
  Bound(&lines);
  return lines;
}

}  // namespace tbprof
