// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/run_context.h"

#include <cstdio>

#include "launcher/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {

AutoTimes AutoTimesOf(const char* text) {
  AutoTimes times;
  unsigned start, steady_at, steady, end;
  if (text == nullptr || sscanf(text, "%u,%u,%u,%u", &start, &steady_at, &steady, &end) != 4) return times;
  constexpr uint64_t kMs = 1'000'000;
  return {start * kMs, steady_at * kMs, steady * kMs, end * kMs};
}

std::string WindowText(const Window& window) {
  switch (window.kind) {
    case Window::Kind::kAuto:
      return "auto";
    case Window::Kind::kAll:
      return "all";
    case Window::Kind::kNone:
      return "none";
    case Window::Kind::kLast:
      return StrCat("last=", absl::FormatDuration(window.duration));
    case Window::Kind::kSteps:
      return StrCat("steps=", window.first_step, ":", window.last_step);
    case Window::Kind::kNvtx:
      return StrCat("nvtx:", ValidUtf8(window.range));
    case Window::Kind::kCudaProfiler:
      return "cuda-profiler";
    case Window::Kind::kRange:
      break;
  }
  return StrCat(absl::FormatDuration(window.delay), "+", absl::FormatDuration(window.duration));
}

}  // namespace tbprof
