// SPDX-License-Identifier: Apache-2.0
//
// Where allocations came from, by sampled stacks: unwound, named and merged.
//
// Process: converter, one thread. Untrusted: stacks and registers.
#ifndef TBPROF_WRITER_CONVERT_ALLOCATION_SITES_H_
#define TBPROF_WRITER_CONVERT_ALLOCATION_SITES_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "wire/records.h"
#include "writer/convert/process_modules.h"
#include "writer/spool/record_view.h"
#include "writer/symbols/unwind.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class AllocationSites {
 public:
  explicit AllocationSites(ProcessModules* modules) : modules_(*modules) {}

  // `record`: that `sample` was read from, with its stack.
  void Add(const Identity& process, const AllocationSampleRecord& sample, const RecordView& record);
  uint64_t samples() const { return samples_; }
  // Fills Timeline::allocation_sites.
  void Finish(Timeline* timeline);

 private:
  struct Site {
    uint64_t samples = 0;
    double bytes = 0;
    uint64_t call_site = 0;  // of the last of them
  };

  std::vector<StringId> NameFrames(const Identity& process, const std::vector<uint64_t>& addresses, uint64_t call_site);

  ProcessModules& modules_;
  Unwinder unwinder_;
  std::map<std::pair<Identity, std::vector<uint64_t>>, Site> sites_;  // by the addresses of the stack
  uint64_t samples_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_ALLOCATION_SITES_H_
