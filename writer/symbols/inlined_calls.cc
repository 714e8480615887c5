// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/inlined_calls.h"

#include <dwarf.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "writer/symbols/demangle.h"

namespace tbprof {
namespace {

// Of one file. Range lists and entries without a sibling may be of any length, so that the time is limited, too.
constexpr uint64_t kMostVisited = uint64_t{30} << 20, kMostNs = 3'000'000'000;
constexpr uint64_t kMostFunctions = uint64_t{1} << 21;
constexpr int kDeepestScope = 32;
constexpr size_t kMostInlined = 24;

bool HoldsFunctions(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type || tag == DW_TAG_class_type ||
         tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type;
}

std::string NameOf(Dwarf_Die* die) {
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(die, name, &attribute) == nullptr) continue;
    const char* const mangled = dwarf_formstring(&attribute);
    if (mangled != nullptr) return Demangle(std::string(mangled, strnlen(mangled, kMaxNameLength)));
  }
  const char* const plain = dwarf_diename(die);
  return plain == nullptr ? "" : Demangle(std::string(plain, strnlen(plain, kMaxNameLength)));
}

Dwarf_Word NumberOf(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word number = 0;
  if (dwarf_attr(die, name, &attribute) == nullptr || dwarf_formudata(&attribute, &number) != 0) return 0;
  return number;
}

InlinedCall CallOf(Dwarf_Die* unit, Dwarf_Die* die) {
  InlinedCall call;
  call.function = NameOf(die);
  const Dwarf_Word line = NumberOf(die, DW_AT_call_line);
  if (line == 0 || line > INT32_MAX) return call;
  Dwarf_Files* files;
  size_t count = 0;
  const Dwarf_Word index = NumberOf(die, DW_AT_call_file);
  if (dwarf_getsrcfiles(unit, &files, &count) != 0 || index >= count) return call;
  const char* const file = dwarf_filesrc(files, index, nullptr, nullptr);
  if (file == nullptr) return call;
  call.file.assign(file, strnlen(file, kMaxNameLength));
  call.line = static_cast<int>(line);
  return call;
}

uint64_t ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

void InlinedCalls::AddFunctions(Dwarf_Die* parent, int depth, std::vector<Function>* functions) {
  Dwarf_Die child;
  if (depth > kDeepestScope || dwarf_child(parent, &child) != 0) return;
  do {
    if (++visited_ > kMostVisited || functions_ >= kMostFunctions) return;
    const int tag = dwarf_tag(&child);
    if (HoldsFunctions(tag)) AddFunctions(&child, depth + 1, functions);
    if (tag != DW_TAG_subprogram) continue;
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while (functions_ < kMostFunctions && (at = dwarf_ranges(&child, at, &base, &low, &high)) > 0) {
      if (low >= high) continue;
      functions->push_back({low, high, dwarf_dieoffset(&child)});
      ++functions_;
    }
  } while (dwarf_siblingof(&child, &child) == 0);
}

const std::vector<InlinedCalls::Function>& InlinedCalls::FunctionsOf(Dwarf_Die* unit) {
  const auto [found, added] = units_.try_emplace(dwarf_dieoffset(unit));
  std::vector<Function>& functions = found->second;
  if (!added) return functions;
  AddFunctions(unit, 0, &functions);
  std::ranges::sort(functions, {}, &Function::low);
  functions.shrink_to_fit();
  return functions;
}

bool InlinedCalls::Step(Dwarf_Die* parent, uint64_t address, Dwarf_Die* inlined, int depth) {
  Dwarf_Die child;
  if (depth > kDeepestScope || dwarf_child(parent, &child) != 0) return false;
  do {
    if (++visited_ > kMostVisited) return false;
    const int tag = dwarf_tag(&child);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) continue;
    if (dwarf_haspc(&child, address) <= 0) continue;
    if (tag == DW_TAG_lexical_block) return Step(&child, address, inlined, depth + 1);
    *inlined = child;
    return true;
  } while (dwarf_siblingof(&child, &child) == 0);
  return false;
}

bool InlinedCalls::Find(Dwarf_Die* unit, uint64_t address, std::vector<InlinedCall>* calls) {
  if (spent_ns_ > kMostNs) return false;
  const uint64_t before = ThreadCpuNs();
  const bool found = Look(unit, address, calls);
  spent_ns_ += ThreadCpuNs() - before;
  return found;
}

bool InlinedCalls::Look(Dwarf_Die* unit, uint64_t address, std::vector<InlinedCall>* calls) {
  const std::vector<Function>& functions = FunctionsOf(unit);
  auto after = std::ranges::upper_bound(functions, address, {}, &Function::low);
  if (after == functions.begin() || address >= (--after)->high) return false;
  Dwarf_Die at;
  if (dwarf_offdie(dwarf_cu_getdwarf(unit->cu), after->die, &at) == nullptr) return false;
  while (calls->size() < kMostInlined && Step(&at, address, &at, 0)) calls->push_back(CallOf(unit, &at));
  std::ranges::reverse(*calls);
  return true;
}

}  // namespace tbprof
