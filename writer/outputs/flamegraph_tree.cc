// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/flamegraph_tree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/outputs/xplane_native.h"
#include "writer/timeline/python_origin.h"
#include "writer/timeline/shown_frames.h"

namespace tbprof {
namespace {

constexpr uint32_t kNoFrame = UINT32_MAX;
// Some 500 MB.
constexpr size_t kMostNodesInMemory = 4'000'000;

// Times of untrusted spools may be negative.
int64_t NonNegativeNs(int64_t ps) { return std::max<int64_t>(ps, 0) / 1000; }

class FlameTreeBuilder {
 public:
  explicit FlameTreeBuilder(const Timeline& timeline) : timeline_(timeline) {}

  uint32_t AddFrame(FlameFrame frame) {
    tree_.frames.push_back(std::move(frame));
    return static_cast<uint32_t>(tree_.frames.size() - 1);
  }

  uint32_t Child(uint32_t parent, uint32_t frame) {
    // Beyond the limit, what a node calls is part of it.
    if (tree_.nodes.size() >= kMostNodesInMemory && !children_.contains({parent, frame})) {
      ++tree_.merged;
      return parent;
    }
    const auto next = static_cast<uint32_t>(tree_.nodes.size());
    const auto [found, added] = children_.try_emplace({parent, frame}, next);
    if (added) tree_.nodes.push_back({parent, frame, tree_.nodes[parent].depth + 1, 0, 0, 0});
    return found->second;
  }

  // The node of a thread, below that of its process. `index`: into Timeline::threads.
  uint32_t ThreadNode(uint32_t index) {
    if (tree_.nodes.empty())
      tree_.nodes.push_back({0, AddFrame({"all threads", "", "", FlameOrigin::kAll}), 0, 0, 0, 0});
    const Thread& thread = timeline_.threads[index];
    const Process& process = timeline_.processes[thread.process];
    const auto [found, added] = processes_.try_emplace(thread.process, kNoFrame);
    if (added) {
      found->second = AddFrame({PrintableUtf8(StrCat(process.name, " (", process.pid, ")")), "",
                                PrintableUtf8(process.executable), FlameOrigin::kProcess});
    }
    const std::string& name = thread.name.empty() ? process.name : thread.name;
    const uint32_t frame = AddFrame({PrintableUtf8(StrCat(name, "/", thread.tid)), "", "", FlameOrigin::kThread});
    return Child(Child(0, found->second), frame);
  }

  void Add(uint32_t node, uint64_t samples, int64_t time_ps, int64_t cpu_ps) {
    AddSaturating(&tree_.nodes[node].samples, samples);
    AddSaturating(&tree_.nodes[node].time_ns, NonNegativeNs(time_ps));
    AddSaturating(&tree_.nodes[node].cpu_ns, NonNegativeNs(cpu_ps));
  }

  // For samples without frames.
  uint32_t NodeWithoutFrames(uint32_t thread_node, std::string_view name) {
    if (without_frames_ == kNoFrame) without_frames_ = AddFrame({std::string(name), "", "", FlameOrigin::kUnknown});
    return Child(thread_node, without_frames_);
  }

  FlameTree Take() { return std::move(tree_); }

 private:
  const Timeline& timeline_;
  FlameTree tree_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> children_;  // by parent and frame
  std::map<uint32_t, uint32_t> processes_;                                 // frames by index into Timeline::processes
  uint32_t without_frames_ = kNoFrame;
};

FlameFrame FrameOfFunction(const Timeline& timeline, const PythonFunction& function) {
  const std::string& file = timeline.strings.Get(function.file);
  const bool is_own = PythonOriginOf(file, timeline.strings.Get(function.name)) == PythonOrigin::kProgram;
  const std::string shown = PrintableUtf8(file);
  return {PrintableUtf8(timeline.strings.Get(function.label)), shown, shown,
          is_own ? FlameOrigin::kProgram : FlameOrigin::kLibrary};
}

FlameFrame FrameOfStack(const Timeline& timeline, const NativeStack& stack) {
  return {PrintableUtf8(NativeLabel(timeline, stack)), PrintableUtf8(timeline.strings.Get(stack.module)),
          PrintableUtf8(timeline.strings.Get(stack.file)), stack.is_gap ? FlameOrigin::kUnknown : FlameOrigin::kNative};
}

// Which nodes stay: the longest, so that the parent of a node that stays does too. Each node with children that are
// left out gets a further one.
std::vector<bool> ChooseNodes(const std::vector<FlameNode>& nodes, const std::vector<int64_t>& totals, size_t most) {
  std::vector<bool> stays(nodes.size(), true);
  if (nodes.size() <= most) return stays;
  std::vector<uint32_t> order(nodes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return totals[a] > totals[b]; });
  const auto smaller_with = [&](size_t count) {
    std::vector<bool> has_smaller(nodes.size());
    size_t smaller = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const uint32_t node = order[i], parent = nodes[node].parent;
      stays[node] = i < count;
      if (i < count || !stays[parent] || has_smaller[parent]) continue;
      has_smaller[parent] = true;
      ++smaller;
    }
    return smaller;
  };
  // With one more that stays, the sum is never less.
  size_t count = 1, beyond = std::max<size_t>(most, 1) + 1;
  while (count + 1 < beyond) {
    const size_t middle = count + (beyond - count) / 2;
    (middle + smaller_with(middle) <= most ? count : beyond) = middle;
  }
  smaller_with(count);
  return stays;
}

// The nodes below a node that are left out.
struct SmallerNodes {
  FlameNode sum;
  uint64_t children = 0;  // of that node

  void Add(const FlameNode& node, bool is_child) {
    AddSaturating(&sum.samples, node.samples);
    AddSaturating(&sum.time_ns, node.time_ns);
    AddSaturating(&sum.cpu_ns, node.cpu_ns);
    children += is_child ? 1 : 0;
  }
};

}  // namespace

FlameTree PythonFlameTree(const Timeline& timeline) {
  const PythonTimeline& python = timeline.python;
  const ShownFrames shown(timeline.strings, python);
  FlameTreeBuilder builder(timeline);
  std::vector<uint32_t> frames(python.functions.size(), kNoFrame);
  const auto frame_of = [&](uint32_t function) {
    uint32_t& frame = frames[function];
    if (frame == kNoFrame) frame = builder.AddFrame(FrameOfFunction(timeline, python.functions[function]));
    return frame;
  };
  std::vector<uint32_t> stacks;
  for (const PythonThread& thread : python.threads) {
    const uint32_t thread_node = builder.ThreadNode(thread.thread);
    for (const PythonTally& tally : thread.tallies) {
      uint32_t node = tally.stack == 0 ? builder.NodeWithoutFrames(thread_node, "(no Python frames)") : thread_node;
      shown.Get(tally.stack, &stacks);
      for (const uint32_t stack : stacks) node = builder.Child(node, frame_of(python.stacks[stack].function));
      builder.Add(node, tally.samples, tally.wall_ps, tally.on_cpu_ps);
    }
  }
  return builder.Take();
}

FlameTree NativeFlameTree(const Timeline& timeline) {
  const NativeTimeline& native = timeline.native;
  FlameTreeBuilder builder(timeline);
  absl::flat_hash_map<std::pair<StringId, StringId>, uint32_t> frames;  // by function and module
  const auto frame_of = [&](const NativeStack& stack) {
    const auto [found, added] = frames.try_emplace({stack.function, stack.module}, kNoFrame);
    if (added) found->second = builder.AddFrame(FrameOfStack(timeline, stack));
    return found->second;
  };
  std::vector<uint32_t> stacks;
  for (const NativeThread& thread : native.threads) {
    const uint32_t thread_node = builder.ThreadNode(thread.thread);
    for (const NativeTally& tally : thread.tallies) {
      uint32_t node = tally.stack == 0 ? builder.NodeWithoutFrames(thread_node, "(stack not known)") : thread_node;
      stacks.clear();
      for (uint32_t stack = tally.stack; stack != 0; stack = native.stacks[stack].parent) stacks.push_back(stack);
      for (; !stacks.empty(); stacks.pop_back()) node = builder.Child(node, frame_of(native.stacks[stacks.back()]));
      builder.Add(node, tally.samples, tally.cpu_ps, tally.cpu_ps);
    }
  }
  return builder.Take();
}

void OrderFlameTree(size_t most, FlameTree* tree) {
  const std::vector<FlameNode>& nodes = tree->nodes;
  if (nodes.empty()) return;
  std::vector<int64_t> totals;
  totals.reserve(nodes.size());
  for (const FlameNode& node : nodes) totals.push_back(node.time_ns);
  // A parent comes before its children.
  for (size_t i = nodes.size(); i-- > 1;) AddSaturating(&totals[nodes[i].parent], totals[i]);
  const std::vector<bool> stays = ChooseNodes(nodes, totals, most);
  std::vector<std::vector<uint32_t>> children(nodes.size());
  std::vector<uint32_t> above(nodes.size());  // of those that are left out: the node above them that stays
  std::map<uint32_t, SmallerNodes> smaller;   // by that node
  for (uint32_t i = 1; i < nodes.size(); ++i) {
    const uint32_t parent = nodes[i].parent;
    if (stays[i]) {
      children[parent].push_back(i);
      continue;
    }
    ++tree->merged;
    above[i] = stays[parent] ? parent : above[parent];
    smaller[above[i]].Add(nodes[i], stays[parent]);
  }
  std::map<uint64_t, uint32_t> frames;  // of kSmaller, by number of children
  std::vector<FlameNode> ordered;
  struct Pending {
    uint32_t node, parent;  // the parent in `ordered`
    bool is_smaller;        // not `node`, but the sum of those below it that are left out
  };
  std::vector<Pending> pending = {{0, 0, false}};
  while (!pending.empty()) {
    const Pending next = pending.back();
    pending.pop_back();
    const auto at = static_cast<uint32_t>(ordered.size());
    ordered.push_back(next.is_smaller ? smaller[next.node].sum : nodes[next.node]);
    ordered.back().parent = next.parent;
    if (next.is_smaller) {
      const uint64_t count = smaller[next.node].children;
      const auto [frame, added] = frames.try_emplace(count, static_cast<uint32_t>(tree->frames.size()));
      if (added) tree->frames.push_back({StrCat("(", count, " smaller)"), "", "", FlameOrigin::kSmaller});
      ordered.back().frame = frame->second;
      ordered.back().depth = nodes[next.node].depth + 1;
      continue;
    }
    // The last that is added comes first.
    if (smaller.contains(next.node)) pending.push_back({next.node, at, true});
    std::ranges::stable_sort(children[next.node], [&](uint32_t a, uint32_t b) { return totals[a] < totals[b]; });
    for (const uint32_t child : children[next.node]) pending.push_back({child, at, false});
  }
  tree->nodes = std::move(ordered);
}

}  // namespace tbprof
