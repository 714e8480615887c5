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
constexpr std::string_view kAdviceTexts[] = {
#define TBPROF_ADVICE(id, text) text,
#include "writer/timeline/verdict_advice.def"
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
  if (advice == Advice::kNoWorkers) return "makes the batches itself, in the data loader";
  if (advice == Advice::kServes) return "waits for clients";
  if ((advice == Advice::kCpusAreUsed || advice == Advice::kManyThreads) && cause == Cause::kWorkers)
    return "waits for its own threads or processes, which use the CPUs";
  if (advice == Advice::kTimeouts) return "waits that end by their timeouts";
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
  const std::string_view text = kAdviceTexts[static_cast<size_t>(verdict.remedy.value_or(verdict.advice))];
  return text.empty() ? TextOf(verdict.cause).next : text;
}

}  // namespace tbprof
