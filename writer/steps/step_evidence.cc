// SPDX-License-Identifier: Apache-2.0
#include "writer/steps/step_evidence.h"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "writer/base/median.h"
#include "writer/base/stable_hash.h"
#include "writer/timeline/time_span.h"

namespace tbprof {
namespace {

// Shares of the steps. In real trainings no step has such a call; in compilers, test suites, servers and scripts nearly
// all steps have one.
constexpr double kSomeSteps = 0.2;
constexpr double kMostSteps = 0.9;
constexpr double kMostlyWaits = 0.5;
// Share of large allocations and reads in common with the step before: 0.75 to 1 in trainings of JAX, whose threads
// take turns, 1 in loops of NumPy, 0.3 to 0.5 in test suites.
constexpr double kLeastAlike = 0.65, kLeastAlikeOfAnyLoop = 0.85;
// Importing a framework and compiling may take longer than a short training.
constexpr double kLeastCovered = 0.3, kLeastCoveredOfAnyLoop = 0.5;
constexpr double kLeastDense = 0.7;
// Smaller blocks are recorded only if they were slow, which is chance.
constexpr int64_t kLargeBlock = 64 << 10;
constexpr int64_t kStandardError = 2;

enum class CallKind : uint8_t { kProcess, kOpen, kWrite, kRead, kSockets, kMeeting, kCount };
constexpr size_t kCallKinds = static_cast<size_t>(CallKind::kCount);

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

CallKind KindOf(const EventType& type) {
  const std::string_view name = type.name;
  switch (type.family) {
    case EventFamily::kProcess:
      // Signals, and calls that end the process itself, are not work.
      return name.starts_with("wait") || name.starts_with("exec") || name.starts_with("posix_spawn") ||
                     IsOneOf(name, {"fork", "vfork", "system", "popen", "fexecve"})
                 ? CallKind::kProcess
                 : CallKind::kCount;
    case EventFamily::kLock:
      return name == "pthread_barrier_wait" ? CallKind::kMeeting : CallKind::kCount;
    case EventFamily::kIo:
      break;
    default:
      return CallKind::kCount;
  }
  if (name.find("open") != std::string_view::npos) return CallKind::kOpen;
  if (name.find("write") != std::string_view::npos || name.starts_with("sendfile") ||
      IsOneOf(name, {"fsync", "fdatasync"})) {
    return CallKind::kWrite;
  }
  if (name.find("read") != std::string_view::npos) return CallKind::kRead;
  return CallKind::kSockets;
}

bool IsWait(EventFamily family) {
  return family == EventFamily::kIo || family == EventFamily::kSleep || family == EventFamily::kProcess;
}

std::vector<TimeSpan> RegularSteps(const StepDetection& found) {
  std::vector<TimeSpan> steps;
  for (const DetectedStep& step : found.steps) {
    if (step.kind == DetectedStep::Kind::kRegular) steps.push_back({step.start_ps, step.end_ps});
  }
  return steps;
}

// The contents of a regular step.
struct Content {
  std::bitset<kCallKinds> kinds;
  std::vector<uint64_t> symbols;  // of large allocations and of reads
  std::vector<uint32_t> meeting;  // threads that wait at a barrier
  bool allocates = false;         // allocates a large block at a line of Python
  bool numeric = false;           // NumPy allocates
};

// Returns whether the call site is NumPy's allocator, or any place in its library if the place has no name.
bool IsNumPy(std::string_view call_site) {
  constexpr std::string_view kWords[] = {"default_malloc", "default_calloc", "default_realloc", "PyDataMem",
                                         "npy_",           "_multiarray",    "_umath"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return call_site.find(word) != call_site.npos; });
}

// The share in common, of all symbols of both.
double InCommon(const std::vector<uint64_t>& one, const std::vector<uint64_t>& other) {
  std::vector<uint64_t> both;
  std::ranges::set_intersection(one, other, std::back_inserter(both));
  const size_t all = one.size() + other.size() - both.size();
  return all == 0 ? 1 : static_cast<double>(both.size()) / static_cast<double>(all);
}

class Measurement {
 public:
  Measurement(const Timeline& timeline, uint32_t process, const StepDetection& found)
      : timeline_(timeline), process_(process), steps_(RegularSteps(found)), contents_(steps_.size()) {}

  StepEvidence Run() {
    StepEvidence evidence;
    evidence.library = timeline_.processes[process_].library;
    if (steps_.empty()) return evidence;
    for (uint32_t i = 0; i < timeline_.threads.size(); ++i) {
      if (timeline_.threads[i].process == process_ && !timeline_.threads[i].is_line) AddThread(i);
    }
    AddChildren();
    const auto share = [&](CallKind kind) {
      const auto with = std::ranges::count_if(
          contents_, [&](const Content& content) { return content.kinds[static_cast<size_t>(kind)]; });
      return static_cast<double>(with) / static_cast<double>(steps_.size());
    };
    evidence.with_processes = share(CallKind::kProcess);
    evidence.with_files = share(CallKind::kOpen);
    evidence.with_writes = share(CallKind::kWrite);
    evidence.with_reads = share(CallKind::kRead);
    evidence.with_sockets = share(CallKind::kSockets);
    evidence.meeting = Meeting();
    evidence.alike = Alike();
    evidence.numeric = Numeric();
    const int64_t in_steps = LengthOf(steps_);
    const auto of = [&](int64_t whole) {
      return static_cast<double>(in_steps) / static_cast<double>(std::max<int64_t>(whole, 1));
    };
    evidence.covered = of(last_ps_ - first_ps_);
    evidence.dense = of(steps_.back().end_ps - steps_.front().start_ps);
    evidence.waiting = static_cast<double>(waiting_ps_) / static_cast<double>(std::max<int64_t>(in_steps, 1));
    return evidence;
  }

 private:
  // Null: the time is in no regular step.
  Content* ContentAt(int64_t time) {
    const auto next = std::ranges::upper_bound(steps_, time, {}, &TimeSpan::start_ps);
    if (next == steps_.begin() || std::prev(next)->end_ps <= time) return nullptr;
    return &contents_[static_cast<size_t>(std::prev(next) - steps_.begin())];
  }

  void AddThread(uint32_t index) {
    const Thread& thread = timeline_.threads[index];
    int64_t waited_until = 0;
    auto step = steps_.begin();
    for (const Event& event : thread.events) {
      const EventType& type = timeline_.types[event.type];
      if (type.family == EventFamily::kAnnotation) continue;
      const int64_t end = event.start_ps + event.duration_ps;
      first_ps_ = std::min(first_ps_, event.start_ps);
      last_ps_ = std::max(last_ps_, end);
      if (thread.is_main && IsWait(type.family)) {
        const int64_t from = std::max(event.start_ps, waited_until);
        waited_until = std::max(waited_until, end);
        while (step != steps_.end() && step->end_ps <= from) ++step;
        for (auto at = step; at != steps_.end() && at->start_ps < end; ++at) {
          waiting_ps_ += CommonPs(*at, {from, end});
        }
      }
      if (Content* content = ContentAt(event.start_ps); content != nullptr) AddCall(index, type, event, content);
    }
  }

  void AddCall(uint32_t thread, const EventType& type, const Event& event, Content* content) {
    CallKind kind = KindOf(type);
    // A pool's own thread asks again and again whether a worker has ended.
    const bool awaits = kind == CallKind::kProcess && type.name.starts_with("wait");
    if (awaits && !timeline_.threads[thread].is_main) kind = CallKind::kCount;
    const bool prints = kind == CallKind::kWrite && type.object == ObjectKind::kDescriptor &&
                        static_cast<int64_t>(event.object) <= kStandardError;
    if (kind != CallKind::kCount && !prints) content->kinds.set(static_cast<size_t>(kind));
    if (kind == CallKind::kMeeting && (content->meeting.empty() || content->meeting.back() != thread)) {
      content->meeting.push_back(thread);
    }
    const bool is_large = type.family == EventFamily::kMemory && event.value >= kLargeBlock;
    if (is_large && event.python != 0) {
      content->allocates = true;
      content->numeric |= IsNumPyAt(event.call_site);
    }
    if (!is_large && kind != CallKind::kRead) return;
    const auto size =
        type.value == ValueKind::kBytes && event.value > 0 ? std::bit_width(static_cast<uint64_t>(event.value)) : 0;
    content->symbols.push_back(StableHash(event.type, event.call_site, size));
  }

  void AddChildren() {
    for (const Process& child : timeline_.processes) {
      if (child.parent != static_cast<int>(process_)) continue;
      if (Content* content = ContentAt(child.start_ps); content != nullptr) {
        content->kinds.set(static_cast<size_t>(CallKind::kProcess));
      }
    }
  }

  double Meeting() const {
    const auto together =
        std::ranges::count_if(contents_, [](const Content& content) { return content.meeting.size() > 1; });
    return static_cast<double>(together) / static_cast<double>(steps_.size());
  }

  bool IsNumPyAt(StringId call_site) {
    const auto [known, added] = numpy_.try_emplace(call_site, false);
    if (added) known->second = IsNumPy(timeline_.strings.Get(call_site));
    return known->second;
  }

  double Numeric() const {
    const auto allocate = std::ranges::count_if(contents_, &Content::allocates);
    if (allocate * 2 < static_cast<std::ptrdiff_t>(steps_.size())) return -1;
    return static_cast<double>(std::ranges::count_if(contents_, &Content::numeric)) /
           static_cast<double>(steps_.size());
  }

  double Alike() {
    std::vector<double> shares;
    bool any = false;
    for (Content& content : contents_) {
      std::ranges::sort(content.symbols);
      any |= !content.symbols.empty();
    }
    for (size_t i = 1; i < contents_.size(); ++i) {
      shares.push_back(InCommon(contents_[i - 1].symbols, contents_[i].symbols));
    }
    return any && !shares.empty() ? Median(std::move(shares)) : -1;
  }

  const Timeline& timeline_;
  const uint32_t process_;
  const std::vector<TimeSpan> steps_;
  std::vector<Content> contents_;
  std::map<StringId, bool> numpy_;  // by call site
  int64_t first_ps_ = std::numeric_limits<int64_t>::max(), last_ps_ = 0, waiting_ps_ = 0;
};

}  // namespace

StepEvidence MeasureSteps(const Timeline& timeline, uint32_t process, const StepDetection& found) {
  return Measurement(timeline, process, found).Run();
}

StepDoubt DoubtOf(const StepEvidence& evidence) {
  const bool framework = evidence.library == NumericLibrary::kFramework;
  const bool meets = evidence.meeting >= kMostSteps;
  if (evidence.with_processes >= kSomeSteps) return StepDoubt::kProcesses;
  if (evidence.with_files >= kSomeSteps) return StepDoubt::kFiles;
  if (evidence.with_sockets >= kSomeSteps) return StepDoubt::kSockets;
  if (evidence.waiting >= kMostlyWaits) return StepDoubt::kWaits;
  // A training may read its batches and keep a log; a loop without other evidence may not.
  if (!framework && std::max(evidence.with_writes, evidence.with_reads) >= kSomeSteps) return StepDoubt::kFiles;
  if (!framework && !meets && evidence.library == NumericLibrary::kNone) return StepDoubt::kAnyLoop;
  // The library is loaded, but does nothing in the steps.
  if (!framework && !meets && evidence.numeric >= 0 && evidence.numeric < kSomeSteps) return StepDoubt::kAnyLoop;
  const double least_alike = framework || meets ? kLeastAlike : kLeastAlikeOfAnyLoop;
  // If the threads of a program meet, they may do nothing else that is recorded.
  if (evidence.alike >= 0 ? evidence.alike < least_alike : !meets) return StepDoubt::kOtherEachTime;
  if (evidence.covered < (framework || meets ? kLeastCovered : kLeastCoveredOfAnyLoop)) return StepDoubt::kSmallPart;
  return evidence.dense < kLeastDense ? StepDoubt::kSmallPart : StepDoubt::kNone;
}

std::string_view TextOf(StepDoubt doubt) {
  switch (doubt) {
    case StepDoubt::kNone:
      break;
    case StepDoubt::kProcesses:
      return "what repeats starts programs, as builds and test suites do";
    case StepDoubt::kFiles:
      return "a loop that repeats works with files, and may be set-up";
    case StepDoubt::kSockets:
      return "what repeats waits for sockets or pipes";
    case StepDoubt::kWaits:
      return "what repeats mostly waits";
    case StepDoubt::kOtherEachTime:
      return "what repeats does something else each time";
    case StepDoubt::kSmallPart:
      return "what repeats is a small part of the time";
    case StepDoubt::kAnyLoop:
      return "the program loads no training library, so any loop may be one";
  }
  return "";
}

NumericLibrary NumericLibraryOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  constexpr std::string_view kFrameworks[] = {
      "libtorch",     "libc10",        "libtensorflow", "_pywrap_tensorflow", "libjax_common",
      "_jax.",        "xla_extension", "libpjrt",       "libmxnet",           "libonnxruntime",
      "onnxruntime_", "libpaddle",     "libggml",       "libllama",           "libmindspore",
      "libxgboost",   "lib_lightgbm",  "libdnnl",       "libopenvino",        "libnvinfer",
  };
  constexpr std::string_view kLinearAlgebra[] = {
      "libblas", "libcblas", "libopenblas",  "libscipy_openblas", "libmkl_",
      "libblis", "libatlas", "libflexiblas", "libarmpl",
  };
  const auto begins = [&](std::string_view known) { return name.starts_with(known); };
  if (std::ranges::any_of(kFrameworks, begins)) return NumericLibrary::kFramework;
  return std::ranges::any_of(kLinearAlgebra, begins) ? NumericLibrary::kLinearAlgebra : NumericLibrary::kNone;
}

}  // namespace tbprof
