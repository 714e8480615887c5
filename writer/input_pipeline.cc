// SPDX-License-Identifier: Apache-2.0
#include "writer/input_pipeline.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "writer/torch_names.h"

namespace tbprof {
namespace {

constexpr size_t kMostEvents = 50'000;
constexpr std::string_view kTorchLoader = "DataLoader";
constexpr std::string_view kWorkerThread = "pt_data_worker";
constexpr std::string_view kWorkersLoader = "_MultiProcessingDataLoaderIter";
// wire's GpuCopyKind
constexpr uint8_t kHostToDevice = 1;

int64_t EndOf(const Event& event) { return event.start_ps + event.duration_ps; }

bool IsTorchNext(const EventType& type) {
  return type.family == EventFamily::kAnnotation && IsLoaderNext(type.origin, type.name);
}

bool IsNext(const EventType& type) {
  return IsTorchNext(type) || (type.family == EventFamily::kAnnotation && IsDatasetNext(type));
}

bool WaitsForWorkers(const EventType& type) {
  return IsTorchNext(type) && type.name.find(kWorkersLoader) != std::string::npos;
}

// Calls that get data, by their names.
std::vector<bool> Reads(const Timeline& timeline) {
  static constexpr std::string_view kBeginnings[] = {"read",  "pread", "recv",  "open",
                                                     "fread", "fopen", "lseek", "stat"};
  std::vector<bool> reads;
  for (const EventType& type : timeline.types) {
    reads.push_back(type.family == EventFamily::kIo &&
                    std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                                [&](std::string_view beginning) { return type.name.starts_with(beginning); }));
  }
  return reads;
}

// A worker waits for the number of a batch (poll), takes it from a pipe (read, mostly too short for a record), and
// fetches the batch until it waits again.
class Worker {
 public:
  Worker(const Timeline& timeline, const Thread& thread, const std::vector<bool>& reads)
      : timeline_(timeline), reads_(reads) {
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
        // Behind the last it is told to end.
        const bool is_last = i + 1 == calls_.size();
        if (IsReady(i) && !is_last) begin = EndOf(*calls_[IsNumber(i + 1) ? i + 1 : i]);
      } else if (begin >= 0 && reads_[calls_[i]->type] && calls_[i]->duration_ps > 0 && calls_[i]->start_ps >= begin) {
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

  // Where it waits for numbers: the place of most of the polls behind which one is read, or of most of all.
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
  const std::vector<bool>& reads_;
  std::vector<const Event*> calls_;  // outermost
};

// What the program's own thread does: gets batches, and sends them to a device.
std::vector<InputEvent> OwnEvents(const Timeline& timeline, const Thread& thread, const std::vector<bool>& reads) {
  absl::flat_hash_set<uint64_t> copies;
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.process != thread.process) continue;
    for (const GpuEvent& event : stream.events) {
      if (event.kind == GpuEventKind::kCopy && event.copy_kind == kHostToDevice) copies.insert(event.correlation);
    }
  }
  std::vector<InputEvent> events;
  int64_t batch = 0, within = 0;
  for (const Event& event : thread.events) {
    if (event.duration_ps <= 0) continue;
    const EventType& type = timeline.types[event.type];
    if (IsNext(type)) {
      if (event.start_ps < batch) continue;
      batch = EndOf(event);
      const bool waits = WaitsForWorkers(type) || IsDatasetNext(type);
      events.push_back({event.start_ps, batch, waits ? InputStage::kWait : InputStage::kFetch});
    } else if (event.start_ps >= within) {
      const bool copies_to_device = type.value == ValueKind::kCorrelation && event.value > 0 &&
                                    copies.contains(static_cast<uint64_t>(event.value));
      const bool is_read = event.start_ps < batch && reads[event.type];
      if (!copies_to_device && !is_read) continue;
      within = EndOf(event);
      events.push_back({event.start_ps, within, is_read ? InputStage::kRead : InputStage::kCopy});
    }
  }
  return events;
}

// Of a thread that pins memory: the outermost only.
std::vector<InputEvent> Pinned(const Timeline& timeline, const Thread& thread) {
  std::vector<InputEvent> events;
  for (const Event& event : thread.events) {
    if (event.duration_ps <= 0 || !IsPinning(timeline.types[event.type])) continue;
    if (!events.empty() && event.start_ps < events.back().end_ps) continue;
    events.push_back({event.start_ps, EndOf(event), InputStage::kPin});
  }
  return events;
}

bool IsFine(const InputEvent& event) { return event.stage == InputStage::kRead || event.stage == InputStage::kCopy; }

bool Descends(const Timeline& timeline, uint32_t process, uint32_t from) {
  constexpr int kMostGenerations = 8;
  int at = timeline.processes[process].parent;
  for (int i = 0; i < kMostGenerations && at >= 0 && static_cast<size_t>(at) < timeline.processes.size(); ++i) {
    if (static_cast<uint32_t>(at) == from) return true;
    at = timeline.processes[static_cast<size_t>(at)].parent;
  }
  return false;
}

// Of those that are fine, or of the others, so many of the shortest go.
void DropShortest(bool fine, size_t surplus, std::vector<InputLine>* lines) {
  std::vector<int64_t> lengths;
  for (const InputLine& line : *lines) {
    for (const InputEvent& event : line.events) {
      if (IsFine(event) == fine) lengths.push_back(event.end_ps - event.start_ps);
    }
  }
  surplus = std::min(surplus, lengths.size());
  if (surplus == 0) return;
  const auto longest = lengths.begin() + static_cast<ptrdiff_t>(surplus - 1);
  std::nth_element(lengths.begin(), longest, lengths.end());
  const int64_t border = *longest;
  // Many are equally long where a clock is coarse.
  auto of_the_border = static_cast<int64_t>(surplus) -
                       std::count_if(lengths.begin(), longest, [&](int64_t length) { return length < border; });
  for (InputLine& line : *lines) {
    std::erase_if(line.events, [&](const InputEvent& event) {
      const int64_t length = event.end_ps - event.start_ps;
      return IsFine(event) == fine && (length < border || (length == border && of_the_border-- > 0));
    });
  }
}

void Bound(std::vector<InputLine>* lines) {
  for (const bool fine : {true, false}) {
    size_t count = 0;
    for (const InputLine& line : *lines) count += line.events.size();
    if (count > kMostEvents) DropShortest(fine, count - kMostEvents, lines);
  }
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
      batches += IsNext(timeline.types[event.type]);
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

std::vector<InputEvent> InputWaits(const Timeline& timeline, uint32_t thread) {
  std::vector<InputEvent> waits;
  for (const Event& event : timeline.threads[thread].events) {
    if (event.duration_ps <= 0 || !IsNext(timeline.types[event.type])) continue;
    if (!waits.empty() && event.start_ps < waits.back().end_ps) continue;
    waits.push_back({event.start_ps, EndOf(event), InputStage::kWait});
  }
  return waits;
}

std::string_view LoaderOf(const Timeline& timeline) {
  if (std::any_of(timeline.types.begin(), timeline.types.end(), IsTorchNext)) return kTorchLoader;
  return std::any_of(timeline.types.begin(), timeline.types.end(), IsNext) ? "tf.data" : "";
}

double InputShare(const Timeline& timeline) {
  const std::string_view loader = LoaderOf(timeline);
  if (loader.empty()) return -1;
  std::map<uint32_t, std::vector<InputEvent>> waits;
  int64_t whole = 0, waited = 0;
  size_t steps = 0, with_wait = 0;
  bool any = false;
  for (const Step& step : timeline.steps) {
    if (!step.is_regular || step.thread >= timeline.threads.size() || timeline.step_source == "synthetic") continue;
    const auto [of_thread, added] = waits.try_emplace(step.thread);
    if (added) of_thread->second = InputWaits(timeline, step.thread);
    any |= !of_thread->second.empty();
    whole += step.end_ps - step.start_ps;
    auto wait = std::lower_bound(of_thread->second.begin(), of_thread->second.end(), step.start_ps,
                                 [](const InputEvent& event, int64_t start) { return event.end_ps <= start; });
    ++steps;
    with_wait += wait != of_thread->second.end() && wait->start_ps < step.end_ps;
    for (; wait != of_thread->second.end() && wait->start_ps < step.end_ps; ++wait) {
      waited += std::min(wait->end_ps, step.end_ps) - std::max(wait->start_ps, step.start_ps);
    }
  }
  // Keras gets its batches within its function: what a program asks for itself is not its input.
  if (loader != kTorchLoader && with_wait * 2 < steps) return -1;
  return any && whole > 0 ? static_cast<double>(waited) / static_cast<double>(whole) : -1;
}

std::vector<InputLine> InputLines(const Timeline& timeline, uint32_t process) {
  std::vector<InputLine> lines;
  const InputThreads threads = InputThreadsOf(timeline, process);
  if (threads.loader < 0) return lines;
  const std::vector<bool> reads = Reads(timeline);
  const Thread& loader = timeline.threads[static_cast<size_t>(threads.loader)];
  lines.push_back({"input (summary)", OwnEvents(timeline, loader, reads)});
  bool has_workers = false;
  for (const Event& event : loader.events) has_workers |= WaitsForWorkers(timeline.types[event.type]);
  std::vector<std::vector<InputEvent>> workers;
  for (const Thread& thread : timeline.threads) {
    if (thread.process == process || !thread.is_main || thread.process >= timeline.processes.size()) continue;
    const Process& of = timeline.processes[thread.process];
    // A worker, or the child of a server that makes them (spawn, forkserver).
    const bool named = thread.name.starts_with(kWorkerThread) && Descends(timeline, thread.process, process);
    if (!has_workers || !(named || (of.forked && of.parent == static_cast<int>(process)))) continue;
    std::vector<InputEvent> fetches = Worker(timeline, thread, reads).Fetches();
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
