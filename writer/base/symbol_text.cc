// SPDX-License-Identifier: Apache-2.0
#include "writer/base/symbol_text.h"

namespace tbprof {

std::string ShortSymbol(std::string_view name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  if (name.starts_with('[') || name.starts_with('(') || name.find("operator") != name.npos) return std::string(name);
  std::string out;
  int depth = 0;  // nesting depth of template arguments
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
    } else if (name[i] == '<') {
      ++depth;
    } else if (name[i] == '>' && depth > 0) {
      --depth;
    } else if (depth == 0 && name[i] == '(') {
      break;
    } else if (depth == 0) {
      out += name[i];
    }
  }
  while (out.ends_with(' ')) out.pop_back();
  // The part before the name is the return type.
  if (const size_t space = out.rfind(' '); space != std::string::npos) out.erase(0, space + 1);
  return out.empty() ? std::string(name) : out;
}

}  // namespace tbprof
