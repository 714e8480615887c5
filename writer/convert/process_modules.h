// SPDX-License-Identifier: Apache-2.0
//
// The modules of each process in a spool, including those that a fork child has from its parents, and the names of
// addresses in them.
//
// Process: converter, one thread. Untrusted: paths, addresses and the files of modules.
#ifndef TBPROF_WRITER_CONVERT_PROCESS_MODULES_H_
#define TBPROF_WRITER_CONVERT_PROCESS_MODULES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "writer/spool/spool_facts.h"
#include "writer/symbols/symbolize.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class ProcessModules {
 public:
  // Both must outlive this.
  ProcessModules(const SpoolFacts* facts, StringTable* strings) : facts_(*facts), strings_(*strings) {}

  const ModuleMap& Of(const Identity& process);
  // Sets the modules of a process whose modules come from another source.
  void Set(const Identity& process, const std::vector<Module>& modules);
  // `function (file:line)` of the call that returns to the address.
  StringId NameOfCall(const Identity& process, uint64_t return_address);
  Symbol SymbolOfCall(const Identity& process, uint64_t return_address);
  // With the functions that were inlined there, innermost first.
  std::vector<Symbol> SymbolsOfCall(const Identity& process, uint64_t return_address);
  // The file name of the module that the call is in; empty: not known.
  std::string FileOfCall(const Identity& process, uint64_t return_address);

 private:
  const SpoolFacts& facts_;
  StringTable& strings_;
  std::map<Identity, std::unique_ptr<ModuleMap>> maps_;
  Symbolizer symbolizer_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PROCESS_MODULES_H_
