// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/python_stacks.h"

#include <algorithm>
#include <string>

#include "writer/base/shown_file.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/symbols/python_lines.h"

namespace tbprof {
namespace {

constexpr size_t kLongestName = 200;

std::string LabelOf(const std::string& name, const std::string& file, int32_t first_line) {
  const std::string function = PrintableUtf8(TruncateUtf8(name, kLongestName));
  return StrCat(function.empty() ? "?" : function, " (", PrintableUtf8(ShownFile(file)), ":", first_line, ")");
}

}  // namespace

PythonStacks::PythonStacks(Timeline* timeline) : timeline_(*timeline) { timeline_.python.stacks.resize(1); }

uint32_t PythonStacks::FunctionOf(const PythonProcessFacts& process, uint32_t code, KnownProcess* known) {
  uint32_t& index = known->functions[code];
  if (index == kUnknown) index = FunctionOf(process.codes[code]);
  return index;
}

uint32_t PythonStacks::FunctionOf(const PythonCode& fact) {
  PythonFunction function;
  function.name = timeline_.strings.Intern(fact.name);
  function.file = timeline_.strings.Intern(fact.file);
  function.first_line = std::max(fact.first_line, 0);
  std::vector<PythonFunction>& functions = timeline_.python.functions;
  const auto [found, added] = functions_.try_emplace({function.name, function.file, function.first_line},
                                                     static_cast<uint32_t>(functions.size()));
  if (added) {
    function.label = timeline_.strings.Intern(
        LabelOf(timeline_.strings.Get(function.name), timeline_.strings.Get(function.file), function.first_line));
    functions.push_back(function);
  }
  return found->second;
}

uint32_t PythonStacks::Add(const PythonStack& frame, bool may_grow) {
  std::vector<PythonStack>& stacks = timeline_.python.stacks;
  const std::tuple<uint32_t, uint32_t, int32_t> key{frame.parent, frame.function, frame.line};
  if (!may_grow) {
    const auto known = stacks_.find(key);
    return known == stacks_.end() ? 0 : known->second;
  }
  const auto [found, added] = stacks_.try_emplace(key, static_cast<uint32_t>(stacks.size()));
  if (added) stacks.push_back(frame);
  return found->second;
}

uint32_t PythonStacks::StackOf(const PythonProcessFacts& process, uint32_t frame) {
  if (frame == 0) return 0;
  KnownProcess& known = processes_[&process];
  if (known.stacks.empty()) {
    known.functions.resize(process.codes.size(), kUnknown);
    known.stacks.resize(process.frames.size(), kUnknown);
    known.stacks[0] = 0;
  }
  // Adds the frames that are not known yet, from the outermost inwards.
  std::vector<uint32_t> missing;
  uint32_t at = frame;
  for (; known.stacks[at] == kUnknown; at = process.frames[at].parent) missing.push_back(at);
  uint32_t stack = known.stacks[at];
  for (; !missing.empty(); missing.pop_back()) {
    const PythonFrameFact& fact = process.frames[missing.back()];
    const PythonCode& code = process.codes[fact.code];
    const int32_t line = code.table.empty()
                             ? kNoPythonLine
                             : LineOfInstruction(code.minor, code.table, code.first_line, fact.instruction);
    stack = known.stacks[missing.back()] = Add({stack, FunctionOf(process, fact.code, &known), line});
  }
  return stack;
}

}  // namespace tbprof
