// SPDX-License-Identifier: Apache-2.0
#include "writer/base/symbol_text.h"

#include <algorithm>

#include "writer/base/text_match.h"

namespace tbprof {
namespace {

bool IsOfIdentifier(char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

// `operator<`, `operator()`, `operator new[]`, `operator bool`, from the word on; empty: it is another word.
std::string_view OperatorAt(std::string_view name, size_t at) {
  constexpr std::string_view kWord = "operator", kSigns = "+-*/%^&|~!=<>,";
  const std::string_view rest = name.substr(at);
  if (!rest.starts_with(kWord) || (at > 0 && IsOfIdentifier(name[at - 1]))) return {};
  size_t end = kWord.size();
  if (end == rest.size() || IsOfIdentifier(rest[end])) return {};
  for (const std::string_view pair : {"()", "[]"}) {
    if (rest.substr(end).starts_with(pair)) return rest.substr(0, end + pair.size());
  }
  while (end < rest.size() && kSigns.find(rest[end]) != kSigns.npos) ++end;
  return end > kWord.size() ? rest.substr(0, end) : rest.substr(0, std::min(rest.find('('), rest.size()));
}

// Drops the return type and its like: the part before the last space.
void KeepLastWord(std::string* text) {
  while (text->ends_with(' ')) text->pop_back();
  if (const size_t space = text->rfind(' '); space != std::string::npos) text->erase(0, space + 1);
}

}  // namespace

bool IsCLibraryFile(std::string_view base_name) {
  return StartsWithAny(base_name,
                       {"libc.so", "libc-2", "libpthread.so", "libpthread-2", "ld-linux", "ld-2.", "ld-musl-"});
}

std::string ShortSymbol(std::string_view name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  if (name.starts_with('[') || name.starts_with('(')) return std::string(name);
  std::string out;
  int depth = 0;  // nesting depth of template arguments
  for (size_t i = 0; i < name.size(); ++i) {
    const std::string_view op = depth == 0 ? OperatorAt(name, i) : std::string_view();
    if (!op.empty()) {
      if (!out.ends_with("::")) out.clear();
      KeepLastWord(&out);
      return out.append(op);
    }
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
  KeepLastWord(&out);
  return out.empty() ? std::string(name) : out;
}

std::string ShortSite(std::string_view site) {
  const size_t open = site.rfind(" (");
  if (open == std::string_view::npos || open == 0 || !site.ends_with(')')) return ShortSymbol(site);
  const std::string_view place = site.substr(open + 2, site.size() - open - 3);
  const size_t colon = place.rfind(':');
  const bool has_line = colon != std::string_view::npos && colon > 0 && colon + 1 < place.size() &&
                        place.find_first_not_of("0123456789", colon + 1) == std::string_view::npos &&
                        place.find_first_of(" (,<") == std::string_view::npos;
  if (!has_line) return ShortSymbol(site);
  return std::string(place).append(" ").append(ShortSymbol(site.substr(0, open)));
}

bool IsOfLanguageLibrary(std::string_view function) {
  const std::string name = ShortSymbol(function);
  return StartsWithAny(name, {"std::", "__", "core::", "alloc::", "<core::", "<alloc::", "<std::", "runtime."});
}

std::string ShortFunction(std::string_view name) {
  return name.find('(') == std::string_view::npos ? std::string(name) : ShortSymbol(name);
}

}  // namespace tbprof
