// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/native_habits.h"

#include <algorithm>
#include <string_view>

#include "writer/base/saturating.h"
#include "writer/base/text_match.h"

namespace tbprof {
namespace {

constexpr uint64_t kEnoughSamples = 500;

// Functions of an allocator, as libc, jemalloc, tcmalloc and mimalloc call them.
bool IsOfAllocator(std::string_view function) {
  return StartsWithAny(function, {"malloc",
                                  "free",
                                  "cfree",
                                  "calloc",
                                  "realloc",
                                  "_int_malloc",
                                  "_int_free",
                                  "_int_realloc",
                                  "__libc_malloc",
                                  "__libc_free",
                                  "__libc_calloc",
                                  "__libc_realloc",
                                  "unlink_chunk",
                                  "sysmalloc",
                                  "tcache_",
                                  "operator new",
                                  "operator delete",
                                  "je_",
                                  "tc_",
                                  "mi_malloc",
                                  "mi_free",
                                  "mi_heap_",
                                  "Hook_malloc",
                                  "Hook_free",
                                  "tbprof::Allocated",
                                  "tbprof::Freeing"});
}

bool IsOpenMp(std::string_view module) { return StartsWithAny(module, {"libgomp", "libiomp", "libomp"}); }
bool IsTbprof(std::string_view module) { return module.starts_with("libtbprof_"); }

// PyTorch computes in floats unless told otherwise. NumPy does not.
bool MultipliesDoubles(std::string_view module, std::string_view function) {
  return module.starts_with("libtorch") && ContainsAny(function, {"_dgemm", "_dgemv", "_dsyrk", "_dtrsm"});
}

// The innermost named frame.
const NativeStack* LeafOf(const NativeTimeline& native, uint32_t stack) {
  if (stack == 0 || stack >= native.stacks.size()) return nullptr;
  return &native.stacks[stack];
}

}  // namespace

NativeHabits NativeHabitsOf(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& spans) {
  double of_thread = 0, allocating = 0, doubles = 0, of_process = 0, spinning = 0;
  for (const NativeThread& native : timeline.native.threads) {
    if (timeline.threads[native.thread].process != timeline.threads[thread].process) continue;
    size_t at = 0;
    for (const NativePoint& point : native.points) {
      bool within = false;
      ForCommon(spans, &at, point.at_ps, point.at_ps + 1, [&](int64_t, int64_t) { within = true; });
      const NativeStack* const leaf = LeafOf(timeline.native, point.stack);
      if (!within || leaf == nullptr) continue;
      const auto period = static_cast<double>(PeriodPs(point));
      of_process += period;
      // Code of an OpenMP loop is in the program: what is in the library waits.
      if (IsOpenMp(timeline.strings.Get(leaf->module))) spinning += period;
      if (native.thread != thread) continue;
      of_thread += period;
      if (IsOfAllocator(timeline.strings.Get(leaf->function))) allocating += period;
      if (MultipliesDoubles(timeline.strings.Get(leaf->module), timeline.strings.Get(leaf->function))) {
        doubles += period;
      }
    }
  }
  const auto share = [](double part, double whole) { return whole <= 0 ? 0.0 : part / whole; };
  return {share(allocating, of_thread), share(spinning, of_process), share(doubles, of_thread)};
}

OwnShare OwnShareOfSamples(const Timeline& timeline) {
  uint64_t samples = 0;
  int64_t all = 0, own = 0;
  for (const NativeThread& native : timeline.native.threads) {
    for (const NativeTally& tally : native.tallies) {
      const NativeStack* const leaf = LeafOf(timeline.native, tally.stack);
      if (leaf == nullptr) continue;
      samples += tally.samples;
      AddSaturating(&all, tally.cpu_ps);
      if (IsTbprof(timeline.strings.Get(leaf->module))) AddSaturating(&own, tally.cpu_ps);
    }
  }
  if (samples < kEnoughSamples || all <= 0) return {};
  return {true, static_cast<double>(own) / static_cast<double>(all), all};
}

}  // namespace tbprof
