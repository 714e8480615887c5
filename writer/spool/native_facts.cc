// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/native_facts.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace tbprof {
namespace {

constexpr size_t kLongestReason = 500;

}  // namespace

bool NativeFacts::Take(const Frame& frame) {
  if (frame.type == FrameType::kNativeStacks) {
    TakeStacks(frame);
  } else if (frame.type == FrameType::kNativeStatus) {
    TakeStatus(frame);
  } else {
    return frame.type == FrameType::kNativeSamples;
  }
  return true;
}

void NativeFacts::TakeStacks(const Frame& frame) {
  NativeStacksFact fact;
  if (!frame.Read(&fact)) {
    ++corrupt_;
    return;
  }
  NativeProcessFacts* process = Find(frame.segment, fact.process_serial);
  if (process == nullptr) return;
  const std::string_view nodes = frame.payload.substr(sizeof(fact));
  const size_t count = std::min<size_t>(fact.count, nodes.size() / sizeof(NativeNode));
  if (count != fact.count) ++corrupt_;
  for (size_t i = 0; i < count; ++i) {
    NativeNode node;
    memcpy(&node, nodes.data() + i * sizeof(node), sizeof(node));
    TakeNode(node, process);
  }
}

void NativeFacts::TakeNode(const NativeNode& node, NativeProcessFacts* process) {
  const uint32_t parent = process->FrameOf(node.parent);
  // A parent must come first: otherwise cycles would be possible.
  if (node.node == 0 || (node.parent != 0 && parent == 0) || process->node_index.contains(node.node)) {
    ++corrupt_;
    return;
  }
  if (nodes_ >= kMostNativeNodes) {
    ++left_out_;
    return;
  }
  ++nodes_;
  const uint32_t depth = process->frames[parent].depth + 1;
  if (depth > kDeepestNativeStack) {
    process->node_index.emplace(node.node, parent);
    ++left_out_;
    return;
  }
  process->node_index.emplace(node.node, static_cast<uint32_t>(process->frames.size()));
  process->frames.push_back({parent, depth, node.address});
}

void NativeFacts::TakeStatus(const Frame& frame) {
  NativeStatusFact fact;
  if (!frame.Read(&fact) || fact.ticks >= kLatestTicks || fact.state < kNativeSampled || fact.state > kNativeOff) {
    ++corrupt_;
    return;
  }
  NativeProcessFacts* process = Find(frame.segment, fact.process_serial);
  if (process == nullptr) return;
  if (process->has_status && fact.ticks < process->status.ticks) return;
  process->status = fact;
  process->has_status = true;
  process->reason = frame.payload.substr(sizeof(fact), kLongestReason);
}

}  // namespace tbprof
