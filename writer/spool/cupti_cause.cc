// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/cupti_cause.h"

#include <algorithm>
#include <array>

#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kCauses = static_cast<size_t>(CuptiLeft::kOtherCopy) + 1;

struct Row {
  CuptiLeft left;
  std::string_view name, text, remedy;
};
constexpr Row kRows[] = {
    {CuptiLeft::kNothing, "", "", "to avoid it, turn the program's profiler off"},
    {CuptiLeft::kSubscriberV2, "subscriber_v2", "a subscriber of cuptiSubscribe_v2",
     "have it call cuptiUnsubscribe when it is done (PyTorch: turn the CUPTI monitor off)"},
    {CuptiLeft::kTooManySubscribers, "too_many_subscribers", "more than 8 subscribers at a time",
     "keep at most 8, or call cuptiFinalize when they are done"},
    {CuptiLeft::kContextKinds, "context_kinds", "activity kinds of single contexts",
     "use cuptiActivityEnable instead of cuptiActivityEnableContext, or call cuptiFinalize when done"},
    {CuptiLeft::kKinds, "activity_kinds", "activity kinds that are enabled",
     "end its profiling (torch.profiler: stop, jax.profiler: stop_trace) or turn it off for the window"},
    {CuptiLeft::kCallbacks, "callbacks", "callbacks of API calls that are enabled",
     "have it call cuptiUnsubscribe, or disable its callbacks, when it is done"},
    {CuptiLeft::kUnflushed, "unflushed_records", "records that are not flushed",
     "have it call cuptiActivityFlushAll after its last cuptiActivityDisable"},
    {CuptiLeft::kCall, "call_in_flight", "a CUPTI call that had not returned",
     "turn the program's profiler off; if the gap does not end, a thread hangs in that call"},
    {CuptiLeft::kQuietTime, "quiet_time", "the 1 s without CUPTI calls that tbprof waits for",
     "keep its CUPTI calls out of the window (--window), or turn its profiler off"},
    {CuptiLeft::kOtherCopy, "other_copy",
     "the driver's refusal of the program's copy of CUPTI, which is another one than tbprof's",
     "use --cuda=hooks, or have the program load its CUPTI before its first CUDA call"},
};
static_assert(std::size(kRows) == kCauses);

const Row& RowOf(CuptiLeft left) {
  const auto* const found = std::ranges::find(kRows, left, &Row::left);
  return found == std::end(kRows) ? kRows[0] : *found;
}

bool PassesByItself(CuptiLeft left) {
  return left == CuptiLeft::kNothing || left == CuptiLeft::kCall || left == CuptiLeft::kQuietTime;
}

}  // namespace

CuptiCause FindCuptiCause(const std::vector<CuptiUseAt>& uses, const CuptiGap& gap) {
  CuptiCause cause;
  std::array<uint64_t, kCauses> lasted{};
  for (auto use = std::ranges::lower_bound(uses, gap.start, {}, &CuptiUseAt::ticks);
       use != uses.end() && use->ticks < gap.until; ++use) {
    if (cause.first_call.empty()) {
      cause.first_call = use->first_call;
      cause.caller = use->caller;
    }
    const auto next = use + 1;
    const uint64_t end = next == uses.end() ? gap.until : std::min(next->ticks, gap.until);
    const uint64_t start = std::max(use->ticks, gap.from);
    if (end > start) lasted[static_cast<size_t>(use->left)] += end - start;
    cause.left = use->left;
  }
  if (gap.is_open && !PassesByItself(cause.left)) return cause;
  const auto* const longest = std::ranges::max_element(lasted);
  if (*longest > 0) cause.left = static_cast<CuptiLeft>(longest - lasted.begin());
  return cause;
}

CuptiCause LatestCuptiCause(const std::vector<CuptiUseAt>& uses) {
  if (uses.empty()) return {};
  const auto lasting =
      std::find_if(uses.rbegin(), uses.rend(), [](const CuptiUseAt& use) { return !PassesByItself(use.left); });
  const CuptiUseAt& use = lasting == uses.rend() ? uses.back() : *lasting;
  return {use.left, use.caller, use.first_call};
}

std::string CuptiCauseText(const CuptiCause& cause, const std::string* module) {
  std::string text;
  if (!cause.first_call.empty()) {
    text = StrCat("first call ", PrintableUtf8(cause.first_call));
    if (module != nullptr) StrAppend(&text, " from ", module->empty() ? "an unknown module" : PrintableUtf8(*module));
  }
  const std::string_view left = RowOf(cause.left).text;
  if (!left.empty()) StrAppend(&text, text.empty() ? "" : "; ", "kept open by ", left);
  return text;
}

std::string_view CuptiLeftName(CuptiLeft left) { return RowOf(left).name; }

PauseCause ParsePauseCause(std::string_view text) {
  struct Word {
    std::string_view word;
    PauseCause cause;
  };
  static constexpr Word kWords[] = {{kPauseProgram, PauseCause::kProgram},
                                    {kPauseWindow, PauseCause::kWindow},
                                    {kPauseRestart, PauseCause::kRestart},
                                    {kPauseLimited, PauseCause::kLimited},
                                    {kPauseEnd, PauseCause::kEnd}};
  const std::string_view first = text.substr(0, text.find(':'));
  const auto* const found = std::ranges::find(kWords, first, &Word::word);
  return found == std::end(kWords) ? PauseCause::kOther : found->cause;
}

std::string_view OwnGapRemedy(PauseCause cause) { return cause == PauseCause::kLimited ? kInvalidTimesRemedy : ""; }

std::string_view CuptiRemedy(CuptiLeft left) { return RowOf(left).remedy; }

}  // namespace tbprof
