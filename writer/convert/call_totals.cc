// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/call_totals.h"

#include <algorithm>
#include <tuple>

#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

uint64_t Ticks(double estimated) { return static_cast<uint64_t>(std::clamp(estimated, 0.0, 9e18)); }

}  // namespace

void CallTotals::CountUnrecorded(uint32_t owner, uint16_t type, const Calls& calls) {
  OperationTotal& total = totals_[TotalOf(owner, type)];
  total.calls += calls.count;
  AddSaturating(&total.total_ps, Signed(calls.ticks));
}

void CallTotals::CountTorch(uint32_t owner, const std::vector<TorchSamplingAt>& sampling,
                            const RecordedOperation& operation) {
  auto known = torch_.find(owner);
  if (known == torch_.end()) known = torch_.try_emplace(owner, sampling).first;
  known->second.Take(operation);
}

uint32_t CallTotals::SiteOf(const Identity& process, uint16_t type, uint64_t address) {
  return SiteOf({process, address, type});
}

uint32_t CallTotals::SiteOf(const SiteKey& key) {
  if (key.address == 0) return 0;
  const auto found = site_ids_.find(key);
  if (found != site_ids_.end()) return found->second;
  if (sites_.size() >= kMaxSites) return 0;
  const auto id = static_cast<uint32_t>(sites_.size());
  site_ids_.emplace(key, id);
  sites_.push_back({key});
  return id;
}

uint32_t CallTotals::TotalOf(uint32_t owner, uint16_t type) {
  const auto [known, added] = total_ids_.try_emplace({owner, type}, static_cast<uint32_t>(totals_.size()));
  if (added) totals_.emplace_back().type = type;
  return known->second;
}

std::vector<StringId> CallTotals::NameSites(PythonExact* python) {
  std::vector<StringId> names(sites_.size(), 0);
  std::map<std::tuple<StringId, uint16_t, uint32_t>, CallSiteTotal> merged;
  for (size_t i = 1; i < sites_.size(); ++i) {
    const Site& site = sites_[i];
    names[i] = modules_.NameOfCall(site.key.process, site.key.address);
    const uint32_t place = python != nullptr ? python->FinalPlace(site.key.python) : 0;
    CallSiteTotal& total = merged[{names[i], site.key.type, place}];
    total.site = names[i];
    total.type = site.key.type;
    if (place != 0 && total.python == 0) total.python = python->LabelOf(place);
    total.calls += site.calls.count;
    AddSaturating(&total.total_ps, facts_.clock.DurationPs(site.calls.ticks));
    total.longest_ps = std::max(total.longest_ps, facts_.clock.DurationPs(site.calls.longest));
  }
  for (const auto& [key, total] : merged) {
    if (total.calls > 0 && timeline_.types[total.type].family != EventFamily::kMemory) {
      timeline_.wait_sites.push_back(total);
    }
  }
  std::sort(timeline_.wait_sites.begin(), timeline_.wait_sites.end(),
            [](const CallSiteTotal& a, const CallSiteTotal& b) { return a.total_ps > b.total_ps; });
  return names;
}

void CallTotals::FinishTorch(const CaptureWindow& window) {
  for (auto& [owner, totals] : torch_) {
    // The operations in dropped parts of a long run are not known.
    totals.Finish(facts_.dropped.empty() ? window.totals_open : window.open, window.close);
    TorchSampled& sampled = timeline_.processes[owner].torch;
    sampled.recorded = totals.recorded();
    sampled.skipped = totals.skipped();
    if (!totals.sampled()) continue;
    for (const TorchTotals::Weight& weight : totals.Weights()) {
      sampled.weights.push_back({PsInWindow(facts_, timeline_, weight.ticks), weight.weight, weight.midway});
    }
  }
}

void CallTotals::Finish(const CaptureWindow& window) {
  FinishTorch(window);
  for (const auto& [key, id] : total_ids_) {
    OperationTotal& total = totals_[id];
    const auto torch = torch_.find(key.first);
    if (torch != torch_.end() && IsTorchWork(timeline_.types[total.type])) {
      const EstimatedTotal estimated = torch->second.Of(total.type);
      total.self_ps = facts_.clock.DurationPs(Ticks(estimated.self_ticks));
      if (torch->second.sampled()) {
        total.estimated = true;
        total.calls = std::max(total.recorded, estimated.calls);
        total.total_ps = static_cast<int64_t>(Ticks(estimated.ticks));
      }
    }
    total.total_ps = facts_.clock.DurationPs(static_cast<uint64_t>(total.total_ps));
    total.longest_ps = facts_.clock.DurationPs(static_cast<uint64_t>(total.longest_ps));
    timeline_.processes[key.first].operations.push_back(total);
  }
  for (Process& process : timeline_.processes) {
    std::sort(process.operations.begin(), process.operations.end(),
              // Ties are broken by type: the iteration order of a hash table is not deterministic.
              [](const OperationTotal& a, const OperationTotal& b) {
                return a.total_ps != b.total_ps ? a.total_ps > b.total_ps : a.type < b.type;
              });
  }
}

}  // namespace tbprof
