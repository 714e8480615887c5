// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/core_facts.h"

#include <cstring>
#include <string_view>

namespace tbprof {
namespace {

constexpr size_t kLongestPath = 4096, kLongestReason = 500, kLongestBuildId = 64;

// Removes `count` rows from the front of `bytes`; false: `bytes` is too short.
template <typename Row>
bool TakeRows(uint32_t count, std::string_view* bytes, std::vector<Row>* rows) {
  if (count > bytes->size() / sizeof(Row)) return false;
  rows->resize(count);
  if (count > 0) memcpy(rows->data(), bytes->data(), count * sizeof(Row));
  bytes->remove_prefix(count * sizeof(Row));
  return true;
}

bool TakeText(uint32_t size, size_t longest, std::string_view* bytes, std::string* text) {
  if (size > longest || size > bytes->size()) return false;
  *text = bytes->substr(0, size);
  bytes->remove_prefix(size);
  return true;
}

}  // namespace

bool CoreFileFacts::Take(const Frame& frame) {
  if (frame.type != FrameType::kCore) return false;
  if (!TakeCore(frame)) ++corrupt_;
  return true;
}

bool CoreFileFacts::TakeCore(const Frame& frame) {
  CoreFacts core;
  CoreFact& fact = core.fact;
  if (!frame.Read(&fact) || frame.segment == 0 || fact.process_serial == 0 || fact.ticks >= kLatestTicks ||
      fact.state < kCoreRead || fact.state > kCoreUnread || fact.signal < 0 || fact.signal > 127 ||
      fact.threads > kMostCoreThreads || fact.modules > kMostCoreModules || cores_.size() >= kMostCores) {
    return false;
  }
  std::string_view bytes = frame.payload.substr(sizeof(fact));
  std::vector<CoreModule> modules;
  if (!TakeRows(fact.threads, &bytes, &core.threads) || !TakeRows(fact.modules, &bytes, &modules) ||
      !TakeText(fact.path_bytes, kLongestPath, &bytes, &core.path) ||
      !TakeText(fact.reason_bytes, kLongestReason, &bytes, &core.reason)) {
    return false;
  }
  for (const CoreModule& row : modules) {
    Module module;
    module.start = row.start;
    module.end = row.end;
    module.load_bias = row.load_bias;
    if (row.start >= row.end || !TakeText(row.path_bytes, kLongestPath, &bytes, &module.path) ||
        !TakeText(row.build_id_bytes, kLongestBuildId, &bytes, &module.build_id)) {
      return false;
    }
    core.modules.push_back(std::move(module));
  }
  // A process has at most one core file: a second one is corrupt.
  return cores_.try_emplace({frame.segment, fact.process_serial}, std::move(core)).second;
}

}  // namespace tbprof
