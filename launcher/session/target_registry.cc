// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/target_registry.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/base/exit_status.h"
#include "launcher/base/proc_stat.h"
#include "wire/segment.h"

namespace tbprof {
namespace {

// At most this many pidfds are polled while idle; the end of further processes is found by UpdateProcesses.
constexpr size_t kMaxWatched = 16;
// A dead segment is kept for this time: a fork child that has not recorded yet is unknown to the launcher and may use
// the segment of its ended parent.
constexpr uint64_t kKeepDeadNs = 10'000'000'000;
constexpr size_t kKeepDead = 32;
// By then the drain has read the records that a last fork child may still have written.
constexpr uint64_t kLastPassesNs = 200'000'000;
// Most segments mapped at a time. Each costs memory that every pass reads (about 60 KiB), a descriptor for each process
// in it, and a share of the drain's time.
constexpr size_t kMaxTargets = 1024;
constexpr rlim_t kOtherDescriptors = 128;

// Computed on each call: the limit of descriptors may change while a session runs.
size_t MaxTargets() {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0 || descriptors.rlim_cur == RLIM_INFINITY) return kMaxTargets;
  const rlim_t room = descriptors.rlim_cur > 2 * kOtherDescriptors ? descriptors.rlim_cur - kOtherDescriptors
                                                                   : descriptors.rlim_cur / 2;
  return std::min<size_t>(kMaxTargets, room);
}

// Whether the process `pid` of the launcher's pid namespace maps a segment: the pid of a fork child in another pid
// namespace may belong to a different process here. Rarely called: HasOurNumbers answers first if the parent's pid is
// the same in both namespaces.
bool MapsSegment(pid_t pid) {
  // Line by line: there may be a hundred thousand.
  std::ifstream file(absl::StrCat("/proc/", pid, "/maps"));
  std::string line;
  while (std::getline(file, line)) {
    if (line.find("/memfd:tbprof") != std::string::npos) return true;
  }
  // A zombie has no mappings: it counts as one that maps a segment, and so does a process without a state.
  const char state = SchedulerState(pid);
  return state == 0 || state == 'Z';
}

int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

bool HasEnded(int pidfd) {
  pollfd entry{pidfd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

}  // namespace

bool Target::Has(uint32_t process_serial) const {
  return std::any_of(processes.begin(), processes.end(),
                     [&](const Process& process) { return process.serial == process_serial; });
}

Target* TargetRegistry::Add(Introduction introduction, uint64_t nonce) {
  const size_t bytes = introduction.segment_bytes;
  if (targets_.size() >= MaxTargets()) {
    Refuse(introduction.segment.get(), bytes);
    return nullptr;
  }
  auto mapped = std::make_unique<MappedSegment>();
  mapped->mapping = ScopedMapping(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, introduction.segment.get(), 0), bytes);
  if (!mapped->mapping.valid()) {
    const int error = errno;
    if (not_mapped_++ == 0) {
      notes_.push_back(absl::StrCat("process ", introduction.pid,
                                    " is not recorded, and perhaps further ones: cannot map ",
                                    "its segment: ", strerror(error), error == ENOMEM ? " (ulimit -v)" : ""));
    }
    return nullptr;
  }
  SegmentHeader header;
  memcpy(&header, mapped->mapping.data(), sizeof(header));
  if (CheckSegmentHeader(header, bytes) != SegmentFault::kNone || header.nonce != nonce) {
    notes_.push_back(absl::StrCat("process ", introduction.pid,
                                  " is not recorded: its segment's header is not one of this version"));
    return nullptr;
  }
  mapped->number = ++segments_seen_;
  mapped->pid = introduction.pid;
  mapped->same_pids = introduction.pid == introduction.inner_pid;
  mapped->segment = SegmentAt(mapped->mapping.data(), header.chunk_count);
  mapped->operation_count = header.operation_count;
  if (targets_.size() < MaxTargets() / 2) mapped->file = std::move(introduction.segment);
  EndEarlierImage(introduction.pid, introduction.inner_pid);
  SegmentFact fact{};
  fact.pid = introduction.pid;
  fact.uid = introduction.uid;
  fact.seen_ticks = ReadTicks(clock_);
  auto target = std::make_unique<Target>();
  target->mapped = drain_.Add(std::move(mapped), fact);
  target->user = introduction.uid;
  targets_.push_back(std::move(target));
  return targets_.back().get();
}

bool TargetRegistry::MayHold(const Target& target, pid_t pid, int32_t inner_pid) {
  for (const Target::Process& process : target.processes) {
    if (process.pid == pid) return true;
  }
  const Segment& segment = target.mapped->segment;
  const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_ACQUIRE), kProcessSlots);
  for (uint32_t i = 0; i < high; ++i) {
    const ProcessSlot& slot = segment.process_slots[i];
    if (__atomic_load_n(&slot.state, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(SlotState::kLive) &&
        __atomic_load_n(&slot.pid, __ATOMIC_RELAXED) == inner_pid) {
      return true;
    }
  }
  return false;
}

bool TargetRegistry::HasOurNumbers(const Target& target, const ProcessSlot& slot) {
  const uint32_t parent = __atomic_load_n(&slot.parent_serial, __ATOMIC_RELAXED);
  const int32_t parent_pid = __atomic_load_n(&slot.parent_pid, __ATOMIC_RELAXED);
  if (parent == 1) return parent_pid == target.mapped->pid;
  return std::any_of(target.processes.begin(), target.processes.end(), [&](const Target::Process& process) {
    return process.serial == parent && process.pid != 0 && process.pid == parent_pid;
  });
}

void TargetRegistry::EndEarlierImage(pid_t pid, int32_t inner_pid) {
  for (auto& earlier : targets_) {
    // Runs for each hello: updating all processes of all segments would take longer than short processes live.
    if (!MayHold(*earlier, pid, inner_pid)) continue;
    // A child that execs right after its fork may not be registered yet.
    UpdateProcesses(earlier.get(), ReadMonotonic());
    std::erase_if(earlier->processes, [&](const Target::Process& process) {
      const bool is_it = process.pid != 0 ? process.pid == pid : pid == inner_pid && process.inner_pid == pid;
      if (!is_it) return false;
      Ended(earlier->mapped->number, process);
      return true;
    });
  }
}

// Refuses a segment beyond the limit: control word 0 makes its library stay inert.
void TargetRegistry::Refuse(int segment_fd, uint64_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes >= page && page >= kTriggersOffset + sizeof(Triggers)) {
    ScopedMapping header(mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, segment_fd, 0), page);
    if (header.valid()) {
      auto* const refused = static_cast<SegmentHeader*>(header.data());
      __atomic_store_n(&TriggersOf(refused)->families, 0u, __ATOMIC_RELEASE);
      __atomic_store_n(&refused->control, 0u, __ATOMIC_RELEASE);
    }
  }
  if (refused_++ == 0) {
    notes_.push_back(absl::StrCat("more than ", targets_.size(), " programs at a time: further ones are not recorded",
                                  targets_.size() < kMaxTargets ? " (ulimit -n)" : ""));
  }
}

void TargetRegistry::LookForCore(const Target& target, const Target::Process& process,
                                 const std::optional<ExitStatus>& status) {
  if (cores_ == nullptr) return;
  cores_->ProcessEnded({.segment = target.mapped->number,
                        .serial = process.serial,
                        .inner_pid = process.inner_pid,
                        .user = target.user,
                        .start_ticks = process.start_ticks,
                        .directory = process.directory},
                       status);
}

void TargetRegistry::RecordExit(const Target& target, const Target::Process& process) {
  std::optional<ExitStatus> status = ExitStatusOf(process.pidfd.get(), process.pid);
  // For a reaped process whose crash was in a thread other than the first, the pidfd does not report the core file:
  // uses the child's wait status.
  const auto& [child, end] = child_end_;
  if (child == process.pid && (!status.has_value() || status->signal == end.signal)) status = end;
  LookForCore(target, process, status);
  if (!status.has_value()) return;
  ExitFact fact{};
  fact.ticks = ReadTicks(clock_);
  fact.process_serial = process.serial;
  fact.exit_code = status->code;
  fact.exit_signal = status->signal;
  if (status->signal == SIGKILL) {
    const std::optional<uint64_t> kills = OutOfMemoryKills();
    if (kills > out_of_memory_kills_) fact.flags |= kExitOutOfMemory;
    out_of_memory_kills_ = kills;
  }
  drain_.Append(FrameType::kExit, target.mapped->number, &fact, sizeof(fact));
}

void TargetRegistry::Seen(uint32_t segment, const Target::Process& process) {
  drain_.ProcessSeen(segment, process.serial, process.pid);
  const SampledProcess sampled = {segment, process.serial, process.pid, process.pidfd.get()};
  if (sampler_ != nullptr) sampler_->AddProcess(sampled);
  if (native_sampler_ != nullptr) native_sampler_->AddProcess(sampled);
}

void TargetRegistry::Ended(uint32_t segment, const Target::Process& process) {
  drain_.ProcessEnded(segment, process.serial, process.pid);
  if (sampler_ != nullptr) sampler_->RemoveProcess(segment, process.serial);
  if (native_sampler_ != nullptr) native_sampler_->RemoveProcess(segment, process.serial);
}

void TargetRegistry::UpdateDirectories(Target* target, uint64_t now_ns) {
  constexpr uint64_t kIntervalNs = 1'000'000'000;
  const bool is_due = now_ns >= target->next_directories_ns;
  if (is_due) target->next_directories_ns = now_ns + kIntervalNs;
  for (Target::Process& process : target->processes) {
    if (process.pid <= 0 || (!is_due && !process.directory.empty())) continue;
    std::string now = CrashCores::DirectoryOf(process.pid);
    if (!now.empty()) process.directory = std::move(now);
  }
}

void TargetRegistry::UpdateProcesses(Target* target, uint64_t now_ns) {
  const MappedSegment* mapped = target->mapped;
  const Segment& segment = mapped->segment;
  const uint32_t high = std::min(__atomic_load_n(&segment.header->process_high, __ATOMIC_ACQUIRE), kProcessSlots);
  // Removes processes without a pidfd whose slot another process has taken: their end cannot be detected otherwise.
  std::erase_if(target->processes, [&](const Target::Process& process) {
    return !process.pidfd.valid() &&
           __atomic_load_n(&segment.process_slots[process.slot].serial, __ATOMIC_RELAXED) != process.serial;
  });
  if (target->seen_serials.size() < high) target->seen_serials.resize(high);
  for (uint32_t i = 0; i < high; ++i) {
    const ProcessSlot& slot = segment.process_slots[i];
    if (__atomic_load_n(&slot.state, __ATOMIC_ACQUIRE) != static_cast<uint32_t>(SlotState::kLive)) continue;
    const uint32_t serial = __atomic_load_n(&slot.serial, __ATOMIC_RELAXED);
    if (serial == 0 || std::exchange(target->seen_serials[i], serial) == serial) continue;
    const int32_t inner = __atomic_load_n(&slot.pid, __ATOMIC_RELAXED);
    Target::Process process{i, serial, 0, inner, ScopedFd()};
    process.start_ticks = __atomic_load_n(&slot.start_ticks, __ATOMIC_RELAXED);
    bool gone = false;
    if (serial == 1) {
      process.pid = mapped->pid;
    } else if (mapped->same_pids) {
      // If many children are started, most have ended by now: pidfd_open then fails with ESRCH.
      process.pidfd.Reset(PidfdOpen(inner));
      gone = !process.pidfd.valid() && errno == ESRCH;
      // A process in the middle of an exec maps no segment: HasOurNumbers is checked first.
      if (gone || HasOurNumbers(*target, slot) || MapsSegment(inner)) {
        process.pid = inner;
      } else {
        process.pidfd.Reset();
      }
    }
    if (process.pid > 0) {
      // A pid is one process at a time: an earlier entry with it has ended or was never real. So a target that claims a
      // thousand processes with one pid costs the launcher one descriptor.
      std::erase_if(target->processes, [&](const Target::Process& earlier) {
        if (earlier.pid != process.pid) return false;
        Ended(mapped->number, earlier);
        return true;
      });
      if (!gone && !process.pidfd.valid()) {
        process.pidfd.Reset(PidfdOpen(process.pid));
        gone = !process.pidfd.valid() && errno == ESRCH;
      }
      Seen(mapped->number, process);
      if (gone) {
        LookForCore(*target, process, std::nullopt);
        Ended(mapped->number, process);
        continue;
      }
    }
    target->dead = false;
    target->processes.push_back(std::move(process));
  }
  if (cores_ != nullptr && cores_->needs_directories()) UpdateDirectories(target, now_ns);
  std::erase_if(target->processes, [&](const Target::Process& process) {
    if (!process.pidfd.valid() || !HasEnded(process.pidfd.get())) return false;
    RecordExit(*target, process);
    Ended(mapped->number, process);
    return true;
  });
  if (target->processes.empty() && !target->dead) {
    target->dead = true;
    target->dead_since_ns = now_ns;
  }
  const uint32_t missed = __atomic_load_n(&segment.header->modules_missed, __ATOMIC_RELAXED);
  if (missed != target->modules_missed && now_ns >= target->next_maps_ns && !target->dead) {
    target->modules_missed = missed;
    ReadMaps(target);
    target->next_maps_ns = now_ns + 1'000'000'000;
  }
}

// Under a limit of the address space, segments of ended processes leave room for new ones.
size_t TargetRegistry::MostDead() const {
  constexpr uint64_t kShareOfSpace = 8;
  rlimit space{};
  if (targets_.empty() || getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) return kKeepDead;
  const uint64_t bytes = std::max<uint64_t>(targets_.back()->mapped->mapping.size(), 1);
  return std::min<uint64_t>(kKeepDead, space.rlim_cur / kShareOfSpace / bytes);
}

void TargetRegistry::RemoveEnded(uint64_t now_ns, const std::function<void(uint32_t segment)>& removed) {
  auto dead = static_cast<size_t>(
      std::count_if(targets_.begin(), targets_.end(), [](const auto& target) { return target->dead; }));
  const size_t most_dead = dead == 0 ? kKeepDead : MostDead();
  std::erase_if(targets_, [&](const std::unique_ptr<Target>& target) {
    if (!target->dead) return false;
    const uint64_t since_ns = now_ns - std::min(now_ns, target->dead_since_ns);
    if (since_ns < kLastPassesNs || (since_ns < kKeepDeadNs && dead <= most_dead)) return false;
    --dead;
    removed(target->mapped->number);
    dropped_by_removed_ += tbprof::DroppedRecords(*target->mapped);
    drain_.Remove(target->mapped->number);
    return true;
  });
}

void TargetRegistry::ReadMaps(Target* target) {
  std::ifstream file(absl::StrCat("/proc/", target->mapped->pid, "/maps"));
  std::ostringstream text;
  std::string line;
  // Keeps lines with a path only, at most 4 MiB: a process may have a hundred thousand anonymous mappings.
  while (std::getline(file, line) && text.tellp() < std::streamoff{4} << 20) {
    if (line.find('/') != std::string::npos) text << line << '\n';
  }
  const std::string all = text.str();
  if (!all.empty()) drain_.Append(FrameType::kMaps, target->mapped->number, all.data(), all.size());
  ++target->maps_read;
}

void TargetRegistry::AppendWatched(std::vector<pollfd>* fds) const {
  size_t watched = 0;
  for (const auto& target : targets_) {
    for (const Target::Process& process : target->processes) {
      if (!process.pidfd.valid()) continue;
      if (++watched > kMaxWatched) return;
      fds->push_back({process.pidfd.get(), POLLIN, 0});
    }
  }
}

std::vector<int> TargetRegistry::LivePids() const {
  std::vector<int> pids;
  for (const auto& target : targets_) {
    for (const Target::Process& process : target->processes) {
      if (process.pidfd.valid() && process.pid > 0) pids.push_back(process.pid);
    }
  }
  return pids;
}

size_t TargetRegistry::live_processes() const {
  size_t count = 0;
  for (const auto& target : targets_) {
    // A process without a pidfd is not counted: its end cannot be detected.
    for (const Target::Process& process : target->processes) count += process.pidfd.valid() ? 1 : 0;
  }
  return count;
}

uint64_t TargetRegistry::DroppedRecords() const {
  uint64_t dropped = dropped_by_removed_;
  for (const auto& target : targets_) dropped += tbprof::DroppedRecords(*target->mapped);
  return dropped;
}

uint64_t TargetRegistry::ReadCaptureRequests() {
  uint64_t caught = 0;
  for (const auto& target : targets_) {
    const SegmentHeader* header = target->mapped->segment.header;
    const uint32_t requests = __atomic_load_n(&header->capture_requests, __ATOMIC_RELAXED);
    caught += requests - target->capture_requests;
    target->capture_requests = requests;
  }
  return caught;
}

bool TargetRegistry::HandlesCaptureSignal(pid_t pid) const {
  // Searches backwards: the last segment of a pid belongs to the image that it runs now.
  for (auto target = targets_.rbegin(); target != targets_.rend(); ++target) {
    if ((*target)->mapped->pid != pid) continue;
    const uint32_t flags = __atomic_load_n(&(*target)->mapped->segment.process_slots[0].flags, __ATOMIC_ACQUIRE);
    return (flags & kProcessHandlesSignal) != 0;
  }
  return false;
}

}  // namespace tbprof
