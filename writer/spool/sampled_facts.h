// SPDX-License-Identifier: Apache-2.0
//
// Facts of the processes whose stacks were sampled: the base of PythonFacts and NativeFacts.
//
// Process: launcher and converter. Does not trust the spool.
#ifndef TBPROF_WRITER_SPOOL_SAMPLED_FACTS_H_
#define TBPROF_WRITER_SPOOL_SAMPLED_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace tbprof {

template <typename ProcessFacts>
class SampledFacts {
 public:
  // By segment and serial of the process.
  using Processes = std::map<std::pair<uint32_t, uint32_t>, ProcessFacts>;
  const Processes& processes() const { return processes_; }
  const ProcessFacts* Of(uint32_t segment, uint32_t process_serial) const {
    const auto found = processes_.find({segment, process_serial});
    return found == processes_.end() ? nullptr : &found->second;
  }
  uint64_t corrupt() const { return corrupt_; }    // invalid facts
  uint64_t left_out() const { return left_out_; }  // beyond the limits

 protected:
  // Null: the serial is invalid, or there are too many processes.
  ProcessFacts* Find(uint32_t segment, uint32_t process_serial) {
    constexpr size_t kMostProcesses = 1u << 16;
    if (segment == 0 || process_serial == 0) {
      ++corrupt_;
      return nullptr;
    }
    const auto found = processes_.find({segment, process_serial});
    if (found != processes_.end()) return &found->second;
    if (processes_.size() >= kMostProcesses) {
      ++left_out_;
      return nullptr;
    }
    return &processes_[{segment, process_serial}];
  }

  Processes processes_;
  uint64_t corrupt_ = 0, left_out_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_SAMPLED_FACTS_H_
