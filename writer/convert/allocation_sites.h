// SPDX-License-Identifier: Apache-2.0
//
// Where sampled allocations came from: unwinds the stack of each sample, names its frames and merges equal stacks.
// Allocations of different Python lines stay separate.
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

  // `record`: the whole record of `sample`, with its stack. `python`: from PythonExact::ReferenceTo. Returns the number
  // of the site.
  uint32_t Add(const Identity& process, const AllocationSampleRecord& sample, const RecordView& record,
               uint32_t python);
  uint64_t samples() const { return samples_; }
  // Fills Timeline::allocation_sites. Call after PythonExact::Finish.
  void Finish(Timeline* timeline);
  // The place of site `number` (from Add), without bytes. Call after PythonExact::Finish.
  HeldBytes PlaceOf(uint32_t number);

 private:
  struct Site {
    uint64_t samples = 0;
    double bytes = 0;
    uint64_t call_site = 0;  // of the latest sample
    uint32_t number = 0;
  };
  // By process, addresses of the stack, and reference to the Python stack.
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
