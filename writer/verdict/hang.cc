// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/hang.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "writer/base/saturating.h"
#include "writer/base/summary_format.h"
#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/steps/clock_waits.h"
#include "writer/timeline/python_place.h"
#include "writer/verdict/blocked_time.h"
#include "writer/verdict/blockers.h"
#include "writer/verdict/gpu_time.h"

namespace tbprof {
namespace {

constexpr int64_t kSecondPs = 1'000'000'000'000;
// Least length of a capture.
constexpr int64_t kShortestPs = kSecondPs;
// Least length of what is judged at the end of a run: kLongPs, or kShortestEndPs and this share of the run.
constexpr int64_t kShortestEndPs = 3 * kSecondPs, kLongPs = 10 * kSecondPs;
constexpr double kLeastShareOfRun = 0.25;
// Most CPU time of the judged process and of all others, as a share of the time: an idle interpreter wakes up now and
// then, and who starts ranks checks them.
constexpr double kHardlyRan = 0.005, kOthersHardlyRan = 0.04;
// Least share of the time that a thread spends in one call or at one place, and largest share that may follow it.
constexpr double kInOneCall = 0.9, kMostBehind = 0.02;
// Between two such calls a loader checks that its workers are alive, and takes the GIL.
constexpr int64_t kBriefPs = kSecondPs / 1000;
// Ctrl-C wakes a program that then prints where it was.
constexpr int64_t kLastWordsPs = 2 * kSecondPs;
constexpr size_t kMostGroups = 8;
// Number of processes, and of threads, that ended before and are named.
constexpr size_t kMostFailed = 3;
// An end that may be on purpose (an exit status, SIGTERM) is no reason for a hang that begins later than this.
constexpr int64_t kShortlyPs = 10 * kSecondPs;
// The run is divided into so many parts to find from when on nothing ran.
constexpr size_t kCells = 4096;

bool IsCrash(int signal) {
  return signal == SIGKILL || signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGILL ||
         signal == SIGFPE || signal == SIGXCPU || signal == SIGSYS;
}

// The last processes that failed before nothing ran any more. Those that crashed come before others: who sees that ends
// the rest of the job by SIGTERM.
std::vector<FailedProcess> FailedBefore(const Timeline& timeline, const TimeSpan& span) {
  // A failure wakes up whoever waits for its end, and its end is noticed a little later.
  const int64_t to_ps = span.start_ps + kSecondPs;
  std::vector<FailedProcess> failed;
  for (const FailedProcess& one : timeline.failed_processes) {
    const bool may_be_why = IsCrash(one.exit_signal) || one.end_ps >= span.start_ps - kShortlyPs;
    if (one.end_ps <= to_ps && may_be_why) failed.push_back(one);
  }
  if (failed.size() <= kMostFailed) return failed;
  const auto is_crash = [](const FailedProcess& one) { return one.out_of_memory || IsCrash(one.exit_signal); };
  std::stable_partition(failed.begin(), failed.end(), [&](const FailedProcess& one) { return !is_crash(one); });
  failed.erase(failed.begin(), failed.end() - kMostFailed);
  std::ranges::stable_sort(failed, {}, &FailedProcess::end_ps);
  return failed;
}

// `3.1 s before`, of what ended at `end_ps`. In a capture it is not known when the hang began.
std::string Before(int64_t end_ps, const TimeSpan& span, bool of_capture) {
  if (end_ps > span.start_ps) return of_capture ? "in the capture" : "about then";
  int64_t before_ps = span.start_ps;
  AddSaturating(&before_ps, end_ps == INT64_MIN ? INT64_MAX : -end_ps);
  return StrCat(before_ps < kSecondPs ? "right" : HumanTime(before_ps), " before", of_capture ? " the capture" : "");
}

std::string NameOf(const Thread& thread) {
  if (thread.is_main) return "main thread";
  return StrCat("thread ", thread.name.empty() ? StrCat(thread.tid) : PrintableUtf8(thread.name));
}

// Threads of the process that ran Python and ended shortly before nothing ran any more, as by an exception. Empty if
// they are many: a pool was shut down.
std::vector<std::string> ThreadsEnded(const Timeline& timeline, uint32_t process, const TimeSpan& span,
                                      bool of_capture) {
  std::vector<std::string> texts;
  for (const PythonThread& python : timeline.python.threads) {
    const Thread& thread = timeline.threads[python.thread];
    const bool is_other = thread.process == process && !thread.is_main && !python.runs.empty();
    if (!is_other || thread.end_ps < span.start_ps - kShortlyPs || thread.end_ps > span.start_ps + kSecondPs) continue;
    texts.push_back(StrCat(NameOf(thread), " ended ", Before(thread.end_ps, span, of_capture)));
  }
  if (texts.size() > kMostFailed) texts.clear();
  return texts;
}

// What ended before nothing ran any more, and may be why.
std::vector<std::string> EndedBefore(const Timeline& timeline, uint32_t process, const TimeSpan& span,
                                     bool of_capture) {
  std::vector<std::string> texts;
  for (const FailedProcess& failed : FailedBefore(timeline, span)) {
    texts.push_back(StrCat(PrintableUtf8(failed.name), "/", failed.pid, " ended ",
                           Before(failed.end_ps, span, of_capture), ": ", failed.how));
  }
  for (std::string& text : ThreadsEnded(timeline, process, span, of_capture)) texts.push_back(std::move(text));
  return texts;
}

bool IsAlive(const Timeline& timeline, const Process& process, const TimeSpan& span) {
  const int64_t end_ps = process.end_ps > 0 ? process.end_ps : timeline.duration_ps;
  return !process.replaced && process.start_ps < span.end_ps && end_ps > (span.start_ps + span.end_ps) / 2;
}

// CPU time by parts of the run.
struct CpuCells {
  std::vector<double> judged = std::vector<double>(kCells), others = std::vector<double>(kCells);
  bool known = false;
};
CpuCells CellsOf(const Timeline& timeline, uint32_t judged) {
  CpuCells all;
  const double cell_ps = static_cast<double>(timeline.duration_ps) / kCells;
  const auto cell_at = [&](int64_t ps) {
    return static_cast<size_t>(std::clamp(static_cast<double>(ps) / cell_ps, 0.0, kCells - 1.0));
  };
  for (const ThreadUsage& usage : timeline.usage) {
    const bool is_judged = timeline.threads[usage.thread].process == judged;
    all.known |= is_judged && !usage.points.empty();  // there is one for each change
    for (size_t i = 1; i < usage.points.size(); ++i) {
      const UsagePoint &from = usage.points[i - 1], &to = usage.points[i];
      const size_t first = cell_at(from.at_ps), last = std::max(first, cell_at(to.at_ps));
      const double each =
          (static_cast<double>(to.cpu_ps) - static_cast<double>(from.cpu_ps)) / static_cast<double>(last - first + 1);
      for (size_t cell = first; cell <= last; ++cell) (is_judged ? all.judged : all.others)[cell] += each;
    }
  }
  // In a window in which nothing changes there may be none, but samples show that the process was looked at.
  all.known |= std::ranges::any_of(timeline.python.threads, [&](const PythonThread& python) {
    return timeline.threads[python.thread].process == judged && !python.runs.empty();
  });
  return all;
}

// The longest time up to `end_ps` in which nothing ran. Empty: there is none, or it is not known.
std::optional<TimeSpan> IdleBefore(const Timeline& timeline, uint32_t judged, int64_t end_ps) {
  const CpuCells cells = CellsOf(timeline, judged);
  if (!cells.known) return std::nullopt;
  const double cell_ps = static_cast<double>(timeline.duration_ps) / kCells;
  const size_t end = std::min(kCells, static_cast<size_t>(static_cast<double>(end_ps) / cell_ps));
  double of_judged = std::accumulate(cells.judged.begin(), cells.judged.begin() + static_cast<ptrdiff_t>(end), 0.0);
  double of_others = std::accumulate(cells.others.begin(), cells.others.begin() + static_cast<ptrdiff_t>(end), 0.0);
  for (size_t first = 0; first < end; ++first) {
    const TimeSpan span = {static_cast<int64_t>(static_cast<double>(first) * cell_ps), end_ps};
    const auto length = static_cast<double>(span.end_ps - span.start_ps);
    if (of_judged <= kHardlyRan * length && of_others <= kOthersHardlyRan * length) return span;
    of_judged -= cells.judged[first];
    of_others -= cells.others[first];
  }
  return std::nullopt;
}

// A call in which a thread is for nearly all of the time.
struct LongCall {
  const Event* event = nullptr;  // null: a place of Python without a recorded call
  uint32_t stack = 0;
  int64_t start_ps = 0;  // of the first of the calls that time out; of a place, of the time looked at
};

// Whether a thread makes progress: several of its calls end, and not by their timeouts.
bool MakesProgress(const Timeline& timeline, const WaitClasses& classes, uint32_t number, const TimeSpan& span) {
  constexpr size_t kMost = 5;
  size_t ended = 0;
  for (const Event& event : timeline.threads[number].events) {
    WaitClass kind;
    const bool within = event.start_ps >= span.start_ps && event.start_ps + event.duration_ps <= span.end_ps;
    const bool ends = within && (event.flags & Event::kClippedAtEnd) == 0;
    if (!ends || !classes.Classify(event, &kind) || kind == WaitClass::kGil) continue;
    ended += WaitsForAClock(timeline.types[event.type], event) ? 0 : 1;
  }
  return ended > kMost;
}

std::optional<LongCall> CallOf(const Timeline& timeline, const WaitClasses& classes, uint32_t number,
                               const TimeSpan& span) {
  const auto length = static_cast<double>(span.end_ps - span.start_ps);
  const int64_t last_ps = span.end_ps - static_cast<int64_t>(kMostBehind * length);
  const auto common = [&](int64_t from, int64_t to) {
    return std::max<int64_t>(std::min(to, span.end_ps) - std::max(from, span.start_ps), 0);
  };
  // A call that ends by its timeout and begins again is one.
  int64_t ps = 0, start_ps = 0;
  uint32_t stack = 0;
  const Event* call = nullptr;
  for (const Event& event : timeline.threads[number].events) {
    WaitClass kind;
    const int64_t end_ps = event.start_ps + event.duration_ps, of_event = common(event.start_ps, end_ps);
    if (of_event < kBriefPs || !classes.Classify(event, &kind)) continue;
    // The stack of a call that has not returned is not always known.
    const bool is_place = stack == event.python || stack == 0 || event.python == 0;
    const bool is_same = call != nullptr && call->type == event.type && call->call_site == event.call_site && is_place;
    if (!is_same || ps == 0) {
      ps = 0;
      stack = 0;
      start_ps = event.start_ps;
    }
    AddSaturating(&ps, of_event);
    if (event.python != 0) stack = event.python;
    call = &event;
    if (end_ps >= last_ps) break;
    if (!WaitsForAClock(timeline.types[event.type], event)) ps = 0;
  }
  const bool lasts = call != nullptr && call->start_ps + call->duration_ps >= last_ps;
  const PythonThread* const python = timeline.python.OfThread(number);
  if (lasts && static_cast<double>(ps) >= kInOneCall * length) {
    const bool is_sampled = stack == 0 && python != nullptr;
    return LongCall{call, is_sampled ? python->StackAt(std::midpoint(span.start_ps, span.end_ps)) : stack, start_ps};
  }
  std::map<uint32_t, int64_t> stacks;
  for (size_t i = 0; python != nullptr && i < python->runs.size(); ++i) {
    AddSaturating(&stacks[python->runs[i].stack], common(python->runs[i].from_ps, python->runs[i].to_ps));
  }
  for (const auto& [place, of_place] : stacks) {
    if (place != 0 && static_cast<double>(of_place) >= kInOneCall * length) {
      return LongCall{nullptr, place, span.start_ps};
    }
  }
  return std::nullopt;
}

// `, held by thread saver`, by the last sample of the call that shows it; empty: not known.
std::string HolderOf(const Timeline& timeline, uint32_t thread, const Event& call) {
  const ThreadBlocked* const blocked = timeline.BlockedOfThread(thread);
  if (blocked == nullptr) return "";
  const Thread* holder = nullptr;
  for (const BlockedRun& run : blocked->runs) {
    const bool within = run.first_ps >= call.start_ps && run.first_ps <= call.start_ps + call.duration_ps;
    if (within && run.holder < timeline.threads.size()) holder = &timeline.threads[run.holder];
  }
  return holder == nullptr ? "" : StrCat(", held by ", NameOf(*holder));
}

// The innermost line of the program's own code, then the one of a library that it led to.
std::string PlaceOf(const Timeline& timeline, const PythonTags& tags, const LongCall& call) {
  const std::vector<PythonStack>& stacks = timeline.python.stacks;
  if (call.stack != 0 && call.stack < stacks.size()) {
    const uint32_t own = tags.OwnFrameOf(call.stack);
    const bool is_library = own != call.stack && tags.HasOwnFrame(call.stack);
    return StrCat(is_library ? StrCat(PythonFrameText(timeline, stacks[own]), " > ") : "",
                  PythonFrameText(timeline, stacks[call.stack]));
  }
  return call.event == nullptr ? "" : PrintableUtf8(ShortSite(timeline.strings.Get(call.event->call_site)));
}

struct Group {
  std::string name, rest;
  size_t alike = 0;
};

class Writer {
 public:
  Writer(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, const TimeSpan& span)
      : timeline_(timeline), tags_(tags), classes_(classes), span_(span), threads_of_(timeline.processes.size()) {
    for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
      if (!timeline.threads[i].is_line) threads_of_[timeline.threads[i].process].push_back(i);
    }
  }

  // Returns false if one of its threads makes progress.
  bool AddProcess(uint32_t process, bool is_judged) {
    std::vector<uint32_t> order = threads_of_[process];
    bool has_python = false;
    for (const uint32_t i : order) {
      const PythonThread* const python = timeline_.python.OfThread(i);
      has_python |= python != nullptr && !python->runs.empty();
    }
    // Threads that run Python, or have a name, are more useful than those of a library.
    std::ranges::stable_sort(order, {}, [&](uint32_t i) {
      const Thread& one = timeline_.threads[i];
      return std::tuple(!one.is_main, timeline_.python.OfThread(i) == nullptr, one.name.empty());
    });
    const Process& of = timeline_.processes[process];
    const std::string prefix =
        is_judged ? "" : StrCat(PrintableUtf8(of.name.empty() ? of.executable : of.name), "/", of.pid, ", ");
    for (const uint32_t i : order) {
      const std::optional<LongCall> call = CallOf(timeline_, classes_, i, span_);
      if (!call.has_value() && MakesProgress(timeline_, classes_, i, span_)) return false;
      if (call.has_value() && IsOfTracker(*call)) return true;
      if (!call.has_value() || (has_python && !timeline_.threads[i].is_main && IsIdlePool(*call))) continue;
      Add(StrCat(prefix, NameOf(timeline_.threads[i])), i, *call);
    }
    return true;
  }

  size_t size() const { return groups_.size(); }  // of what Take returns
  std::vector<std::string> Take() const {
    std::vector<std::string> texts;
    for (const Group& group : groups_) {
      texts.push_back(StrCat(group.name, group.alike > 0 ? StrCat(" and ", group.alike, " alike") : "", group.rest));
    }
    return texts;
  }

 private:
  // The process that cleans up after multiprocessing.
  bool IsOfTracker(const LongCall& call) const {
    for (uint32_t stack = call.stack; stack != 0; stack = timeline_.python.stacks[stack].parent) {
      const PythonFunction& function = timeline_.python.functions[timeline_.python.stacks[stack].function];
      if (timeline_.strings.Get(function.file).ends_with("/resource_tracker.py")) return true;
    }
    return false;
  }

  // A thread of a library that waits for work. One that waits for a mutex does not.
  bool IsIdlePool(const LongCall& call) const {
    return call.stack == 0 && call.event != nullptr && !classes_.IsOwned(call.event->type);
  }

  void Add(std::string name, uint32_t thread, const LongCall& call) {
    const std::string place = PlaceOf(timeline_, tags_, call);
    std::string rest = StrCat(call.event == nullptr ? "" : StrCat(", in ", timeline_.types[call.event->type].name),
                              place.empty() ? "" : StrCat(call.event == nullptr ? "," : "", " at ", place),
                              call.event == nullptr ? "" : HolderOf(timeline_, thread, *call.event));
    const auto known = std::ranges::find(groups_, rest, &Group::rest);
    if (known != groups_.end()) {
      ++known->alike;
    } else if (groups_.size() < kMostGroups) {
      groups_.push_back({std::move(name), std::move(rest)});
    }
  }

  const Timeline& timeline_;
  const PythonTags& tags_;
  const WaitClasses& classes_;
  const TimeSpan span_;
  std::vector<std::vector<uint32_t>> threads_of_;  // by process
  std::vector<Group> groups_;
};

// Polls of an event loop or a server, not those of a library that waits for data.
bool MayPollForClients(const PythonTags& tags, WaitClass kind, uint32_t stack) {
  const PythonTag tag = tags.TagOf(stack);
  return tag == PythonTag::kServe ||
         (kind == WaitClass::kPoll && (tag == PythonTag::kNone || tag == PythonTag::kNetwork));
}

// Whether a thread of the process waits for clients, and nothing made steps.
bool Serves(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, uint32_t process,
            const TimeSpan& span) {
  if (!timeline.steps.empty() && timeline.step_source != StepSource::kWholeCapture) return false;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (timeline.threads[i].process != process) continue;
    const std::optional<LongCall> call = CallOf(timeline, classes, i, span);
    WaitClass kind;
    if (!call.has_value() || call->event == nullptr || !classes.Classify(*call->event, &kind)) continue;
    if (MayPollForClients(tags, kind, call->stack) || classes.IsAccept(call->event->type)) return true;
  }
  return false;
}

// Whether what the process has started sleeps, is not recorded or has ended well.
bool WaitsForASleeper(const Timeline& timeline, const WaitClasses& classes, uint32_t process, const TimeSpan& span) {
  // A child that was killed long ago may have been killed on purpose, by a timeout.
  const bool lacks_a_child = std::ranges::any_of(timeline.failed_processes, [&](const FailedProcess& failed) {
    const bool is_before = failed.end_ps <= span.start_ps + kSecondPs;
    const bool is_why = failed.out_of_memory || (IsCrash(failed.exit_signal) && failed.exit_signal != SIGKILL) ||
                        failed.end_ps >= span.start_ps - kShortlyPs;
    return failed.parent_pid == timeline.processes[process].pid && is_before && is_why;
  });
  if (lacks_a_child) return false;
  if (!timeline.unrecorded.empty()) return true;
  bool has_child = false;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const uint32_t child = timeline.threads[i].process;
    if (!timeline.threads[i].is_main || child == process || !IsWithin(timeline, child, process)) continue;
    if (!IsAlive(timeline, timeline.processes[child], span)) continue;
    has_child = true;
    const std::optional<LongCall> call = CallOf(timeline, classes, i, span);
    WaitClass kind;
    const bool is_known = call.has_value() && call->event != nullptr && classes.Classify(*call->event, &kind);
    if (is_known && kind == WaitClass::kSleep) return true;
  }
  return !has_child;
}

// Whether the judged thread, at the end of a run, may have nothing to do: it sleeps, waits for clients, for the user or
// for a program that is not recorded.
bool MayBeIdle(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, uint32_t process,
               const LongCall& call, const TimeSpan& span) {
  WaitClass kind;
  if (call.event == nullptr || !classes.Classify(*call.event, &kind)) return true;
  const PythonTag tag = tags.TagOf(call.stack);
  const bool is_input = kind == WaitClass::kFileRead || kind == WaitClass::kPipe || kind == WaitClass::kTerminal;
  // A rank that sleeps while others wait for it is why they wait.
  const bool sleeps = kind == WaitClass::kSleep && timeline.processes[process].rank < 0;
  if (sleeps || classes.IsAccept(call.event->type) || (is_input && call.event->object == 0)) return true;
  if (kind == WaitClass::kChild || kind == WaitClass::kPipe || tag == PythonTag::kChild) {
    return WaitsForASleeper(timeline, classes, process, span);
  }
  return MayPollForClients(tags, kind, call.stack) || Serves(timeline, tags, classes, process, span);
}

int64_t StoppedIn(const Timeline& timeline, uint32_t thread, const TimeSpan& span) {
  int64_t stopped_ps = 0;
  size_t at = 0;
  ForCommon(StoppedSpans(timeline, thread), &at, span.start_ps, span.end_ps,
            [&](int64_t from, int64_t to) { stopped_ps += to - from; });
  return stopped_ps;
}

// Whether the job goes on, was killed, or failed, as by a timeout of the wait: what ends well does not hang.
bool HasNoGoodEnd(const Timeline& timeline) {
  return timeline.attached || timeline.Runs() || timeline.exit_signal != 0 || timeline.exit_code > 0;
}

}  // namespace

Hang FindHang(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, uint32_t thread) {
  if (thread >= timeline.threads.size() || timeline.duration_ps < kShortestPs || !HasNoGoodEnd(timeline)) return {};
  const uint32_t judged = timeline.threads[thread].process;
  const bool goes_on = timeline.attached || timeline.Runs();
  if (!goes_on && timeline.processes[judged].exit_code == 0) return {};
  const int64_t its_end_ps = timeline.processes[judged].end_ps > 0 ? timeline.processes[judged].end_ps : INT64_MAX;
  const int64_t end_ps = goes_on ? timeline.duration_ps : std::min(timeline.duration_ps, its_end_ps) - kLastWordsPs;
  if (end_ps < kShortestPs) return {};
  std::optional<TimeSpan> span = IdleBefore(timeline, judged, end_ps);
  if (!span.has_value() || GpuTime(timeline, judged, {*span}).busy_ps() > 0) return {};
  // A job that goes on may pause at the end of a capture. What its other ranks do is known for all of it alone.
  const double others = static_cast<double>(timeline.cpu_of_others.cpu_ps);
  if (goes_on && (span->start_ps > 0 || others > kOthersHardlyRan * static_cast<double>(end_ps))) return {};
  const std::optional<LongCall> call = CallOf(timeline, classes, thread, *span);
  if (!call.has_value() || StoppedIn(timeline, thread, *span) > (end_ps - span->start_ps) / 10) return {};
  if (!goes_on) {
    span->start_ps = std::max(span->start_ps, call->start_ps);
    const int64_t length = end_ps - span->start_ps;
    const bool is_large = static_cast<double>(length) >= kLeastShareOfRun * static_cast<double>(timeline.duration_ps);
    if (length < kShortestEndPs || (length < kLongPs && !is_large)) return {};
    if (MayBeIdle(timeline, tags, classes, judged, *call, *span)) return {};
  }
  Writer writer(timeline, tags, classes, *span);
  if (!writer.AddProcess(judged, /*is_judged=*/true)) return {};
  const size_t own_texts = writer.size();
  for (uint32_t process = 0; process < timeline.processes.size(); ++process) {
    if (process == judged || !IsAlive(timeline, timeline.processes[process], *span)) continue;
    // What starts ranks waits for their end.
    const bool starts_ranks = timeline.processes[judged].rank >= 0 && IsWithin(timeline, judged, process);
    if (starts_ranks) continue;
    if (!writer.AddProcess(process, /*is_judged=*/false)) return {};
  }
  std::vector<std::string> texts = writer.Take();
  // Behind the threads of the judged process, which wait for each other.
  if (!texts.empty()) {
    const std::vector<std::string> ended = EndedBefore(timeline, judged, *span, goes_on);
    texts.insert(texts.begin() + static_cast<ptrdiff_t>(own_texts), ended.begin(), ended.end());
  }
  // The wait itself may last to the end.
  if (call->event != nullptr) {
    span->end_ps = std::max(span->end_ps, call->event->start_ps + call->event->duration_ps);
  }
  return {std::move(texts), *span, goes_on};
}

}  // namespace tbprof
