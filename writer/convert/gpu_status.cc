// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/gpu_status.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/gpu_gaps.h"
#include "writer/spool/cupti_cause.h"

namespace tbprof {
namespace {

constexpr size_t kMaxTriedShown = 3;
constexpr int64_t kPsPerMs = 1'000'000'000;
constexpr double kNotableErrorUs = 50;

// Equal messages of several processes: the name of the first process and the number of processes.
using Alike = std::map<std::string, std::pair<std::string, uint64_t>>;

void AddTo(Alike* causes, const std::string& text, const std::string& who) {
  auto& [first, count] = (*causes)[text];
  if (count++ == 0) first = who;
}

std::string NamesOf(const std::pair<std::string, uint64_t>& who) {
  return who.second > 1 ? StrCat(who.first, " and ", who.second - 1, " more") : who.first;
}

std::string WithRemedy(const std::string& why) {
  const std::string_view remedy = GpuRemedy(why);
  return remedy.empty() ? why : StrCat(why, "; ", remedy);
}

class StatusReport {
 public:
  StatusReport(const SpoolFacts& facts, const CaptureWindow& window, const std::map<Identity, GpuActivity>& activity,
               ProcessModules* modules, Timeline* timeline)
      : facts_(facts), window_(window), activity_(activity), modules_(modules), timeline_(timeline) {}

  void AddProcess(const Identity& identity, const GpuFacts& facts, const ProcessFacts& known, Process* process);
  void AddUnused(const std::map<Identity, uint32_t>& index);
  void AddSummary();
  void AddDevices();

 private:
  void SetRecording(const Identity& identity, const GpuFacts& facts, const ProcessFacts& process, ProcessGpu* gpu);
  void ExplainGap(const Identity& identity, const std::vector<CuptiUseAt>& uses, PauseCause pause,
                  const CuptiGap& ticks, GpuGap* gap);
  void AddClock(const std::string& who, const GpuFacts& facts, const ProcessGpu& gpu);
  void AddLossAtEnd(const std::string& who, const Identity& identity, const GpuFacts& facts,
                    const ProcessFacts& process, ProcessGpu* gpu);
  std::string_view WhyUnused(const Identity& identity, const ProcessFacts& process) const;

  const SpoolFacts& facts_;
  const CaptureWindow& window_;
  const std::map<Identity, GpuActivity>& activity_;
  ProcessModules* const modules_;
  Timeline* const timeline_;
  Alike unavailable_, approximate_;
  uint64_t dropped_ = 0, unknown_ = 0, names_left_out_ = 0;
  std::set<std::string> missing_;
};

void StatusReport::ExplainGap(const Identity& identity, const std::vector<CuptiUseAt>& uses, PauseCause pause,
                              const CuptiGap& ticks, GpuGap* gap) {
  if (pause != PauseCause::kProgram) {
    gap->remedy = OwnGapRemedy(pause);
    return;
  }
  const CuptiCause cause = FindCuptiCause(uses, ticks);
  gap->remedy = CuptiRemedy(cause.left);
  gap->left = CuptiLeftName(cause.left);
  gap->first_call = PrintableUtf8(cause.first_call);
  if (cause.caller != 0) gap->caller_module = modules_->FileOfCall(identity, cause.caller);
  const std::string text = CuptiCauseText(cause, &gap->caller_module);
  if (!text.empty()) StrAppend(&gap->reason, ", ", text);
}

void StatusReport::SetRecording(const Identity& identity, const GpuFacts& facts, const ProcessFacts& process,
                                ProcessGpu* gpu) {
  std::vector<GpuStateChange> changes = facts.changes;
  std::stable_sort(changes.begin(), changes.end(),
                   [](const GpuStateChange& a, const GpuStateChange& b) { return a.ticks < b.ticks; });
  std::vector<CuptiUseAt> uses = facts.cupti_uses;
  std::ranges::stable_sort(uses, {}, &CuptiUseAt::ticks);
  const uint64_t end = process.end_ticks != 0 ? std::min(process.end_ticks, window_.close) : window_.close;
  GapFinder gaps(window_.open, end, facts_.clock.ns_per_tick(),
                 [&](uint64_t since, uint64_t from, uint64_t to, PauseCause cause, const std::string& text) {
                   gpu->gaps.push_back({PsInWindow(facts_, *timeline_, from), PsInWindow(facts_, *timeline_, to), text,
                                        "", "", "", ""});
                   ExplainGap(identity, uses, cause, {since, from, to, to >= end}, &gpu->gaps.back());
                 });
  for (const GpuStateChange& change : changes) gaps.Take(change);
  if (facts.changes_left_out > 0) gaps.LeaveOut(facts.left_out_from_ticks, facts.last_left_out);
  gaps.Finish();
  gpu->ended_in_order = gaps.ended_in_order();
  gpu->reason = gaps.unavailable();
  if (!facts.by_hooks.empty()) gpu->approximate = WithRemedy(PrintableUtf8(facts.by_hooks));
  // If the hooks recorded nothing either, the cause that stops CUPTI stops CUDA itself.
  const bool in_vain = !facts.by_hooks.empty() && !facts.hooks_asked_for() && gpu->records == 0;
  if (in_vain && gpu->reason.empty()) gpu->reason = PrintableUtf8(facts.by_hooks);
  if (!gpu->reason.empty() && (!gaps.recorded() || in_vain)) {
    gpu->recording = GpuRecording::kUnavailable;
    gpu->reason = WithRemedy(gpu->reason);
  } else if (!gpu->gaps.empty()) {
    gpu->recording = GpuRecording::kPaused;
  } else if (gaps.recorded() || gpu->records > 0) {
    gpu->recording = GpuRecording::kRecorded;
  }
}

// Why a process that should use a GPU, by its loaded libraries, did not use one; empty: there is nothing to report.
std::string_view StatusReport::WhyUnused(const Identity& identity, const ProcessFacts& process) const {
  const auto found = facts_.gpus.find(identity);
  if (found != facts_.gpus.end()) {
    const GpuFacts& facts = found->second;
    const bool recorded = std::any_of(facts.changes.begin(), facts.changes.end(), [](const GpuStateChange& change) {
      return change.kind == GpuStateChange::kRecording;
    });
    const auto activity = activity_.find(identity);
    const bool idle = facts.contexts.empty() && (activity == activity_.end() || !activity->second.has_device);
    return recorded && idle ? "CUDA was started and no GPU was opened: none was needed, or none is visible "
                              "(CUDA_VISIBLE_DEVICES; `tbprof doctor`)"
                            : "";
  }
  bool runtime = false;
  for (const Module& module : process.modules) {
    const std::string_view name = BaseName(module.path);
    if (name.starts_with("libcuda.so")) return "";
    runtime = runtime || name.starts_with("libcudart.so");
  }
  // A framework that lacks one of its own libraries (cuDNN, cuBLAS) does not look up the driver either.
  return runtime ? "the CUDA runtime is loaded and no GPU was used: libcuda.so.1 was not loaded, since there is no "
                   "driver, another GPU library is missing (the program's output names it), or no call needed it "
                   "(`tbprof doctor`)"
                 : "";
}

void StatusReport::AddProcess(const Identity& identity, const GpuFacts& facts, const ProcessFacts& known,
                              Process* process) {
  std::vector<std::string>& warnings = timeline_->warnings;
  ProcessGpu& gpu = process->gpu;
  gpu.library = PrintableUtf8(facts.library);
  gpu.versions = PrintableUtf8(facts.versions);
  for (const std::string& path : facts.tried) gpu.tried.push_back(PrintableUtf8(path));
  for (const std::string& kind : facts.missing_kinds) gpu.missing_kinds.push_back(PrintableUtf8(kind));
  gpu.dropped = facts.dropped;
  gpu.unknown = facts.unknown;
  gpu.unread_bytes = facts.unread_bytes;
  SetRecording(identity, facts, known, &gpu);
  const std::string who = StrCat(PrintableUtf8(process->name), " (", process->pid, ")");
  std::string tried;
  for (size_t i = 0; i < std::min(gpu.tried.size(), kMaxTriedShown); ++i) {
    StrAppend(&tried, i == 0 ? "; tried " : ", ", gpu.tried[i]);
  }
  if (gpu.recording == GpuRecording::kUnavailable) AddTo(&unavailable_, StrCat(gpu.reason, tried), who);
  if (!gpu.approximate.empty() && gpu.records > 0) AddTo(&approximate_, StrCat(gpu.approximate, tried), who);
  for (std::string& warning : GapWarnings(who, gpu.gaps)) warnings.push_back(std::move(warning));
  if (facts.changes_left_out > 0 && facts.left_out_from_ticks < window_.close) {
    warnings.push_back(
        StrCat(who, ": recording of its GPUs began and paused ", facts.changes.size() + facts.changes_left_out,
               " times, which is more than is kept; gaps after ",
               PsInWindow(facts_, *timeline_, std::max(facts.left_out_from_ticks, window_.open)) / kPsPerMs,
               " ms are not recorded"));
  }
  AddClock(who, facts, gpu);
  dropped_ += gpu.dropped;
  unknown_ += gpu.unknown;
  names_left_out_ += facts.names_left_out;
  missing_.insert(gpu.missing_kinds.begin(), gpu.missing_kinds.end());
  AddLossAtEnd(who, identity, facts, known, &gpu);
}

void StatusReport::AddClock(const std::string& who, const GpuFacts& facts, const ProcessGpu& gpu) {
  std::vector<std::string>& warnings = timeline_->warnings;
  if (facts.clock.breaks() > 0) {
    warnings.push_back(StrCat(who, ": the GPU clock jumped ", facts.clock.breaks(),
                              " times (was the system's time set?); what ran then is marked, its place is uncertain"));
  }
  if (facts.clock.replaced() > 0 && gpu.records > 0) {
    timeline_->notes.push_back(StrCat(who,
                                      ": the program gave CUPTI a clock of its own (torch.profiler does so); device "
                                      "times are converted by its rate"));
  }
  if (facts.unread_bytes > 0) {
    warnings.push_back(StrCat(who, ": ", (facts.unread_bytes + 1023) / 1024, " KiB of GPU activity could not be read (",
                              PrintableUtf8(facts.unread_cause),
                              "): kernels and calls are missing; install the CUPTI of the driver's CUDA version"));
  }
  if (facts.clock_assumed && gpu.records > 0 && gpu.recording != GpuRecording::kUnavailable) {
    warnings.push_back(StrCat(who, ": no reading of its GPU clock was recorded; device times are taken for wall time"));
  }
  const double error_us = static_cast<double>(facts.clock.error_ticks()) * facts_.clock.ns_per_tick() / 1000;
  if (error_us > kNotableErrorUs && gpu.records > 0) {
    timeline_->notes.push_back(StrCat(who, ": its device times may be off from those of its threads by up to ",
                                      static_cast<int64_t>(std::min(error_us, 1e15)), " us"));
  }
}

// Since when work of a process that was killed may be missing, in ticks; 0: none is.
uint64_t LossBegins(const GpuActivity& activity, const GpuFacts& facts, const ProcessFacts& process) {
  // With hooks, a call is known when it returns, and its device work only after tbprof's thread has checked its events.
  const bool by_hooks = !facts.by_hooks.empty();
  uint64_t since = activity.last_call_ticks;
  if (by_hooks) since = std::min(since, activity.last_work_ticks);
  // A buffer may be delivered before an older one, and calls before work that is not over. Spools of before wire format
  // 14 do not have the first.
  if (!by_hooks && process.gpu_held_since) since = *process.gpu_held_since;
  const uint64_t launch = activity.lost_launch_ticks;
  return launch != 0 && (since == 0 || launch < since) ? launch : since;
}

void StatusReport::AddLossAtEnd(const std::string& who, const Identity& identity, const GpuFacts& facts,
                                const ProcessFacts& process, ProcessGpu* gpu) {
  if (gpu->recording == GpuRecording::kUnavailable || gpu->ended_in_order) return;
  const auto activity = activity_.find(identity);
  const uint64_t since = LossBegins(activity == activity_.end() ? GpuActivity{} : activity->second, facts, process);
  // The launcher notices an end some ten milliseconds late, and the end of the command may be the end of the window.
  const auto late = facts_.clock.Ticks(kExitMs * 1e6);
  const uint64_t end = process.end_ticks;
  if (end == 0 || end > window_.close + late || since == 0 || since >= end) return;
  gpu->lost_at_end_ps = facts_.clock.DurationPs(end - since);
  const int64_t ms = (gpu->lost_at_end_ps + kPsPerMs - 1) / kPsPerMs;
  timeline_->warnings.push_back(
      facts.by_hooks.empty()
          ? StrCat(who, ": killed while CUPTI still held GPU records of up to its last ", ms, " ms, which are lost")
          : StrCat(who, ": killed ", ms,
                   " ms after the last GPU work whose events had been looked at; what came later is lost"));
}

void StatusReport::AddUnused(const std::map<Identity, uint32_t>& index) {
  Alike unused;
  for (const auto& [identity, owner] : index) {
    const auto known = facts_.processes.find(identity);
    if (known == facts_.processes.end()) continue;
    const std::string_view why = WhyUnused(identity, known->second);
    if (why.empty()) continue;
    const Process& process = timeline_->processes[owner];
    AddTo(&unused, std::string(why), StrCat(PrintableUtf8(process.name), " (", process.pid, ")"));
  }
  for (const auto& [text, who] : unused) timeline_->warnings.push_back(StrCat(NamesOf(who), ": ", text));
}

void StatusReport::AddSummary() {
  std::vector<std::string>& warnings = timeline_->warnings;
  for (const auto& [text, who] : unavailable_) {
    timeline_->errors.push_back(StrCat(NamesOf(who), ": no GPU activity: ", text));
  }
  for (const auto& [text, who] : approximate_) {
    warnings.push_back(StrCat(NamesOf(who), ": device times are approximate, by events around each piece of work, and ",
                              "graphs are shown whole: ", text));
  }
  if (dropped_ > 0) timeline_->drops.push_back({"CUPTI had no buffer for them", dropped_});
  if (unknown_ > 0)
    timeline_->notes.push_back(StrCat(unknown_, " GPU activity records of kinds that were not asked for"));
  if (names_left_out_ > 0)
    warnings.push_back(StrCat(names_left_out_, " names of kernels were too many and are left out"));
  for (const std::string& kind : missing_) warnings.push_back(StrCat("GPU activity that is not recorded: ", kind));
  if (facts_.gpu_memory_left_out > 0) {
    timeline_->notes.push_back(StrCat("GPU memory in use leaves out ", facts_.gpu_memory_left_out,
                                      " allocations and releases in dropped parts of the spool (--spool-limit)"));
  }
}

void StatusReport::AddDevices() {
  std::vector<std::string>& warnings = timeline_->warnings;
  for (const GpuDevice& device : timeline_->gpu_devices) {
    const std::string gpu = StrCat("GPU ", device.number, ": ");
    if (device.untimed > 0) {
      warnings.push_back(
          StrCat(gpu, device.untimed,
                 " kernels, copies or graphs ran without time stamps (no buffer or event was left for them); "
                 "they are not drawn and in no total"));
    }
    if (device.unfinished > 0) {
      warnings.push_back(StrCat(gpu, device.unfinished,
                                " had not ended when last looked at; they are drawn to the end of the window or of "
                                "their process"));
    }
  }
}

}  // namespace

void AddGpuStatus(const SpoolFacts& facts, const CaptureWindow& window, const std::map<Identity, GpuActivity>& activity,
                  const std::map<Identity, uint32_t>& index, ProcessModules* modules, Timeline* timeline) {
  StatusReport report(facts, window, activity, modules, timeline);
  for (const auto& [identity, owner] : index) {
    const auto gpu = facts.gpus.find(identity);
    const auto known = facts.processes.find(identity);
    if (gpu == facts.gpus.end() || known == facts.processes.end()) continue;
    report.AddProcess(identity, gpu->second, known->second, &timeline->processes[owner]);
  }
  report.AddUnused(index);
  report.AddSummary();
  report.AddDevices();
}

}  // namespace tbprof
