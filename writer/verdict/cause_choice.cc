// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/cause_choice.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/verdict/advice_choice.h"
#include "writer/verdict/blockers.h"
#include "writer/verdict/cause_candidate.h"
#include "writer/verdict/cause_limits.h"
#include "writer/verdict/compile_time.h"
#include "writer/verdict/gil_holders.h"
#include "writer/verdict/gpu_causes.h"
#include "writer/verdict/job_crowd.h"
#include "writer/verdict/library_waits.h"
#include "writer/verdict/lock_waits.h"
#include "writer/verdict/place_of_row.h"
#include "writer/verdict/process_starts.h"
#include "writer/verdict/unknown_cause.h"
#include "writer/verdict/wait_parts.h"
#include "writer/verdict/worker_waits.h"

namespace tbprof {
namespace {

class Chooser {
 public:
  Chooser(const CauseInputs& inputs, Verdict* verdict)
      : in_(inputs),
        timeline_(inputs.timeline),
        account_(inputs.account),
        is_native_(inputs.natives.IsNative(inputs.span.thread)),
        verdict_(*verdict) {}

  void Choose() {
    Collect();
    verdict_.places = BusiestPlaces(timeline_, in_.tags, in_.span.thread, account_, verdict_.total_ps);
    const CauseCandidate* best = nullptr;
    for (const CauseCandidate& candidate : candidates_) {
      const double share = ShareOf(candidate.ps);
      const double least = LeastOf(candidate.cause);
      if (!IsProblem(candidate.cause) || share < least) continue;
      if (best == nullptr || candidate.ps > best->ps) best = &candidate;
    }
    if (best != nullptr && IsFirstCompilation(*best)) best = BeforeFirstCompilation(*best);
    if (best != nullptr && best->cause == Cause::kPython) {
      const auto gil = std::ranges::find(candidates_, Cause::kGil, &CauseCandidate::cause);
      if (gil != candidates_.end() && ShareOf(gil->ps) >= kGilBeforePython) best = &*gil;
    }
    const bool is_gpu = gpu_is_limit_ && (best == nullptr || !LimitsBusyGpu(best->cause));
    if (is_gpu) best = &*std::ranges::find(candidates_, Cause::kKernels, &CauseCandidate::cause);
    if (best == nullptr) best = OwnWork();
    if (best == nullptr || (!is_gpu && UnknownShareBeside(*best) > kMostUnknown)) return SetUnknown();
    verdict_.cause = best->cause;
    verdict_.part = best->part;
    verdict_.share = std::min(1.0, ShareOf(best->ps));
    const bool is_input = best->cause == Cause::kPrefetchThread || best->cause == Cause::kSlowLoader;
    if (is_input && best->part == StepPart::kLocks) MoveTo(StepPart::kInput, *best);
    if (best->moves) {
      MoveTo(best->part, *best);
    } else if (best->cause == Cause::kWorkers) {
      MoveTo(StepPart::kLocks, *best);
    }
    if (best->cause == Cause::kOversubscription) MoveTo(StepPart::kStarvation, *best);
    AddWhere(*best);
    AddFacts(*best);
    verdict_.advice = ChooseAdvice(
        timeline_,
        {verdict_.cause, account_.RowsOf(best->rows), timeline_.threads[in_.span.thread].process, verdict_.steps,
         has_blocker_, take_turns_ || workers_.gil >= kMostlyGil, ShareOf(LargestWaitPs(verdict_)) >= kLeastShare,
         best->cause == Cause::kRecompilation && CompilesToTheEnd(timeline_, in_.tags, in_.span.thread, in_.span.spans),
         best->cause == Cause::kSlowLoader && AreOfStarts(WaitsOf(best->rows)), IsOfStdin(WaitsOf(best->rows)),
         WaitsOf(best->rows)});
    const bool at_locks = workers_.locks >= kMostlyAtLocks && workers_.locks > workers_.gil && !take_turns_;
    if (IsAtLocks(*best) || at_locks) verdict_.advice = Advice::kAtLocks;
    if (is_gpu) verdict_.advice = Advice::kGpuIsLimit;
  }

 private:
  double ShareOf(int64_t ps) const {
    return verdict_.total_ps <= 0 ? 0 : static_cast<double>(ps) / static_cast<double>(verdict_.total_ps);
  }
  static double LeastOf(Cause cause) {
    if (cause == Cause::kPython) return kLeastOfPython;
    return cause == Cause::kAllocationChurn ? kLeastOfPages : kLeastShare;
  }
  // Without steps, a compilation at the start is part of the time. A longer run has less of it, but not of what it does
  // again and again.
  bool IsFirstCompilation(const CauseCandidate& best) const {
    return best.cause == Cause::kRecompilation && !HasSteps() &&
           !CompilesToTheEnd(timeline_, in_.tags, in_.span.thread, in_.span.spans);
  }
  const CauseCandidate* BeforeFirstCompilation(const CauseCandidate& compilation) const {
    const CauseCandidate* best = &compilation;
    const int64_t rest_ps = verdict_.total_ps - compilation.ps;
    int64_t most_ps = compilation.ps / 2;
    for (const CauseCandidate& candidate : candidates_) {
      const double of_rest = static_cast<double>(candidate.ps) / static_cast<double>(std::max<int64_t>(rest_ps, 1));
      if (!IsProblem(candidate.cause) || &candidate == &compilation || of_rest < LeastOf(candidate.cause)) continue;
      if (candidate.ps < most_ps) continue;
      best = &candidate;
      most_ps = candidate.ps;
    }
    return best;
  }
  int64_t Sum(const Wanted& wanted) const {
    int64_t sum = 0;
    for (const AccountRow& row : account_.RowsOf(wanted)) sum += row.ps;
    return sum;
  }
  void Add(Cause cause, StepPart part, Wanted wanted, std::optional<BlockerScope> scope = {}) {
    const int64_t ps = Sum(wanted);
    if (ps > 0) candidates_.push_back({cause, part, ps, std::move(wanted), /*moves=*/false, scope});
  }

  double UnknownShareBeside(const CauseCandidate& best) const {
    const int64_t of_best = best.moves ? account_.PartsOf(best.rows)[static_cast<size_t>(StepPart::kRest)] : 0;
    return ShareOf(verdict_.part_ps[static_cast<size_t>(StepPart::kRest)] - of_best);
  }

  // Moves the candidate's time to `part` in the split. Waiting for a lock while another thread prepares data is a wait
  // for input. Waiting for threads that have no CPU is starvation.
  void MoveTo(StepPart part, const CauseCandidate& candidate) {
    const std::array<int64_t, kStepParts> moved = account_.PartsOf(candidate.rows);
    for (size_t i = 0; i < kStepParts; ++i) {
      const int64_t ps = std::clamp<int64_t>(moved[i], 0, verdict_.part_ps[i]);
      verdict_.part_ps[i] -= ps;
      verdict_.part_ps[static_cast<size_t>(part)] += ps;
    }
    verdict_.part = part;
  }

  void Collect() {
    AddStragglers();
    AddStarvation();
    Add(Cause::kGil, StepPart::kGil, [](const AccountRow& row) { return row.part == StepPart::kGil; });
    AddInput();
    AddNativeWaits();
    AddPolls();
    AddSleeps();
    AddLibraryWaits();
    AddConvoy();
    Add(Cause::kRecompilation, StepPart::kCompile,
        [](const AccountRow& row) { return row.part == StepPart::kCompile; });
    Add(Cause::kCheckpoint, StepPart::kDisk, [](const AccountRow& row) { return row.tag == PythonTag::kCheckpoint; });
    Add(Cause::kModelLoad, StepPart::kDisk, [](const AccountRow& row) { return row.tag == PythonTag::kModelLoad; });
    Add(Cause::kLogging, StepPart::kDisk, [](const AccountRow& row) {
      return row.tag == PythonTag::kLogging || (IsDoing(row, {WaitClass::kTerminal}) && !IsSpecial(row));
    });
    Add(Cause::kGarbageCollection, StepPart::kGarbageCollection,
        [](const AccountRow& row) { return row.part == StepPart::kGarbageCollection; });
    AddPages();
    AddGpu();
    const bool straggles = stragglers_.found && ExcessOf(stragglers_) >= kLeastShare;
    if (!straggles) {
      Add(Cause::kCollectives, StepPart::kCollectives,
          [](const AccountRow& row) { return row.part == StepPart::kCollectives; });
    }
    Add(
        Cause::kChild, StepPart::kChild, [](const AccountRow& row) { return row.part == StepPart::kChild; },
        BlockerScope::kDescendants);
    Add(Cause::kNetwork, StepPart::kNetwork,
        [](const AccountRow& row) { return row.part == StepPart::kNetwork && !IsSpecial(row); });
    Add(Cause::kDisk, StepPart::kDisk, [](const AccountRow& row) {
      return row.part == StepPart::kDisk && !IsSpecial(row) && !IsDoing(row, {WaitClass::kTerminal});
    });
    Add(Cause::kSleep, StepPart::kSleep,
        [](const AccountRow& row) { return row.part == StepPart::kSleep && !IsSpecial(row); });
    Add(Cause::kPython, StepPart::kPython,
        [](const AccountRow& row) { return row.part == StepPart::kPython && !IsSpecial(row); });
    if (!gpu_is_limit_)
      Add(Cause::kKernels, StepPart::kKernels, [](const AccountRow& row) { return row.part == StepPart::kKernels; });
    Add(Cause::kOperations, StepPart::kOperations,
        [](const AccountRow& row) { return row.part == StepPart::kOperations && !IsSpecial(row); });
  }

  // Only the difference counts: a wait that all processes have in common has another cause.
  static double ExcessOf(const Stragglers& stragglers) { return stragglers.others_wait - stragglers.slow_waits; }

  void AddStragglers() {
    stragglers_ = FindStragglers(in_);
    if (!stragglers_.found) return;
    const auto ps = static_cast<int64_t>(ExcessOf(stragglers_) * static_cast<double>(verdict_.total_ps));
    candidates_.push_back({Cause::kStraggler, StepPart::kCollectives, ps,
                           [](const AccountRow& row) { return row.part == StepPart::kCollectives; }});
  }

  // While pool threads wait for a CPU, the thread that waits for the pool waits as well.
  void AddOversubscription(const JobCrowd& crowd, const Wanted& starved, int64_t starved_ps) {
    const Wanted input = [](const AccountRow& row) {
      return row.part == StepPart::kInput && IsTag(row, {PythonTag::kLoader, PythonTag::kProcessGet});
    };
    // If processes that prepare data use the CPUs, the step waits for these processes in either case.
    if (crowd.children >= kMostlyInput * crowd.here && ShareOf(Sum(input)) >= kLeastInput) {
      // One wait for all results (Pool.map) is none for data.
      const bool of_loader = HasSteps() || in_.span.basis == VerdictBasis::kLoop ||
                             Sum([](const AccountRow& row) { return row.tag == PythonTag::kLoader; }) > 0;
      Add(of_loader ? Cause::kSlowLoader : Cause::kWorkers, StepPart::kInput,
          [input, starved](const AccountRow& row) { return input(row) || starved(row); });
      return;
    }
    const Wanted crowded = [](const AccountRow& row) {
      return row.part == StepPart::kStarvation || (row.part == StepPart::kRest && !IsPoll(row)) ||
             IsDoing(row, {WaitClass::kPool}) || (row.doing == kBlocked && row.part == StepPart::kOperations);
    };
    const bool is_crowd = crowd.delayed >= 2 * kCrowd;
    candidates_.push_back({Cause::kOversubscription, StepPart::kStarvation, is_crowd ? Sum(crowded) : starved_ps,
                           is_crowd ? crowded : starved});
  }

  void AddStarvation() {
    const Wanted starved = [](const AccountRow& row) { return row.part == StepPart::kStarvation; };
    const int64_t ps = Sum(starved);
    const CpuLimits& limits = timeline_.cpu_limits;
    const JobCrowd crowd = CrowdOf(timeline_, timeline_.threads[in_.span.thread].process, in_.span.spans);
    const bool throttled = limits.throttled_ps > 0 && ShareOf(limits.throttled_ps) >= kThrottled * ShareOf(ps);
    const double cpus = std::max(limits.cpus_allowed, 1);
    if (throttled && limits.quota_cpus > 0) {
      facts_of_cpu_ =
          absl::StrFormat("quota of %.2g CPUs, throttled for %s", limits.quota_cpus, HumanTime(limits.throttled_ps));
      candidates_.push_back({Cause::kCpuQuota, StepPart::kStarvation, ps, starved});
      return;
    }
    if (crowd.ran > 0) facts_of_cpu_ = absl::StrFormat("%s%s", UsedCpus(crowd), OfCpus(limits));
    if (crowd.ran > 0 && crowd.delayed >= 0.05)
      facts_of_cpu_ += absl::StrFormat(", and %.1f of its threads waited for one", crowd.delayed);
    const bool own = crowd.ran >= kOwnCpus * cpus || crowd.ran + crowd.delayed >= kOwnDemand * cpus;
    if (limits.cpus_allowed > 0 && own && crowd.delayed >= kCrowd) return AddOversubscription(crowd, starved, ps);
    if (ps > 0) candidates_.push_back({Cause::kCpuContention, StepPart::kStarvation, ps, starved});
  }

  bool HasSteps() const { return in_.span.basis == VerdictBasis::kSteps || in_.span.basis == VerdictBasis::kTraining; }
  // By a process, or by several threads that do the same.
  bool IsBlockedByPool(const Wanted& waits) const {
    const Blocker blocker = BlockerOf(waits, BlockerScope::kAll);
    return blocker.found && (blocker.other_process || blocker.alike > 1);
  }

  // Adds waits for threads and processes that prepare data, and the work of a data loader in this thread.
  void AddInput() {
    const auto tagged = [](std::initializer_list<PythonTag> tags) -> Wanted {
      return [tags = std::vector(tags)](const AccountRow& row) {
        return row.part == StepPart::kInput && std::ranges::find(tags, row.tag) != tags.end();
      };
    };
    const bool has_steps = HasSteps();
    Add(Cause::kSlowLoader, StepPart::kInput,
        has_steps ? tagged({PythonTag::kLoader, PythonTag::kProcessGet}) : tagged({PythonTag::kLoader}));
    // Without steps, the results of a pool of threads or processes need not be data of a training.
    const Wanted results = has_steps ? tagged({PythonTag::kQueueGet, PythonTag::kFuture})
                                     : tagged({PythonTag::kProcessGet, PythonTag::kQueueGet, PythonTag::kFuture});
    const bool of_pool = !has_steps && (Sum(tagged({PythonTag::kFuture, PythonTag::kProcessGet})) > Sum(results) / 2 ||
                                        (ShareOf(Sum(results)) >= kLeastShare && IsBlockedByPool(results)));
    Add(of_pool ? Cause::kWorkers : Cause::kPrefetchThread, of_pool ? StepPart::kLocks : StepPart::kInput, results);
    Add(Cause::kWorkers, StepPart::kLocks,
        [](const AccountRow& row) { return row.part == StepPart::kLocks && row.tag == PythonTag::kWorkers; });
    // Waits for a condition or an event during which another thread is known to be busy.
    const Wanted waits = [](const AccountRow& row) {
      return row.part == StepPart::kLocks && row.tag == PythonTag::kThread;
    };
    if (ShareOf(Sum(waits)) < kLeastShare) return;
    const Blocker blocker = BlockerOf(waits, BlockerScope::kAll);
    if (blocker.found) {
      const Cause of_processes = has_steps ? Cause::kSlowLoader : Cause::kWorkers;
      const Cause of_threads = has_steps ? Cause::kPrefetchThread : Cause::kWorkers;
      Add(blocker.other_process ? of_processes : of_threads, StepPart::kLocks, waits);
    }
  }

  // Of a program without Python: waits for a condition, a semaphore or the end of a thread, not for a lock.
  bool IsForWork(const AccountRow& row) const { return IsDoing(row, {WaitClass::kLock}) && IsForWork(row.type); }
  bool IsForWork(uint16_t type) const {
    return is_native_ && !in_.classes.IsOwned(type) && std::ranges::find(locks_, type) == locks_.end();
  }

  // Adds waits of a program without Python during which its threads work for most of the time.
  void AddNativeWaits() {
    if (!is_native_) return;
    locks_ = LocksAmong(timeline_, in_.classes, in_.span.thread, in_.time.waits());
    const Wanted waits = [this](const AccountRow& row) { return row.part == StepPart::kLocks && IsForWork(row); };
    const int64_t ps = Sum(waits);
    if (ShareOf(ps) < kLeastShare) return;
    const Blocker blocker = BlockerOf(waits, BlockerScope::kPool);
    if (blocker.found && blocker.busy >= kBusyInPolls) {
      candidates_.push_back({Cause::kWorkers, StepPart::kLocks, ps, waits, /*moves=*/false, BlockerScope::kPool});
      return;
    }
    at_locks_ = ThreadsAtLocks(timeline_, in_.tags, in_.classes, in_.span.thread, SpansOf(WaitsOf(waits)));
    if (at_locks_.found)
      candidates_.push_back({Cause::kLockConvoy, StepPart::kLocks, ps, waits, false, BlockerScope::kPool});
  }

  // Adds the sleeps of a thread that does little else while others compute: it polls for their end.
  void AddSleeps() {
    const Wanted sleeps = [](const AccountRow& row) { return row.part == StepPart::kSleep && !IsSpecial(row); };
    const int64_t ps = Sum(sleeps);
    if (HasSteps() || ShareOf(ps) < kMostlySleeps) return;
    const Blocker blocker = BlockerOf(sleeps, BlockerScope::kPool);
    const bool works = blocker.found && blocker.busy >= kBusyInPolls && blocker.rows.front().doing == kRunning;
    if (!works) {
      Blocker at_locks = ThreadsAtLocks(timeline_, in_.tags, in_.classes, in_.span.thread, SpansOf(WaitsOf(sleeps)));
      if (!at_locks.found) return;
      at_locks_ = std::move(at_locks);
    }
    const Cause cause = works ? Cause::kWorkers : Cause::kLockConvoy;
    candidates_.push_back({cause, StepPart::kLocks, ps, sleeps, /*moves=*/true, BlockerScope::kPool});
  }

  // A wait for any of several descriptors, and nothing that was read after it shows for which.
  static bool IsPoll(const AccountRow& row) { return row.part == StepPart::kRest && IsDoing(row, {WaitClass::kPoll}); }

  // Adds polls during which the program's own threads or processes are busy.
  void AddPolls() {
    const Wanted polls = IsPoll;
    const int64_t ps = Sum(polls);
    if (ShareOf(ps) < kLeastShare) return;
    const Blocker blocker = BlockerOf(polls, BlockerScope::kAll);
    if (!blocker.found || blocker.busy < kBusyInPolls) return;
    const bool is_child = blocker.other_process && !IsOfMultiprocessing(timeline_, in_.tags, blocker.thread);
    candidates_.push_back({is_child ? Cause::kChild : Cause::kWorkers, is_child ? StepPart::kChild : StepPart::kLocks,
                           ps, polls, /*moves=*/true});
  }

  static bool IsInLibrary(const AccountRow& row) {
    return row.part == StepPart::kOperations && (row.doing == kBlocked || IsDoing(row, {WaitClass::kPool}));
  }

  // Adds waits in a native library during which a thread of Python is busy, and few threads compute; or during which
  // nothing of the process is busy.
  void AddLibraryWaits() {
    const Wanted waits = IsInLibrary;
    const int64_t ps = Sum(waits);
    if (ShareOf(ps) < kLeastShare) return;
    library_waits_ = LibraryWaits(timeline_, in_.tags, in_.span.thread, in_.time.gaps());
    const std::vector<WaitSlice> found = WaitsOf(waits);
    const Blocker blocker = BlockerOf(waits, BlockerScope::kPool);
    const bool runs_python = blocker.found && blocker.rows.front().frame != 0;
    const bool is_busy = runs_python && blocker.busy >= kBusyInPolls;
    const std::optional<double> busy = is_busy ? std::nullopt : BusyBeside(timeline_, in_.span.thread, found);
    const bool is_idle = busy.has_value() && *busy < kIdleBeside && !IsForGpu(in_.gpu, found);
    const std::optional<double> beside = ComputingBeside(timeline_, in_.span.thread, found);
    // Who waits until a queue has room is not waited for.
    const bool fills = blocker.HasTag(PythonTag::kQueuePut);
    const bool is_alone = is_idle && runs_python && blocker.busy >= kBusyAlone && !fills && beside.has_value() &&
                          *beside <= blocker.busy / 2;
    if (!is_busy && !is_alone) {
      if (!is_idle) return;
      // Its own processes work meanwhile: the library hands over what they send.
      const Blocker other = BlockerOf(waits, BlockerScope::kDescendants);
      const bool is_worker = other.found && other.rows.front().frame != 0 && other.busiest >= kLeastShare &&
                             other.busy >= kBusyInPolls && IsOfMultiprocessing(timeline_, in_.tags, other.thread);
      const Cause for_workers = HasSteps() ? Cause::kSlowLoader : Cause::kWorkers;
      const StepPart part = is_worker && HasSteps() ? StepPart::kInput : StepPart::kLocks;
      candidates_.push_back({is_worker ? for_workers : Cause::kLibraryWait, part, ps, waits, /*moves=*/true});
      return;
    }
    if (!beside.has_value() || *beside > blocker.busy / 2 || IsForGpu(in_.gpu, found)) return;
    const bool of_input = HasSteps();
    candidates_.push_back({of_input ? Cause::kPrefetchThread : Cause::kWorkers,
                           of_input ? StepPart::kInput : StepPart::kLocks, ps, waits, /*moves=*/true,
                           BlockerScope::kPool});
  }

  // Adds waits for locks for which other threads wait as well, or during which one thread of the process is busy.
  void AddConvoy() {
    std::map<uint64_t, int64_t> objects;
    for (const WaitSlice& wait : in_.time.waits()) {
      if (wait.kind == WaitClass::kLock && wait.object != 0 && !IsForWork(wait.type))
        objects[wait.object] += wait.end_ps - wait.start_ps;
    }
    const auto most = std::ranges::max_element(objects, {}, [](const auto& entry) { return entry.second; });
    if (most == objects.end()) return;
    const size_t others = OthersThatWaitFor(timeline_, in_.classes, in_.span.thread, most->first);
    const Wanted waits = [this](const AccountRow& row) {
      return row.part == StepPart::kLocks && row.doing != kBlocked && !IsSpecial(row) && !IsForWork(row) &&
             !IsTag(row, {PythonTag::kThread, PythonTag::kWorkers, PythonTag::kQueuePut});
    };
    if (ShareOf(Sum(waits)) < kLeastShare) return;
    // Who waits in pthread_mutex_lock waits for a contended lock, whoever has it.
    const std::vector<WaitSlice> all = WaitsOf(waits);
    if (others == 0 && !AreOwned(in_.classes, all) && !BlockerOf(waits, BlockerScope::kThreads).found) return;
    convoy_threads_ = others == 0 ? 0 : others + 1;
    // A library's condition for which nobody else waits: its threads work for this one.
    const bool for_work = others == 0 && !AreForLocks(in_.classes, all);
    Add(for_work ? Cause::kWorkers : Cause::kLockConvoy, StepPart::kLocks, waits);
  }

  void AddPages() {
    const Wanted pages = [](const AccountRow& row) { return row.part == StepPart::kReclaim; };
    // A thread that waits for pages from disk is off the CPU. A thread that gets new pages is on the CPU.
    const int64_t off_cpu = Sum([&](const AccountRow& row) { return pages(row) && row.doing == kBlocked; });
    const bool from_disk =
        (in_.usage.known && in_.usage.major_faults > in_.usage.minor_faults / 100) || off_cpu > Sum(pages) / 2;
    Add(from_disk ? Cause::kReclaim : Cause::kAllocationChurn, StepPart::kReclaim, pages);
  }

  void AddGpu() {
    GpuCauses gpu = FindGpuCauses(in_, verdict_.steps, verdict_.total_ps);
    for (CauseCandidate& candidate : gpu.candidates) candidates_.push_back(std::move(candidate));
    facts_of_gpu_ = std::move(gpu.fact);
    gpu_is_limit_ = gpu.is_limit;
  }

  const CauseCandidate* OwnWork() const {
    const CauseCandidate* best = nullptr;
    for (const CauseCandidate& candidate : candidates_) {
      const bool own = candidate.cause == Cause::kKernels || candidate.cause == Cause::kOperations ||
                       candidate.cause == Cause::kPython;
      if (own && (best == nullptr || candidate.ps > best->ps)) best = &candidate;
    }
    // Own work below kLeastShare is not an answer, nor is it beside a wait that takes longer and has no known cause.
    if (best == nullptr || ShareOf(best->ps) < kLeastShare) return nullptr;
    return best->ps >= LargestWaitPs(verdict_) ? best : nullptr;
  }

  void SetUnknown() {
    verdict_.cause = Cause::kUnknown;
    verdict_.part = StepPart::kRest;
    verdict_.share = 0;
    verdict_.reason = ReasonOfUnknown(verdict_, ShareOf(Sum(IsPoll)), kMostUnknown, kLeastShare);
    for (const AccountRow& row :
         account_.RowsOf([&](const AccountRow& of) { return of.part == LargestPartOf(verdict_); })) {
      if (ShareOf(row.ps) < kLeastShare || AddPlace(WhereRole::kSpends, in_.span.thread, row, verdict_.total_ps)) break;
    }
  }

  // Returns false if the row has neither a line nor a call to show.
  bool AddPlace(WhereRole role, uint32_t thread, const AccountRow& row, int64_t of_ps) {
    std::optional<Where> where = PlaceOfRow(timeline_, in_.tags, role, thread, row, of_ps);
    if (!where.has_value()) return false;
    verdict_.where.push_back(*std::move(where));
    return true;
  }

  // Of native code without names, the thread that runs it is named.
  bool AddThread(uint32_t thread, const AccountRow& row, int64_t of_ps) {
    if (row.doing != kRunning || !in_.natives.Has(thread) || of_ps <= 0) return false;
    Where where;
    where.role = WhereRole::kWaitedFor;
    where.thread = thread;
    where.share = std::min(1.0, static_cast<double>(row.ps) / static_cast<double>(of_ps));
    verdict_.where.push_back(std::move(where));
    return true;
  }

  std::vector<WaitSlice> WaitsOf(const Wanted& wanted) const {
    std::vector<WaitSlice> waits;
    for (const WaitSlice& wait : in_.time.waits()) {
      if (wanted(account_.RowOf(PartOfWait(in_.tags, wait), wait, wait.end_ps - wait.start_ps))) waits.push_back(wait);
    }
    AccountRow in_library;
    in_library.doing = kBlocked;
    in_library.part = StepPart::kOperations;
    if (!wanted(in_library)) return waits;
    waits.insert(waits.end(), library_waits_.begin(), library_waits_.end());
    std::ranges::stable_sort(waits, {}, &WaitSlice::start_ps);
    return waits;
  }

  Blocker BlockerOf(const Wanted& wanted, BlockerScope scope) const {
    // A thread of a training that reads prepares data: what other processes compute meanwhile may be something else.
    const bool all = scope == BlockerScope::kAll && !HasSteps();
    return FindBlocker(timeline_, in_.tags, in_.classes, in_.natives, in_.span.thread, WaitsOf(wanted),
                       all ? BlockerScope::kBehindReaders : scope);
  }

  // What holds the threads up for which the main thread waits: more of them would not help.
  void AddFactOfWorkers(const CauseCandidate& best) {
    const std::vector<TimeSpan> spans = SpansOf(WaitsOf(best.rows));
    const WorkerWaits shares = WaitsOfWorkers(timeline_, in_.tags, in_.classes, in_.span.thread, spans);
    if (shares.gil + shares.locks < kLeastOfWorkers) return;
    workers_ = shares;
    verdict_.facts.insert(verdict_.facts.begin(), FactOfWorkerWaits(shares));
  }

  void AddWhere(const CauseCandidate& best) {
    if (best.cause == Cause::kStraggler) return AddPlacesOf(stragglers_, in_, &verdict_);
    for (const AccountRow& row : account_.RowsOf(best.rows)) {
      if (verdict_.where.size() >= 3 || ShareOf(row.ps) < 0.02) break;
      AddPlace(WhereRole::kSpends, in_.span.thread, row, verdict_.total_ps);
    }
    const bool waits = best.cause == Cause::kGil || best.cause == Cause::kPrefetchThread ||
                       best.cause == Cause::kSlowLoader || best.cause == Cause::kLockConvoy ||
                       best.cause == Cause::kWorkers || best.cause == Cause::kChild || best.moves;
    if (!waits || IsOfStdin(WaitsOf(best.rows))) return;
    const bool anybody = best.cause == Cause::kSlowLoader || best.cause == Cause::kWorkers || best.moves ||
                         best.part == StepPart::kInput;
    const BlockerScope scope = best.scope.value_or(anybody ? BlockerScope::kAll : BlockerScope::kThreads);
    Blocker blocker;
    if (IsAtLocks(best)) {
      blocker = at_locks_;
      verdict_.where.clear();  // of the thread that waits for their end
    }
    if (best.cause == Cause::kGil || best.cause == Cause::kWorkers || best.cause == Cause::kPrefetchThread) {
      blocker = FindGilHolder(timeline_, in_.tags, in_.span.thread, WaitsOf(best.rows));
      take_turns_ = best.cause != Cause::kGil && blocker.found && blocker.alike > 1 && blocker.held >= kMostlyHeld;
      if (best.cause != Cause::kGil && !take_turns_) blocker = {};
    }
    if (!blocker.found) blocker = BlockerOf(best.rows, scope);
    if (!blocker.found && anybody && !best.scope) blocker = ThoseInTurn(best.rows);
    if (!blocker.found) return;
    blocked_by_process_ = blocker.other_process;
    if (best.cause == Cause::kPrefetchThread && blocker.other_process) {
      verdict_.cause = HasSteps() ? Cause::kSlowLoader : Cause::kWorkers;
      if (!HasSteps()) MoveTo(StepPart::kLocks, best);
    }
    int64_t sum = 0;
    for (const AccountRow& row : blocker.rows) sum += row.ps;
    bool is_named = false;
    for (const AccountRow& row : blocker.rows) {
      if (verdict_.where.size() >= kMostWhere || row.ps < sum / 10) break;
      if (!AddPlace(WhereRole::kWaitedFor, blocker.thread, row, sum) && !AddThread(blocker.thread, row, sum)) continue;
      is_named = true;
      if (row.frame != 0 || row.doing == kRunning || blocker.at_locks) verdict_.where.back().alike = blocker.alike - 1;
    }
    if (!is_named) return;
    has_blocker_ = true;
    verdict_.facts.push_back(FactOfBlocker(blocker));
  }

  bool AreOfStarts(const std::vector<WaitSlice>& waits) const {
    return ShareOfStarts(timeline_, in_.tags, in_.span.thread, SpansOf(waits)) >= kMostlyStarts;
  }

  // Threads or processes that work one after the other, none of them for long.
  Blocker ThoseInTurn(const Wanted& rows) const {
    for (const BlockerScope scope : {BlockerScope::kPool, BlockerScope::kDescendants}) {
      Blocker blocker = BlockerOf(rows, scope);
      if (blocker.found && blocker.busy >= kBusyInPolls) return blocker;
    }
    return {};
  }

  void AddFacts(const CauseCandidate& best) {
    // The CPU usage shows whether CPUs are idle: more workers help only then.
    const bool of_cpus = best.part == StepPart::kStarvation || best.cause == Cause::kSlowLoader;
    if (of_cpus && !facts_of_cpu_.empty()) verdict_.facts.push_back(facts_of_cpu_);
    if (best.cause == Cause::kReclaim || best.cause == Cause::kAllocationChurn) {
      verdict_.facts.push_back(
          absl::StrFormat("%s page faults, %s of them read from disk",
                          HumanCount(static_cast<uint64_t>(in_.usage.minor_faults + in_.usage.major_faults)),
                          HumanCount(static_cast<uint64_t>(in_.usage.major_faults))));
    }
    const bool is_pool = best.cause == Cause::kWorkers || best.cause == Cause::kPrefetchThread || take_turns_;
    if (is_pool && !blocked_by_process_) AddFactOfWorkers(best);
    if (best.cause == Cause::kLockConvoy && convoy_threads_ > 0) {
      verdict_.facts.push_back(absl::StrFormat("%d threads wait for the same lock", convoy_threads_));
    }
    if (!facts_of_gpu_.empty()) verdict_.facts.push_back(facts_of_gpu_);
    if (best.cause == Cause::kPageableCopy) {
      verdict_.facts.push_back(absl::StrFormat("%s copies from or to pageable memory, %s",
                                               HumanCount(in_.gpu.pageable_copies()),
                                               HumanBytes(static_cast<double>(in_.gpu.pageable_bytes()))));
    }
  }

  const CauseInputs& in_;
  const Timeline& timeline_;
  const Account& account_;
  const bool is_native_;
  Verdict& verdict_;
  std::vector<CauseCandidate> candidates_;
  Stragglers stragglers_;
  std::vector<WaitSlice> library_waits_;
  std::vector<uint16_t> locks_;  // types of waits: IsForWork
  Blocker at_locks_;
  std::string facts_of_cpu_, facts_of_gpu_;
  size_t convoy_threads_ = 0;
  bool blocked_by_process_ = false, gpu_is_limit_ = false;
  WorkerWaits workers_;
  bool has_blocker_ = false;  // and it has a place
  bool take_turns_ = false;   // several threads of the process work for it, and one of them has the GIL at a time
};

}  // namespace

void ChooseCause(const CauseInputs& inputs, Verdict* verdict) { Chooser(inputs, verdict).Choose(); }

}  // namespace tbprof
