// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/step_span.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "writer/base/cell_path.h"
#include "writer/base/saturating.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/verdict/blockers.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/server_threads.h"

namespace tbprof {
namespace {

// Share of the time from the first to the last regular step that lies outside regular steps. Above it, the verdict
// covers that time as well.
constexpr double kMuchBetween = 0.2;
// A line that is entered at least this many times belongs to a loop.
constexpr uint32_t kTurnsOfLoop = 5;
// Least share of the thread's samples that the function with the loop must have, and the loop itself: a small loop
// beside the work is not what the program does.
constexpr double kMostlyIn = 0.5, kLeastOfLoop = 0.3;
constexpr uint64_t kFewestSamples = 30;
constexpr uint32_t kMostDepth = 64;
// A program that only waits for another uses the CPU for at most a third of its time, most of it for its imports; the
// other uses twice as much, and at least this long.
constexpr int64_t kIdle = 3, kTimesTheCpu = 2, kLeastWorkPs = 300'000'000'000;

// Beside imports, so small and short a part of the thread's time is no work: a program that failed at once.
constexpr double kLeastBesideImports = 0.05;
constexpr int64_t kShortBesideImportsPs = 500'000'000'000;

constexpr int64_t kShortestDetailPs = 2'000'000'000'000;

struct StepsOfThread {
  std::vector<TimeSpan> spans;
  int64_t regular_ps = 0;
};

// From the first step to the last. If more than half of the time between the steps is one gap behind one of the first
// steps, which compiles and reserves memory, from the end of that gap on.
TimeSpan WithoutWarmUp(const std::vector<TimeSpan>& steps) {
  constexpr size_t kWarmUpSteps = 3, kFewestSteps = 10;
  TimeSpan whole = {steps.front().start_ps, steps.back().end_ps};
  if (steps.size() < kFewestSteps) return whole;
  const int64_t between_ps = whole.end_ps - whole.start_ps - LengthOf(steps);
  for (size_t i = 1; i < steps.size() && i <= kWarmUpSteps; ++i) {
    if (steps[i].start_ps - steps[i - 1].end_ps > between_ps / 2) whole.start_ps = steps[i].start_ps;
  }
  return whole;
}

StepSpan SpanOfSteps(const Timeline& timeline) {
  std::map<uint32_t, StepsOfThread> threads;
  for (const Step& step : timeline.steps) {
    if (!step.is_regular || step.end_ps <= step.start_ps || step.thread >= timeline.threads.size()) continue;
    StepsOfThread& of_thread = threads[step.thread];
    const int64_t from =
        of_thread.spans.empty() ? step.start_ps : std::max(step.start_ps, of_thread.spans.back().end_ps);
    if (step.end_ps <= from) continue;
    of_thread.spans.push_back({from, step.end_ps});
    of_thread.regular_ps += step.end_ps - from;
  }
  StepSpan span;
  const auto most = std::ranges::max_element(threads, {}, [](const auto& entry) { return entry.second.regular_ps; });
  if (most == threads.end()) return span;
  span.basis = VerdictBasis::kSteps;
  span.thread = most->first;
  span.steps = most->second.spans.size();
  span.spans = std::move(most->second.spans);
  const TimeSpan whole = WithoutWarmUp(span.spans);
  const std::vector<TimeSpan> between = Without({whole}, span.spans);
  if (static_cast<double>(LengthOf(between)) > kMuchBetween * static_cast<double>(whole.end_ps - whole.start_ps)) {
    span.basis = VerdictBasis::kTraining;
    span.spans = {whole};
    span.between = between;
  }
  return span;
}

// The main thread of the command.
uint32_t CommandThread(const Timeline& timeline) {
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const Thread& thread = timeline.threads[i];
    if (thread.is_main && timeline.processes[thread.process].is_command) return i;
  }
  return kNoLine;
}

// How long a thread was seen to run Python or to wait in it, apart from imports, and how much CPU it used in that time.
struct Activity {
  int64_t all_ps = 0, on_cpu_ps = 0;
  int64_t for_data_ps = 0;  // in waits for what other threads or processes prepare
  int64_t for_end_ps = 0;   // in waits until another process has ended, or for another thread or a signal
};
Activity ActivityOf(const Timeline& timeline, const PythonThread& thread, const PythonTags& tags) {
  Activity activity;
  for (const PythonRun& run : thread.runs) {
    if (tags.TagOf(run.stack) == PythonTag::kImport) continue;
    const int64_t length = run.to_ps - run.from_ps;
    activity.all_ps += length;
    if (run.samples > 0) activity.on_cpu_ps += length / run.samples * run.on_cpu;
    switch (tags.TagOf(run.stack)) {
      case PythonTag::kLoader:
      case PythonTag::kProcessGet:
      case PythonTag::kQueueGet:
      case PythonTag::kFuture:
      case PythonTag::kWorkers:
        activity.for_data_ps += length;
        break;
      case PythonTag::kChild:
      case PythonTag::kThread:
        activity.for_end_ps += length;
        break;
      default:
        break;
    }
  }
  // A sample counts as on the CPU if the thread ran at all: the kernel knows better.
  const ThreadUsage* const usage = timeline.UsageOfThread(thread.thread);
  if (usage != nullptr && !usage->points.empty()) {
    activity.on_cpu_ps = std::min(activity.on_cpu_ps, usage->points.back().cpu_ps);
  }
  return activity;
}

// A process that `python -c 'from multiprocessing...'` or joblib has started, or may have (--record-argv=no).
bool HasArgumentsOfMultiprocessing(const Process& process) {
  return process.arguments.empty() || std::ranges::any_of(process.arguments, [](const std::string& argument) {
           return absl::StrContains(argument, "multiprocessing.") || absl::StrContains(argument, "multiprocess.") ||
                  absl::StrContains(argument, "loky.");
         });
}

bool IsOfMultiprocessing(const PythonTags& tags, const PythonThread& thread, const Process& process) {
  if (!process.forked) return HasArgumentsOfMultiprocessing(process);
  return std::ranges::any_of(thread.runs, [&](const PythonRun& run) { return tags.IsOfWorker(run.stack); });
}

// Whether `process` is a child of `parent`, or was forked for it by a server of multiprocessing (forkserver).
bool IsChildOf(const Timeline& timeline, const Process& process, uint32_t parent) {
  if (process.parent == static_cast<int>(parent)) return true;
  if (!process.forked || process.parent < 0) return false;
  const Process& server = timeline.processes[static_cast<size_t>(process.parent)];
  return server.parent == static_cast<int>(parent) && !server.forked && HasArgumentsOfMultiprocessing(server);
}

// A program that only waits for another one that it has started (`nox`, `dvc repro`, subprocess.run), for its own
// processes to end, or for signals while forked workers serve (gunicorn) is not what the user asks about. Returns the
// main thread of the one that uses the CPU most, or, if no main thread does, another thread; `waiting`: there is none.
uint32_t ThreadThatWorksFor(const Timeline& timeline, const PythonTags& tags, uint32_t waiting) {
  const PythonThread* const python = timeline.python.OfThread(waiting);
  if (python == nullptr) return waiting;
  const Activity own = ActivityOf(timeline, *python, tags);
  if (own.on_cpu_ps > own.all_ps / kIdle || own.for_data_ps > own.all_ps / 2) return waiting;
  // The workers of multiprocessing are those that it waits for. Else they may prepare data: of the program that it has
  // started, or its own while it waits for a GPU, which has no tag.
  const bool waits_for_end = own.for_end_ps > own.all_ps / 2;
  const uint32_t parent = timeline.threads[waiting].process;
  uint32_t best = waiting, best_of_others = waiting;
  const int64_t least = std::max(std::min(own.on_cpu_ps, INT64_MAX / kTimesTheCpu) * kTimesTheCpu, kLeastWorkPs);
  int64_t most = least, most_of_others = least;
  for (const PythonThread& thread : timeline.python.threads) {
    if (thread.thread >= timeline.threads.size()) continue;
    const uint32_t number = timeline.threads[thread.thread].process;
    const Process& process = timeline.processes[number];
    if (number == parent || !IsWithin(timeline, number, parent)) continue;
    const bool may_be_waited_for = waits_for_end && IsChildOf(timeline, process, parent);
    if (!may_be_waited_for && IsOfMultiprocessing(tags, thread, process)) continue;
    const int64_t on_cpu_ps = ActivityOf(timeline, thread, tags).on_cpu_ps;
    const bool is_main = timeline.threads[thread.thread].is_main;
    if (on_cpu_ps <= (is_main ? most : most_of_others)) continue;
    (is_main ? most : most_of_others) = on_cpu_ps;
    (is_main ? best : best_of_others) = thread.thread;
  }
  // Of a server whose main threads only pass requests on, a thread that answers them.
  return best != waiting ? best : best_of_others;
}

// The same without Python: a command that only waits for a program that it has started (`timeout`, `sh -c`, `mpirun`)
// is not judged if one program below it uses most of the CPU time, or if ranks are below it: then their first.
uint32_t NativeThreadThatWorksFor(const Timeline& timeline, uint32_t command) {
  if (command == kNoLine) return command;
  const uint32_t parent = timeline.threads[command].process;
  int64_t all_ps = 0, most_ps = 0;
  uint32_t busiest = command, first_rank = command;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    const uint32_t number = timeline.threads[i].process;
    if (!timeline.threads[i].is_main || number == parent || !IsWithin(timeline, number, parent)) continue;
    const int64_t cpu_ps = CpuOfProcess(timeline, number);
    AddSaturating(&all_ps, cpu_ps);
    if (cpu_ps > most_ps) {
      most_ps = cpu_ps;
      busiest = i;
    }
    const int rank = timeline.processes[number].rank;
    if (rank < 0 || cpu_ps < kLeastWorkPs) continue;
    const int first = timeline.processes[timeline.threads[first_rank].process].rank;
    if (first_rank == command || rank < first) first_rank = i;
  }
  if (all_ps < kLeastWorkPs || CpuOfProcess(timeline, parent) > all_ps / kIdle) return command;
  if (timeline.processes[parent].rank < 0 && first_rank != command) return first_rank;
  return most_ps >= all_ps / 2 ? busiest : command;
}

bool IsMainOfPython(const Timeline& timeline, const PythonThread& thread) {
  return thread.thread < timeline.threads.size() && timeline.threads[thread.thread].is_main;
}

// The main thread that runs cells of a notebook most; kNoLine: none does. What started its kernel (`jupyter nbconvert`,
// papermill) only waits for it.
uint32_t ThreadOfCells(const Timeline& timeline) {
  const PythonTimeline& python = timeline.python;
  std::vector<bool> of_cell(python.functions.size()), in_cell(python.stacks.size());
  for (size_t i = 0; i < python.functions.size(); ++i)
    of_cell[i] = IsCell(timeline.strings.Get(python.functions[i].file));
  for (uint32_t i = 1; i < python.stacks.size(); ++i) {
    const PythonStack& stack = python.stacks[i];
    in_cell[i] = of_cell[stack.function] || (stack.parent < i && in_cell[stack.parent]);
  }
  uint32_t best = kNoLine;
  uint64_t most = 0;
  for (const PythonThread& thread : python.threads) {
    if (!IsMainOfPython(timeline, thread)) continue;
    if (timeline.processes[timeline.threads[thread.thread].process].forked) continue;
    uint64_t samples = 0;
    for (const PythonRun& run : thread.runs) samples += in_cell[run.stack] ? run.samples : 0;
    if (samples <= most) continue;
    most = samples;
    best = thread.thread;
  }
  return best;
}

uint32_t MainThread(const Timeline& timeline, const PythonTags& tags) {
  // Chooses the process with the most samples on its main thread: the command itself may only start the process that
  // computes. What starts ranks (torchrun) has none itself.
  const auto process_of = [&](const PythonThread& thread) -> const Process& {
    return timeline.processes[timeline.threads[thread.thread].process];
  };
  const bool has_ranks = std::ranges::any_of(timeline.python.threads, [&](const PythonThread& thread) {
    return IsMainOfPython(timeline, thread) && process_of(thread).rank >= 0;
  });
  uint32_t best = kNoLine;
  uint64_t most = 0;
  for (const PythonThread& thread : timeline.python.threads) {
    if (!IsMainOfPython(timeline, thread)) continue;
    const Process& process = process_of(thread);
    if (has_ranks && process.rank < 0) continue;
    uint64_t samples = 0;
    for (const PythonRun& run : thread.runs) samples += run.samples;
    // Forked children are workers, or ranks that all do the same.
    if (process.forked && best != kNoLine) continue;
    if (samples > most) {
      most = samples;
      best = thread.thread;
    }
  }
  if (const uint32_t cells = ThreadOfCells(timeline); cells != kNoLine && !has_ranks) best = cells;
  if (best == kNoLine) return NativeThreadThatWorksFor(timeline, CommandThread(timeline));
  return ThreadThatAnswers(timeline, tags, ThreadThatWorksFor(timeline, tags, best));
}

// Finds the time between the first and the last sample of the loop that takes most of the thread's samples: at the
// lines that are entered repeatedly, in the outermost function that is on most of the stacks and has a loop.
class LoopFinder {
 public:
  LoopFinder(const Timeline& timeline, const PythonTags& tags, const PythonThread& thread)
      : python_(timeline.python), tags_(tags), thread_(thread) {}

  bool Find(TimeSpan* span, LoopLines* lines) {
    uint64_t all = 0;
    for (const PythonRun& run : thread_.runs) {
      if (run.stack != 0 && tags_.TagOf(run.stack) != PythonTag::kImport) all += run.samples;
    }
    if (all < kFewestSamples) return false;
    FindRoot();
    // Searches from the outermost function inwards for the first function with a loop.
    for (uint32_t depth = 0; depth < kMostDepth; ++depth) {
      TimeSpan loop{};
      if (!LoopAt(depth, all, &loop, lines)) return false;
      if (loop.end_ps == 0 || SamplesIn(loop) < kLeastOfLoop * static_cast<double>(all)) continue;
      *span = loop;
      return true;
    }
    return false;
  }

 private:
  bool IsOwn(uint32_t frame) const { return tags_.OwnFrameOf(frame) == frame && tags_.HasOwnFrame(frame); }
  // The program's own frames, outermost first.
  std::vector<uint32_t> OwnFrames(uint32_t stack) const {
    std::vector<uint32_t> frames;
    for (uint32_t frame = stack; frame != 0; frame = python_.stacks[frame].parent) {
      if (IsOwn(frame)) frames.push_back(frame);
    }
    std::ranges::reverse(frames);
    return frames;
  }

  double SamplesIn(const TimeSpan& span) const {
    double samples = 0;
    for (const PythonRun& run : thread_.runs) {
      const int64_t common = std::min(run.to_ps, span.end_ps) - std::max(run.from_ps, span.start_ps);
      if (run.stack == 0 || common <= 0 || tags_.TagOf(run.stack) == PythonTag::kImport) continue;
      samples += run.samples * static_cast<double>(common) / static_cast<double>(run.to_ps - run.from_ps);
    }
    return samples;
  }

  // The outermost function of most samples. Deep stacks lack their outer frames, and some samples have none.
  void FindRoot() {
    std::map<uint32_t, uint64_t> functions;
    for (const PythonRun& run : thread_.runs) {
      if (const std::vector<uint32_t> frames = OwnFrames(run.stack); !frames.empty()) {
        functions[python_.stacks[frames[0]].function] += run.samples;
      }
    }
    const auto most = std::ranges::max_element(functions, {}, [](const auto& entry) { return entry.second; });
    if (most != functions.end()) root_ = most->first;
  }
  bool IsWhole(const std::vector<uint32_t>& frames) const {
    return !frames.empty() && python_.stacks[frames[0]].function == root_;
  }

  // Returns false if no function at this depth has most of the samples.
  bool LoopAt(uint32_t depth, uint64_t all, TimeSpan* loop, LoopLines* loop_lines) const {
    std::map<uint32_t, uint64_t> functions;
    for (const PythonRun& run : thread_.runs) {
      const std::vector<uint32_t> frames = OwnFrames(run.stack);
      if (frames.size() > depth) functions[python_.stacks[frames[depth]].function] += run.samples;
    }
    const auto most = std::ranges::max_element(functions, {}, [](const auto& entry) { return entry.second; });
    if (most == functions.end() || static_cast<double>(most->second) < kMostlyIn * static_cast<double>(all))
      return false;
    struct LineSeen {
      uint32_t turns = 0;
      int64_t first_ps = 0, last_ps = 0;
    };
    std::map<int32_t, LineSeen> lines;
    int32_t before = -2;
    for (const PythonRun& run : thread_.runs) {
      const std::vector<uint32_t> frames = OwnFrames(run.stack);
      if (!IsWhole(frames)) continue;  // whether the line was left is not known
      const bool in = frames.size() > depth && python_.stacks[frames[depth]].function == most->first;
      const int32_t line = in ? python_.stacks[frames[depth]].line : -2;
      if (in) {
        LineSeen& seen = lines[line];
        if (seen.turns == 0) seen.first_ps = run.from_ps;
        if (line != before) ++seen.turns;
        seen.last_ps = run.to_ps;
      }
      before = line;
    }
    const PythonFunction& function = python_.functions[most->first];
    *loop_lines = {function.file, function.name, -1, -1};
    loop->start_ps = INT64_MAX;
    for (const auto& [line, seen] : lines) {
      if (line < 0 || seen.turns < kTurnsOfLoop) continue;
      loop->start_ps = std::min(loop->start_ps, seen.first_ps);
      loop->end_ps = std::max(loop->end_ps, seen.last_ps);
      if (loop_lines->first < 0) loop_lines->first = line;
      loop_lines->last = line;
    }
    return true;
  }

  const PythonTimeline& python_;
  const PythonTags& tags_;
  const PythonThread& thread_;
  uint32_t root_ = 0;
};

// A program that is the interpreter runs no Python before its first module and after its last: the interpreter starts,
// and at the end collects and frees all objects.
bool IsInterpreter(const Process& process) {
  const std::string_view path = process.executable;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("python") || name.starts_with("pypy");
}

// The start of the time without Python at the end of `runs`; `end`: there is none.
int64_t EndOfPython(const PythonThread& python, int64_t end) {
  for (auto run = python.runs.rbegin(); run != python.runs.rend() && run->stack == 0; ++run) end = run->from_ps;
  return end;
}

// The time of `whole` in which the program's own work can be. Time without Python between two imports is import, too:
// libraries are loaded.
std::vector<TimeSpan> WithoutImports(const PythonThread& python, const PythonTags& tags, bool of_interpreter,
                                     TimeSpan whole) {
  if (std::ranges::all_of(python.runs, [](const PythonRun& run) { return run.stack == 0; })) return {whole};
  std::vector<TimeSpan> spans;
  bool works = !of_interpreter || whole.start_ps == 0;  // started before the recording
  int64_t from = whole.start_ps;
  for (const PythonRun& run : python.runs) {
    if (run.stack == 0 && of_interpreter) continue;
    const bool is_import = tags.TagOf(run.stack) == PythonTag::kImport;
    if (is_import && works) spans.push_back({from, run.from_ps});
    if (!is_import && !works) from = run.from_ps;
    works = !is_import;
  }
  if (works) spans.push_back({from, of_interpreter ? EndOfPython(python, whole.end_ps) : whole.end_ps});
  return spans;
}

// Whether a capture shows no code of a Python program, only how its interpreter ends.
bool IsOnlyTheEnd(const Timeline& timeline, const PythonThread& python) {
  const Process& process = timeline.processes[timeline.threads[python.thread].process];
  const bool has_ended = process.exit_code >= 0 || process.exit_signal != 0;
  return timeline.window.starts_with("capture ") && has_ended && !python.runs.empty() &&
         std::ranges::all_of(python.runs, [](const PythonRun& run) { return run.stack == 0; });
}

StepSpan SpanOfThread(const Timeline& timeline, const PythonTags& tags, uint32_t main) {
  StepSpan span;
  span.thread = main;
  if (span.thread == kNoLine) {
    span.thread = 0;
    span.reason = "no thread was recorded";
    return span;
  }
  const PythonThread* const python = timeline.python.OfThread(span.thread);
  TimeSpan loop{};
  if (python != nullptr && LoopFinder(timeline, tags, *python).Find(&loop, &span.loop)) {
    span.basis = VerdictBasis::kLoop;
    span.spans = {loop};
    return span;
  }
  span.loop = {};
  const Thread& thread = timeline.threads[span.thread];
  const TimeSpan whole = TimeOf(timeline, thread);
  const bool of_interpreter = IsInterpreter(timeline.processes[thread.process]);
  span.spans = python == nullptr ? std::vector<TimeSpan>{whole} : WithoutImports(*python, tags, of_interpreter, whole);
  std::erase_if(span.spans, [](const TimeSpan& of) { return of.end_ps <= of.start_ps; });
  if (of_interpreter && python != nullptr && IsOnlyTheEnd(timeline, *python)) {
    span.spans.clear();
    span.reason = "the interpreter was ending: no code of the program ran";
    return span;
  }
  if (span.spans.empty()) {
    // A script that also starts a short program of Python; not a wrapper (`timeout`), which waits for it all the time.
    if (const uint32_t command = CommandThread(timeline); command != kNoLine && command != span.thread) {
      const TimeSpan of_command = TimeOf(timeline, timeline.threads[command]);
      const bool is_short = whole.end_ps - whole.start_ps < (of_command.end_ps - of_command.start_ps) / 2;
      if (is_short) return SpanOfThread(timeline, tags, command);
    }
    span.reason = "the main thread did nothing but import";
    return span;
  }
  const int64_t works_ps = LengthOf(span.spans), whole_ps = whole.end_ps - whole.start_ps;
  if (works_ps < kShortBesideImportsPs &&
      static_cast<double>(works_ps) < kLeastBesideImports * static_cast<double>(whole_ps)) {
    span.spans.clear();
    span.reason = StrCat("beside imports, the main thread worked for ", HumanTime(works_ps));
    return span;
  }
  span.basis = VerdictBasis::kMainThread;
  return span;
}

// A module that is first needed between two steps, or in one turn of a loop.
void LeaveOutImports(const Timeline& timeline, const PythonTags& tags, StepSpan* span) {
  const PythonThread* const python = timeline.python.OfThread(span->thread);
  if (python == nullptr) return;
  const TimeSpan whole = span->spans.front();
  std::vector<TimeSpan> rest = WithoutImports(*python, tags, /*of_interpreter=*/false, whole);
  for (TimeSpan& of : rest) of = {std::max(of.start_ps, whole.start_ps), std::min(of.end_ps, whole.end_ps)};
  std::erase_if(rest, [](const TimeSpan& of) { return of.end_ps <= of.start_ps; });
  // A program that runs while it is imported (`python -c "import train"`) works in its import.
  if (LengthOf(rest) >= (whole.end_ps - whole.start_ps) / 2) span->spans = std::move(rest);
}

}  // namespace

void LeaveOut(const std::vector<TimeSpan>& stopped, StepSpan* span) {
  span->spans = Without(span->spans, stopped);
  span->between = Without(span->between, stopped);
  if (static_cast<double>(LengthOf(span->between)) <= kMuchBetween * static_cast<double>(LengthOf(span->spans))) {
    span->between.clear();
  }
}

TimeSpan TimeOf(const Timeline& timeline, const Thread& thread) {
  const int64_t end = thread.end_ps > 0 ? std::min(thread.end_ps, timeline.duration_ps) : timeline.duration_ps;
  return {std::max<int64_t>(thread.start_ps, 0), end};
}

StepSpan FindStepSpan(const Timeline& timeline, const PythonTags& tags) {
  StepSpan span;
  if (timeline.step_source != StepSource::kNone && timeline.step_source != StepSource::kWholeCapture) {
    span = SpanOfSteps(timeline);
  }
  // Of so short a part, the samples would be too few.
  if (timeline.steps_in_detail && LengthOf(span.spans) < kShortestDetailPs) span = {};
  if (span.spans.empty()) span = SpanOfThread(timeline, tags, MainThread(timeline, tags));
  if (span.basis == VerdictBasis::kTraining || span.basis == VerdictBasis::kLoop)
    LeaveOutImports(timeline, tags, &span);
  return span;
}

}  // namespace tbprof
