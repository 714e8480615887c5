// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/exec_images.h"

#include <algorithm>

namespace tbprof {
namespace {

// Returns when an exec'ed image began. Its slot has the time after the call to the launcher, which may be late.
uint64_t AttachTicks(const SpoolFacts& facts, const Identity& identity) {
  const uint64_t start = facts.processes.at(identity).start_ticks;
  const auto segment = facts.segments.find(identity.segment);
  return segment == facts.segments.end() ? start : std::min(start, segment->second.header.attach_ticks);
}

}  // namespace

ExecImages FindExecImages(const SpoolFacts& facts, const std::vector<std::pair<uint64_t, Identity>>& order) {
  ExecImages images;
  std::map<int32_t, Identity> latest;  // by pid
  for (const auto& [ticks, identity] : order) {
    const auto image = facts.processes.find(identity);
    if (image == facts.processes.end() || image->second.pid == 0) continue;
    const auto [known, added] = latest.try_emplace(image->second.pid, identity);
    if (added) continue;
    const Identity earlier = std::exchange(known->second, identity);
    const ProcessFacts& before = facts.processes.at(earlier);
    // Skips images without an exec, and pids that were used again. A pid is used again only after its process has
    // ended, while the end of an image that exec replaced is seen after the next one has begun.
    if (image->second.forked || earlier.segment == identity.segment) continue;
    if (before.end_ticks != 0 && before.end_ticks < AttachTicks(facts, identity)) continue;
    images.before[identity] = earlier;
    images.after[earlier] = identity;
  }
  return images;
}

ExecReturns::ExecReturns(const SpoolFacts& facts) {
  for (const ExecReturn& exec : facts.exec_returns) {
    uint64_t& latest = latest_[{exec.thread, exec.pid}];
    latest = std::max(latest, exec.ticks);
  }
}

bool ExecReturns::Has(const ExecFacts& exec) const {
  const auto latest = latest_.find({exec.thread, exec.spawned ? exec.pid : 0});
  return latest != latest_.end() && latest->second >= exec.ticks;
}

const ProcessFacts& ImageOf(Identity identity, SpoolFacts* facts) {
  for (int depth = 0; depth < 64; ++depth) {
    const ProcessFacts& process = facts->processes[identity];
    if (!process.executable.empty() || process.parent_serial == 0) return process;
    identity.serial = process.parent_serial;
  }
  return facts->processes[identity];
}

}  // namespace tbprof
