// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/outcome.h"

#include <algorithm>
#include <string_view>

#include "absl/time/time.h"
#include "launcher/base/deadline.h"
#include "launcher/base/text.h"
#include "launcher/run/run_logdir.h"
#include "launcher/target/command_python.h"
#include "launcher/target/gpu_probe.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {

void SettleSpool(Terminal* terminal, Session* session, const SpoolFate& fate) {
  session->FindSpool();
  if (fate.keep && session->spool_removed()) {
    terminal->Error("raw records lost: their directory was removed");
  } else if (fate.keep && fate.failed) {
    terminal->Error(
        StrCat("raw records kept; to write the profile: tbprof recover ", ShellQuoted(session->spool_path())));
  } else if (fate.keep) {
    terminal->Print(StrCat("raw records kept: tbprof convert ", ShellQuoted(session->spool_path())));
  } else if (fate.hangs) {
    if (!WithinDeadline(kLookTimeout, [&] {
           session->RemoveSpool();
           return absl::OkStatus();
         }).ok()) {
      terminal->Warn(StrCat("raw records left behind: ", PrintableUtf8(session->spool_path())));
    }
  } else {
    session->RemoveSpool();
  }
}

// Called after the drain's threads have ended, since it forks: a child reads the packages, which may be on a file
// server that does not respond.
void NameMissingViewer(Terminal* terminal, const std::vector<std::string>& command) {
  const Environment environment = CurrentEnvironment();
  const absl::Status missing = WithinDeadline(absl::Seconds(2), [&] {
    if (HasViewerBesideTbprof(environment)) return absl::OkStatus();
    const std::string python = PythonOfCommand(command, environment, WorkingDirectory());
    const Viewer viewer = python.empty() ? Viewer::kTensorBoard : ViewerIn(PackagesOf(python, environment));
    if (viewer == Viewer::kTensorBoard) return absl::OkStatus();
    return viewer == Viewer::kNone ? absl::NotFoundError(python) : absl::UnavailableError(python);
  });
  if (!absl::IsNotFound(missing) && !absl::IsUnavailable(missing)) return;
  terminal->Print(StrCat("view needs: ", ShellQuoted(PrintableUtf8(ToText(missing))), " -m pip install tensorboard",
                         absl::IsNotFound(missing) ? " xprof" : ""));
}

std::string WhyNoKernel(const Options& options, const RunFacts& facts) {
  const GpuFacts& gpu = facts.gpu;
  bool recorded = false;
  std::string unavailable, program;
  for (const GpuStateChange& change : gpu.changes) {
    if (change.kind == GpuStateChange::kRecording) recorded = true;
    if (change.kind == GpuStateChange::kUnavailable && unavailable.empty()) unavailable = change.text;
    if (change.cause == PauseCause::kProgram) program = change.text;
  }
  if (unavailable.empty() && !gpu.hooks_asked_for()) unavailable = gpu.by_hooks;
  const auto driver = [] {
    GpuProbe probe({});
    return AnswerOf(probe.Wait());
  };
  if (!unavailable.empty()) {
    std::string text = PrintableUtf8(unavailable);
    const std::string_view remedy = GpuRemedy(unavailable);
    constexpr size_t kMostTried = 4;
    for (size_t i = 0; i < std::min(gpu.tried.size(), kMostTried); ++i) {
      StrAppend(&text, i == 0 ? "; tried " : ", ", PrintableUtf8(gpu.tried[i]));
    }
    const DriverAnswer answer = driver();
    if (!answer.works) StrAppend(&text, "; ", answer.found);
    return StrCat(text, "; ", answer.works && !remedy.empty() ? remedy : std::string_view(answer.fix));
  }
  if (!program.empty()) {
    const CuptiCause cause = LatestCuptiCause(gpu.cupti_uses);
    const std::string text = CuptiCauseText(cause, nullptr);
    return StrCat(PrintableUtf8(program), text.empty() ? "" : ", ", text, "; ", CuptiRemedy(cause.left));
  }
  if (options.window.kind == Window::Kind::kNone && !facts.captured) {
    return "--window=none and no capture was asked for; ask for one, or leave out --window=none";
  }
  if (!facts.not_recorded.empty()) return PrintableUtf8(facts.not_recorded);
  const DriverAnswer answer = driver();
  if (!answer.works) return StrCat(answer.found, "; ", answer.fix);
  if (recorded) return "CUDA was started, and no kernel ran while a window was open; see --window";
  return StrCat("no recorded process called cuInit (there is a ", answer.found,
                "); see that the program uses the GPU, and in processes that tbprof follows (--follow)");
}

std::optional<int> StatusInsteadOf(const Options& options, const RunFacts& facts, Terminal* terminal) {
  const bool succeeded = !facts.end.signaled && facts.end.code == 0;
  const bool no_kernel = options.require_gpu && succeeded && facts.kernels == 0;
  if (no_kernel) terminal->Error(StrCat("--require-gpu: no kernel was recorded: ", WhyNoKernel(options, facts)));
  if (facts.failed && options.strict && succeeded) return kExitUsage;
  if (no_kernel) return kExitCondition;
  return std::nullopt;
}

}  // namespace tbprof
