// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/torch_operations.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/base/text.h"
#include "writer/convert/input_pipeline.h"
#include "writer/steps/step_markers.h"
#include "writer/timeline/torch_names.h"

namespace tbprof {
namespace {

constexpr size_t kMaxPart = 64, kMaxPath = 192;
// Names that contain numbers would make one path for each number.
constexpr size_t kMaxPaths = 1u << 14;
// The limit of copies of copies, which may be cyclic in a file.
constexpr int kMostCopies = 8;
constexpr std::string_view kOptimizer = "Optimizer.", kForward = "forward", kBackward = "backward";

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Keeps only characters that are allowed in the name of an operation.
std::string Part(std::string_view text) {
  std::string part;
  for (const char c : text.substr(0, kMaxPart)) {
    part += IsLetter(c) || IsDigit(c) || c == '_' || c == '.' || c == '-' ? c : '_';
  }
  return part;
}

// The part for a name from the program, without the characters that the program puts around it.
std::string ScopePart(std::string_view text) {
  const std::string part = Part(text);
  const size_t first = part.find_first_not_of('_');
  return first == std::string::npos ? "" : part.substr(first, part.find_last_not_of('_') + 1 - first);
}

// `aten/mm` of `aten::mm`.
std::string Path(std::string_view name, std::string_view separator, std::string (*part_of)(std::string_view)) {
  std::string path;
  while (true) {
    const size_t end = name.find(separator);
    const std::string part = part_of(name.substr(0, end));
    if (!part.empty()) StrAppend(&path, path.empty() ? "" : "/", part);
    if (end == std::string_view::npos) return path;
    name.remove_prefix(end + separator.size());
  }
}

// The right side of the colon, by which the tables sum. They do not accept capitals within a type that begins with a
// small letter.
std::string TypeOf(std::string_view path) {
  std::string type;
  for (const char c : path.substr(path.rfind('/') + 1)) type += IsLetter(c) || IsDigit(c) ? c : '_';
  if (type.empty() || IsDigit(type[0])) type = StrCat("_", type);
  if (type[0] >= 'a' && type[0] <= 'z') {
    for (char& c : type) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
  }
  return type;
}

// `MmBackward0` of `autograd::engine::evaluate_function: MmBackward0`.
std::string NodeName(std::string_view name) {
  if (name.starts_with(kEvaluateNode)) name.remove_prefix(kEvaluateNode.size());
  if (const size_t scope = name.rfind("::"); scope != std::string_view::npos) name.remove_prefix(scope + 2);
  return Part(name);
}

bool IsOwnScope(const EventType& type) {
  return type.origin == RangeOrigin::kTorchUser &&
         (type.name.starts_with(kOptimizer) || IsLoaderNext(type.origin, type.name));
}

// Empty: the name adds nothing useful to a path.
std::string ScopeOf(const EventType& type, const StepNames& steps) {
  if (IsLoaderNext(type.origin, type.name)) return "dataloader";
  const std::string_view name = type.name;
  if (IsOwnScope(type)) {
    // `Optimizer.step#SGD.step`: the action, and the optimizer.
    const size_t end = std::min(name.find('#'), name.size());
    std::string_view which = name.substr(std::min(end + 1, name.size()));
    which = which.substr(0, which.rfind('.'));
    return StrCat(Part(name.substr(0, end)), which.empty() ? "" : "/", Part(which));
  }
  if (steps.Match(name)) return "";
  // Cuts off the text that torch.autograd.profiler.emit_nvtx appends for each call.
  return Path(name.substr(0, name.find(", seq = ")), "/", ScopePart);
}

class Namer {
 public:
  explicit Namer(Timeline* timeline) : timeline_(timeline), kinds_(timeline->types.size()), scopes_(kinds_.size()) {
    const StepNames steps("");
    for (size_t i = 0; i < kinds_.size(); ++i) {
      const EventType& type = timeline->types[i];
      if (type.family != EventFamily::kAnnotation) continue;
      switch (type.origin) {
        case RangeOrigin::kTorchOperation:
        case RangeOrigin::kTensorFlow:
          kinds_[i] = Kind::kOperation;
          break;
        case RangeOrigin::kTorchBackward:
          kinds_[i] = Kind::kNode;
          break;
        case RangeOrigin::kTorchUser:
        case RangeOrigin::kProgram:
          scopes_[i] = ScopeOf(type, steps);
          if (!scopes_[i].empty()) kinds_[i] = IsOwnScope(type) ? Kind::kOwnScope : Kind::kScope;
      }
    }
  }

  NamedOperations NameAll() {
    FindUsualLevels();
    const bool any_work = std::any_of(kinds_.begin(), kinds_.end(), [](Kind kind) { return kind >= Kind::kOperation; });
    // Scopes alone are useful only for work that was launched in them.
    if (!any_work && timeline_->gpu_streams.empty()) return counts_;
    auto node = timeline_->graph_nodes.begin();
    for (uint32_t i = 0; i < timeline_->threads.size(); ++i) {
      const auto first = node;
      while (node != timeline_->graph_nodes.end() && node->thread == i) ++node;
      if (!timeline_->threads[i].is_line) Walk(i, {first, node});
    }
    if (!of_calls_.empty()) {
      for (GpuStream& stream : timeline_->gpu_streams) {
        for (GpuEvent& event : stream.events) {
          const auto found = of_calls_.find(event.correlation);
          if (found != of_calls_.end()) event.operation = found->second;
        }
      }
    }
    if (!made_in_.empty()) {
      for (GpuStream& stream : timeline_->gpu_streams) {
        for (GpuEvent& event : stream.events) {
          if (event.kind != GpuEventKind::kKernel || event.value == 0) continue;
          // The operation of a graph's kernels is known where the graph is captured; the launch may be in a loop around
          // everything.
          if (const StringId operation = MadeIn(stream.process, event.value); operation != 0)
            event.operation = operation;
        }
      }
    }
    return counts_;
  }

 private:
  // kOwnScope: a scope of PyTorch itself, which names the purpose of the operations in it.
  enum class Kind : uint8_t { kNone, kScope, kOwnScope, kOperation, kNode };

  struct Frame {
    int64_t end = 0;
    StringId scope = 0;      // the path of the ranges around and of this one
    StringId operation = 0;  // of work that is launched here; 0: by `type` and `scope`
    uint16_t type = 0;       // of the innermost operation
    bool in_work = false;    // of PyTorch
    bool in_node = false;
    bool own = false;        // within a kOwnScope
    bool forward = false;    // takes part in automatic differentiation
    bool in_loader = false;  // its time has a row of its own, as a stage of the input
  };

  // The thread loads or pins batches: this work is a stage of the input, which has a row of its own.
  struct InputRoles {
    bool loads = false, pins = false;
  };

  InputRoles RolesOf(uint32_t index) {
    const uint32_t process = timeline_->threads[index].process;
    const auto [known, added] = input_threads_.try_emplace(process);
    if (added) known->second = InputThreadsOf(*timeline_, process);
    const InputThreads& threads = known->second;
    return {threads.loader == static_cast<int>(index), std::ranges::binary_search(threads.pinning, index)};
  }

  // Recording may begin in the middle of a thread's work: the first events may be parts of an operation that is not
  // recorded, and would get rows that are not the program's. They count as parts until an event whose type is mostly
  // the outermost where that is known.
  class Midway {
   public:
    explicit Midway(const std::vector<TorchWeight>& weights) : weights_(weights) {}
    bool At(int64_t start_ps) {
      for (; next_ < weights_.size() && weights_[next_].at_ps <= start_ps; ++next_) {
        unsure_ = weights_[next_].midway;
        since_ps_ = weights_[next_].at_ps;
      }
      return unsure_;
    }
    // Whether the operation that is not recorded may still be running.
    bool IsNew(int64_t start_ps) const { return unsure_ && start_ps - since_ps_ < kLongOperationPs; }
    void End() { unsure_ = false; }

   private:
    static constexpr int64_t kLongOperationPs = 1'000'000'000;
    const std::vector<TorchWeight>& weights_;
    size_t next_ = 0;
    int64_t since_ps_ = 0;
    bool unsure_ = false;
  };

  void FindUsualLevels() {
    const bool any = std::ranges::any_of(timeline_->processes, [](const Process& process) {
      return std::ranges::any_of(process.torch.weights, &TorchWeight::midway);
    });
    if (!any) return;
    outermost_.resize(kinds_.size());
    for (const Thread& thread : timeline_->threads) {
      if (thread.is_line) continue;
      Midway midway(timeline_->processes[thread.process].torch.weights);
      int64_t end = 0;
      for (const Event& event : thread.events) {
        if (kinds_[event.type] < Kind::kOperation) continue;
        const bool nested = event.start_ps < end;
        if (nested) {
          --outermost_[event.type];
          continue;
        }
        end = event.start_ps + event.duration_ps;
        (void)midway.At(event.start_ps);
        if (!midway.IsNew(event.start_ps)) ++outermost_[event.type];
      }
    }
  }

  void Walk(uint32_t index, std::span<const GraphNode> nodes) {
    Thread* const thread = &timeline_->threads[index];
    Midway midway(timeline_->processes[thread->process].torch.weights);
    const InputRoles roles = RolesOf(index);
    std::vector<Frame> open;
    for (Event& event : thread->events) {
      while (!nodes.empty() && nodes.front().at_ps < event.start_ps) TakeNode(&nodes, thread->process, &open);
      while (!open.empty() && open.back().end <= event.start_ps) open.pop_back();
      const EventType& type = timeline_->types[event.type];
      if (type.value == ValueKind::kCorrelation) {
        if (event.value > 0 && !open.empty()) Launch(&open.back(), static_cast<uint64_t>(event.value));
        continue;
      }
      const Kind kind = kinds_[event.type];
      if (kind == Kind::kNone || event.duration_ps <= 0) continue;
      Frame frame = open.empty() ? Frame{} : open.back();
      frame.end = event.start_ps + event.duration_ps;
      bool outermost = !frame.in_work && !frame.in_loader;
      if (outermost && kind >= Kind::kOperation && midway.At(event.start_ps)) {
        if (outermost_[event.type] > 0) {
          midway.End();
        } else {
          outermost = false;
        }
      }
      switch (kind) {
        case Kind::kNone:
          break;
        case Kind::kOwnScope:
          frame.own = true;
          frame.in_loader |= roles.loads && IsLoaderNext(type.origin, type.name);
          [[fallthrough]];
        case Kind::kScope:
          frame.scope = Below(frame.scope, event.type);
          if (!frame.in_node) frame.operation = 0;
          break;
        case Kind::kOperation:
          frame.in_work = true;
          if (frame.in_node) break;
          frame.type = event.type;
          frame.forward |= type.value == ValueKind::kSequence && !frame.own;
          frame.operation = 0;
          frame.in_loader |= (roles.loads && IsDatasetNext(type)) || (roles.pins && IsPinning(type));
          if (outermost && !frame.in_loader) event.detail = frame.operation = Operation(frame);
          break;
        case Kind::kNode:
          if (!frame.in_node) frame.operation = Node(event.type);
          frame.in_work = frame.in_node = true;
          if (outermost) event.detail = frame.operation;
          break;
      }
      if (IsFrameworkWork(type)) ++(outermost && !frame.in_loader ? counts_.named : counts_.nested);
      open.push_back(frame);
    }
    while (!nodes.empty()) TakeNode(&nodes, thread->process, &open);
  }

  // The operation of work that is launched here; 0: none.
  StringId OperationIn(Frame* frame) {
    if (frame->operation == 0) frame->operation = frame->in_work ? Operation(*frame) : Range(frame->scope);
    return frame->operation;
  }

  void Launch(Frame* frame, uint64_t correlation) {
    if (const StringId operation = OperationIn(frame); operation != 0) of_calls_.emplace(correlation, operation);
  }

  void TakeNode(std::span<const GraphNode>* nodes, uint32_t process, std::vector<Frame>* open) {
    const GraphNode& made = nodes->front();
    *nodes = nodes->subspan(1);
    if (made.original != 0) {
      originals_.emplace(std::pair(process, made.node), made.original);
      return;
    }
    while (!open->empty() && open->back().end <= made.at_ps) open->pop_back();
    const StringId operation = open->empty() ? 0 : OperationIn(&open->back());
    if (operation != 0) made_in_.emplace(std::pair(process, made.node), operation);
  }

  // A copied node is made where the graph is instantiated, which does not show its operation: follows it to the
  // original.
  StringId MadeIn(uint32_t process, uint64_t node) const {
    for (int copies = 0; copies < kMostCopies; ++copies) {
      const auto original = originals_.find({process, node});
      if (original == originals_.end()) {
        const auto made = made_in_.find({process, node});
        return made == made_in_.end() ? 0 : made->second;
      }
      if (original->second == node) return 0;
      node = original->second;
    }
    return 0;
  }

  // The path of a range within `around`.
  StringId Below(StringId around, uint16_t type) {
    const auto [known, added] = below_.try_emplace({around, type}, around);
    if (!added) return known->second;
    if (below_.size() > kMaxPaths) return around;
    const std::string& outer = timeline_->strings.Get(around);
    if (outer.size() + scopes_[type].size() > kMaxPath) return around;
    return known->second = timeline_->strings.Intern(StrCat(outer, outer.empty() ? "" : "/", scopes_[type]));
  }

  StringId Operation(const Frame& frame) {
    const auto [known, added] = operations_.try_emplace({frame.scope, frame.type, frame.forward}, StringId{0});
    if (!added) return known->second;
    const std::string& scope = timeline_->strings.Get(frame.scope);
    const bool named = scope == kForward || std::string_view(scope).starts_with("forward/");
    std::string path(frame.forward && !named ? kForward : "");
    const std::string_view function = TensorFlowFunction(timeline_->types[frame.type].name);
    const std::string_view name = function.empty() ? timeline_->types[frame.type].name : function;
    for (const std::string& part : {scope, Path(name, "::", Part)}) {
      if (!part.empty()) StrAppend(&path, path.empty() ? "" : "/", part);
    }
    return known->second = Intern(path);
  }

  StringId Node(uint16_t type) {
    StringId& known = nodes_[type];
    if (known == 0) known = Intern(StrCat(kBackward, "/", NodeName(timeline_->types[type].name)));
    return known;
  }

  // The operation of work that is launched in a program's ranges and in no operation.
  StringId Range(StringId scope) {
    if (scope == 0) return 0;
    StringId& known = ranges_[scope];
    if (known == 0) known = Intern(timeline_->strings.Get(scope));
    return known;
  }

  // Adds the type to a path. A name must begin with a letter, a digit or a dot; `Iterator` has a special meaning.
  StringId Intern(const std::string& path) {
    const bool good = !path.empty() && (IsLetter(path[0]) || IsDigit(path[0]) || path[0] == '.') && path != "Iterator";
    return timeline_->strings.Intern(StrCat(good ? "" : "op/", path, ":", TypeOf(path)));
  }

  Timeline* timeline_;
  std::vector<Kind> kinds_;
  std::vector<int64_t> outermost_;  // how often it is the outermost, less how often it is nested
  std::vector<std::string> scopes_;
  absl::flat_hash_map<std::pair<StringId, uint16_t>, StringId> below_;
  absl::flat_hash_map<std::tuple<StringId, uint16_t, bool>, StringId> operations_;
  absl::flat_hash_map<uint16_t, StringId> nodes_;
  absl::flat_hash_map<StringId, StringId> ranges_;
  absl::flat_hash_map<uint64_t, StringId> of_calls_;
  std::map<uint32_t, InputThreads> input_threads_;                          // of each process
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, StringId> made_in_;    // (process, node of a graph)
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint64_t> originals_;  // (process, copy) to original node
  NamedOperations counts_;
};

}  // namespace

std::string OperationOfName(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == name.size()) return "";
  // `aten::mm` and `phase: load` are not of this form. A type is one of TensorFlow's, with capitals, or of JAX's, which
  // may have anything in brackets after it and any name before it.
  const size_t bracket = std::min(name.find('[', colon + 1), name.size());
  const std::string_view type = name.substr(colon + 1, bracket - colon - 1);
  if (type.empty() || IsDigit(type[0])) return "";
  bool capitals = false;
  for (const char c : type) {
    if (!IsLetter(c) && !IsDigit(c) && c != '_') return "";
    capitals |= c >= 'A' && c <= 'Z';
  }
  if (capitals && (type[0] >= 'a' || bracket != name.size())) return "";
  std::string path = StrCat(Part(name.substr(0, colon)), "/", Part(name.substr(colon + 1)));
  if (!IsLetter(path[0]) && !IsDigit(path[0]) && path[0] != '.') path = StrCat("op/", path);
  return StrCat(path, ":", TypeOf(type));
}

NamedOperations NameOperations(Timeline* timeline) { return Namer(timeline).NameAll(); }

}  // namespace tbprof
