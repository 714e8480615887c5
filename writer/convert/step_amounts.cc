// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/step_amounts.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "writer/base/text_match.h"
#include "writer/timeline/summary_limits.h"

namespace tbprof {
namespace {

struct KindName {
  ConservedKind kind;
  std::string_view name;
};

// Counts of calls made, with or without an event.
constexpr KindName kMadeCounts[] = {
    {ConservedKind::kBlock, "allocations"},     {ConservedKind::kIo, "io_calls"},
    {ConservedKind::kLock, "lock_waits"},       {ConservedKind::kThreadCall, "thread_calls"},
    {ConservedKind::kProcess, "process_calls"},
};

class Measurer {
 public:
  explicit Measurer(Timeline* timeline) : timeline_(*timeline), amounts_(timeline->step_amounts) {}

  void Measure(bool own_window) {
    amounts_.steps = timeline_.steps.size();
    if (amounts_.steps == 0) return;
    own_window ? AddMade() : AddOfWindow();
    AddOfDevices();
    AddOperations();
  }

 private:
  // A count is left out if it is unknown, or if the counts of its row do not add up.
  void AddMade() {
    for (const KindName& wanted : kMadeCounts) {
      for (const ConservedRow& row : timeline_.conservation) {
        if (row.kind != wanted.kind || !row.made || row.holds == false) continue;
        amounts_.counts.push_back({wanted.name, static_cast<double>(*row.made)});
      }
    }
  }

  // Of a capture: the rows of conservation count from the start of the session, the totals of processes in the window.
  void AddOfWindow() {
    double blocks = 0;
    for (const Process& process : timeline_.processes) {
      blocks += static_cast<double>(process.allocator.allocations + process.allocator.frees);
    }
    AddIfKnown(ConservedKind::kBlock, "allocations", blocks);
    constexpr std::pair<EventFamily, KindName> kFamilies[] = {
        {EventFamily::kIo, {ConservedKind::kIo, "io_calls"}},
        {EventFamily::kLock, {ConservedKind::kLock, "lock_waits"}},
        {EventFamily::kThread, {ConservedKind::kThreadCall, "thread_calls"}}};
    for (const auto& [family, wanted] : kFamilies) {
      double calls = 0;
      ForEachTotal(family, [&](const OperationTotal& total, std::string_view /*name*/) {
        calls += static_cast<double>(total.calls);
      });
      AddIfKnown(wanted.kind, wanted.name, calls);
    }
  }

  void AddIfKnown(ConservedKind kind, std::string_view name, double count) {
    for (const ConservedRow& row : timeline_.conservation) {
      if (row.kind == kind && row.made && row.holds != false) amounts_.counts.push_back({name, count});
    }
  }

  void AddOfDevices() {
    if (timeline_.gpu_devices.empty()) return;
    uint64_t kernels = 0, copies = 0, bytes = 0;
    for (const GpuDevice& device : timeline_.gpu_devices) {
      kernels += device.kernels;
      for (const GpuCopyTotal& total : device.copy_totals) {
        copies += total.calls;
        bytes += total.bytes;
      }
    }
    uint64_t launches = 0, synchronizations = 0;
    ForEachTotal(EventFamily::kGpu, [&](const OperationTotal& total, std::string_view name) {
      if (ContainsAny(name, {"Launch"})) launches += total.calls;
      if (ContainsAny(name, {"Synchronize"})) synchronizations += total.calls;
    });
    amounts_.counts.push_back({"kernels", static_cast<double>(kernels)});
    amounts_.counts.push_back({"launches", static_cast<double>(launches)});
    amounts_.counts.push_back({"synchronizations", static_cast<double>(synchronizations)});
    amounts_.counts.push_back({"copies", static_cast<double>(copies)});
    amounts_.counts.push_back({"copied_bytes", static_cast<double>(bytes)});
  }

  // Sampled operations have a time, but no reproducible count.
  void AddOperations() {
    std::map<std::string_view, StepOperation> by_name;
    double calls = 0;
    bool sampled = false;
    ForEachTotal(EventFamily::kAnnotation, [&](const OperationTotal& total, std::string_view name) {
      if (total.self_ps < 0) return;
      StepOperation& operation = by_name[name];
      operation.calls += static_cast<double>(total.calls);
      operation.self_ps += total.self_ps;
      calls += static_cast<double>(total.calls);
      sampled |= total.estimated;
    });
    for (auto& [name, operation] : by_name) {
      operation.name = timeline_.strings.Intern(name);
      amounts_.operations.push_back(operation);
    }
    std::ranges::stable_sort(amounts_.operations, std::greater<>(), &StepOperation::self_ps);
    if (amounts_.operations.size() > kSummaryRows) amounts_.operations.resize(kSummaryRows);
    if (calls > 0 && !sampled) amounts_.counts.push_back({"operations", calls});
  }

  template <typename Visit>
  void ForEachTotal(EventFamily family, Visit&& visit) const {
    for (const Process& process : timeline_.processes) {
      for (const OperationTotal& total : process.operations) {
        const EventType& type = timeline_.types[total.type];
        if (type.family == family) visit(total, type.name);
      }
    }
  }

  Timeline& timeline_;
  StepAmounts& amounts_;
};

}  // namespace

void MeasureStepAmounts(Timeline* timeline, bool own_window) {
  const bool known = timeline->step_source != StepSource::kNone && timeline->step_source != StepSource::kWholeCapture;
  // Totals cannot be divided by the steps of a part of their time.
  if (known && !timeline->steps_in_detail && timeline->totals_ps == 0) Measurer(timeline).Measure(own_window);
}

}  // namespace tbprof
