// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/hang.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/timeline/python_place.h"
#include "writer/verdict/cpu_split.h"

namespace tbprof {
namespace {

constexpr int64_t kShortestPs = 1'000'000'000'000;
// Most CPU time of the process, as a share of the time: an idle interpreter wakes up now and then.
constexpr double kHardlyRan = 0.005;
// Least share of the time that a thread spends in one call.
constexpr double kInOneCall = 0.9;
constexpr size_t kMostGroups = 8;

bool HardlyRan(const Timeline& timeline, uint32_t process) {
  return static_cast<double>(CpuOfProcess(timeline, process)) <= kHardlyRan * static_cast<double>(timeline.duration_ps);
}

// The call in which the thread is for nearly all of the time; null: none.
const Event* CallOf(const Timeline& timeline, const Thread& thread) {
  for (const Event& event : thread.events) {
    const bool is_long =
        static_cast<double>(event.duration_ps) >= kInOneCall * static_cast<double>(timeline.duration_ps);
    if (is_long && timeline.types[event.type].sampled) return &event;
  }
  return nullptr;
}

std::string NameOf(const Thread& thread) {
  if (thread.is_main) return "main thread";
  return StrCat("thread ", thread.name.empty() ? StrCat(thread.tid) : PrintableUtf8(thread.name));
}

// `, held by thread saver`, by the last sample of the call that shows it; empty: not known.
std::string HolderOf(const Timeline& timeline, uint32_t thread, const Event& call) {
  const ThreadBlocked* const blocked = timeline.BlockedOfThread(thread);
  if (blocked == nullptr) return "";
  const Thread* holder = nullptr;
  for (const BlockedRun& run : blocked->runs) {
    const bool within = run.first_ps >= call.start_ps && run.first_ps <= call.start_ps + call.duration_ps;
    if (within && run.holder < timeline.threads.size()) holder = &timeline.threads[run.holder];
  }
  return holder == nullptr ? "" : StrCat(", held by ", NameOf(*holder));
}

// The innermost line, then that of the program's own code that led to it.
std::string PlaceOf(const Timeline& timeline, const PythonTags& tags, const Event& event) {
  const std::vector<PythonStack>& stacks = timeline.python.stacks;
  if (event.python != 0 && event.python < stacks.size()) {
    const uint32_t own = tags.OwnFrameOf(event.python);
    return StrCat(PythonFrameText(timeline, stacks[event.python]),
                  own == event.python || !tags.HasOwnFrame(event.python)
                      ? ""
                      : StrCat(" < ", PythonFrameText(timeline, stacks[own])));
  }
  return PrintableUtf8(ShortSymbol(timeline.strings.Get(event.call_site)));
}

struct Group {
  std::string name, rest;
  size_t alike = 0;
};

}  // namespace

std::vector<std::string> WhereThreadsHang(const Timeline& timeline, const PythonTags& tags, uint32_t thread) {
  std::vector<std::string> texts;
  if (!timeline.attached || timeline.duration_ps < kShortestPs || thread >= timeline.threads.size()) return texts;
  const uint32_t process = timeline.threads[thread].process;
  if (!HardlyRan(timeline, process) || CallOf(timeline, timeline.threads[thread]) == nullptr) return texts;
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
    if (timeline.threads[i].process == process) order.push_back(i);
  }
  // Threads that run Python, or have a name, tell more than those of a library.
  std::ranges::stable_sort(order, {}, [&](uint32_t i) {
    const Thread& one = timeline.threads[i];
    return std::tuple(!one.is_main, timeline.python.OfThread(i) == nullptr, one.name.empty());
  });
  std::vector<Group> groups;
  for (const uint32_t i : order) {
    const Event* const call = CallOf(timeline, timeline.threads[i]);
    if (call == nullptr) continue;
    const std::string place = PlaceOf(timeline, tags, *call);
    std::string rest = StrCat(", in ", timeline.types[call->type].name, place.empty() ? "" : " at ", place,
                              HolderOf(timeline, i, *call));
    const auto known = std::ranges::find(groups, rest, &Group::rest);
    if (known != groups.end()) {
      ++known->alike;
    } else if (groups.size() < kMostGroups) {
      groups.push_back({NameOf(timeline.threads[i]), std::move(rest)});
    }
  }
  for (const Group& group : groups) {
    texts.push_back(StrCat(group.name, group.alike > 0 ? StrCat(" and ", group.alike, " alike") : "", group.rest));
  }
  return texts;
}

}  // namespace tbprof
