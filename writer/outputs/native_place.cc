// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/native_place.h"

#include <utility>

#include "writer/base/symbol_text.h"
#include "writer/base/text.h"
#include "writer/base/text_match.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Longer names lose the arguments of their templates.
constexpr size_t kLongestWithTemplates = 80;

// `void std::vector<int>::push_back` of `void std::vector<int>::push_back(int const&) (stl_vector.h:12)`.
std::string_view NameOf(std::string_view frame) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  size_t end = 1;
  while ((end = frame.find('(', end)) != std::string_view::npos) {
    if (!frame.substr(end).starts_with(kAnonymous)) return frame.substr(0, end);
    end += kAnonymous.size();
  }
  return frame;
}

// Frames of an allocator, a container or the start of a thread, not of the code that requested memory; and frames
// without a name. Arguments and templates of a function of the program may name the library.
bool IsPlumbing(std::string_view frame) {
  if (frame.find(" (") == std::string_view::npos) return true;
  const std::string_view name = NameOf(frame);
  if (StartsWithAny(name, {"std::", "__gnu_cxx", "__libc_start", "_start ", "start_thread", "clone"})) return true;
  return ContainsAny(name.substr(0, name.find('<')),
                     {"alloc", "Alloc", "operator new", "::empty", " std::", " __gnu_cxx::"});
}

// Code that is inlined has the line of a header of the C++ library: `main (new_allocator.h:137)`.
bool IsLineOfLibrary(std::string_view frame) {
  const size_t place = frame.rfind(" (");
  return place != std::string_view::npos &&
         ContainsAny(frame.substr(place),
                     {"alloc", "stl_", "/bits/", "unique_ptr.h", "shared_ptr", "basic_string", "vector.tcc"});
}

std::string Shown(std::string_view frame) {
  return ShortFrame(IsLineOfLibrary(frame) ? frame.substr(0, frame.rfind(" (")) : frame);
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
  const std::string bare = function.size() > kLongestWithTemplates ? ShortSymbol(function) : std::string(function);
  return StrCat(bare, place.find(':') == std::string_view::npos ? "" : place);
}

std::string NativePlace(const Timeline& timeline, const std::vector<StringId>& frames) {
  std::string place, before;
  int shown = 0;
  for (const StringId id : frames) {
    const std::string& frame = timeline.strings.Get(id);
    if (IsPlumbing(frame)) continue;
    std::string text = PrintableUtf8(Shown(frame));
    if (text == before) continue;  // a function that calls itself, or inlined code
    StrAppend(&place, shown == 0 ? "" : " < ", text);
    before = std::move(text);
    if (++shown == 2) break;
  }
  return shown > 0 ? place : PrintableUtf8(ShortFrame(timeline.strings.Get(frames[0])));
}

}  // namespace tbprof
