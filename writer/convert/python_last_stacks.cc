// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/python_last_stacks.h"

#include <algorithm>
#include <csignal>
#include <tuple>

#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/rank_report.h"
#include "writer/timeline/python_origin.h"

namespace tbprof {
namespace {

constexpr size_t kMostProcesses = 16;
constexpr size_t kMostThreads = 16;  // per process
constexpr size_t kNotedThreads = 4;  // per process, in the profile's notes
constexpr size_t kNotedFrames = 12;
constexpr size_t kLongestThreadName = 100;

// Whether the program had no chance to print a traceback.
bool EndedWithoutTraceback(const Process& process) {
  switch (process.exit_signal) {
    case 0:
    case SIGINT:
      return false;
    case SIGTERM:
    case SIGHUP:
      return process.is_command;
    default:
      return true;
  }
}

void AddNotes(Timeline* timeline) {
  uint32_t process = kNoProcess;
  size_t count = 0;
  for (const PythonLastStack& last : timeline->python.last_stacks) {
    const Thread& thread = timeline->threads[last.thread];
    count = thread.process == process ? count + 1 : 0;
    process = thread.process;
    if (count >= kNotedThreads || last.exact) continue;
    const Process& owner = timeline->processes[process];
    timeline->notes.push_back(
        StrCat("Python: last sample of ", thread.is_main ? "the " : "", PythonThreadText(thread), " of ", owner.name,
               " (", owner.pid, "), ", HumanTime(last.age_ps), " before the process was ",
               ExitText(owner.exit_code, owner.exit_signal, /*out_of_memory=*/false),
               " (it may have been elsewhere by then): ", SampledStackText(*timeline, last.stack, kNotedFrames)));
  }
}

// The core file of a process; null: none was read.
const CoreDump* CoreOf(const Timeline& timeline, uint32_t process) {
  const auto found = std::ranges::find(timeline.cores, process, &CoreDump::process);
  return found != timeline.cores.end() && found->source == CoreSource::kRead ? &*found : nullptr;
}

// Replaces the samples of the same threads.
void TakeStacksOf(const CoreDump& core, std::vector<PythonLastStack>* stacks) {
  std::vector<PythonLastStack> exact;
  for (const CoreThreadStacks& thread : core.threads) {
    if (thread.python_stack == 0) continue;
    std::erase_if(*stacks, [&](const PythonLastStack& last) { return last.thread == thread.thread; });
    exact.push_back({thread.thread, thread.python_stack, 0, true});
  }
  stacks->insert(stacks->begin(), exact.begin(), exact.end());
}

}  // namespace

uint64_t EndTicksInWindow(const CaptureWindow& window, const SpoolFacts& facts, const ProcessFacts& process,
                          bool is_command) {
  if (process.end_ticks != 0) return window.HasEnded(process.end_ticks, facts) ? process.end_ticks : 0;
  return is_command && facts.ended && window.closed_by_end ? facts.end.ticks : 0;
}

void AddPythonLastStacks(const CaptureWindow& window, const SpoolFacts& facts, const ProcessModel& model,
                         const std::map<uint32_t, PythonLastSample>& samples, Timeline* timeline) {
  size_t processes = 0;
  for (const auto& [identity, index] : model.processes()) {
    const Process& process = timeline->processes[index];
    const CoreDump* const core = CoreOf(*timeline, index);
    if (process.replaced || (core == nullptr && !EndedWithoutTraceback(process))) continue;
    const uint64_t end = EndTicksInWindow(window, facts, facts.processes.at(identity), process.is_command);
    if (end == 0) continue;
    std::vector<PythonLastStack> found;
    for (const auto& [thread, sample] : samples) {
      if (timeline->threads[thread].process != index || sample.stack == 0 || sample.ticks > end) continue;
      // Threads that ended before do not show the process's activity at its end.
      if (timeline->threads[thread].end_ps < process.end_ps) continue;
      found.push_back({thread, sample.stack, facts.clock.DurationPs(end - sample.ticks)});
    }
    std::ranges::stable_sort(found, {}, [&](const PythonLastStack& last) {
      return std::tuple(!timeline->threads[last.thread].is_main, last.age_ps);
    });
    if (core != nullptr) TakeStacksOf(*core, &found);
    if (found.empty()) continue;
    if (++processes > kMostProcesses) break;
    found.resize(std::min(found.size(), kMostThreads));
    // The command comes first, because the user asks about it first.
    std::vector<PythonLastStack>& all = timeline->python.last_stacks;
    all.insert(process.is_command ? all.begin() : all.end(), found.begin(), found.end());
  }
  AddNotes(timeline);
}

std::string PythonThreadText(const Thread& thread) {
  if (thread.is_main) return "main thread";
  // A thread of which only the tid is known.
  if (thread.is_line) return thread.name;
  return thread.name.empty() ? StrCat("thread ", thread.tid) : StrCat(PrintableUtf8(thread.name), "/", thread.tid);
}

std::string SampledStackText(const Timeline& timeline, uint32_t stack, size_t most_frames) {
  const PythonTimeline& python = timeline.python;
  std::string text;
  size_t frames = 0;
  for (; stack != 0; stack = python.stacks[stack].parent) {
    const PythonFunction& function = python.functions[python.stacks[stack].function];
    const std::string& file = timeline.strings.Get(function.file);
    const std::string& name = timeline.strings.Get(function.name);
    const PythonOrigin origin = PythonOriginOf(file, name);
    if (frames > 0 && (origin == PythonOrigin::kStarter || IsOfImportlib(origin))) continue;
    if (frames == most_frames) return text + " < ...";
    const int32_t line = python.stacks[stack].line;
    StrAppend(&text, frames == 0 ? "" : " < ", PrintableUtf8(TruncateUtf8(name, kLongestThreadName)), " (",
              PrintableUtf8(ShownFile(file)), line >= 0 ? StrCat(":", line) : "", ")");
    ++frames;
  }
  return text;
}

}  // namespace tbprof
