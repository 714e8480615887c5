// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/outputs/flamegraph.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

struct FlameSums {
  uint64_t nodes = 0, samples = 0, time_ns = 0, cpu_ns = 0;
};

constexpr uint64_t kInvalidNumber = UINT64_MAX;

uint64_t NumberIn(const Json& value) { return value.is_number_unsigned() ? value.get<uint64_t>() : kInvalidNumber; }

// Null: there is no such array.
const Json* ArrayIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

// Returns whether each frame has its names, and each node its frame and its place in the tree.
bool IsTree(const Json& frames, const Json& frame, const Json& depth, size_t strings) {
  for (size_t i = 0; i < frames.size(); ++i) {
    if (i % 4 < 3 && NumberIn(frames[i]) >= strings) return false;
  }
  uint64_t deepest = 0;
  for (size_t i = 0; i < depth.size(); ++i) {
    const uint64_t at = NumberIn(depth[i]);
    if (i == 0 ? at != 0 : at == 0 || at > deepest + 1) return false;
    deepest = at;
    if (NumberIn(frame[i]) >= frames.size() / 4) return false;
  }
  return !depth.empty();
}

// Returns false if the tree is corrupt.
bool AddTree(const Json& tree, size_t strings, bool is_python, FlameSums* sums) {
  const Json* const frames = ArrayIn(tree, "frames");
  const Json *const frame = ArrayIn(tree, "frame"), *const depth = ArrayIn(tree, "depth");
  const Json *const samples = ArrayIn(tree, "samples"), *const time = ArrayIn(tree, "time_ns");
  const Json* const cpu = is_python ? ArrayIn(tree, "cpu_ns") : time;
  for (const Json* const array : {frames, frame, depth, samples, time, cpu}) {
    if (array == nullptr || (array != frames && array->size() != depth->size())) return false;
  }
  if (frames->size() % 4 != 0 || !IsTree(*frames, *frame, *depth, strings)) return false;
  for (size_t i = 0; i < depth->size(); ++i) {
    if (!(*samples)[i].is_number_unsigned() || !(*time)[i].is_number_unsigned() || !(*cpu)[i].is_number_unsigned()) {
      return false;
    }
    AddSaturating(&sums->samples, NumberIn((*samples)[i]));
    AddSaturating(&sums->time_ns, NumberIn((*time)[i]));
    AddSaturating(&sums->cpu_ns, NumberIn((*cpu)[i]));
  }
  sums->nodes += depth->size();
  return true;
}

// The JSON of the page; discarded: there is none, or it is broken.
Json DataOf(std::string_view page) {
  constexpr std::string_view kBegin = "<script type=\"application/json\" id=\"data\">", kEnd = "</script>";
  Json none(Json::value_t::discarded);
  const size_t begin = page.find(kBegin);
  if (begin == std::string_view::npos || !page.ends_with("</html>\n")) return none;
  page.remove_prefix(begin + kBegin.size());
  const size_t end = page.find(kEnd);
  if (end == std::string_view::npos || page.substr(0, end).find_first_of("<>&") != std::string_view::npos) return none;
  return Json::parse(page.substr(0, end), nullptr, /*allow_exceptions=*/false);
}

void AddTimePs(uint64_t* sum_ns, int64_t ps) {
  if (ps > 0) AddSaturating(sum_ns, static_cast<uint64_t>(ps / 1000));
}

// `add_times(tally, sums)`: adds the two times of a tally.
template <typename Threads, typename AddTimes>
FlameSums SumsOf(const Threads& threads, AddTimes add_times) {
  FlameSums sums;
  for (const auto& thread : threads) {
    for (const auto& tally : thread.tallies) {
      AddSaturating(&sums.samples, tally.samples);
      add_times(tally, &sums);
    }
  }
  return sums;
}

FlameSums SumsOfPython(const PythonTimeline& python) {
  return SumsOf(python.threads, [](const PythonTally& tally, FlameSums* sums) {
    AddTimePs(&sums->time_ns, tally.wall_ps);
    AddTimePs(&sums->cpu_ns, tally.on_cpu_ps);
  });
}

FlameSums SumsOfNative(const NativeTimeline& native) {
  return SumsOf(native.threads, [](const NativeTally& tally, FlameSums* sums) {
    AddTimePs(&sums->time_ns, tally.cpu_ps);
    AddTimePs(&sums->cpu_ns, tally.cpu_ps);
  });
}

// Nodes hold 63 bits.
bool IsSameTime(uint64_t found_ns, uint64_t expected_ns) {
  return std::min<uint64_t>(found_ns, INT64_MAX) == std::min<uint64_t>(expected_ns, INT64_MAX);
}

}  // namespace

absl::StatusOr<std::string> VerifyFlamegraph(const std::string& path, const Timeline& timeline) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::UnavailableError(StrCat("cannot open ", path));
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const Json data = DataOf(page);
  const Json* const trees = data.is_object() ? ArrayIn(data, "trees") : nullptr;
  const Json* const strings = data.is_object() ? ArrayIn(data, "strings") : nullptr;
  if (file.bad() || trees == nullptr || strings == nullptr) {
    return absl::DataLossError(StrCat(path, ": the page or its data is broken"));
  }
  FlameSums found[2];
  for (const Json& tree : *trees) {
    const bool is_python = tree.is_object() && tree.contains("kind") && tree["kind"] == "python";
    if (!tree.is_object() || !AddTree(tree, strings->size(), is_python, &found[is_python ? 0 : 1])) {
      return absl::DataLossError(StrCat(path, ": a tree of stacks is broken"));
    }
  }
  const FlameSums expected[] = {SumsOfPython(timeline.python), SumsOfNative(timeline.native)};
  for (size_t i = 0; i < 2; ++i) {
    if (found[i].samples == expected[i].samples && IsSameTime(found[i].time_ns, expected[i].time_ns) &&
        IsSameTime(found[i].cpu_ns, expected[i].cpu_ns)) {
      continue;
    }
    return absl::DataLossError(StrCat(path, ": holds ", found[i].samples, i == 0 ? " Python" : " native",
                                      " samples of ", found[i].time_ns, " ns, ", expected[i].samples, " of ",
                                      expected[i].time_ns, " ns were written"));
  }
  return StrCat("verified: ", Counted(found[0].nodes + found[1].nodes, "node"), ", ",
                Counted(found[0].samples + found[1].samples, "sample"));
}

}  // namespace tbprof
