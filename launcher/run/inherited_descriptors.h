// SPDX-License-Identifier: Apache-2.0
//
// The descriptors with which tbprof was started. The command has its own copies: the launcher's would keep a pipe open
// that the command has closed, and whoever reads that pipe would wait for the end of the run.
//
//   InheritedDescriptors inherited;      // before anything else is opened
//   ... start the command ...
//   inherited.Release(options);
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_RUN_INHERITED_DESCRIPTORS_H_
#define TBPROF_LAUNCHER_RUN_INHERITED_DESCRIPTORS_H_

#include <vector>

#include "launcher/cli/options.h"

namespace tbprof {

class InheritedDescriptors {
 public:
  InheritedDescriptors();
  // Closes them, and puts /dev/null in the place of standard input and output. Standard error is tbprof's own, too.
  // Those that an option names are kept.
  void Release(const Options& options) const;

 private:
  std::vector<int> above_two_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_INHERITED_DESCRIPTORS_H_
