// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/advice_choice.h"

#include <algorithm>
#include <cstddef>

#include "writer/base/saturating.h"
#include "writer/base/text_match.h"
#include "writer/timeline/python_origin.h"
#include "writer/verdict/cpu_split.h"
#include "writer/verdict/thread_time.h"

namespace tbprof {
namespace {

// A process with more children starts one for each piece of work. Fewer live on.
constexpr ptrdiff_t kFewChildren = 4;

// Share of the cause's time that a line must take to be the one to change.
constexpr double kLeastOfLine = 0.2;

bool HasALine(const std::vector<AccountRow>& rows) {
  int64_t sum = 0;
  for (const AccountRow& row : rows) sum += row.ps;
  return rows.empty() || static_cast<double>(rows.front().ps) >= kLeastOfLine * static_cast<double>(sum);
}

// Whether most of the time is in waits for the threads of a library that compute.
bool MostlyInPool(const std::vector<AccountRow>& rows) {
  int64_t all = 0, waits = 0;
  for (const AccountRow& row : rows) {
    AddSaturating(&all, row.ps);
    const bool in_pool = row.doing == static_cast<int>(WaitClass::kPool) || row.doing == kBlocked;
    if (in_pool) AddSaturating(&waits, row.ps);
  }
  return waits > all / 2;
}

// Whether at least half of the time is in waits that nobody ended.
bool MostlyTimeOut(const std::vector<WaitSlice>& waits) {
  int64_t all = 0, timed_out = 0;
  for (const WaitSlice& wait : waits) {
    AddSaturating(&all, wait.end_ps - wait.start_ps);
    if (wait.timed_out) AddSaturating(&timed_out, wait.end_ps - wait.start_ps);
  }
  return all > 0 && timed_out >= all / 2;
}

// Whether single writes to standard output take long: a buffer is full whose reader is slow.
bool OutputIsSlow(const std::vector<WaitSlice>& waits) {
  constexpr int64_t kLongPs = 2'000'000'000;
  int64_t all = 0, in_long = 0;
  for (const WaitSlice& wait : waits) {
    AddSaturating(&all, wait.end_ps - wait.start_ps);
    const bool is_long = wait.kind == WaitClass::kTerminal && wait.call_end_ps - wait.start_ps >= kLongPs;
    if (is_long) AddSaturating(&in_long, wait.end_ps - wait.start_ps);
  }
  return all > 0 && in_long >= all / 2;
}

// Whether the thread itself makes at least half of the loader's data: PyTorch's loader has no workers.
bool LoadsItself(const Timeline& timeline, const std::vector<AccountRow>& rows) {
  const PythonTimeline& python = timeline.python;
  std::vector<bool> fetches;  // by function
  for (const PythonFunction& function : python.functions) {
    fetches.push_back(timeline.strings.Get(function.file).ends_with("/torch/utils/data/_utils/fetch.py"));
  }
  int64_t all = 0, itself = 0;
  for (const AccountRow& row : rows) {
    AddSaturating(&all, row.ps);
    uint32_t stack = row.frame;
    while (stack != 0 && !fetches[python.stacks[stack].function]) stack = python.stacks[stack].parent;
    if (stack != 0) AddSaturating(&itself, row.ps);
  }
  return all > 0 && itself >= all / 2;
}

// Whether at least half of the time an event loop waits: which of its tasks for what is not known.
bool MostlyInEventLoop(const Timeline& timeline, const std::vector<WaitSlice>& waits) {
  const PythonTimeline& python = timeline.python;
  std::vector<bool> is_loop;
  for (const PythonFunction& function : python.functions) {
    const std::string_view file = timeline.strings.Get(function.file), name = timeline.strings.Get(function.name);
    is_loop.push_back(file.ends_with("/asyncio/base_events.py") && ContainsAny(name, {"_run_once"}));
  }
  int64_t all = 0, in_loop = 0;
  for (const WaitSlice& wait : waits) {
    const int64_t length = wait.end_ps - wait.start_ps;
    AddSaturating(&all, length);
    // The loop calls the selector, which waits.
    uint32_t stack = wait.stack;
    for (int calls = 0; calls < 2 && stack != 0 && !is_loop[python.stacks[stack].function]; ++calls) {
      stack = python.stacks[stack].parent;
    }
    if (stack != 0 && is_loop[python.stacks[stack].function]) AddSaturating(&in_loop, length);
  }
  return all > 0 && in_loop >= all / 2;
}

// Whether at least half of the time is in calls of the program's own code that an event loop runs: no other task of the
// loop can run meanwhile.
bool MostlyBlocksEventLoop(const Timeline& timeline, const std::vector<WaitSlice>& waits) {
  const PythonTimeline& python = timeline.python;
  std::vector<bool> is_own, runs_loop, of_notebook;  // by function
  for (const PythonFunction& function : python.functions) {
    const std::string_view file = timeline.strings.Get(function.file), name = timeline.strings.Get(function.name);
    is_own.push_back(PythonOriginOf(file, name) == PythonOrigin::kProgram);
    runs_loop.push_back(file.ends_with("/asyncio/runners.py") || file.ends_with("/asyncio/base_events.py"));
    // Its cells run below the event loop of the kernel, which has nothing else to do.
    of_notebook.push_back(ContainsAny(file, {"/ipykernel/", "/IPython/"}));
  }
  int64_t all = 0, blocks = 0;
  for (const WaitSlice& wait : waits) {
    bool own = false, blocks_loop = false;
    for (uint32_t stack = wait.stack; stack != 0 && !blocks_loop; stack = python.stacks[stack].parent) {
      const uint32_t function = python.stacks[stack].function;
      own = own || is_own[function];
      if ((runs_loop[function] && !own) || of_notebook[function]) break;
      blocks_loop = runs_loop[function];
    }
    AddSaturating(&all, wait.end_ps - wait.start_ps);
    if (blocks_loop) AddSaturating(&blocks, wait.end_ps - wait.start_ps);
  }
  return all > 0 && blocks >= all / 2;
}

// Whether the CPU time of processes that this one has forked is known, and all their threads together ran, or could
// run, for little of the waits.
bool AreChildrenIdle(const Timeline& timeline, uint32_t process, const std::vector<WaitSlice>& waits) {
  constexpr double kBusy = 0.3;
  const std::vector<TimeSpan> spans = SpansOf(waits);
  bool any = false;
  double busy_ps = 0;
  for (const ThreadUsage& of_thread : timeline.usage) {
    const Process& child = timeline.processes[timeline.threads[of_thread.thread].process];
    if (child.parent != static_cast<int>(process) || !child.forked) continue;
    const UsageInSpans usage = UsageOf(timeline, of_thread.thread, spans);
    any = any || usage.known;
    busy_ps += static_cast<double>(usage.cpu_ps) + static_cast<double>(usage.run_delay_ps);
  }
  return any && busy_ps < kBusy * static_cast<double>(LengthOf(spans));
}

// By the call that takes most of the time.
Advice OfCall(const Timeline& timeline, const AdviceInputs& inputs) {
  if (inputs.rows.empty() || inputs.rows.front().doing < 0) return Advice::kOfCause;
  switch (static_cast<WaitClass>(inputs.rows.front().doing)) {
    case WaitClass::kFileRead:
      return Advice::kReads;
    case WaitClass::kFileSync:
      return Advice::kSyncs;
    default: {
      // A server waits in poll, and accept only takes what has come.
      constexpr size_t kLeastPart = 20;
      const auto accepts = static_cast<size_t>(std::ranges::count_if(
          inputs.waits, [&](const WaitSlice& wait) { return timeline.types[wait.type].name.starts_with("accept"); }));
      const bool serves =
          inputs.rows.front().tag == PythonTag::kServe || (accepts > 0 && accepts * kLeastPart >= inputs.waits.size());
      if (serves) return Advice::kServes;
      return MostlyInEventLoop(timeline, inputs.waits) ? Advice::kEventLoop : Advice::kOfCause;
    }
  }
}

// Whether a library reduces the gradients during the backward pass: DistributedDataParallel, FSDP and the like.
bool IsReducedByLibrary(const Timeline& timeline) {
  return std::ranges::any_of(timeline.python.functions, [&](const PythonFunction& function) {
    const std::string_view file = timeline.strings.Get(function.file), name = timeline.strings.Get(function.name);
    if (!ContainsAny(name, {"."})) return false;  // it is imported, and maybe not used
    return file.ends_with("/torch/nn/parallel/distributed.py") ||
           ContainsAny(file, {"/torch/distributed/fsdp/", "/deepspeed/", "/horovod/"});
  });
}

}  // namespace

Advice ChooseAdvice(const Timeline& timeline, const AdviceInputs& inputs) {
  const bool waits = inputs.cause == Cause::kSleep || inputs.cause == Cause::kDisk || inputs.cause == Cause::kNetwork ||
                     inputs.cause == Cause::kChild || inputs.cause == Cause::kLockConvoy;
  if (waits && MostlyBlocksEventLoop(timeline, inputs.waits)) return Advice::kBlocksEventLoop;
  switch (inputs.cause) {
    case Cause::kDisk:
    case Cause::kNetwork:
      return OfCall(timeline, inputs);
    case Cause::kChild: {
      if (inputs.of_stdin) return Advice::kStdin;
      const auto children = std::ranges::count(timeline.processes, static_cast<int>(inputs.process), &Process::parent);
      const bool one_a_step = inputs.steps > 0 && static_cast<uint64_t>(children) >= inputs.steps;
      return children <= kFewChildren && !one_a_step ? Advice::kFewChildren : Advice::kOfCause;
    }
    case Cause::kSlowLoader: {
      const bool any =
          std::ranges::any_of(inputs.rows, [](const AccountRow& r) { return r.tag == PythonTag::kLoader; });
      if (any && LoadsItself(timeline, inputs.rows)) return Advice::kNoWorkers;
      if (any && inputs.workers_start) return Advice::kStartedAgain;
      if (any)
        return !inputs.has_blocker && AreChildrenIdle(timeline, inputs.process, inputs.waits) ? Advice::kHandsOver
                                                                                              : Advice::kOfCause;
      return inputs.has_blocker ? Advice::kOwnProcesses : Advice::kOwnUnseen;
    }
    case Cause::kLogging:
      return OutputIsSlow(inputs.waits) ? Advice::kSlowOutput : Advice::kOfCause;
    case Cause::kCollectives:
      return IsReducedByLibrary(timeline) ? Advice::kReduced : Advice::kOfCause;
    case Cause::kPython:
      return HasALine(inputs.rows) ? Advice::kOfCause : Advice::kNoLine;
    case Cause::kOperations:
      if (inputs.has_large_wait) return Advice::kBesideAWait;
      return MostlyInPool(inputs.rows) ? Advice::kLibraryThreads : Advice::kOfCause;
    case Cause::kWorkers:
      if (inputs.workers_want_gil) return Advice::kTakeTurns;
      return inputs.has_blocker ? Advice::kOfCause : Advice::kNoBlocker;
    case Cause::kLibraryWait:
      return inputs.has_blocker ? Advice::kLibraryAndBlocker : Advice::kOfCause;
    case Cause::kPrefetchThread:
      if (inputs.workers_want_gil) return Advice::kTakeTurns;
      if (inputs.has_blocker) return Advice::kOfCause;
      return MostlyTimeOut(inputs.waits) ? Advice::kTimeouts : Advice::kNoBlocker;
    case Cause::kRecompilation:
      if (inputs.steps > 0) return Advice::kOfCause;
      if (inputs.compiles_to_the_end) return Advice::kCompilesAgain;
      return timeline.attached || timeline.Runs() ? Advice::kCompilesInCapture : Advice::kNoSteps;
    default:
      return Advice::kOfCause;
  }
}

}  // namespace tbprof
