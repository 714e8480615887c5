// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/process_modules.h"

#include <algorithm>
#include <vector>

#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/text_match.h"
#include "writer/base/utf8.h"

namespace tbprof {

const ModuleMap& ProcessModules::Of(const Identity& process) {
  auto& map = maps_[process];
  if (map != nullptr) return *map;
  map = std::make_unique<ModuleMap>();
  std::vector<const ProcessFacts*> chain;
  Identity at = process;
  for (int depth = 0; depth < 64; ++depth) {
    const auto found = facts_.processes.find(at);
    if (found == facts_.processes.end()) break;
    chain.push_back(&found->second);
    if (found->second.parent_serial == 0) break;
    at.serial = found->second.parent_serial;
  }
  for (auto facts = chain.rbegin(); facts != chain.rend(); ++facts) {
    for (const Module& module : (*facts)->modules) map->Add(module);
  }
  return *map;
}

void ProcessModules::Set(const Identity& process, const std::vector<Module>& modules) {
  auto& map = maps_[process];
  map = std::make_unique<ModuleMap>();
  for (const Module& module : modules) map->Add(module);
}

StringId ProcessModules::NameOfCall(const Identity& process, uint64_t return_address) {
  const std::vector<Symbol> symbols = SymbolsOfCall(process, return_address);
  // Waits of the interpreter are known by the names of its functions, whatever is inlined into them.
  if (StartsWithAny(symbols.back().module, {"python", "libpython"})) return strings_.Intern(symbols.back().Text());
  // std::mutex::lock and its like are inlined: who called them is meant.
  const auto own = std::ranges::find_if(
      symbols, [](const Symbol& symbol) { return !symbol.function.empty() && !IsOfLanguageLibrary(symbol.function); });
  return strings_.Intern((own == symbols.end() ? symbols.back() : *own).Text());
}

Symbol ProcessModules::SymbolOfCall(const Identity& process, uint64_t return_address) {
  return symbolizer_.Find(Of(process), return_address, /*is_return_address=*/true);
}

std::vector<Symbol> ProcessModules::SymbolsOfCall(const Identity& process, uint64_t return_address) {
  return symbolizer_.FindWithInlined(Of(process), return_address, /*is_return_address=*/true);
}

std::string ProcessModules::FileOfCall(const Identity& process, uint64_t return_address) {
  const Module* const module = Of(process).Find(return_address - 1);
  return module == nullptr ? "" : PrintableUtf8(BaseName(module->path));
}

}  // namespace tbprof
