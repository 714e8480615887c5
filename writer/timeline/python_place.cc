// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/python_place.h"

#include "writer/base/shown_file.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kLongestPart = 200;

std::string Part(std::string_view text) { return PrintableUtf8(TruncateUtf8(text, kLongestPart)); }

}  // namespace

std::string PythonFrameText(const Timeline& timeline, const PythonStack& frame, bool whole_path) {
  const PythonFunction& function = timeline.python.functions[frame.function];
  const std::string& path = timeline.strings.Get(function.file);
  const std::string file = whole_path ? PrintableUtf8(path) : Part(ShownFile(path));
  const std::string name = Part(timeline.strings.Get(function.name));
  return StrCat(file.empty() ? "?" : file, ":", frame.line >= 0 ? std::to_string(frame.line) : "?", " ",
                name.empty() ? "?" : name);
}

std::string PythonStackText(const Timeline& timeline, uint32_t stack, size_t callers) {
  const std::vector<PythonStack>& stacks = timeline.python.stacks;
  std::string text = PythonFrameText(timeline, stacks[stack]);
  for (stack = stacks[stack].parent; stack != 0 && callers > 0; stack = stacks[stack].parent, --callers) {
    StrAppend(&text, " < ", PythonFrameText(timeline, stacks[stack]));
  }
  return text;
}

}  // namespace tbprof
