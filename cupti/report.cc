// SPDX-License-Identifier: Apache-2.0
// Rules: preload/RULES.md.
#include "cupti/report.h"

namespace tbprof::cupti {

void ReportAt(uint64_t ticks, GpuInfoKey key, const char* text, uint32_t length) {
  if (g_recorder.writer == nullptr) {
    if (g_recorder.pending_count == Recorder::kMostPending) return;
    Recorder::Pending* const pending = &g_recorder.pending[g_recorder.pending_count++];
    pending->key = key;
    pending->ticks = ticks;
    pending->text.Add(text, length);
    return;
  }
  Reservation reservation;
  if (!BeginRecord(g_recorder.session.segment, g_recorder.writer, 1 + SlotsFor(length), &reservation)) return;
  auto* record = reinterpret_cast<GpuInfoRecord*>(reservation.slots);
  record->ticks = ticks;
  record->text_length = length;
  record->reserved = 0;
  __builtin_memcpy(record + 1, text, length);
  CommitRecord(g_recorder.session.segment, g_recorder.writer, reservation, RecordKind::kGpuInfo, 0,
               static_cast<uint16_t>(key));
}
void Report(GpuInfoKey key, const char* text) {
  ReportAt(ReadTicks(g_recorder.session.clock), key, text, TextLength(text, 4096));
}

namespace {

void ReportLeft() {
  const CuptiUse& use = *g_recorder.bridge->cupti_use;
  const CuptiLeft left = use.Left(ReadMonotonic());
  const CuptiUse::FirstCall first = use.GetFirstCall();
  const bool known = left == g_recorder.left_reported && first.call == g_recorder.first_reported.call &&
                     first.caller == g_recorder.first_reported.caller;
  // kNothing: the program's last call has ended since tbprof tried to hold CUPTI.
  if (known || left == CuptiLeft::kNothing) return;
  g_recorder.left_reported = left;
  g_recorder.first_reported = first;
  CuptiLeftFact fact{};
  fact.caller = first.caller;
  fact.left = left;
  char bytes[sizeof(fact)];
  __builtin_memcpy(bytes, &fact, sizeof(fact));
  Report(GpuInfoKey::kLeft, Text<128>().Add(bytes, sizeof(bytes)).Add(CuptiCallName(first.call)));
}

const char* ResultText(Result result) {
  const char* text = nullptr;
  if (g_recorder.library.functions.get_result_string != nullptr &&
      g_recorder.library.functions.get_result_string(result, &text) == kSuccess && text != nullptr) {
    return text;
  }
  return "unknown error";
}

}  // namespace

void SetState(GpuState state) {
  __atomic_store_n(&g_recorder.session.process->gpu_state, static_cast<uint32_t>(state), __ATOMIC_RELEASE);
}

bool MayObserve() { return (g_recorder.session.segment.header->gpu_options & kGpuByHooks) != 0; }

void ReportUnavailable(const char* what, Result result) {
  Text<512> text;
  text.Add(what);
  if (result != kSuccess) {
    text.Add(": CUPTI error ")
        .Add(static_cast<uint64_t>(static_cast<uint32_t>(result)))
        .Add(" ")
        .Add(ResultText(result));
  }
  switch (result) {
    case kErrorMultipleSubscribers:
    case kErrorMaxLimitReached:
      text.Add(" (another profiler has this process: Nsight, compute-sanitizer, cuda-gdb or the program's own)");
      break;
    case kErrorInsufficientPrivileges:
      text.Add(" (the driver lets only administrators profile)");
      break;
    case kErrorUnknown:
    case kErrorNotInitialized:
      text.Add(" (no working driver or GPU here, or a CUPTI newer than the driver)");
      break;
    default:
      break;
  }
  Report(MayObserve() ? GpuInfoKey::kByHooks : GpuInfoKey::kUnavailable, text);
}

void ReportMissing(const char* name, Result result) {
  Text<256> text;
  text.Add(name).Add(": CUPTI error ").Add(static_cast<uint64_t>(static_cast<uint32_t>(result)));
  Report(GpuInfoKey::kMissingKind, text.Add(" ").Add(ResultText(result)));
}

void ReportFlush(Result result) {
  if (result == kSuccess || g_recorder.flush_is_reported) return;
  g_recorder.flush_is_reported = true;
  ReportMissing("what CUPTI had not handed over when it refused a flush; update the driver, or use --cuda=hooks",
                result);
}

void ReportUnread(size_t bytes, Result result) {
  Text<256> text;
  text.Add(static_cast<uint64_t>(bytes)).Add(" CUPTI error ").Add(static_cast<uint64_t>(static_cast<uint32_t>(result)));
  Report(GpuInfoKey::kUnread, text.Add(" ").Add(ResultText(result)));
}

void ReportRecording() {
  g_recorder.paused_for = nullptr;
  Report(GpuInfoKey::kRecording, "");
  SetState(GpuState::kRecording);
}

void ReportPaused(const char* why) {
  if (g_recorder.paused_for != why) {
    g_recorder.paused_for = why;
    g_recorder.left_reported = CuptiLeft::kNothing;
    Report(GpuInfoKey::kPaused, why);
    SetState(why == kLimited ? GpuState::kLimited : GpuState::kPaused);
  }
  if (why == kAside) ReportLeft();
}

}  // namespace tbprof::cupti
