// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/timeline_verdict.h"

#include <algorithm>
#include <iterator>

namespace tbprof {
namespace {

struct PartNames {
  std::string_view name, title;
};
constexpr PartNames kPartNames[kStepParts] = {
    {"input", "input"},
    {"operations", "native code"},
    {"python", "Python"},
    {"launch", "GPU launches"},
    {"kernels", "GPU kernels"},
    {"copies", "GPU copies"},
    {"collectives", "collectives"},
    {"locks", "locks"},
    {"gil", "GIL"},
    {"gc", "garbage collection"},
    {"reclaim", "page faults"},
    {"disk", "files"},
    {"network", "network"},
    {"child", "child processes and pipes"},
    {"sleep", "sleep"},
    {"starvation", "waits for a CPU"},
    {"compile", "compiling"},
    {"rest", "not known"},
};

struct CauseText {
  std::string_view name;
  bool problem;
  std::string_view title, next;
};
constexpr CauseText kCauses[] = {
#define TBPROF_CAUSE(id, name, problem, title, next) {name, problem, title, next},
#include "writer/timeline/verdict_causes.def"
};
const CauseText& TextOf(Cause cause) { return kCauses[static_cast<size_t>(cause)]; }

}  // namespace

std::string_view StepPartName(StepPart part) { return kPartNames[static_cast<size_t>(part)].name; }
std::string_view StepPartTitle(StepPart part) { return kPartNames[static_cast<size_t>(part)].title; }
std::optional<StepPart> StepPartNamed(std::string_view text) {
  const auto* const found = std::ranges::find_if(
      kPartNames, [text](const PartNames& names) { return names.name == text || names.title == text; });
  if (found == std::end(kPartNames)) return std::nullopt;
  return static_cast<StepPart>(found - std::begin(kPartNames));
}
std::string_view CauseName(Cause cause) { return TextOf(cause).name; }
std::string_view CauseTitle(Cause cause, Advice advice) {
  if (advice == Advice::kQuickCalls) return "makes many short calls that read or write";
  if (advice == Advice::kAtLocks) return "its threads wait for contended locks";
  if (advice == Advice::kOwnProcesses || advice == Advice::kOwnUnseen) return "waits for its worker processes";
  if (advice == Advice::kServes) return "waits for clients";
  if (advice == Advice::kCpusAreUsed && cause == Cause::kWorkers)
    return "waits for its own threads or processes, which use the CPUs";
  if (advice == Advice::kTimeouts) return "waits until its timeouts";
  if (advice == Advice::kNoBlocker && cause == Cause::kPrefetchThread) {
    return "waits for another thread or process, which is not known";
  }
  return advice == Advice::kStdin ? "waits for its standard input" : TextOf(cause).title;
}
bool IsProblem(Cause cause) { return TextOf(cause).problem; }

Cause CauseNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kCauses, name, &CauseText::name);
  return found == std::end(kCauses) ? Cause::kUnknown : static_cast<Cause>(found - std::begin(kCauses));
}

std::string_view NextStep(const Verdict& verdict) {
  if (verdict.hangs.empty() && verdict.blocker_cause != Cause::kUnknown) return TextOf(verdict.blocker_cause).next;
  switch (verdict.remedy.value_or(verdict.advice)) {
    case Advice::kOfCause:
      break;
    case Advice::kReads:
      return "read ahead in another thread, or more with each call";
    case Advice::kSyncs:
      return "write and sync in another thread";
    case Advice::kServes:
      return "it waits for clients: capture it while they use it, or look at what it does for a request";
    case Advice::kNoBlocker:
      return "look at its other threads and processes in the profile; more of them help only if CPUs are idle";
    case Advice::kTimeouts:
      return "most of these waits end by their timeout, as nothing comes: make it shorter, or stop waiting for more";
    case Advice::kNoLine:
      return "no single line takes much: call less (TensorBoard shows the callers), or divide the work among processes";
    case Advice::kNoSteps:
      return "run longer, as compiled code is used again, or keep a compilation cache; if it compiles again and again, "
             "keep shapes and types the same";
    case Advice::kCompilesAgain:
      return "it compiles up to the end: keep shapes, types and static arguments the same, and make compiled functions "
             "once, outside of the loop";
    case Advice::kTakeTurns:
      return "use processes: its threads take turns with the GIL";
    case Advice::kBesideAWait:
      return "let that code compute less, or use more CPUs or a GPU; look at what the split's waits are for";
    case Advice::kOwnProcesses:
      return "make the blocker faster; start more of them if CPUs are idle";
    case Advice::kOwnUnseen:
      return "look at what these processes do (their rows are in the profile); more of them help only if CPUs are idle";
    case Advice::kStartedAgain:
      return "start the workers once: DataLoader(persistent_workers=True); let the script import less";
    case Advice::kStdin:
      return "make the program that writes to it faster, or read ahead in another thread";
    case Advice::kReduced:
      return "reduce less often (accumulate gradients: no_sync), or less (smaller types, fewer parameters)";
    case Advice::kQuickCalls:
      return "read or write more with each call: use a buffer";
    case Advice::kSendsMuch:
      return "send less between the processes (indices or paths in place of data, or shared memory): it is pickled and "
             "goes through a pipe";
    case Advice::kCpusAreUsed:
      return "make the blocker's code faster, or use more CPUs: the job uses nearly all that it may use";
    case Advice::kCpusAreIdle:
      return "start more of them, as the job leaves CPUs idle, or make the blocker faster";
    case Advice::kLoaderUsesCpus:
      return "do less work for each sample in the loader: the job uses its CPUs, so more workers would not help";
    case Advice::kLoaderLeavesCpus:
      return "raise num_workers, as the job leaves CPUs idle, or do less work for each sample in the loader";
    case Advice::kGrows:
      return "find what grows from step to step at the place in `slower:` (a list, a history, a file)";
    case Advice::kGetsSlower:
      return "find out what changed at the place in `slower:`: before, steps were faster";
    case Advice::kMemoryGrows:
      return "find what keeps the memory of `memory:` (a list of losses with their graphs, a history): keep what is "
             "needed";
    case Advice::kLongSteps:
      return "do what the long steps do (`evidence:`) less often, or make it faster";
    case Advice::kHangs:
      return "it did nothing but wait: if it should run, it hangs where `hangs:` says";
    case Advice::kHungAtEnd:
      return "at the end it did nothing but wait: if it should have run, it hung where `hangs:` says";
    case Advice::kAtLocks:
      return "hold the lock for less time, or give each thread data of its own";
    case Advice::kAllocates:
      return "keep and reuse the memory instead of allocating it in each turn, or preload a faster allocator";
    case Advice::kTinyOperations:
      return "give each operation more work (larger batches, fewer calls, fewer .item()); a GPU would not help";
    case Advice::kDoublePrecision:
      return "use float32 or less for what need not be exact: matrices are multiplied in double precision";
    case Advice::kOwnFunction:
      return "no single line takes much: make what `evidence:` names faster (vectorize it), or move it into other "
             "processes";
    case Advice::kLibraryPython:
      return "the Python code is a library's: call it less often, or use what it compiles (such as "
             "torch.compile)";
    case Advice::kEagerJax:
      return "JAX runs each operation by itself: make the whole step one function under jax.jit";
    case Advice::kEagerTensorFlow:
      return "TensorFlow runs each operation by itself: put the step in a tf.function (Keras: without run_eagerly)";
    case Advice::kBetweenSteps:
      return "most of the time is between the steps: make what runs there faster (evaluation: larger batches, fewer "
             "samples)";
    case Advice::kFewRanks:
      return "record all ranks in one run (--ranks=all, --run=NAME): another rank may be slow";
    case Advice::kFewChildren:
      return "look at what the child does (its threads are in the profile), or do other work until it answers";
  }
  return TextOf(verdict.cause).next;
}

}  // namespace tbprof
