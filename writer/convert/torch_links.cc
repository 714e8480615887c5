// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/torch_links.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

// Process, PyTorch's number of the forward operation's thread, its sequence number.
using Key = std::tuple<uint32_t, uint64_t, int64_t>;

struct EventPlace {
  uint32_t thread = 0, event = 0;
};

// PyTorch reports a number before it is taken: operations that take none have the number of the next operation that
// does. The forward operation is therefore the last one with a node's number, and, of nested ones with the same number,
// the outermost.
struct ForwardOperation {
  EventPlace place;
  int64_t start_ps = -1;
};

}  // namespace

TorchLinks::TorchLinks(const Timeline& timeline) {
  struct Node {
    EventPlace place;
    int64_t start_ps = 0, duration_ps = 0;
    Key key;
  };
  if (std::none_of(timeline.types.begin(), timeline.types.end(),
                   [](const EventType& type) { return type.origin == RangeOrigin::kTorchBackward; })) {
    return;
  }
  std::vector<Node> nodes;
  const auto key_of = [&](uint32_t thread, const Event& event) {
    return Key{timeline.threads[thread].process, event.object, event.value};
  };
  const auto each = [&](RangeOrigin origin, const auto& visit) {
    for (uint32_t i = 0; i < timeline.threads.size(); ++i) {
      const std::vector<Event>& events = timeline.threads[i].events;
      for (uint32_t j = 0; j < events.size(); ++j) {
        const EventType& type = timeline.types[events[j].type];
        if (type.value == ValueKind::kSequence && type.origin == origin && events[j].duration_ps > 0) {
          visit(EventPlace{i, j}, events[j]);
        }
      }
    }
  };
  each(RangeOrigin::kTorchBackward, [&](const EventPlace& place, const Event& event) {
    nodes.push_back({place, event.start_ps, event.duration_ps, key_of(place.thread, event)});
  });
  if (nodes.empty()) return;
  if (nodes.size() > kMostLinks) {
    std::nth_element(nodes.begin(), nodes.begin() + kMostLinks, nodes.end(),
                     [](const Node& a, const Node& b) { return a.duration_ps > b.duration_ps; });
    nodes.resize(kMostLinks);
  }
  absl::flat_hash_map<Key, ForwardOperation> operations;
  absl::flat_hash_map<Key, int64_t> first_nodes;
  for (const Node& node : nodes) {
    operations.try_emplace(node.key);
    const auto [first, added] = first_nodes.try_emplace(node.key, node.start_ps);
    if (!added) first->second = std::min(first->second, node.start_ps);
  }
  absl::flat_hash_map<Key, int64_t> ends;
  each(RangeOrigin::kTorchOperation, [&](const EventPlace& place, const Event& event) {
    const Key key = key_of(place.thread, event);
    const auto operation = operations.find(key);
    if (operation == operations.end() || event.start_ps >= first_nodes[key]) return;
    int64_t& end = ends[key];
    if (event.start_ps < end) return;
    end = event.start_ps + event.duration_ps;
    if (event.start_ps > operation->second.start_ps) operation->second = {place, event.start_ps};
  });
  std::sort(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) { return a.start_ps < b.start_ps; });
  uint32_t links = 0;
  for (const Node& node : nodes) {
    const ForwardOperation& operation = operations[node.key];
    if (operation.start_ps < 0) continue;
    const auto [link, added] = links_.try_emplace({operation.place.thread, operation.place.event}, links + 1);
    if (added) ++links;
    const uint32_t number = link->second;
    links_.emplace(std::make_pair(node.place.thread, node.place.event), number);
  }
}

}  // namespace tbprof
