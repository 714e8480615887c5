// SPDX-License-Identifier: Apache-2.0
//
// Finds the programs (images) that one process ran one after the other: a fork child has a slot in its parent's
// segment, and the program that it executes has its own segment. Both are the same process.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_SPOOL_EXEC_IMAGES_H_
#define TBPROF_WRITER_SPOOL_EXEC_IMAGES_H_

#include <map>
#include <utility>
#include <vector>

#include "writer/spool/spool_facts.h"

namespace tbprof {

struct ExecImages {
  // `before`: from an image to the one before its exec. `after`: the reverse.
  std::map<Identity, Identity> before, after;
};

// `order`: images by the time of their start.
ExecImages FindExecImages(const SpoolFacts& facts, const std::vector<std::pair<uint64_t, Identity>>& order);

// Whether calls of exec returned, and so started no program. `facts` is read by the constructor alone.
class ExecReturns {
 public:
  explicit ExecReturns(const SpoolFacts& facts);
  bool Has(const ExecFacts& exec) const;

 private:
  // The latest of each thread, and of each child that runs in its parent's memory.
  std::map<std::pair<Identity, int32_t>, uint64_t> latest_;
};

// Returns the facts of the exec that made the image of this process: its own or an ancestor's.
const ProcessFacts& ImageOf(Identity identity, SpoolFacts* facts);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SPOOL_EXEC_IMAGES_H_
