// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/library_code.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "writer/base/saturating.h"
#include "writer/base/shown_file.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/text_match.h"
#include "writer/base/utf8.h"
#include "writer/timeline/python_origin.h"
#include "writer/timeline/time_span.h"

namespace tbprof {
namespace {

// Least share of the line's time for a function to be named, and least share of a function's time that the functions it
// calls must take to be named in its place.
constexpr double kLeastOfLine = 0.2, kMostlyCalls = 0.6;

// Functions of Python and what they call, by all samples below one line of the program: a tree. The first is the line.
struct CallNode {
  uint32_t function = 0;        // index into PythonTimeline::functions
  int64_t ps = 0;               // with all that it calls
  std::vector<uint32_t> calls;  // indices of nodes
};
using CallTree = std::vector<CallNode>;

bool IsAt(const Timeline& timeline, uint32_t frame, const Where& line) {
  const PythonStack& stack = timeline.python.stacks[frame];
  return frame != 0 && stack.line == line.line && timeline.python.functions[stack.function].file == line.file;
}

// The time of each stack of the thread at that line.
std::map<uint32_t, int64_t> StacksAt(const Timeline& timeline, const PythonTags& tags, const StepSpan& span,
                                     const Where& line) {
  const PythonThread* const thread = timeline.python.OfThread(span.thread);
  std::map<uint32_t, int64_t> stacks;
  size_t at = 0;
  for (size_t i = 0; thread != nullptr && i < thread->runs.size(); ++i) {
    const PythonRun& run = thread->runs[i];
    int64_t ps = 0;
    ForCommon(span.spans, &at, run.from_ps, run.to_ps, [&](int64_t from, int64_t to) { ps += to - from; });
    if (ps <= 0 || !tags.HasOwnFrame(run.stack) || !IsAt(timeline, tags.OwnFrameOf(run.stack), line)) continue;
    AddSaturating(&stacks[run.stack], ps);
  }
  return stacks;
}

CallTree CallsOf(const Timeline& timeline, const PythonTags& tags, const StepSpan& span, const Where& line) {
  CallTree tree(1);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> nodes;  // by caller's node and function
  std::vector<uint32_t> functions;                          // innermost first
  for (const auto& [stack, ps] : StacksAt(timeline, tags, span, line)) {
    const uint32_t own = tags.OwnFrameOf(stack);
    functions.clear();
    for (uint32_t frame = stack; frame != own && frame != 0; frame = timeline.python.stacks[frame].parent) {
      functions.push_back(timeline.python.stacks[frame].function);
    }
    AddSaturating(&tree[0].ps, ps);
    uint32_t node = 0;
    for (auto function = functions.rbegin(); function != functions.rend(); ++function) {
      const auto [known, is_new] = nodes.try_emplace({node, *function}, static_cast<uint32_t>(tree.size()));
      if (is_new) {
        tree[node].calls.push_back(known->second);
        tree.push_back({*function, 0, {}});
      }
      node = known->second;
      AddSaturating(&tree[node].ps, ps);
    }
  }
  return tree;
}

// What wraps others says nothing: `Module._call_impl`, `decorate_context`.
bool IsWrapper(std::string_view name) {
  const std::string_view last = LastName(name);
  constexpr std::string_view kNames[] = {"wrapper",       "wrapped",  "inner",   "decorate_context", "error_handler",
                                         "inner_wrapper", "wrapping", "wrapfun", "decorated"};
  return last.empty() || last.front() == '_' || last.front() == '<' ||
         std::ranges::find(kNames, last) != std::end(kNames);
}

// `torch` of `.../site-packages/torch/_tensor.py`; of other files as they are shown.
std::string PackageOf(std::string_view path) {
  std::string file = ShownFile(path);
  const size_t slash = file.find('/');
  if (slash != std::string::npos && ContainsAny(path, {"-packages/"})) file.resize(slash);
  return file;
}

// The library that others are written with: of it, the function that calls it is named.
bool IsFoundation(std::string_view file) {
  if (!ContainsAny(file, {"-packages/"})) return true;  // Python's own library, generated code
  return ContainsAny(file, {"-packages/torch/", "-packages/jax/", "-packages/tensorflow/", "-packages/numpy/"}) &&
         !ContainsAny(file, {"-packages/torch/optim/"});
}

// Functions on the way to a node; UINT32_MAX: none.
struct Path {
  uint32_t library = UINT32_MAX;     // the innermost one of a library that is no foundation
  int64_t library_ps = 0;            // all its time
  uint32_t foundation = UINT32_MAX;  // the outermost one of a foundation that it calls
};

struct FunctionTime {
  uint32_t function = 0;
  int64_t ps = 0;
};

// Walks to the functions that take much and call nothing that takes most of it.
class FunctionWalk {
 public:
  FunctionWalk(const Timeline& timeline, const CallTree& tree)
      : timeline_(timeline), tree_(tree), least_ps_(kLeastOfLine * static_cast<double>(tree[0].ps)) {}

  // As deep as the stacks of Python that were sampled.
  void Walk(uint32_t number, Path path) {
    const CallNode& node = tree_[number];
    double below_ps = 0;
    for (const uint32_t call : node.calls) below_ps += IsLarge(call) ? static_cast<double>(tree_[call].ps) : 0;
    if (below_ps >= kMostlyCalls * static_cast<double>(node.ps)) {
      for (const uint32_t call : node.calls) {
        if (IsLarge(call)) Walk(call, Longer(path, tree_[call]));
      }
      return;
    }
    const uint32_t function = NameOf(node, path);
    if (function == UINT32_MAX) return;
    const auto found = std::ranges::find(found_, function, &FunctionTime::function);
    if (found == found_.end()) return found_.push_back({function, node.ps});
    AddSaturating(&found->ps, node.ps);
  }

  std::vector<FunctionTime> Longest(size_t most) {
    std::ranges::stable_sort(found_, std::ranges::greater(), &FunctionTime::ps);
    if (found_.size() > most) found_.resize(most);
    return found_;
  }

 private:
  bool IsLarge(uint32_t call) const { return static_cast<double>(tree_[call].ps) >= least_ps_; }

  Path Longer(Path path, const CallNode& call) const {
    const PythonFunction& function = timeline_.python.functions[call.function];
    if (IsWrapper(timeline_.strings.Get(function.name))) return path;
    if (!IsFoundation(timeline_.strings.Get(function.file))) return {call.function, call.ps, UINT32_MAX};
    if (path.foundation == UINT32_MAX) path.foundation = call.function;
    return path;
  }

  // A layer of a model for the matrix product in it, but the backward pass for the trainer that calls it and others.
  static uint32_t NameOf(const CallNode& node, const Path& path) {
    constexpr double kNearlyAll = 0.8;
    const bool is_all = static_cast<double>(node.ps) >= kNearlyAll * static_cast<double>(path.library_ps);
    return path.foundation == UINT32_MAX || (path.library != UINT32_MAX && is_all) ? path.library : path.foundation;
  }

  const Timeline& timeline_;
  const CallTree& tree_;
  const double least_ps_;
  std::vector<FunctionTime> found_;
};

// The advice about a library whose functions of this file run one operation each; kOfCause: none.
Advice AdviceOfEagerFile(std::string_view file) {
  // These compile what they are given.
  if (ContainsAny(file, {"/jax/_src/lax/control_flow/"})) return Advice::kOfCause;
  if (ContainsAny(file, {"/jax/_src/numpy/", "/jax/_src/lax/", "/jax/_src/dispatch.py", "/jax/_src/nn/",
                         "/jax/_src/random.py", "/jax/_src/interpreters/ad.py"})) {
    return Advice::kEagerJax;
  }
  if (ContainsAny(file, {"/tensorflow/python/ops/", "/tensorflow/python/eager/backprop.py"})) {
    return Advice::kEagerTensorFlow;
  }
  return Advice::kOfCause;
}

// The part of the CPU time at own frames for which `wanted(frame)` in which an installed package is on the stack below.
template <typename Wanted>
double ShareInPackages(const Timeline& timeline, const PythonTags& tags, const ThreadTime& time, Wanted wanted) {
  const PythonTimeline& python = timeline.python;
  double all = 0, of_packages = 0;
  for (const auto& [stack, running] : time.running()) {
    const uint32_t own = tags.OwnFrameOf(stack);
    if (!wanted(own)) continue;
    all += static_cast<double>(running.on_cpu_ps);
    const uint32_t behind = tags.HasOwnFrame(stack) ? own : 0;
    for (uint32_t frame = stack; frame != behind && frame != 0; frame = python.stacks[frame].parent) {
      const std::string_view file = timeline.strings.Get(python.functions[python.stacks[frame].function].file);
      if (!ContainsAny(file, {"/site-packages/", "/dist-packages/"})) continue;
      of_packages += static_cast<double>(running.on_cpu_ps);
      break;
    }
  }
  return all > 0 ? of_packages / all : 0;
}

}  // namespace

double LibraryShare(const Timeline& timeline, const PythonTags& tags, const ThreadTime& time, const Where& line) {
  return ShareInPackages(timeline, tags, time, [&](uint32_t own) { return IsAt(timeline, own, line); });
}

double LibraryShare(const Timeline& timeline, const PythonTags& tags, const ThreadTime& time) {
  return ShareInPackages(timeline, tags, time, [](uint32_t) { return true; });
}

double ProgramShare(const PythonTags& tags, const ThreadTime& time) {
  double all = 0, own = 0;
  for (const auto& [stack, running] : time.running()) {
    all += static_cast<double>(running.on_cpu_ps);
    if (tags.HasOwnFrame(stack)) own += static_cast<double>(running.on_cpu_ps);
  }
  return all > 0 ? own / all : 0;
}

std::string FactOfPackages(const Timeline& timeline, const ThreadTime& time) {
  constexpr double kLeast = 0.5;
  const PythonTimeline& python = timeline.python;
  struct Inclusive {
    double ps = 0;     // with all that it calls
    size_t depth = 0;  // callers of its deepest frame
  };
  double all = 0;
  std::map<uint32_t, Inclusive> functions;
  std::vector<uint32_t> frames;  // functions, innermost first
  for (const auto& [stack, running] : time.running()) {
    all += static_cast<double>(running.on_cpu_ps);
    frames.clear();
    for (uint32_t frame = stack; frame != 0; frame = python.stacks[frame].parent) {
      frames.push_back(python.stacks[frame].function);
    }
    std::set<uint32_t> seen;  // a function that calls itself counts once
    for (size_t i = 0; i < frames.size(); ++i) {
      const std::string_view file = timeline.strings.Get(python.functions[frames[i]].file);
      if (!ContainsAny(file, {"/site-packages/", "/dist-packages/"}) || !seen.insert(frames[i]).second) continue;
      Inclusive& of = functions[frames[i]];
      of.ps += static_cast<double>(running.on_cpu_ps);
      of.depth = std::max(of.depth, frames.size() - 1 - i);
    }
  }
  // What is called has less time than its callers, or is deeper.
  const std::pair<const uint32_t, Inclusive>* least = nullptr;
  for (const auto& entry : functions) {
    if (entry.second.ps < kLeast * all) continue;
    const bool is_inner = least == nullptr || entry.second.ps < least->second.ps ||
                          (entry.second.ps == least->second.ps && entry.second.depth > least->second.depth);
    if (is_inner) least = &entry;
  }
  if (least == nullptr || all <= 0) return "";
  const PythonFunction& function = python.functions[least->first];
  return StrCat(PrintableUtf8(timeline.strings.Get(function.name)), " (",
                PrintableUtf8(PackageOf(timeline.strings.Get(function.file))),
                ") with all that it calls: ", HumanPercent(least->second.ps / all), " of its CPU time");
}

Advice AdviceOfEagerCode(const Timeline& timeline, const PythonTags& tags, const ThreadTime& time) {
  constexpr double kMost = 0.5;
  const PythonTimeline& python = timeline.python;
  std::vector<Advice> of_functions;
  of_functions.reserve(python.functions.size());
  for (const PythonFunction& function : python.functions) {
    of_functions.push_back(AdviceOfEagerFile(timeline.strings.Get(function.file)));
  }
  double all = 0;
  std::map<Advice, double> eager;
  for (const auto& [stack, running] : time.running()) {
    all += static_cast<double>(running.on_cpu_ps);
    if (tags.TagOf(stack) == PythonTag::kCompile) continue;
    for (uint32_t frame = stack; frame != 0; frame = python.stacks[frame].parent) {
      const Advice advice = of_functions[python.stacks[frame].function];
      if (advice == Advice::kOfCause) continue;
      eager[advice] += static_cast<double>(running.on_cpu_ps);
      break;
    }
  }
  for (const auto& [advice, ps] : eager) {
    if (ps >= kMost * all) return advice;
  }
  return Advice::kOfCause;
}

std::string FactOfLibraryFunctions(const Timeline& timeline, const PythonTags& tags, const StepSpan& span,
                                   const Where& line) {
  constexpr size_t kMost = 2;
  const CallTree tree = CallsOf(timeline, tags, span, line);
  if (tree[0].ps <= 0) return "";
  FunctionWalk walk(timeline, tree);
  walk.Walk(0, {});
  std::string text;
  for (const FunctionTime& time : walk.Longest(kMost)) {
    const PythonFunction& function = timeline.python.functions[time.function];
    const double share = static_cast<double>(time.ps) / static_cast<double>(tree[0].ps);
    text += StrCat(text.empty() ? "" : ", ", HumanPercent(share), " in ",
                   PrintableUtf8(timeline.strings.Get(function.name)), " (",
                   PrintableUtf8(PackageOf(timeline.strings.Get(function.file))), ")");
  }
  if (text.empty()) return "";
  return StrCat(PrintableUtf8(ShownFile(timeline.strings.Get(line.file))), ":", line.line, " spends ", text);
}

}  // namespace tbprof
