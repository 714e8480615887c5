// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/core_pattern.h"

#include "launcher/base/text.h"

namespace tbprof {
namespace {

bool NamesPid(std::string_view text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '%' && text[++i] == 'p') return true;
  }
  return false;
}

}  // namespace

CorePattern ParseCorePattern(std::string_view text, bool uses_pid) {
  CorePattern pattern;
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text.starts_with('|')) {
    pattern.kind_ = CorePattern::kPipe;
    text = Strip(text.substr(1));
    pattern.program_ = text.substr(0, text.find(' '));
    return pattern;
  }
  if (text.empty() && !uses_pid) return pattern;
  pattern.kind_ = CorePattern::kFile;
  pattern.text_ = text;
  if (uses_pid && !NamesPid(text)) pattern.text_ += ".%p";
  return pattern;
}

std::string CorePattern::PathOf(int32_t pid) const {
  std::string path;
  for (size_t i = 0; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c != '%') {
      path += EscapedPath({&c, 1});
      continue;
    }
    // A single `%` at the end is dropped.
    if (++i == text_.size()) break;
    switch (text_[i]) {
      case '%':
        path += '%';
        break;
      case 'p':
        path += std::to_string(pid);
        break;
      // %P, %i, %I, %u, %g, %d, %s, %t, %h, %e, %f, %E, %c, %C: only the kernel knows the value. Others are empty.
      case 'P':
      case 'i':
      case 'I':
      case 'u':
      case 'g':
      case 'd':
      case 's':
      case 't':
      case 'h':
      case 'e':
      case 'f':
      case 'E':
      case 'c':
      case 'C':
        if (path.empty() || path.back() != '*') path += '*';
        break;
      default:
        break;
    }
  }
  return path;
}

bool HasWildcard(std::string_view path) {
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '\\') {
      ++i;
    } else if (path[i] == '*') {
      return true;
    }
  }
  return false;
}

std::string EscapedPath(std::string_view path) {
  std::string text;
  for (const char c : path) {
    if (c == '\\' || c == '*' || c == '?' || c == '[') text += '\\';
    text += c;
  }
  return text;
}

std::string UnescapedPath(std::string_view path) {
  std::string plain;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '\\' && i + 1 < path.size()) ++i;
    plain += path[i];
  }
  return plain;
}

}  // namespace tbprof
