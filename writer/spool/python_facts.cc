// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/python_facts.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace tbprof {
namespace {

constexpr size_t kMostIntervals = 1u << 12;  // of a process
constexpr uint32_t kUsualIntervalUs = 10'000;
constexpr uint32_t kShortestIntervalUs = 100, kLongestIntervalUs = 10'000'000;
constexpr size_t kLongestReason = 500;

}  // namespace

uint32_t PythonProcessFacts::IntervalAt(uint64_t ticks) const {
  if (intervals_us.empty()) return kUsualIntervalUs;
  const auto after = intervals_us.upper_bound(ticks);
  const uint32_t interval_us = after == intervals_us.begin() ? after->second : std::prev(after)->second;
  return std::clamp(interval_us, kShortestIntervalUs, kLongestIntervalUs);
}

bool PythonFacts::Take(const Frame& frame) {
  if (frame.type == FrameType::kPythonCode) {
    TakeCode(frame);
  } else if (frame.type == FrameType::kPythonStacks) {
    TakeStacks(frame);
  } else if (frame.type == FrameType::kPythonStatus) {
    TakeStatus(frame);
  } else if (frame.type == FrameType::kNotebook) {
    TakeNotebook(frame);
  } else {
    return frame.type == FrameType::kPythonSamples || frame.type == FrameType::kPythonCollecting ||
           frame.type == FrameType::kPythonThread;
  }
  return true;
}

void PythonFacts::TakeCode(const Frame& frame) {
  PythonCodeFact fact;
  if (!frame.Read(&fact) || fact.code == 0 ||
      uint64_t{fact.name_bytes} + fact.file_bytes + fact.table_bytes > frame.payload.size() - sizeof(fact)) {
    ++corrupt_;
    return;
  }
  PythonProcessFacts* process = Find(frame.segment, fact.process_serial);
  if (process == nullptr) return;
  if (codes_ >= kMostPythonCodes || text_bytes_ >= kMostPythonText) {
    ++left_out_;
    return;
  }
  // The first code object with a number counts: stacks that were read before the number was used again stay right.
  if (!process->code_index.try_emplace(fact.code, static_cast<uint32_t>(process->codes.size())).second) {
    ++corrupt_;
    return;
  }
  const std::string_view texts = frame.payload.substr(sizeof(fact));
  PythonCode& code = process->codes.emplace_back();
  code.name = texts.substr(0, std::min<size_t>(fact.name_bytes, kLongestPythonText));
  code.file = texts.substr(fact.name_bytes, std::min<size_t>(fact.file_bytes, kLongestPythonText));
  if ((fact.flags & kPythonCodeNoTable) == 0 && fact.table_bytes <= kLongestPythonTable) {
    code.table = texts.substr(size_t{fact.name_bytes} + fact.file_bytes, fact.table_bytes);
  }
  code.first_line = std::max(fact.first_line, 0);
  code.minor = fact.minor;
  ++codes_;
  text_bytes_ += code.name.size() + code.file.size() + code.table.size();
}

void PythonFacts::TakeStacks(const Frame& frame) {
  PythonStacksFact fact;
  if (!frame.Read(&fact)) {
    ++corrupt_;
    return;
  }
  PythonProcessFacts* process = Find(frame.segment, fact.process_serial);
  if (process == nullptr) return;
  const std::string_view nodes = frame.payload.substr(sizeof(fact));
  const size_t count = std::min<size_t>(fact.count, nodes.size() / sizeof(PythonNode));
  if (count != fact.count) ++corrupt_;
  for (size_t i = 0; i < count; ++i) {
    PythonNode node;
    memcpy(&node, nodes.data() + i * sizeof(node), sizeof(node));
    TakeNode(node, process);
  }
}

void PythonFacts::TakeNode(const PythonNode& node, PythonProcessFacts* process) {
  const auto code = process->code_index.find(node.code);
  const uint32_t parent = process->FrameOf(node.parent);
  // A parent must come first: otherwise cycles would be possible.
  if (node.node == 0 || code == process->code_index.end() || (node.parent != 0 && parent == 0) ||
      process->node_index.contains(node.node)) {
    ++corrupt_;
    return;
  }
  if (nodes_ >= kMostPythonNodes) {
    ++left_out_;
    return;
  }
  ++nodes_;
  const uint32_t depth = process->frames[parent].depth + 1;
  if (depth > kDeepestPythonStack) {
    process->node_index.emplace(node.node, parent);
    ++left_out_;
    return;
  }
  process->node_index.emplace(node.node, static_cast<uint32_t>(process->frames.size()));
  process->frames.push_back({parent, code->second, depth, node.instruction});
}

void PythonFacts::TakeStatus(const Frame& frame) {
  PythonStatusFact fact;
  if (!frame.Read(&fact) || fact.ticks >= kLatestTicks || fact.state < kPythonSampled || fact.state > kPythonOff) {
    ++corrupt_;
    return;
  }
  PythonProcessFacts* process = Find(frame.segment, fact.process_serial);
  if (process == nullptr) return;
  if (fact.interval_us != 0 && process->intervals_us.size() < kMostIntervals) {
    process->intervals_us[fact.ticks] = fact.interval_us;
  }
  if (process->has_status && fact.ticks < process->status.ticks) return;
  process->status = fact;
  process->has_status = true;
  process->reason = frame.payload.substr(sizeof(fact), kLongestReason);
}

void PythonFacts::TakeNotebook(const Frame& frame) {
  constexpr size_t kLongestPath = 4096, kMostDirectories = 4;
  NotebookFact fact;
  if (!frame.Read(&fact) || fact.directory_bytes > frame.payload.size() - sizeof(fact) ||
      fact.directory_bytes > kLongestPath) {
    ++corrupt_;
    return;
  }
  PythonProcessFacts* process = Find(frame.segment, fact.process_serial);
  if (process == nullptr) return;
  std::string directory(frame.payload.substr(sizeof(fact), fact.directory_bytes));
  std::vector<std::string>& known = process->directories;
  const bool is_new = std::find(known.begin(), known.end(), directory) == known.end();
  if (is_new && !directory.empty() && known.size() < kMostDirectories) known.push_back(std::move(directory));
}

void PythonFacts::RenameFiles(const std::map<std::string, std::string>& names) {
  for (auto& [identity, process] : processes_) {
    for (PythonCode& code : process.codes) {
      if (const auto found = names.find(code.file); found != names.end()) code.file = found->second;
    }
  }
}

}  // namespace tbprof
