// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/thread_time.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "writer/base/text_match.h"
#include "writer/steps/clock_waits.h"
#include "writer/timeline/python_origin.h"
#include "writer/timeline/wait_sites.h"
#include "writer/verdict/blocked_time.h"

namespace tbprof {
namespace {

constexpr uint64_t kStdout = 1, kStderr = 2;
// asyncio wakes its loop by bytes that it sends to itself, one for each result: a read of so few is of no answer.
constexpr int64_t kMostToWake = 8;
// Longest time from the end of a poll to the call that the poll waited for.
constexpr int64_t kSoonPs = 1'000'000'000;

int ClassOf(const EventType& type) {
  const std::string_view name = type.name;
  const auto is = [](WaitClass kind) { return static_cast<int>(kind); };
  switch (type.family) {
    case EventFamily::kLock:
      return is(name == "pthread_barrier_wait" ? WaitClass::kBarrier : WaitClass::kLock);
    case EventFamily::kThread:
      return is(WaitClass::kLock);
    case EventFamily::kSleep:
      return is(WaitClass::kSleep);
    case EventFamily::kProcess:
      return StartsWithAny(name, {"wait"}) ? is(WaitClass::kChild) : -1;
    case EventFamily::kIo:
      if (ContainsAny(name, {"recv", "send", "connect", "accept"}) && !name.starts_with("sendfile"))
        return is(WaitClass::kSocket);
      if (ContainsAny(name, {"sync"})) return is(WaitClass::kFileSync);
      if (ContainsAny(name, {"poll", "select"})) return is(WaitClass::kPoll);
      return is(ContainsAny(name, {"read"}) ? WaitClass::kFileRead : WaitClass::kFile);
    case EventFamily::kGpu:
      if (name.starts_with("nccl")) return is(WaitClass::kCollective);
      if (IsGpuWait(type)) return is(WaitClass::kGpuWait);
      if (ContainsAny(name, {"Memcpy"}))
        return is(ContainsAny(name, {"Async"}) ? WaitClass::kGpuCopyAsync : WaitClass::kGpuCopy);
      if (ContainsAny(name, {"Launch", "Memset"})) return is(WaitClass::kGpuLaunch);
      if (ContainsAny(name, {"Malloc", "Free", "MemAlloc"})) return is(WaitClass::kGpuMemory);
      return is(WaitClass::kGpuOther);
    case EventFamily::kMemory:
    case EventFamily::kStep:
    case EventFamily::kAnnotation:
    case EventFamily::kOther:
      break;
  }
  return -1;
}

// The class of a read or write call by the kind of its descriptor.
WaitClass ClassOfDescriptor(WaitClass call, BlockedIn descriptor) {
  switch (descriptor) {
    case BlockedIn::kPipe:
      return WaitClass::kPipe;
    case BlockedIn::kSocket:
      return WaitClass::kSocket;
    case BlockedIn::kTerminal:
      return WaitClass::kTerminal;
    case BlockedIn::kOther:
    case BlockedIn::kPageFault:
    case BlockedIn::kFile:
    case BlockedIn::kFutex:
    case BlockedIn::kPoll:
    case BlockedIn::kChild:
    case BlockedIn::kSleep:
    case BlockedIn::kFileLock:
    case BlockedIn::kGil:
    case BlockedIn::kStopped:
      break;
  }
  return call;
}

}  // namespace

std::vector<TimeSpan> SpansOf(const std::vector<WaitSlice>& waits) {
  std::vector<TimeSpan> spans;
  for (const WaitSlice& wait : waits) spans.push_back({wait.start_ps, wait.end_ps});
  return Merged(std::move(spans));
}

WaitClasses::WaitClasses(const Timeline& timeline) : timeline_(timeline) {
  for (const EventType& type : timeline.types) {
    of_type_.push_back(ClassOf(type));
    are_owned_.push_back(StartsWithAny(type.name, {"pthread_mutex_", "pthread_rwlock_", "pthread_spin_"}));
    may_be_owned_.push_back(StartsWithAny(type.name, {"sem_", "futex"}));
    are_accept_.push_back(type.name.starts_with("accept"));
  }
  has_backward_threads_ = std::ranges::any_of(
      timeline.threads, [](const Thread& thread) { return thread.name.starts_with("pt_autograd"); });
  in_group_.resize(timeline.processes.size());
  for (const Thread& thread : timeline.threads) {
    if (StartsWithAny(thread.name, {"gloo_tcp_loop", "pt_gloo_", "pt_nccl_"})) in_group_[thread.process] = true;
  }
  has_peers_ = std::ranges::find(in_group_, true) != in_group_.end() ||
               std::ranges::any_of(timeline.processes, [](const Process& process) { return process.world_size > 1; });
  for (const PythonFunction& function : timeline.python.functions) {
    const std::string_view file = timeline.strings.Get(function.file), name = timeline.strings.Get(function.name);
    are_backward_.push_back(name.ends_with("_engine_run_backward"));
    may_wait_for_group_.push_back(PythonOriginOf(file, name) == PythonOrigin::kProgram ||
                                  (ContainsAny(file, {"/torch/"}) && !ContainsAny(file, {"/torch/distributed/rpc/"})));
  }
}

void WaitClasses::AddPools(std::vector<StringId> call_sites) {
  pools_ = std::move(call_sites);
  std::ranges::sort(pools_);
}

bool WaitClasses::IsInBackward(uint32_t stack) const {
  if (stack >= timeline_.python.stacks.size()) return false;
  const uint32_t function = timeline_.python.stacks[stack].function;
  return function < are_backward_.size() && are_backward_[function];
}

// Work::wait of an asynchronous collective is no Python function, and all conditions of C++ have one call site: those
// of a library with an interface in Python are left out.
bool WaitClasses::IsForGroup(const Event& event, uint32_t process) const {
  if (process >= in_group_.size() || !in_group_[process] || event.python >= timeline_.python.stacks.size())
    return false;
  const uint32_t function = timeline_.python.stacks[event.python].function;
  return function < may_wait_for_group_.size() && may_wait_for_group_[function] &&
         ContainsAny(timeline_.strings.Get(event.call_site), {"libstdc++"});
}

bool WaitClasses::IsForLock(const WaitSlice& wait) const {
  if (IsOwned(wait.type)) return true;
  // Conditions of C++ name the mutex that they release.
  const std::string_view site = timeline_.strings.Get(wait.call_site);
  if (!MayBeOwned(wait.type) || ContainsAny(site, {"ondvar", "ondition"})) return false;
  if (timeline_.types[wait.type].name.starts_with("sem_")) return true;
  return ContainsAny(site, {"lock_contended", "lock_slow", "LockSlow", "Mutex", "mutex", "RwLock"});
}

bool WaitClasses::Classify(const Event& event, WaitClass* kind) const {
  const int found = event.type < of_type_.size() ? of_type_[event.type] : -1;
  if (found < 0 || event.duration_ps <= 0) return false;
  *kind = static_cast<WaitClass>(found);
  if (*kind == WaitClass::kLock) {
    const std::string_view site = timeline_.strings.Get(event.call_site);
    const bool is_condition = MayBeForGil(timeline_.types[event.type]);
    if (is_condition && IsGilSite(site)) *kind = WaitClass::kGil;
    // PyTorch's backward pass runs on its own threads. Its caller waits for them in std::condition_variable. Without a
    // GPU it runs on the caller's thread, which at the end waits for the other ranks' gradients (gloo).
    const bool of_cpp = is_condition && ContainsAny(site, {"libstdc++"});
    if ((of_cpp && has_backward_threads_) || IsInComputing(site) ||
        std::ranges::binary_search(pools_, event.call_site)) {
      *kind = WaitClass::kPool;
    } else if (of_cpp && has_peers_ && IsInBackward(event.python)) {
      *kind = WaitClass::kCollective;
    }
  } else if (*kind == WaitClass::kFile) {
    const bool writes = StartsWithAny(timeline_.types[event.type].name, {"write"});
    if (writes && (event.object == kStdout || event.object == kStderr)) *kind = WaitClass::kTerminal;
  }
  return true;
}

ThreadTime::ThreadTime(const Timeline& timeline, const WaitClasses& classes, uint32_t thread,
                       const std::vector<TimeSpan>& spans) {
  AddWaits(timeline, classes, thread, spans);
  int64_t from = 0;
  size_t wait = 0;
  for (const TimeSpan& span : spans) {
    from = span.start_ps;
    for (; wait < waits_.size() && waits_[wait].start_ps < span.end_ps; ++wait) {
      if (waits_[wait].start_ps > from) gaps_.push_back({from, waits_[wait].start_ps});
      from = std::max(from, waits_[wait].end_ps);
    }
    if (span.end_ps > from) gaps_.push_back({from, span.end_ps});
  }
  gap_ps_ = unsampled_ps_ = LengthOf(gaps_);
  if (const PythonThread* const python = timeline.python.OfThread(thread); python != nullptr) {
    FindRunning(*python);
    AddRunning(*python);
  }
}

// Waits that a thread may make while it computes at the same line (for the GIL, for threads of a library, for a GPU) do
// not count.
bool ThreadTime::IsInLongWait(int64_t at_ps) const {
  constexpr int64_t kLongPs = 2'000'000'000;
  const auto behind =
      std::ranges::partition_point(waits_, [&](const WaitSlice& wait) { return wait.start_ps < at_ps; });
  if (behind == waits_.begin()) return false;
  const WaitSlice& wait = *std::prev(behind);
  const bool is_other = wait.kind == WaitClass::kGil || wait.kind == WaitClass::kPool ||
                        (wait.kind >= WaitClass::kGpuLaunch && wait.kind <= WaitClass::kCollective);
  return !is_other && at_ps < wait.end_ps && wait.end_ps - wait.start_ps >= kLongPs;
}

bool ThreadTime::IsBetweenWaits(int64_t at_ps) const {
  const auto gap = std::ranges::lower_bound(gaps_, at_ps, {}, &TimeSpan::end_ps);
  if (gap != gaps_.end() && gap->start_ps <= at_ps) return true;
  const auto behind =
      std::ranges::partition_point(waits_, [&](const WaitSlice& wait) { return wait.start_ps <= at_ps; });
  return behind != waits_.begin() && at_ps <= std::prev(behind)->end_ps && !IsInLongWait(at_ps);
}

// A sample within a wait does not show what the thread does between that wait and the next: of short steps most samples
// may be such. The nearest sample between waits does. A run of many samples may have some between its waits.
void ThreadTime::FindRunning(const PythonThread& python) {
  constexpr int64_t kFarPs = 1'000'000'000'000;
  constexpr uint32_t kMostSamples = 8;
  const auto count = static_cast<uint32_t>(python.runs.size());
  std::vector<bool> are_between, are_waits;
  for (const PythonRun& run : python.runs) {
    are_between.push_back(IsBetweenWaits(run.first_ps) || IsBetweenWaits(run.last_ps));
    are_waits.push_back(run.samples <= kMostSamples && IsInLongWait(run.first_ps) && IsInLongWait(run.last_ps));
  }
  running_runs_.resize(count);
  uint32_t before = count, behind = count;  // count: none
  std::vector<uint32_t> next(count, count);
  for (uint32_t i = count; i-- > 0;) {
    if (are_between[i]) behind = i;
    next[i] = behind;
  }
  for (uint32_t i = 0; i < count; ++i) {
    running_runs_[i] = i;
    if (are_between[i]) before = i;
    if (!are_waits[i]) continue;
    const int64_t to_before = before < count ? python.runs[i].first_ps - python.runs[before].last_ps : kFarPs;
    const int64_t to_next = next[i] < count ? python.runs[next[i]].first_ps - python.runs[i].last_ps : kFarPs;
    if (std::min(to_before, to_next) < kFarPs) running_runs_[i] = to_before <= to_next ? before : next[i];
  }
}

uint32_t ThreadTime::StackBetweenWaits(const PythonThread& python, int64_t at_ps) const {
  const auto found = std::ranges::upper_bound(python.runs, at_ps, {}, &PythonRun::to_ps);
  if (found == python.runs.end() || found->from_ps > at_ps) return 0;
  const auto run = static_cast<size_t>(found - python.runs.begin());
  return run < running_runs_.size() ? python.runs[running_runs_[run]].stack : 0;
}

void ThreadTime::AddWaits(const Timeline& timeline, const WaitClasses& classes, uint32_t thread,
                          const std::vector<TimeSpan>& spans) {
  const PythonThread* const python = timeline.python.OfThread(thread);
  const DescriptorKinds descriptors(timeline, thread);
  int64_t free_from = INT64_MIN;
  size_t at = 0;
  std::vector<int64_t> results;  // of each wait
  const auto take = [&](const Event& event) {
    WaitClass kind;
    const int64_t end = event.start_ps + event.duration_ps;
    if (!classes.Classify(event, &kind) || end <= free_from) return;
    if (kind == WaitClass::kLock && classes.IsForGroup(event, timeline.threads[thread].process)) {
      kind = WaitClass::kCollective;
    }
    const bool of_file = kind == WaitClass::kFile || kind == WaitClass::kFileRead;
    if (of_file) kind = ClassOfDescriptor(kind, descriptors.Of(event.object));
    const int64_t start = std::max(event.start_ps, free_from);
    free_from = end;
    const uint32_t stack = event.python != 0   ? event.python
                           : python == nullptr ? 0
                                               : python->StackAt(event.start_ps + event.duration_ps / 2);
    ForCommon(spans, &at, start, end, [&](int64_t from, int64_t to) {
      waits_.push_back({from, to, end, kind, stack, event.type, event.call_site, event.object});
      waits_.back().timed_out = kind == WaitClass::kLock && WaitsForAClock(timeline.types[event.type], event);
      results.push_back(event.value);
    });
  };
  ForEachCall(timeline.threads[thread], take);
  // A poll of an event loop that is followed soon by a read from a socket, or by accept, was a wait for that socket,
  // unless the loop was only woken. A poll that found nothing was a sleep, but samples do not show what it found.
  for (size_t i = 0; i < waits_.size(); ++i) {
    if (waits_[i].kind != WaitClass::kPoll) continue;
    waits_[i].is_poll = true;
    if (results[i] == 0 && !timeline.types[waits_[i].type].sampled) {
      waits_[i].kind = WaitClass::kSleep;
      continue;
    }
    if (i + 1 == waits_.size() || waits_[i + 1].start_ps - waits_[i].end_ps >= kSoonPs) continue;
    const WaitSlice& next = waits_[i + 1];
    const bool reads = ContainsAny(timeline.types[next.type].name, {"recv", "read"});
    const bool wakes = results[i + 1] > 0 && results[i + 1] <= kMostToWake;
    const bool accepts = StartsWithAny(timeline.types[next.type].name, {"accept"});
    if (((reads && !wakes) || accepts) && (next.kind == WaitClass::kSocket || next.kind == WaitClass::kPipe)) {
      waits_[i].kind = next.kind;
    }
  }
}

void ThreadTime::AddRunning(const PythonThread& python) {
  size_t at = 0;
  int64_t sampled = 0;
  for (size_t i = 0; i < python.runs.size(); ++i) {
    const PythonRun &run = python.runs[i], &shows = python.runs[running_runs_[i]];
    int64_t common = 0;
    ForCommon(gaps_, &at, run.from_ps, run.to_ps, [&](int64_t from, int64_t to) { common += to - from; });
    if (common == 0 || run.samples == 0 || shows.samples == 0) continue;
    const double on_cpu = static_cast<double>(shows.on_cpu) / shows.samples;
    RunningTime& time = running_[shows.stack];
    const auto on = static_cast<int64_t>(static_cast<double>(common) * on_cpu);
    time.on_cpu_ps += on;
    const double cpu =
        static_cast<double>(shows.cpu_ps) / static_cast<double>(std::max<int64_t>(shows.to_ps - shows.from_ps, 1));
    time.cpu_ps += std::min(on, static_cast<int64_t>(static_cast<double>(common) * cpu));
    time.collecting_ps += static_cast<int64_t>(static_cast<double>(common) * shows.collecting / shows.samples);
    time.off_cpu_ps += common - on;
    sampled += common;
  }
  unsampled_ps_ = gap_ps_ - std::min(gap_ps_, sampled);
}

}  // namespace tbprof
