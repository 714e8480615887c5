// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/python_paths.h"

#include <string>
#include <string_view>

#include "writer/base/text_match.h"
#include "writer/timeline/python_origin.h"

namespace tbprof {
namespace {

bool IsOfCompiler(std::string_view file) {
  return ContainsAny(file, {"/jax/_src/compiler.py", "/jax/_src/interpreters/mlir.py",
                            "/torch/_dynamo/convert_frame.py", "/triton/compiler/", "/numba/core/compiler.py"});
}

}  // namespace

PythonPaths::PythonPaths(const Timeline& timeline) : paths_(1) {
  const PythonTimeline& python = timeline.python;
  std::vector<PythonOrigin> origins;
  std::vector<bool> compilers;
  origins.reserve(python.functions.size());
  for (const PythonFunction& function : python.functions) {
    const std::string& file = timeline.strings.Get(function.file);
    origins.push_back(PythonOriginOf(file, timeline.strings.Get(function.name)));
    compilers.push_back(IsOfCompiler(file));
  }
  of_stacks_.resize(python.stacks.size());
  imports_.resize(python.stacks.size());
  compiles_.resize(python.stacks.size());
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, int32_t>, uint32_t> known;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t>, uint32_t> frames;
  // A caller has a lower index.
  for (uint32_t i = 1; i < python.stacks.size(); ++i) {
    const PythonStack& stack = python.stacks[i];
    const uint32_t parent = of_stacks_[stack.parent];
    imports_[i] = imports_[stack.parent] || origins[stack.function] == PythonOrigin::kImport;
    compiles_[i] = compiles_[stack.parent] || compilers[stack.function];
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
