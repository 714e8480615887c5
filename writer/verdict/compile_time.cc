// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/compile_time.h"

namespace tbprof {
namespace {

// Separate compilations in the last third: one that lasts is still the first.
constexpr size_t kFewestTimes = 3;

struct Compiled {
  uint64_t samples = 0, all = 0;
  size_t times = 0;
  double Share() const { return all == 0 ? 0 : static_cast<double>(samples) / static_cast<double>(all); }
};

Compiled CompiledIn(const PythonThread& python, const PythonTags& tags, int64_t from_ps, int64_t to_ps) {
  Compiled sum;
  bool before = false;
  for (const PythonRun& run : python.runs) {
    if (run.stack == 0 || run.to_ps <= from_ps || run.from_ps >= to_ps) continue;
    const bool compiles = tags.TagOf(run.stack) == PythonTag::kCompile;
    sum.all += run.samples;
    if (compiles) sum.samples += run.samples;
    if (compiles && !before) ++sum.times;
    before = compiles;
  }
  return sum;
}

}  // namespace

bool CompilesToTheEnd(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                      const std::vector<TimeSpan>& spans) {
  const PythonThread* const python = timeline.python.OfThread(thread);
  if (python == nullptr || spans.empty()) return false;
  const int64_t from_ps = spans.front().start_ps, to_ps = spans.back().end_ps;
  const Compiled all = CompiledIn(*python, tags, from_ps, to_ps);
  const Compiled last = CompiledIn(*python, tags, from_ps + (to_ps - from_ps) / 3 * 2, to_ps);
  return last.times >= kFewestTimes && last.Share() * 2 >= all.Share();
}

}  // namespace tbprof
