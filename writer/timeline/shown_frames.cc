// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/shown_frames.h"

#include <algorithm>
#include <string_view>

#include "writer/timeline/python_origin.h"

namespace tbprof {

ShownFrames::ShownFrames(const StringTable& strings, const PythonTimeline& python) : python_(python) {
  for (const PythonFunction& function : python.functions) {
    const std::string_view file = strings.Get(function.file), name = strings.Get(function.name);
    are_of_importlib_.push_back(IsOfImportlib(PythonOriginOf(file, name)));
    begin_workers_.push_back(BeginsWorker(file, name));
  }
}

void ShownFrames::Get(uint32_t stack, std::vector<uint32_t>* frames) const {
  frames->clear();
  for (; stack != 0; stack = python_.stacks[stack].parent) {
    const uint32_t function = python_.stacks[stack].function;
    if (frames->empty() || !are_of_importlib_[function]) frames->push_back(stack);
    if (begin_workers_[function]) break;
  }
  std::reverse(frames->begin(), frames->end());
}

}  // namespace tbprof
