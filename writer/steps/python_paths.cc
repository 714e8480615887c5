// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/python_paths.h"

#include "writer/timeline/python_origin.h"

namespace tbprof {

PythonPaths::PythonPaths(const Timeline& timeline) : paths_(1) {
  const PythonTimeline& python = timeline.python;
  std::vector<PythonOrigin> origins;
  origins.reserve(python.functions.size());
  for (const PythonFunction& function : python.functions) {
    origins.push_back(PythonOriginOf(timeline.strings.Get(function.file), timeline.strings.Get(function.name)));
  }
  of_stacks_.resize(python.stacks.size());
  imports_.resize(python.stacks.size());
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, int32_t>, uint32_t> known;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t>, uint32_t> frames;
  // A caller has a lower index.
  for (uint32_t i = 1; i < python.stacks.size(); ++i) {
    const PythonStack& stack = python.stacks[i];
    const uint32_t parent = of_stacks_[stack.parent];
    imports_[i] = imports_[stack.parent] || origins[stack.function] == PythonOrigin::kImport;
    of_stacks_[i] = parent;
    if (origins[stack.function] != PythonOrigin::kProgram) continue;
    const auto [path, added] =
        known.try_emplace({parent, stack.function, stack.line}, static_cast<uint32_t>(paths_.size()));
    if (added) {
      const auto frame = frames.try_emplace({parent, stack.function}, static_cast<uint32_t>(frames.size()) + 1).first;
      paths_.push_back({parent, i, frame->second, paths_[parent].depth + 1});
    }
    of_stacks_[i] = path->second;
  }
}

uint32_t PythonPaths::At(uint32_t path, uint32_t depth) const {
  while (paths_[path].depth > depth) path = paths_[path].parent;
  return path;
}

}  // namespace tbprof
