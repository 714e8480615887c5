// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/native_stacks.h"

#include <string>
#include <utility>

#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Some names of C++ templates are longer than the page is wide.
constexpr size_t kLongestName = 200;
// With more stacks, inlined functions are left out.
constexpr size_t kMostWithInlined = size_t{1} << 21;

}  // namespace

NativeStacks::NativeStacks(ProcessModules* modules, Timeline* timeline) : modules_(*modules), timeline_(*timeline) {
  timeline_.native.stacks.resize(1);
}

NativeStack NativeStacks::Name(Symbol symbol) {
  NativeStack stack;
  symbol.function = TruncateUtf8(symbol.function, kLongestName);
  const bool is_known = !symbol.module.empty();
  if (symbol.function.empty()) {
    // Code without a name has many addresses, which have only the module in common.
    const std::string name = is_known ? StrCat("[", symbol.module, "]") : "[generated code]";
    stack.function = timeline_.strings.Intern(name);
    stack.site = is_known ? timeline_.strings.Intern(symbol.Text()) : stack.function;
  } else {
    stack.function = timeline_.strings.Intern(symbol.function);
    stack.site = timeline_.strings.Intern(symbol.Text());
  }
  if (!symbol.file.empty() && symbol.line > 0) {
    stack.file = timeline_.strings.Intern(symbol.file);
    stack.line = symbol.line;
  }
  if (is_known) stack.module = timeline_.strings.Intern(symbol.module);
  return stack;
}

uint32_t NativeStacks::Below(uint32_t parent, NativeStack entry) {
  entry.parent = parent;
  std::vector<NativeStack>& stacks = timeline_.native.stacks;
  const auto [found, added] =
      stacks_.try_emplace({entry.parent, entry.site, entry.module}, static_cast<uint32_t>(stacks.size()));
  if (added) stacks.push_back(entry);
  return found->second;
}

uint32_t NativeStacks::Below(uint32_t parent, const Identity& identity, uint64_t address) {
  if (address == 0) {
    NativeStack gap;
    gap.function = gap.site = timeline_.strings.Intern(std::string(kMissingFrames));
    gap.is_gap = true;
    return Below(parent, gap);
  }
  if (timeline_.native.stacks.size() > kMostWithInlined) {
    return Below(parent, Name(modules_.SymbolOfCall(identity, address)));
  }
  std::vector<Symbol> symbols = modules_.SymbolsOfCall(identity, address);
  for (; !symbols.empty(); symbols.pop_back()) parent = Below(parent, Name(std::move(symbols.back())));
  return parent;
}

uint32_t NativeStacks::StackOf(const Identity& identity, const NativeProcessFacts& process, uint32_t frame) {
  if (frame == 0) return 0;
  std::vector<uint32_t>& known = processes_[identity];
  if (known.empty()) {
    known.resize(process.frames.size(), kUnknown);
    known[0] = 0;
  }
  // Adds the frames that are not known yet, from the outermost inwards.
  std::vector<uint32_t> missing;
  uint32_t at = frame;
  for (; known[at] == kUnknown; at = process.frames[at].parent) missing.push_back(at);
  uint32_t stack = known[at];
  for (; !missing.empty(); missing.pop_back()) {
    stack = known[missing.back()] = Below(stack, identity, process.frames[missing.back()].address);
  }
  return stack;
}

}  // namespace tbprof
