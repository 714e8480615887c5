// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/cpu_split.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>

#include "writer/base/saturating.h"
#include "writer/base/symbol_text.h"
#include "writer/base/text_match.h"
#include "writer/verdict/blocked_time.h"
#include "writer/verdict/wait_parts.h"

namespace tbprof {
namespace {

// Sampled native time that a line needs for a ratio of its own; other lines use the ratio of the whole thread.
constexpr int64_t kFewestPointsPs = 30'000'000'000;
// Sampled time differs from the CPU time by chance. If more than this share is missing, it was spent in the kernel.
constexpr double kSystemTime = 0.2;
// Share of the CPU time without native samples that a limit of the verdict names.
constexpr double kMuchPaused = 0.5;
// Least CPU time of a page fault, including the zeroing of the page. A larger measured value (machine.page_ps) is used.
constexpr int64_t kFaultPs = 350'000;
// If known faults explain this share of the time in the kernel, the pages are new again and again.
constexpr double kManyFaults = 0.2;
// Most CPU time for reading one page.
constexpr double kMajorFaultPs = 25e6;
// Least number of blocked samples: fewer do not give a usable division.
constexpr double kFewestBlocked = 5;
// Longest wait for one page from disk: a single page fault does not explain all of a thread's time off the CPU.
constexpr double kDiskFaultPs = 10e9;

using ByClass = std::array<int64_t, kNativeClasses>;

int64_t SumOf(const ByClass& by) { return std::accumulate(by.begin(), by.end(), int64_t{0}); }

// The part of the step for running time whose Python stack has this tag.
StepPart PartOfRunning(PythonTag tag) {
  switch (tag) {
    case PythonTag::kLoader:
      return StepPart::kInput;
    case PythonTag::kCompile:
      return StepPart::kCompile;
    case PythonTag::kCollective:
      return StepPart::kCollectives;
    // A checkpoint counts as one part, whether it copies, packs or writes.
    case PythonTag::kCheckpoint:
      return StepPart::kDisk;
    default:
      return StepPart::kRest;  // to be divided by the native samples
  }
}

struct PointSums {
  ByClass all{};
  std::map<uint32_t, ByClass> of_frame;  // by own frame

  int64_t Sum() const { return SumOf(all); }
};

PointSums SumPoints(const Timeline& timeline, const PythonTags& tags, uint32_t thread, const ThreadTime& time) {
  PointSums sums;
  const NativeThread* const native = timeline.native.OfThread(thread);
  if (native == nullptr) return sums;
  const std::vector<NativeClass> classes = NativeClassesOf(timeline);
  const PythonThread* const python = timeline.python.OfThread(thread);
  size_t at = 0;
  for (const NativePoint& point : native->points) {
    bool in = false;
    ForCommon(time.gaps(), &at, point.at_ps, point.at_ps + 1, [&](int64_t, int64_t) { in = true; });
    if (!in || point.stack >= classes.size()) continue;
    const uint32_t stack = python == nullptr ? 0 : time.StackBetweenWaits(*python, point.at_ps);
    if (PartOfRunning(tags.TagOf(stack)) != StepPart::kRest) continue;
    const auto kind = static_cast<size_t>(classes[point.stack]);
    sums.all[kind] += PeriodPs(point);
    sums.of_frame[tags.OwnFrameOf(stack)][kind] += PeriodPs(point);
  }
  return sums;
}

double ShareOf(const ByClass& sums, NativeClass kind) {
  const int64_t sum = SumOf(sums);
  return sum <= 0 ? 0 : static_cast<double>(sums[static_cast<size_t>(kind)]) / static_cast<double>(sum);
}

int64_t Part(int64_t whole, double share) { return static_cast<int64_t>(static_cast<double>(whole) * share); }

// Whether any of the thread's native stacks is in a file. Of a program that runs without tbprof's library (`env -i`),
// the files are not known; code that is compiled at run time has none either, but its callers have.
bool HasFiles(const Timeline& timeline, uint32_t thread) {
  const NativeThread* const native = timeline.native.OfThread(thread);
  if (native == nullptr) return false;
  const std::vector<NativeStack>& stacks = timeline.native.stacks;
  return std::ranges::any_of(native->points, [&](const NativePoint& point) {
    for (uint32_t stack = point.stack; stack != 0 && stack < stacks.size(); stack = stacks[stack].parent) {
      if (!timeline.strings.Get(stacks[stack].module).empty()) return true;
    }
    return false;
  });
}

// Divides the time in which the thread neither ran nor waited for a CPU, by samples of the blocking calls. Returns
// false if there are too few samples.
bool SplitBlocked(const PythonTags& tags, const BlockedSamples& samples, int64_t blocked, Account* account) {
  double all = 0;
  for (const auto& [key, count] : samples) all += count;
  if (all < kFewestBlocked) return false;
  for (const auto& [key, count] : samples) {
    const auto& [stack, kind] = key;
    account->AddRunning(PartOfBlocked(tags, stack, kind), stack, Part(blocked, count / all), kBlocked);
  }
  return true;
}

// Adds running time that has this Python stack. Without one, the native samples divide it by function.
class RunningRows {
 public:
  RunningRows(const NativePlaces& natives, uint32_t thread, const ThreadTime& time, Account* account)
      : places_(natives.In(thread, time.gaps())), account_(account) {
    for (const NativePlace& place : places_) {
      sum_ += place.ps;
      sum_in_mpi_ += place.in_mpi_ps;
    }
  }
  void Add(StepPart part, uint32_t stack, int64_t ps) {
    const bool in_mpi = part == StepPart::kCollectives, outside = part == StepPart::kOperations;
    const int64_t sum = in_mpi ? sum_in_mpi_ : outside ? sum_ - sum_in_mpi_ : sum_;
    int64_t left = ps;
    for (size_t i = 0; stack == 0 && sum > 0 && i < places_.size(); ++i) {
      const NativePlace& place = places_[i];
      const int64_t of_place = in_mpi ? place.in_mpi_ps : outside ? place.ps - place.in_mpi_ps : place.ps;
      const int64_t here = Part(ps, static_cast<double>(of_place) / static_cast<double>(sum));
      account_->AddRunning(part, stack, here, kRunning, place.function);
      left -= here;
    }
    account_->AddRunning(part, stack, left);
  }

 private:
  const std::vector<NativePlace> places_;
  int64_t sum_ = 0, sum_in_mpi_ = 0;
  Account* const account_;
};

// Divides the time off the CPU by the lines at which samples saw the thread off the CPU.
void SplitOffCpu(const PythonTags& tags, const std::map<uint32_t, RunningTime>& rows, const BlockedSamples& samples,
                 int64_t starved, int64_t blocked, const UsageInSpans& usage, RunningRows* into, Account* account) {
  if (SplitBlocked(tags, samples, blocked, account)) blocked = 0;
  int64_t on = 0, off = 0, seen = 0;
  for (const auto& [stack, running] : rows) {
    on += running.on_cpu_ps;
    off += running.off_cpu_ps;
    if (stack != 0) seen += running.on_cpu_ps;
  }
  const int64_t all = off > 0 ? off : std::max<int64_t>(on, 1);
  // A thread that loses its CPU for less than a sampling interval is seen on the CPU.
  const auto starved_share = [&](uint32_t stack, const RunningTime& running, double share) {
    if (seen == 0) return share;
    return stack == 0 ? 0 : static_cast<double>(running.on_cpu_ps) / static_cast<double>(seen);
  };
  const double from_disk =
      blocked > 0 ? std::min(1.0, usage.major_faults * kDiskFaultPs / static_cast<double>(blocked)) : 0;
  for (const auto& [stack, running] : rows) {
    const int64_t weight = off > 0 ? running.off_cpu_ps : running.on_cpu_ps;
    const double share = static_cast<double>(weight) / static_cast<double>(all);
    into->Add(StepPart::kStarvation, stack, Part(starved, starved_share(stack, running, share)));
    const StepPart known = PartOfRunning(tags.TagOf(stack));
    const int64_t reclaimed = known == StepPart::kRest ? Part(blocked, share * from_disk) : 0;
    into->Add(StepPart::kReclaim, stack, reclaimed);
    account->AddRunning(known, stack, Part(blocked, share) - reclaimed);
  }
}

}  // namespace

bool IsInterpreter(std::string_view module) {
  return module.starts_with("python") || module.starts_with("libpython") || module.starts_with("pypy");
}
bool IsHelper(std::string_view module) {
  return IsCLibraryFile(module) || StartsWithAny(module, {"libm.so", "libm-2", "linux-vdso", "libtbprof"});
}

// `MPI_Allreduce`, `PMPI_Recv`, Fortran's `mpi_bcast_`, but no call that only describes or that reads files.
bool IsCallOfMpi(std::string_view function) {
  if (StartsWithAny(function, {"P", "p"})) function.remove_prefix(1);
  if (!StartsWithAny(function, {"MPI_", "mpi_"})) return false;
  function.remove_prefix(4);
  return !StartsWithAny(function, {"Init", "init", "Finalize", "finalize", "File", "file", "Type", "type", "Pack",
                                   "pack", "Unpack", "unpack", "Wtime", "wtime", "T_"});
}

bool IsNativeSampled(const Timeline& timeline, uint32_t process) {
  return std::ranges::any_of(timeline.native.processes, [&](const NativeProcess& native) {
    return native.process == process && native.sampling == NativeSampling::kSampled;
  });
}

bool IsPaused(const Timeline& timeline, uint32_t process) {
  return std::ranges::any_of(timeline.native.processes,
                             [&](const NativeProcess& native) { return native.process == process && native.paused; });
}

UsageInSpans UsageOf(const Timeline& timeline, uint32_t thread, const std::vector<TimeSpan>& spans) {
  UsageInSpans usage;
  const ThreadUsage* const of_thread = timeline.UsageOfThread(thread);
  if (of_thread == nullptr || of_thread->points.size() < 2 || spans.empty()) return usage;
  const std::vector<UsagePoint>& points = of_thread->points;
  usage.known = true;
  // The growth of a counter between two points is spread evenly over that interval.
  size_t at = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    const int64_t length = points[i].at_ps - points[i - 1].at_ps;
    if (length <= 0) continue;
    int64_t common = 0;
    ForCommon(spans, &at, points[i - 1].at_ps, points[i].at_ps, [&](int64_t from, int64_t to) { common += to - from; });
    const double share = static_cast<double>(common) / static_cast<double>(length);
    usage.cpu_ps += Part(points[i].cpu_ps - points[i - 1].cpu_ps, share);
    usage.run_delay_ps += Part(points[i].run_delay_ps - points[i - 1].run_delay_ps, share);
    usage.major_faults += share * static_cast<double>(points[i].major_faults - points[i - 1].major_faults);
    usage.minor_faults += share * static_cast<double>(points[i].minor_faults - points[i - 1].minor_faults);
  }
  return usage;
}

double FaultPs(const Timeline& timeline, const UsageInSpans& usage) {
  return usage.minor_faults * static_cast<double>(std::max(kFaultPs, timeline.machine.page_ps)) +
         usage.major_faults * kMajorFaultPs;
}

int64_t CpuOfThread(const Timeline& timeline, uint32_t thread) {
  const ThreadUsage* const usage = timeline.UsageOfThread(thread);
  return usage == nullptr || usage->points.empty() ? 0 : usage->points.back().cpu_ps - usage->points.front().cpu_ps;
}

int64_t CpuOfProcess(const Timeline& timeline, uint32_t process) {
  int64_t cpu_ps = 0;
  for (const ThreadUsage& usage : timeline.usage) {
    if (timeline.threads[usage.thread].process == process) AddSaturating(&cpu_ps, CpuOfThread(timeline, usage.thread));
  }
  return cpu_ps;
}

std::vector<NativeClass> NativeClassesOf(const Timeline& timeline) {
  const NativeTimeline& native = timeline.native;
  std::vector<NativeClass> classes(native.stacks.size(), NativeClass::kOperations);
  for (uint32_t i = 1; i < native.stacks.size(); ++i) {
    const NativeStack& frame = native.stacks[i];
    const std::string_view module = timeline.strings.Get(frame.module), name = timeline.strings.Get(frame.function);
    const NativeClass outer = frame.parent < i ? classes[frame.parent] : NativeClass::kOperations;
    if (outer == NativeClass::kCollectives || IsCallOfMpi(name)) {
      classes[i] = NativeClass::kCollectives;
    } else if (outer == NativeClass::kGarbageCollection ||
               (IsInterpreter(module) && ContainsAny(name, {"gc_collect"}))) {
      classes[i] = NativeClass::kGarbageCollection;
    } else if (IsInterpreter(module)) {
      classes[i] = NativeClass::kPython;
    } else if (IsHelper(module) || frame.is_gap) {
      classes[i] = frame.parent == 0 ? NativeClass::kOperations : outer;
    } else {
      classes[i] = NativeClass::kOperations;
    }
  }
  return classes;
}

namespace {

// Share of the CPU time in the kernel, of which there are no native samples: new pages, and system calls that do not
// wait. A thread that was not sampled for a time was not in the kernel then.
double SystemShare(const Timeline& timeline, uint32_t process, int64_t sampled_ps, int64_t cpu_ps,
                   std::vector<std::string>* limits) {
  const double system = 1 - static_cast<double>(sampled_ps) / static_cast<double>(std::max<int64_t>(cpu_ps, 1));
  if (system < kSystemTime) return 0;
  if (!IsPaused(timeline, process)) return system;
  if (system > kMuchPaused) limits->push_back("native stacks: not sampled while the thread switched too often");
  return 0;
}

}  // namespace

void SplitRunning(const Timeline& timeline, const PythonTags& tags, const NativePlaces& natives, uint32_t thread,
                  const ThreadTime& time, const UsageInSpans& usage, int64_t quick_ps, Account* account,
                  std::vector<std::string>* limits) {
  const int64_t gap = time.gap_ps() - quick_ps;
  if (gap <= 0) return;
  int64_t on_sampled = 0;
  for (const auto& [stack, running] : time.running()) on_sampled += running.on_cpu_ps;
  const PointSums points = SumPoints(timeline, tags, thread, time);
  // Where Python has no samples, only native samples show that the thread ran.
  const int64_t on_seen = on_sampled + std::clamp<int64_t>(points.Sum() - on_sampled, 0, time.unsampled_ps());
  const int64_t on = usage.known ? std::clamp<int64_t>(usage.cpu_ps - quick_ps, 0, gap) : std::min(on_seen, gap);
  const int64_t starved = usage.known ? std::min(gap - on, std::max<int64_t>(usage.run_delay_ps, 0)) : 0;
  const int64_t blocked = gap - on - starved;
  if (!usage.known) limits->push_back("CPU time of the thread: not known, by samples alone");

  std::map<uint32_t, RunningTime> rows = time.running();
  // Time without a sample may be on or off the CPU, and has no line.
  if (time.unsampled_ps() > 0) {
    const int64_t ran = std::clamp<int64_t>(on - on_sampled, 0, time.unsampled_ps());
    rows[0].on_cpu_ps += ran;
    rows[0].off_cpu_ps += time.unsampled_ps() - ran;
    on_sampled += ran;
  }

  // Without recorded waits, a sample that is blocked on a lock may be blocked on a lock of the program itself.
  const BlockedSamples samples =
      timeline.waits_recorded || timeline.attached ? BlockedSamplesIn(timeline, thread, time.gaps()) : BlockedSamples();
  RunningRows into(natives, thread, time, account);
  SplitOffCpu(tags, rows, samples, starved, blocked, usage, &into, account);
  const double scale = on_sampled > 0 ? static_cast<double>(on) / static_cast<double>(on_sampled) : 0;
  int64_t divided = 0;
  for (const auto& [stack, running] : rows) {
    if (PartOfRunning(tags.TagOf(stack)) == StepPart::kRest) divided += Part(running.on_cpu_ps, scale);
  }
  const bool process_is_sampled = IsNativeSampled(timeline, timeline.threads[thread].process);
  const bool has_files = points.Sum() <= 0 || HasFiles(timeline, thread);
  const bool sampled = points.Sum() > 0 && process_is_sampled && has_files;
  if (!process_is_sampled && divided > gap / 20) {
    limits->push_back("native stacks: not sampled, so Python and native code are one");
  } else if (!has_files) {
    limits->push_back(
        "native stacks: their files are not known (no library of tbprof there), so Python and native code are one");
  }
  const double system =
      sampled ? SystemShare(timeline, timeline.threads[thread].process, points.Sum(), divided, limits) : 0;
  const double fault_ps = FaultPs(timeline, usage);
  double faulting =
      system > 0 ? std::min(1.0, fault_ps / (system * static_cast<double>(std::max<int64_t>(divided, 1)))) : 0;
  // Pages that are made anew are also given back, which costs as much, and is not counted.
  if (faulting >= kManyFaults) faulting = std::min(1.0, 2 * faulting);
  for (const auto& [stack, running] : rows) {
    const int64_t ran = Part(running.on_cpu_ps, scale);
    const StepPart known = PartOfRunning(tags.TagOf(stack));
    if (known != StepPart::kRest) {
      into.Add(known, stack, ran);
      continue;
    }
    const int64_t collecting = std::min(ran, Part(running.collecting_ps, scale));
    into.Add(StepPart::kGarbageCollection, stack, collecting);
    const int64_t rest = ran - collecting;
    if (!sampled) {
      into.Add(StepPart::kRest, stack, rest);
      continue;
    }
    const auto found = points.of_frame.find(tags.OwnFrameOf(stack));
    const bool alone = found != points.of_frame.end() && SumOf(found->second) >= kFewestPointsPs;
    const ByClass& by = alone ? found->second : points.all;
    const int64_t in_kernel = Part(rest, system), in_user = rest - in_kernel;
    const int64_t faulted = Part(in_kernel, faulting);
    const int64_t collected = collecting > 0 ? 0 : Part(in_user, ShareOf(by, NativeClass::kGarbageCollection));
    const int64_t python = Part(in_user, ShareOf(by, NativeClass::kPython));
    const int64_t exchanged = Part(rest - faulted, ShareOf(by, NativeClass::kCollectives));
    into.Add(StepPart::kReclaim, stack, faulted);
    into.Add(StepPart::kGarbageCollection, stack, collected);
    into.Add(StepPart::kPython, stack, python);
    into.Add(StepPart::kCollectives, stack, exchanged);
    into.Add(StepPart::kOperations, stack, rest - faulted - collected - python - exchanged);
  }
}

}  // namespace tbprof
