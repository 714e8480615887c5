// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/native_place.h"

#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Frames of an allocator or container, not of the code that requested memory; and frames without a name.
bool IsPlumbing(std::string_view frame) {
  if (frame.find(" (") == std::string_view::npos) return true;
  for (const std::string_view word : {"alloc", "Alloc", "operator new", "::empty", "std::", "__gnu_cxx"}) {
    if (frame.find(word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

std::string ShortFrame(std::string_view frame) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  std::string named(frame);
  for (size_t at = 0; (at = named.find(kAnonymous, at)) != std::string::npos;) named.erase(at, kAnonymous.size());
  frame = named;
  const size_t location = frame.rfind(" (");
  std::string_view function = frame.substr(0, location);
  const size_t arguments = function.find('(', function.starts_with("operator(") ? 10 : 1);
  if (arguments != std::string_view::npos && function.find("operator()") == std::string_view::npos) {
    function = function.substr(0, arguments);
  }
  const std::string_view place = location == std::string_view::npos ? "" : frame.substr(location);
  return StrCat(function, place.find(':') == std::string_view::npos ? "" : place);
}

std::string NativePlace(const Timeline& timeline, const std::vector<StringId>& frames) {
  std::string place;
  int shown = 0;
  for (const StringId id : frames) {
    const std::string& frame = timeline.strings.Get(id);
    if (IsPlumbing(frame)) continue;
    StrAppend(&place, shown == 0 ? "" : " < ", PrintableUtf8(ShortFrame(frame)));
    if (++shown == 2) break;
  }
  return shown > 0 ? place : PrintableUtf8(ShortFrame(timeline.strings.Get(frames[0])));
}

}  // namespace tbprof
