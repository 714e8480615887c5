// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/verdict.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "writer/base/saturating.h"
#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/timeline/torch_names.h"
#include "writer/verdict/account.h"
#include "writer/verdict/blocked_time.h"
#include "writer/verdict/cause_choice.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/gpu_time.h"
#include "writer/verdict/hang.h"
#include "writer/verdict/library_code.h"
#include "writer/verdict/library_pools.h"
#include "writer/verdict/native_habits.h"
#include "writer/verdict/own_line.h"
#include "writer/verdict/place_of_row.h"
#include "writer/verdict/python_tags.h"
#include "writer/verdict/quick_calls.h"
#include "writer/verdict/span_account.h"
#include "writer/verdict/step_change.h"
#include "writer/verdict/step_span.h"
#include "writer/verdict/worker_cpus.h"
#include "writer/verdict/worker_waits.h"

namespace tbprof {
namespace {

// `about process 4711, train.py, and 1 alike`; empty: it is the command.
std::string OtherProcess(const Timeline& timeline, const Thread& thread) {
  const auto command = std::ranges::find(timeline.processes, true, &Process::is_command);
  const Process& judged = timeline.processes[thread.process];
  if (command == timeline.processes.end() || command->pid == judged.pid) return "";
  const auto end = [&](const Process& of) { return of.end_ps > 0 ? of.end_ps : timeline.duration_ps; };
  const auto alike = std::ranges::count_if(timeline.processes, [&](const Process& other) {
    return judged.parent >= 0 && other.parent == judged.parent && other.forked == judged.forked &&
           other.name == judged.name && other.executable == judged.executable && other.start_ps < end(judged) &&
           end(other) > judged.start_ps;
  });
  return StrCat(
      "about process ", judged.pid, ", ", PrintableUtf8(judged.name.empty() ? judged.executable : judged.name),
      alike > 1 ? StrCat(", and ", alike - 1, " alike") : "",
      thread.is_main ? "" : StrCat(": thread ", thread.name.empty() ? StrCat(thread.tid) : PrintableUtf8(thread.name)));
}

// A loop, or what is left without imports, may be a small part of the thread's time. So are steps of a part of the
// window. Empty: it is most of it.
std::string CoveredPart(const Timeline& timeline, const StepSpan& span, int64_t covered_ps) {
  const bool of_steps = span.basis == VerdictBasis::kSteps || span.basis == VerdictBasis::kTraining;
  if (of_steps && timeline.steps_in_detail) {
    return StrCat("this covers ", HumanTime(covered_ps), " of ", HumanTime(timeline.duration_ps),
                  ": of the rest, short events were left out (--max-profile-size)");
  }
  if (span.basis != VerdictBasis::kLoop && span.basis != VerdictBasis::kMainThread) return "";
  const TimeSpan whole = TimeOf(timeline, timeline.threads[span.thread]);
  const int64_t whole_ps = whole.end_ps - whole.start_ps;
  if (covered_ps >= whole_ps / 2) return "";
  return StrCat("this covers ", HumanTime(covered_ps), " of the thread's ", HumanTime(whole_ps), ": the rest is ",
                span.basis == VerdictBasis::kLoop ? "outside of the loop"
                                                  : "imports, set-up, and the interpreter's start and end");
}

// What the thread does after its last step, if that is long beside the steps: another rank hangs, or data is uneven.
std::string AfterSteps(const Timeline& timeline, const PythonTags& tags, const StepSpan& span) {
  constexpr int64_t kLongPs = 3'000'000'000'000;
  if (span.basis != VerdictBasis::kSteps && span.basis != VerdictBasis::kTraining) return "";
  const TimeSpan steps = {span.spans.front().start_ps, span.spans.back().end_ps};
  const TimeSpan after = {steps.end_ps, TimeOf(timeline, timeline.threads[span.thread]).end_ps};
  const int64_t length = after.end_ps - after.start_ps;
  if (length < kLongPs || length < (steps.end_ps - steps.start_ps) / 2 || timeline.steps_in_detail) return "";
  const Account account = AccountOf(timeline, tags, span.thread, {after});
  std::string text = StrCat("after the last step: ", HumanTime(length));
  const std::vector<AccountRow> rows = account.RowsOf([](const AccountRow&) { return true; });
  if (rows.empty() || rows.front().ps < length / 4) return text;
  const auto place = PlaceOfRow(timeline, tags, WhereRole::kSpends, span.thread, rows.front(), length);
  if (!place.has_value() || place->file == 0) return text;
  return StrCat(text, ", ", HumanTime(rows.front().ps), " of it ",
                place->doing.empty() ? "" : StrCat("in ", place->doing, " "), "at ",
                PrintableUtf8(ShownFile(timeline.strings.Get(place->file))),
                place->line > 0 ? StrCat(":", place->line) : "");
}

// Recording made the steps longer: their length is not that of other steps of the run. Sampled operations cost too
// little to say so.
std::string CostOfObserving(const Timeline& timeline, uint32_t judged) {
  constexpr double kMuch = 0.05;
  const uint32_t process = timeline.threads[judged].process;
  const double observing_ps = timeline.processes[process].observing_seconds * 1e12;
  // The cost is that of the whole run, and the window may be a part of it.
  if (observing_ps <= 0 || timeline.totals_ps > 0 || timeline.processes[process].torch.skipped > 0) return "";
  int64_t cpu_ps = 0;
  for (const ThreadUsage& usage : timeline.usage) {
    const Thread& thread = timeline.threads[usage.thread];
    const bool operates = usage.thread == judged || std::ranges::any_of(thread.events, [&](const Event& event) {
                            return IsTorchWork(timeline.types[event.type]);
                          });
    if (thread.process != process || !operates || usage.points.empty()) continue;
    AddSaturating(&cpu_ps, usage.points.back().cpu_ps - usage.points.front().cpu_ps);
  }
  const double share = observing_ps / static_cast<double>(std::max<int64_t>(cpu_ps, 1));
  if (share < kMuch || share >= 1) return "";
  return StrCat("recording every operation of PyTorch takes about ", HumanPercent(share), " of its CPU time");
}

void AddLimits(const Timeline& timeline, const PythonTags& tags, const NativePlaces& natives, const StepSpan& span,
               Verdict* verdict) {
  const std::string after = AfterSteps(timeline, tags, span);
  const std::string cost = CostOfObserving(timeline, span.thread);
  for (const std::string& limit : {after, cost}) {
    if (!limit.empty()) verdict->limits.push_back(limit);
  }
  if (natives.AreUnnamed(span.thread)) {
    verdict->limits.push_back("function names: most of the native code has none (built with -s, or stripped)");
  }
}

// Most of an operation of some microseconds is its call: other hardware does not change that.
void AddTinyOperations(const Timeline& timeline, uint32_t process, Verdict* verdict) {
  constexpr double kTinyPs = 10e6;
  constexpr double kFewest = 20'000, kMostly = 0.6;
  if (verdict->cause != Cause::kOperations || verdict->advice != Advice::kOfCause) return;
  double self_ps = 0, calls = 0, tiny_ps = 0;
  for (const OperationTotal& total : timeline.processes[process].operations) {
    if (!IsTorchWork(timeline.types[total.type]) || total.self_ps < 0) continue;
    const auto of_type = static_cast<double>(total.self_ps), of_calls = static_cast<double>(total.calls);
    self_ps += of_type;
    calls += of_calls;
    if (of_type <= kTinyPs * of_calls) tiny_ps += of_type;
  }
  const bool is_most = self_ps * 2 >= static_cast<double>(verdict->total_ps) * verdict->share;
  if (calls < kFewest || tiny_ps < kMostly * self_ps || !is_most) return;
  verdict->advice = Advice::kTinyOperations;
  verdict->facts.push_back(StrCat(HumanCount(static_cast<uint64_t>(calls)), " operations of PyTorch, of ",
                                  HumanTime(static_cast<int64_t>(self_ps / calls)), " each"));
}

// Whether the memory of a process grows from step to step, by 64 MiB and a quarter of the peak.
bool GrowsMuch(const Process& process) {
  constexpr int64_t kLeastBytes = 64 << 20;
  const HeldMemory& memory = process.memory;
  return memory.grows.value_or(false) && memory.growth.has_value() && memory.growth->bytes >= kLeastBytes &&
         memory.growth->bytes >= memory.peak_bytes / 4;
}

// If the split shows no problem: steps that get slower, or memory that grows.
void AddGrowth(const Timeline& timeline, Verdict* verdict) {
  const StepChange& change = timeline.step_change;
  const bool is_python = verdict->cause == Cause::kPython;
  // Memory that is kept needs new pages in each step.
  const bool faults = verdict->cause == Cause::kAllocationChurn;
  if ((IsProblem(verdict->cause) && !is_python && !faults) || verdict->advice == Advice::kBetweenSteps) return;
  // Python code that takes longer and longer has a reason that says more than its language.
  const bool lasts = change.kind == ChangeKind::kDrift || (change.kind == ChangeKind::kJump && !is_python);
  const bool is_of_others = change.part == StepPart::kGil || change.part == StepPart::kCollectives;
  const bool has_place = !is_of_others && (change.line.file != 0 || change.line.function != 0);
  const bool is_free = verdict->advice == Advice::kOfCause || verdict->advice == Advice::kTinyOperations ||
                       verdict->advice == Advice::kNativeCode;
  if (lasts && has_place && change.IsSlower() && !faults) {
    verdict->remedy = change.kind == ChangeKind::kDrift ? Advice::kGrows : Advice::kGetsSlower;
  } else if ((is_free || faults) && !is_python &&
             GrowsMuch(timeline.processes[timeline.threads[verdict->thread].process])) {
    verdict->remedy = Advice::kMemoryGrows;
  }
}

// Steps that are far longer than the others. They decide the remedy if the split shows no problem.
void AddLongSteps(const Timeline& timeline, const PythonTags& tags, Verdict* verdict) {
  // Time between the steps is described by itself, and so is a change.
  if (timeline.step_change.kind != ChangeKind::kNone || verdict->basis != VerdictBasis::kSteps) return;
  constexpr double kMuch = 0.3;
  const LongSteps found = FindLongSteps(timeline, tags);
  if (found.count == 0) return;
  const PythonLine& line = found.change.line;
  const std::string place = StrCat(
      line.file == 0 ? "" : StrCat(PrintableUtf8(ShownFile(timeline.strings.Get(line.file))), ":", line.line, " "),
      PrintableUtf8(ShortSymbol(timeline.strings.Get(line.function))));
  const bool is_of_others = found.change.part == StepPart::kGil || found.change.part == StepPart::kCollectives;
  const bool has_place = !is_of_others && (line.file != 0 || line.function != 0);
  verdict->facts.insert(verdict->facts.begin(),
                        StrCat(found.count, " of ", found.steps, " steps take ", HumanTime(found.mean_ps),
                               " on average and ", HumanPercent(found.share), " of the time",
                               has_place ? StrCat(": +", HumanTime(found.change.line_ps), " at ", place) : ""));
  if (has_place && !IsProblem(verdict->cause) && found.share >= kMuch) verdict->remedy = Advice::kLongSteps;
}

// The cause is not known, and most of the time is waits that ended by their timeouts.
void AddTimeouts(const ThreadTime& time, Verdict* verdict) {
  constexpr double kMost = 0.5;
  if (verdict->cause != Cause::kUnknown) return;
  int64_t timed_out = 0;
  for (const WaitSlice& wait : time.waits()) {
    if (wait.timed_out) AddSaturating(&timed_out, wait.end_ps - wait.start_ps);
  }
  const double share = static_cast<double>(timed_out) / static_cast<double>(std::max<int64_t>(verdict->total_ps, 1));
  if (share < kMost) return;
  verdict->reason = StrCat(HumanPercent(std::min(share, 1.0)), " is waits that end by their timeouts");
  verdict->remedy = Advice::kTimeouts;
}

// The advice is about a hang, whatever limited the steps before it.
void AddHang(const Timeline& timeline, const PythonTags& tags, const WaitClasses& classes, uint32_t thread,
             Verdict* verdict) {
  Hang hang = FindHang(timeline, tags, classes, thread);
  if (hang.texts.empty()) return;
  verdict->remedy = hang.is_all ? Advice::kHangs : Advice::kHungAtEnd;
  if (!hang.is_all) {
    verdict->hung_ps = LengthOf({hang.span});
    verdict->facts.insert(verdict->facts.begin(),
                          StrCat("at the end it did nothing but wait for ", HumanTime(LengthOf({hang.span}))));
  }
  verdict->hangs = std::move(hang.texts);
}

// What the code does that takes the time, if its functions show it.
void AddHabits(const Timeline& timeline, const StepSpan& span, const std::vector<QuickCalls>& quick, Verdict* verdict) {
  constexpr double kMuch = 0.25, kMuchSpinning = 0.4;
  for (const QuickCalls& calls : quick) {
    if (calls.part != verdict->part) continue;
    verdict->facts.push_back(calls.fact);
    const bool most = calls.ps >= verdict->part_ps[static_cast<size_t>(calls.part)] / 2;
    if (most && (verdict->cause == Cause::kDisk || verdict->cause == Cause::kNetwork)) {
      verdict->advice = Advice::kQuickCalls;
    }
  }
  AddTinyOperations(timeline, timeline.threads[span.thread].process, verdict);
  const bool computes = verdict->cause == Cause::kOperations || verdict->cause == Cause::kOversubscription ||
                        verdict->cause == Cause::kCpuContention;
  if (!computes && verdict->cause != Cause::kAllocationChurn) return;
  const NativeHabits habits = NativeHabitsOf(timeline, span.thread, span.spans);
  if (habits.doubles >= kMuch) {
    verdict->facts.push_back(
        StrCat(HumanPercent(habits.doubles), " of its CPU time multiplies matrices of doubles (float64)"));
    if (verdict->advice == Advice::kOfCause && verdict->cause == Cause::kOperations) {
      verdict->advice = Advice::kDoublePrecision;
    }
  }
  if (!computes) return;
  if (habits.allocates >= kMuch) {
    verdict->facts.push_back(StrCat(HumanPercent(habits.allocates), " of its CPU time is in malloc and free"));
    if (verdict->advice == Advice::kOfCause && verdict->cause == Cause::kOperations) {
      verdict->advice = Advice::kAllocates;
    }
  }
  if (habits.spins >= kMuchSpinning) {
    verdict->facts.push_back(
        StrCat("OpenMP's threads wait for each other in ", HumanPercent(habits.spins), " of the CPU time: they spin"));
  }
}

// Of a program without Python, which may be no training at all; and whether it spends its CPU time in the kernel,
// outside of the calls that hooks record or count: in calls of stdio, which the C library makes itself, and in its own.
void AddNativeCode(const Timeline& timeline, const NativePlaces& natives, uint32_t thread, const ThreadTime& time,
                   const std::vector<QuickCalls>& quick, Verdict* verdict) {
  constexpr double kMuch = 0.4;
  if (verdict->cause != Cause::kOperations || !natives.IsNative(thread)) return;
  const bool is_free = verdict->advice == Advice::kOfCause;
  if (is_free) verdict->advice = Advice::kNativeCode;
  const UsageInSpans usage = UsageOf(timeline, thread, time.gaps());
  const bool is_known = usage.known && usage.cpu_ps > 0 && natives.Has(thread);
  if (!is_known || IsPaused(timeline, timeline.threads[thread].process)) return;
  const auto cpu = static_cast<double>(usage.cpu_ps);
  // Pages are given back as well.
  double in_kernel = cpu - 2 * FaultPs(timeline, usage);
  for (const NativePlace& place : natives.In(thread, time.gaps())) in_kernel -= static_cast<double>(place.ps);
  for (const QuickCalls& calls : quick) in_kernel -= static_cast<double>(calls.ps);
  if (in_kernel < kMuch * cpu) return;
  verdict->facts.insert(verdict->facts.begin(), StrCat(HumanPercent(in_kernel / cpu),
                                                       " of its CPU time is in the kernel, outside of recorded calls"
                                                       " (stdio's, or other system calls)"));
  if (is_free) verdict->advice = Advice::kInKernel;
}

// Whether what the program's own lines show may replace the advice.
bool IsFree(Advice advice) {
  return advice == Advice::kOfCause || advice == Advice::kNoLine || advice == Advice::kOwnFunction ||
         advice == Advice::kTinyOperations;
}

// Whether the Python code of another function of the program, which the library may call, takes longer than that of the
// line.
bool HasLargerFunction(const Timeline& timeline, const Account& account, const Where& line) {
  const PythonTimeline& python = timeline.python;
  std::map<std::pair<StringId, StringId>, int64_t> functions;  // by file and name
  int64_t at_line = 0;
  account.ForEach([&](const AccountRow& row) {
    if (row.part != StepPart::kPython || row.frame == 0) return;
    const PythonFunction& function = python.functions[python.stacks[row.frame].function];
    const bool is_line = function.file == line.file && python.stacks[row.frame].line == line.line;
    AddSaturating(is_line ? &at_line : &functions[{function.file, function.name}], row.ps);
  });
  return std::ranges::any_of(functions, [&](const auto& of) {
    return of.second > at_line && of.first != std::pair(line.file, line.function);
  });
}

// What the program's line calls in libraries, and what that changes in the advice.
void AddLibraryCode(const Timeline& timeline, const PythonTags& tags, const StepSpan& span, const Account& account,
                    const ThreadTime& time, Verdict* verdict) {
  constexpr double kLeast = 0.3, kMostlyLibrary = 0.8;
  if (verdict->where.empty() || verdict->where.front().role != WhereRole::kSpends) return;
  const Where& line = verdict->where.front();
  const bool runs = line.line > 0 && line.doing.empty();
  // Its waits for a library's threads are those of what it calls, too.
  const bool computes = line.line > 0 && verdict->cause == Cause::kOperations;
  if ((runs || computes) && line.share >= kLeast) {
    std::string functions = FactOfLibraryFunctions(timeline, tags, span, line);
    if (!functions.empty()) verdict->facts.insert(verdict->facts.begin(), std::move(functions));
  }
  if (!IsFree(verdict->advice)) return;
  if (verdict->cause == Cause::kAllocationChurn && runs && LibraryShare(timeline, tags, time, line) >= kMostlyLibrary) {
    verdict->advice = Advice::kLibraryAllocates;
  }
  if (verdict->cause != Cause::kPython && verdict->cause != Cause::kOperations) return;
  // Where the interpreter takes little, other code would not be faster.
  const bool is_python = verdict->ShareOf(StepPart::kPython) >= kLeast;
  const Advice eager = is_python ? AdviceOfEagerCode(timeline, tags, time) : Advice::kOfCause;
  const bool is_one_line = line.share >= verdict->share / 2;
  if (eager != Advice::kOfCause) {
    verdict->advice = eager;
    return;
  }
  if (verdict->cause != Cause::kPython) return;
  constexpr double kOfProgram = 0.2;
  if (ProgramShare(tags, time) < kOfProgram) {
    verdict->advice = Advice::kLibraryAlone;
    if (std::string fact = FactOfPackages(timeline, time); !fact.empty()) verdict->facts.push_back(std::move(fact));
    return;
  }
  const double of_libraries =
      is_one_line ? LibraryShare(timeline, tags, time, line) : LibraryShare(timeline, tags, time);
  if (of_libraries >= kMostlyLibrary && !HasLargerFunction(timeline, account, line))
    verdict->advice = Advice::kLibraryPython;
}

// The function in place of a line that only starts the training, if it has at least half of the cause's part.
void ShowFirst(const Timeline& timeline, const Account& account, Where own, Verdict* verdict) {
  const PythonTimeline& python = timeline.python;
  int64_t in_function = 0;
  for (const AccountRow& row : account.RowsOf([&](const AccountRow& of) { return of.part == verdict->part; })) {
    for (uint32_t frame = row.frame; frame != 0; frame = python.stacks[frame].parent) {
      const PythonFunction& function = python.functions[python.stacks[frame].function];
      if (function.file != own.file || function.name != own.function) continue;
      in_function += row.ps;
      break;
    }
  }
  own.share = verdict->total_ps <= 0 ? 0 : static_cast<double>(in_function) / static_cast<double>(verdict->total_ps);
  if (own.share * 2 < verdict->share) return;
  std::erase_if(verdict->where, [&](const Where& where) {
    return where.role == WhereRole::kSpends && where.file == own.file && where.function == own.function;
  });
  verdict->where.insert(verdict->where.begin(), std::move(own));
}

// Where the program's own code is in all this, and what that changes in the advice.
void AddOwnLines(const Timeline& timeline, const PythonTags& tags, const StepSpan& span, const Account& account,
                 const ThreadTime& time, Verdict* verdict) {
  constexpr double kMuchBetween = 0.25, kOneLine = 0.5;
  if (!span.between.empty()) {
    BetweenSteps found = FindBetweenSteps(timeline, span);
    verdict->facts.insert(verdict->facts.begin(), std::move(found.fact));
    const double share = static_cast<double>(LengthOf(span.between)) / static_cast<double>(LengthOf(span.spans));
    const bool is_work = verdict->cause == Cause::kOperations || verdict->cause == Cause::kPython;
    // Without a function that runs there alone, steps that were inferred may leave out turns of the same loop.
    if (share >= kMuchBetween && is_work && found.has_function && IsFree(verdict->advice)) {
      verdict->advice = Advice::kBetweenSteps;
      if (found.own.has_value()) ShowFirst(timeline, account, *std::move(found.own), verdict);
      return;
    }
  } else if (OwnLineFact own = FactOfOwnLine(timeline, tags, account, *verdict); !own.text.empty()) {
    verdict->facts.push_back(std::move(own.text));
    const bool is_spread = verdict->where.empty() || verdict->where.front().share < kOneLine * verdict->share;
    const bool is_free = verdict->advice == Advice::kNoLine || verdict->advice == Advice::kOfCause;
    // Of a line that calls a library, the library would have to be faster.
    const bool is_library = own.line.line > 0 && LibraryShare(timeline, tags, time, own.line) >= kOneLine;
    if (verdict->cause == Cause::kPython && is_spread && is_free && !is_library) verdict->advice = Advice::kOwnFunction;
  }
  AddLibraryCode(timeline, tags, span, account, time, verdict);
}

}  // namespace

Verdict MakeVerdict(const Timeline& timeline) {
  Verdict verdict;
  const PythonTags tags(timeline);
  StepSpan span = FindStepSpan(timeline, tags);
  verdict.basis = span.basis;
  verdict.thread = span.thread;
  verdict.steps = span.steps;
  verdict.loop = span.loop;
  if (span.spans.empty()) {
    verdict.reason = span.reason.empty() ? "nothing was recorded of the program's main thread" : span.reason;
    return verdict;
  }
  const int64_t before_ps = LengthOf(span.spans);
  LeaveOut(StoppedSpans(timeline, span.thread), &span);
  verdict.total_ps = LengthOf(span.spans);
  if (verdict.total_ps < before_ps) {
    const std::string stopped =
        StrCat("stopped by a signal or a debugger for ", HumanTime(before_ps - verdict.total_ps));
    constexpr int64_t kLeastPart = 4;
    if (verdict.total_ps < before_ps / kLeastPart) {
      verdict.total_ps = 0;
      verdict.reason = StrCat("the main thread was ", stopped, " of ", HumanTime(before_ps));
      return verdict;
    }
    verdict.limits.push_back(StrCat(stopped, ", which is left out"));
  }
  if (std::string covered = CoveredPart(timeline, span, before_ps); !covered.empty()) {
    verdict.limits.push_back(std::move(covered));
  }
  if (timeline.attached) {
    verdict.limits.push_back("waits and steps: by samples alone; `tbprof run` records each");
  } else if (!timeline.waits_recorded) {
    verdict.limits.push_back("waits: not recorded (--trace)");
  }
  const uint32_t process = timeline.threads[span.thread].process;
  const GpuTime gpu(timeline, process, span.spans);
  WaitClasses classes(timeline);
  classes.AddPools(FindLibraryPools(timeline, tags, classes, gpu, span.thread, span.spans));
  const NativePlaces natives(timeline);
  AddLimits(timeline, tags, natives, span, &verdict);
  const ThreadTime time(timeline, classes, span.thread, span.spans);
  if (gpu.is_cut()) {
    verdict.limits.push_back("GPU work: the shortest was left out (--max-profile-size)");
  }
  const UsageInSpans usage = UsageOf(timeline, span.thread, span.spans);
  Account account(tags);
  AddWaits(tags, time, gpu, &account);
  const std::vector<QuickCalls> quick = QuickCallsOf(timeline, tags, classes, span.thread, usage, time.gap_ps());
  int64_t quick_ps = 0;
  for (const QuickCalls& calls : quick) {
    account.AddWait(calls.part, calls.call, calls.ps);
    quick_ps += calls.ps;
  }
  SplitRunning(timeline, tags, natives, span.thread, time, usage, quick_ps, &account, &verdict.limits);
  int64_t sum = 0;
  for (size_t i = 0; i < kStepParts; ++i) {
    verdict.part_ps[i] = account.parts()[i];
    sum += verdict.part_ps[i];
  }
  verdict.part_ps[static_cast<size_t>(StepPart::kRest)] += verdict.total_ps - sum;
  ChooseCause({timeline, tags, classes, natives, span, time, gpu, usage, account}, &verdict);
  if (verdict.advice == Advice::kServes) {
    auto work = WorkForClients(timeline, tags, classes, span.thread, span.spans);
    if (work.has_value()) verdict.where.push_back(*std::move(work));
  }
  AddTimeouts(time, &verdict);
  AddHabits(timeline, span, quick, &verdict);
  AddNativeCode(timeline, natives, span.thread, time, quick, &verdict);
  AddOwnLines(timeline, tags, span, account, time, &verdict);
  AddCpusOfWorkers(timeline, process, span.spans, &verdict);
  AddGrowth(timeline, &verdict);
  AddLongSteps(timeline, tags, &verdict);
  AddHang(timeline, tags, classes, span.thread, &verdict);
  if (const std::string about = OtherProcess(timeline, timeline.threads[span.thread]); !about.empty()) {
    verdict.facts.insert(verdict.facts.begin(), about);  // a narrow terminal cuts the last ones
  }
  return verdict;
}

}  // namespace tbprof
