// SPDX-License-Identifier: Apache-2.0
//
// Where allocations came from, by sampled stacks: unwound, named and merged. What was allocated by different lines of
// Python stays apart.
//
// Process: converter, one thread. Untrusted: stacks and registers.
#ifndef TBPROF_WRITER_CONVERT_ALLOCATION_SITES_H_
#define TBPROF_WRITER_CONVERT_ALLOCATION_SITES_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "wire/records.h"
#include "writer/convert/process_modules.h"
#include "writer/convert/python_exact.h"
#include "writer/spool/record_view.h"
#include "writer/symbols/unwind.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class AllocationSites {
 public:
  // Both must outlive this.
  AllocationSites(ProcessModules* modules, PythonExact* python) : modules_(*modules), python_(*python) {}

  // `record`: that `sample` was read from, with its stack. `python`: of PythonExact::ReferenceTo. Returns the site's
  // number.
  uint32_t Add(const Identity& process, const AllocationSampleRecord& sample, const RecordView& record,
               uint32_t python);
  uint64_t samples() const { return samples_; }
  // Fills Timeline::allocation_sites, after PythonExact::Finish.
  void Finish(Timeline* timeline);
  // Likewise after PythonExact::Finish: of Add's number, without bytes.
  HeldBytes PlaceOf(uint32_t number);

 private:
  struct Site {
    uint64_t samples = 0;
    double bytes = 0;
    uint64_t call_site = 0;  // of the last of them
    uint32_t number = 0;
  };
  // By the addresses of the stack and the reference to Python's.
  using Sites = std::map<std::tuple<Identity, std::vector<uint64_t>, uint32_t>, Site>;

  std::vector<StringId> NameFrames(const Identity& process, const std::vector<uint64_t>& addresses, uint64_t call_site);

  ProcessModules& modules_;
  PythonExact& python_;
  Unwinder unwinder_;
  Sites sites_;
  std::vector<const Sites::value_type*> by_number_;
  uint64_t samples_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_ALLOCATION_SITES_H_
