// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/core_stacks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/python_last_stacks.h"
#include "writer/convert/rank_report.h"

namespace tbprof {
namespace {

constexpr size_t kNotedCores = 4;
constexpr size_t kNotedFrames = 12;
constexpr size_t kLongestName = 100;
// Marks identities whose modules are those of the core file, not those that the process reported while it ran.
constexpr uint32_t kCoreIdentity = 0x80000000;

CoreSource SourceOf(uint16_t state) {
  switch (static_cast<CoreState>(state)) {
    case kCoreRead:
      return CoreSource::kRead;
    case kCorePiped:
      return CoreSource::kPiped;
    case kCoreUnread:
      return CoreSource::kUnread;
  }
  return CoreSource::kUnread;
}

bool IsInterpreter(std::string_view function) {
  return function.starts_with("_PyEval_EvalFrame") || function.starts_with("PyEval_EvalFrame");
}

void AddThreads(const Identity& identity, const CoreFacts& facts, const SpoolFacts& spool, const CoreStackNames& names,
                ProcessModel* model, CoreDump* core) {
  const PythonProcessFacts* const python = spool.python.Of(identity.segment, identity.serial);
  const NativeProcessFacts* const native = spool.native.Of(identity.segment, identity.serial);
  const Identity of_core = {identity.segment, identity.serial | kCoreIdentity};
  names.modules->Set(of_core, facts.modules);
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const CoreThread& row = facts.threads[i];
    if (row.tid <= 0) continue;
    CoreThreadStacks thread;
    // The threads of a core file were alive when the process ended.
    thread.thread = model->LineOfThread(core->process, row.tid, facts.fact.ticks);
    if (thread.thread == kNoLine) continue;
    thread.tid = row.tid;
    thread.got_signal = i == 0;
    if (python != nullptr) thread.python_stack = names.python->StackOf(*python, python->FrameOf(row.python_node));
    if (native != nullptr) {
      thread.native_stack = names.native->StackOf(of_core, *native, native->FrameOf(row.native_node));
    }
    core->threads.push_back(thread);
  }
}

}  // namespace

void AddCores(const CaptureWindow& window, const SpoolFacts& facts, const CoreStackNames& names, ProcessModel* model,
              Timeline* timeline) {
  timeline->corrupt_records += facts.cores.corrupt();
  for (const auto& [key, core_facts] : facts.cores.cores()) {
    const Identity identity = {key.first, key.second};
    const uint32_t index = model->IndexOfProcess(identity);
    if (index == kNoProcess || timeline->processes[index].replaced) continue;
    const Process& process = timeline->processes[index];
    if (EndTicksInWindow(window, facts, facts.processes.at(identity), process.is_command) == 0) continue;
    CoreDump core;
    core.process = index;
    core.source = SourceOf(core_facts.fact.state);
    core.signal = core_facts.fact.signal != 0 ? core_facts.fact.signal : process.exit_signal;
    if ((core_facts.fact.flags & kCoreFaultAddress) != 0) core.fault_address = core_facts.fact.fault_address;
    core.path = core_facts.path;
    core.reason = core_facts.reason;
    core.thread_count = core_facts.fact.thread_count;
    if (core.source == CoreSource::kRead) AddThreads(identity, core_facts, facts, names, model, &core);
    std::vector<CoreDump>& cores = timeline->cores;
    cores.insert(timeline->processes[index].is_command ? cores.begin() : cores.end(), std::move(core));
  }
}

void AddCoreNotes(Timeline* timeline) {
  for (size_t i = 0; i < std::min(kNotedCores, timeline->cores.size()); ++i) {
    const CoreDump& core = timeline->cores[i];
    if (core.source != CoreSource::kRead) {
      timeline->notes.push_back(StrCat("Crash of ", CrashText(*timeline, core), ": ", UnreadCoreText(*timeline, core)));
      continue;
    }
    std::string text = StrCat("Crash of ", CrashText(*timeline, core), ", from its core file ", core.path);
    if (!core.threads.empty() && core.threads[0].got_signal) {
      const CoreThreadStacks& thread = core.threads[0];
      StrAppend(&text, ": ", PythonThreadText(timeline->threads[thread.thread]), " was in ",
                NativeStackText(*timeline, thread.native_stack, kNotedFrames, thread.python_stack != 0));
      const std::string python = SampledStackText(*timeline, thread.python_stack, kNotedFrames);
      if (!python.empty()) StrAppend(&text, ", called by ", python);
    }
    if (!core.reason.empty()) StrAppend(&text, "; ", core.reason);
    timeline->notes.push_back(std::move(text));
  }
}

std::string NativeStackText(const Timeline& timeline, uint32_t stack, size_t most_frames, bool inside_python) {
  const std::vector<NativeStack>& stacks = timeline.native.stacks;
  std::string text;
  for (size_t frames = 0; stack != 0; stack = stacks[stack].parent, ++frames) {
    if (stacks[stack].is_gap) return text + (frames == 0 ? "..." : " < ...");
    if (inside_python && frames > 0 && IsInterpreter(timeline.strings.Get(stacks[stack].function))) return text;
    if (frames == most_frames) return text + " < ...";
    StrAppend(&text, frames == 0 ? "" : " < ",
              PrintableUtf8(TruncateUtf8(timeline.strings.Get(stacks[stack].site), kLongestName)));
  }
  return text;
}

std::string CrashText(const Timeline& timeline, const CoreDump& core) {
  const Process& process = timeline.processes[core.process];
  std::string text = StrCat(PrintableUtf8(process.name), " (", process.pid, "), ",
                            ExitText(process.exit_code, core.signal, /*out_of_memory=*/false));
  if (core.fault_address) StrAppend(&text, absl::StrFormat(" at address 0x%x", *core.fault_address));
  return text;
}

std::string UnreadCoreText(const Timeline& timeline, const CoreDump& core) {
  switch (core.source) {
    case CoreSource::kRead:
      return "";
    case CoreSource::kUnread:
      return core.reason;
    case CoreSource::kPiped:
      break;
  }
  const std::string program = PrintableUtf8(core.path);
  const std::string_view name = BaseName(core.path);
  const int pid = timeline.processes[core.process].pid;
  std::string text = StrCat("its core file went to ", program);
  if (name == "systemd-coredump") StrAppend(&text, "; its stacks: coredumpctl info ", pid);
  if (name == "apport") StrAppend(&text, "; its report is in /var/crash");
  return text;
}

}  // namespace tbprof
