// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_core.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "writer/convert/core_stacks.h"
#include "writer/convert/python_last_stacks.h"
#include "writer/outputs/summary_python.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostCoresListed = 16;
constexpr size_t kMostThreads = 256;    // of a core file
constexpr size_t kMostCoreFrames = 64;  // of a stack
constexpr size_t kShownThreads = 4;
constexpr size_t kShownCoreFrames = 20;
constexpr std::string_view kCoreIndent = "      ";

std::string_view SourceName(CoreSource source) {
  switch (source) {
    case CoreSource::kRead:
      return "read";
    case CoreSource::kPiped:
      return "piped";
    case CoreSource::kUnread:
      return "unread";
  }
  return "unread";
}

Json ThreadJson(const Timeline& timeline, const CoreThreadStacks& stacks) {
  const Thread& thread = timeline.threads[stacks.thread];
  Json native = Json::array();
  uint64_t count = 0;
  bool complete = stacks.native_stack != 0;
  for (uint32_t at = stacks.native_stack; at != 0; at = timeline.native.stacks[at].parent) {
    const NativeStack& stack = timeline.native.stacks[at];
    if (stack.is_gap) {
      complete = false;
      continue;
    }
    if (++count > kMostCoreFrames) continue;
    native.push_back({{"function", ValidUtf8(timeline.strings.Get(stack.function))},
                      {"module", ValidUtf8(timeline.strings.Get(stack.module))},
                      {"site", ValidUtf8(timeline.strings.Get(stack.site))}});
  }
  Json python = PythonFramesJson(timeline, stacks.python_stack, kMostCoreFrames);
  return {{"tid", stacks.tid},
          {"thread", ValidUtf8(thread.name)},
          {"main", thread.is_main},
          {"got_signal", stacks.got_signal},
          {"frame_count", PythonStackDepth(timeline, stacks.python_stack)},
          {"frames", std::move(python)},
          {"native_frame_count", count},
          {"native_complete", complete},
          {"native_frames", std::move(native)}};
}

Json CoreJson(const Timeline& timeline, const CoreDump& core) {
  const Process& process = timeline.processes[core.process];
  Json threads = Json::array();
  for (size_t i = 0; i < std::min(kMostThreads, core.threads.size()); ++i) {
    threads.push_back(ThreadJson(timeline, core.threads[i]));
  }
  const bool is_known = core.fault_address.has_value();
  return {{"pid", process.pid},
          {"process", ValidUtf8(process.name)},
          {"signal", core.signal},
          {"fault_address", is_known ? Json(absl::StrFormat("0x%x", *core.fault_address)) : Json(nullptr)},
          {"state", SourceName(core.source)},
          {"path", ValidUtf8(core.path)},
          {"reason", ValidUtf8(core.reason)},
          {"thread_count", core.thread_count},
          {"threads", std::move(threads)}};
}

void AddThread(const Timeline& timeline, const CoreThreadStacks& thread, size_t columns, Section* out) {
  const std::string head =
      StrCat(PythonThreadText(timeline.threads[thread.thread]), thread.got_signal ? " got the signal" : "");
  const bool in_python = thread.python_stack != 0;
  const std::string python = SampledStackText(timeline, thread.python_stack, kShownCoreFrames);
  const std::string native = NativeStackText(timeline, thread.native_stack, kShownCoreFrames, in_python);
  const auto add = [&](const std::string& text) { out->push_back({FitColumns(text, columns, /*keep_end=*/false)}); };
  add(StrCat(kCoreIndent, head, ": ", in_python ? python : native));
  // For threads that did not get the signal, the Python stack already shows where they wait.
  if (in_python && thread.got_signal && !native.empty()) add(StrCat(kCoreIndent, kCoreIndent, "in C: ", native));
}

}  // namespace

Section CoreSection(const Timeline& timeline, size_t columns) {
  if (timeline.cores.empty()) return {};
  const CoreDump& core = timeline.cores[0];
  const std::string head = StrCat("core    ", CrashText(timeline, core));
  if (core.source != CoreSource::kRead) {
    return {{head, Style::kHeading},
            {StrCat(kCoreIndent, UnreadCoreText(timeline, core)), Style::kPlain, /*whole=*/true}};
  }
  Section out = {{StrCat(head, "; its stacks then, exact"), Style::kHeading}};
  const size_t shown = std::min(kShownThreads, core.threads.size());
  for (size_t i = 0; i < shown; ++i) AddThread(timeline, core.threads[i], columns, &out);
  std::string rest = StrCat(kCoreIndent, "from ", PrintableUtf8(core.path));
  const uint64_t threads = std::max<uint64_t>(core.thread_count, core.threads.size());
  if (threads > shown) {
    StrAppend(&rest, "; ", Plural(threads - shown, "more thread", "more threads"),
              core.threads.size() > shown ? " (summary.json)" : "");
  }
  if (!core.reason.empty()) StrAppend(&rest, "; ", PrintableUtf8(core.reason));
  if (timeline.cores.size() > 1) {
    StrAppend(&rest, "; ", Plural(timeline.cores.size() - 1, "more core file", "more core files"), " (summary.json)");
  }
  out.push_back({rest, Style::kPlain, /*whole=*/true});
  return out;
}

Json CoresJson(const Timeline& timeline) {
  Json cores = Json::array();
  for (size_t i = 0; i < std::min(kMostCoresListed, timeline.cores.size()); ++i) {
    cores.push_back(CoreJson(timeline, timeline.cores[i]));
  }
  return cores;
}

}  // namespace tbprof
