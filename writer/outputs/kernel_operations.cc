// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/kernel_operations.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "writer/base/text.h"

namespace tbprof {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsBasic(std::string_view word) {
  static constexpr std::string_view kBasic[] = {"bool", "char",  "const",  "double", "false",    "float", "int",
                                                "long", "short", "signed", "true",   "unsigned", "void",  "volatile"};
  return std::find(std::begin(kBasic), std::end(kBasic), word) != std::end(kBasic);
}

// The last part of the first qualified name in a template's arguments, which begin with `<`.
std::string_view FirstNameOf(std::string_view arguments) {
  int depth = 0;
  for (size_t at = 0; at < arguments.size();) {
    depth += arguments[at] == '<' ? 1 : arguments[at] == '>' ? -1 : 0;
    if (depth == 0) return "";
    if (IsDigit(arguments[at])) {  // with its suffix, as `1ul`
      while (at < arguments.size() && (IsDigit(arguments[at]) || IsLetter(arguments[at]))) ++at;
      continue;
    }
    const size_t first = at;
    while (at < arguments.size() && (IsLetter(arguments[at]) || IsDigit(arguments[at]))) ++at;
    if (at == first) {
      ++at;
      continue;
    }
    if (arguments.substr(at).starts_with("::")) continue;
    const std::string_view word = arguments.substr(first, at - first);
    if (!IsBasic(word)) return word;
  }
  return "";
}

}  // namespace

std::string OperationOfKernel(std::string_view kernel) {
  std::string name(kernel);
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (size_t at; (at = name.find(kAnonymous)) != std::string::npos;) name.erase(at, kAnonymous.size());
  const size_t end = std::min(name.find_first_of("<("), name.size());
  const std::string argument(name.substr(end).starts_with('<') ? FirstNameOf(std::string_view(name).substr(end)) : "");
  name.resize(end);
  if (const size_t blank = name.rfind(' '); blank != std::string::npos) name.erase(0, blank + 1);
  if (const size_t scope = name.rfind("::"); scope != std::string::npos) name.erase(0, scope + 2);
  for (char& c : name) {
    if (!IsLetter(c) && !IsDigit(c) && c != '.') c = '_';
  }
  // An operation's name does not begin with this letter; names of Triton's kernels often do.
  name.erase(0, std::min(name.find_first_not_of('_'), name.size()));
  if (name.empty()) name = "kernel";
  return argument.empty() ? name : StrCat(name, ".", argument);
}

KernelOperations::KernelOperations(const Timeline& timeline, uint32_t device) {
  for (const GpuStream& stream : timeline.gpu_streams) {
    if (stream.device != device) continue;
    for (const GpuEvent& event : stream.events) {
      if (event.kind == GpuEventKind::kKernel && event.operation == 0) texts_.try_emplace(event.name);
    }
  }
  // In the order of their names, so that a kernel has the same number in another profile of the program.
  std::map<std::string_view, StringId> by_name;
  for (const auto& [kernel, text] : texts_) by_name.emplace(timeline.strings.Get(kernel), kernel);
  std::map<std::string, int> counts;
  for (const auto& [name, kernel] : by_name) {
    std::string operation = OperationOfKernel(name);
    if (const int count = ++counts[operation]; count > 1) StrAppend(&operation, ".", count);
    texts_[kernel] = StrCat(operation, ":Kernel");
  }
}

}  // namespace tbprof
