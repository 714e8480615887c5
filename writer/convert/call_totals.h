// SPDX-License-Identifier: Apache-2.0
//
// Totals of calls, by operation of each process and by place in the code that made the calls. They include the calls
// that the budget leaves out of the lines.
//
// Process: converter, one thread. Memory: bounded, places beyond kMaxSites have no totals of their own.
#ifndef TBPROF_WRITER_CONVERT_CALL_TOTALS_H_
#define TBPROF_WRITER_CONVERT_CALL_TOTALS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/base/saturating.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/process_modules.h"
#include "writer/convert/python_exact.h"
#include "writer/spool/spool_facts.h"
#include "writer/spool/torch_sampling.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class CallTotals {
 public:
  static constexpr size_t kMaxSites = 1u << 20;

  // All must outlive this.
  CallTotals(const SpoolFacts* facts, ProcessModules* modules, Timeline* timeline)
      : facts_(*facts), modules_(*modules), timeline_(*timeline), sites_(1) {}

  struct Calls {
    uint64_t count = 1;
    uint64_t ticks = 0, longest = 0;
  };
  // Adds calls to their operation and to their place, and returns the number of the place (0: none). `owner`: index
  // into Timeline::processes; kNoProcess: the process is not shown and has no totals. `address`: return address of the
  // calls; 0: not known. `python`: from PythonExact::PlaceOf.
  uint32_t Count(const Identity& process, uint32_t owner, uint16_t type, uint64_t address, const Calls& calls,
                 uint32_t python = 0) {
    const SiteKey key{process, address, type, python};
    Recent& recent = recents_[(address ^ address >> 8 ^ type ^ uint64_t{process.serial} << 3 ^ python) % kRecents];
    if (recent.total == UINT32_MAX || recent.owner != owner || recent.key != key) {
      recent = {key, owner, owner == kNoProcess ? 0 : TotalOf(owner, type), SiteOf(key)};
    }
    if (owner != kNoProcess) {
      OperationTotal& total = totals_[recent.total];
      total.calls += calls.count;
      total.recorded += calls.count;
      AddSaturating(&total.total_ps, Signed(calls.ticks));
      total.longest_ps = std::max(total.longest_ps, Signed(calls.longest));
    }
    if (recent.site == 0) return 0;
    Calls& site = sites_[recent.site].calls;
    site.count += calls.count;
    AddSaturating(&site.ticks, calls.ticks);
    site.longest = std::max(site.longest, calls.longest);
    return recent.site;
  }
  // Adds calls that the target counted without a record.
  void CountUnrecorded(uint32_t owner, uint16_t type, const Calls& calls);
  // Takes a recorded operation of PyTorch; operations without a record are extrapolated. `sampling`: of its process.
  void CountTorch(uint32_t owner, const std::vector<TorchSamplingAt>& sampling, const RecordedOperation& operation);

  // Returns the number of a place without counting a call.
  uint32_t SiteOf(const Identity& process, uint16_t type, uint64_t address);
  // Returns the names of places by number, and fills Timeline::wait_sites. `python`: names the Python places that were
  // counted; null: none were counted.
  std::vector<StringId> NameSites(PythonExact* python = nullptr);
  // Fills Process::operations and Process::torch.
  void Finish(const CaptureWindow& window);

 private:
  struct SiteKey {
    Identity process;
    uint64_t address = 0;
    uint16_t type = 0;
    uint32_t python = 0;
    friend bool operator==(const SiteKey&, const SiteKey&) = default;
    template <typename H>
    friend H AbslHashValue(H hash, const SiteKey& key) {
      return H::combine(std::move(hash), key.process, key.address, key.type, key.python);
    }
  };
  struct Site {
    SiteKey key;
    Calls calls{.count = 0};
  };
  // A cache of the latest lookups, by place: most calls come from few places.
  struct Recent {
    SiteKey key;
    uint32_t owner = 0;
    uint32_t total = UINT32_MAX;  // none yet
    uint32_t site = 0;
  };
  static constexpr size_t kRecents = 256;

  static int64_t Signed(uint64_t ticks) { return static_cast<int64_t>(std::min<uint64_t>(ticks, INT64_MAX)); }
  uint32_t TotalOf(uint32_t owner, uint16_t type);
  uint32_t SiteOf(const SiteKey& key);
  void FinishTorch(const CaptureWindow& window);

  const SpoolFacts& facts_;
  ProcessModules& modules_;
  Timeline& timeline_;
  std::vector<OperationTotal> totals_;  // times in ticks
  absl::flat_hash_map<std::pair<uint32_t, uint16_t>, uint32_t> total_ids_;
  std::vector<Site> sites_;  // index 0 is not used
  absl::flat_hash_map<SiteKey, uint32_t> site_ids_;
  Recent recents_[kRecents];
  std::map<uint32_t, TorchTotals> torch_;  // by process
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_CALL_TOTALS_H_
