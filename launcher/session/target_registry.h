// SPDX-License-Identifier: Apache-2.0
//
// The segments of recorded programs and the processes in them: who has come, who has ended, what the launcher knows of
// each.
//
//   TargetRegistry registry(&drain, {&sampler, &native_sampler, &cores}, clock, &notes);
//   Target* target = registry.Add(introduction);       // null: not recorded
//   registry.UpdateProcesses(target, now);             // now and then
//   registry.RemoveEnded(now, [](uint32_t segment) { ... });
//
// Process: launcher, main thread. Never waits. Trusts nothing in a segment.
#ifndef TBPROF_LAUNCHER_SESSION_TARGET_REGISTRY_H_
#define TBPROF_LAUNCHER_SESSION_TARGET_REGISTRY_H_

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/exit_status.h"
#include "launcher/base/scoped.h"
#include "launcher/sampling/native_sampler.h"
#include "launcher/sampling/stack_sampler.h"
#include "launcher/session/crash_cores.h"
#include "launcher/session/drain.h"
#include "launcher/session/rendezvous.h"
#include "launcher/target/memory_limit.h"
#include "wire/clock.h"

namespace tbprof {

struct Target {
  struct Process {
    uint32_t slot, serial;
    pid_t pid;          // as we see it, 0: not known
    int32_t inner_pid;  // as it sees it
    ScopedFd pidfd;
    uint64_t start_ticks = 0;
    std::string directory = {};  // its working directory, where core files go there; empty: not known
  };
  bool Has(uint32_t process_serial) const;

  MappedSegment* mapped;  // owned by the drain
  std::vector<Process> processes;
  // By slot: the process that was seen there last. One whose end was seen keeps the slot until the drain frees it.
  std::vector<uint32_t> seen_serials;
  bool dead = false;
  uint64_t dead_since_ns = 0;
  uint32_t modules_missed = 0;
  uint64_t next_maps_ns = 0;
  int maps_read = 0;
  uint32_t user = 0;  // whose processes they are
  uint64_t next_directories_ns = 0;
  uint32_t capture_requests = 0;
  uint32_t borders_seen = 0;
};
using Targets = std::vector<std::unique_ptr<Target>>;

class TargetRegistry {
 public:
  // Who reads stacks; null: nobody.
  struct Readers {
    StackSampler* python = nullptr;
    NativeSampler* native = nullptr;
    CrashCores* cores = nullptr;
  };
  // `notes`: lines for the terminal. All must outlive this.
  TargetRegistry(Drain* drain, const Readers& readers, ClockKind clock, std::vector<std::string>* notes)
      : drain_(*drain),
        sampler_(readers.python),
        native_sampler_(readers.native),
        cores_(readers.cores),
        clock_(clock),
        notes_(*notes) {}

  // Maps the segment and hands it to the drain; null: it is refused. Its processes are not looked at yet.
  Target* Add(Introduction introduction, uint64_t nonce);
  // Sees new processes of the segment and the end of known ones.
  void UpdateProcesses(Target* target, uint64_t now_ns);
  // Those that ended a while ago; `removed` is called with the number of each segment.
  void RemoveEnded(uint64_t now_ns, const std::function<void(uint32_t segment)>& removed);
  // Code that is mapped in a program right now.
  void ReadMaps(Target* target);

  const Targets& targets() const { return targets_; }
  // The samplers go away before this.
  void StopSampling() {
    sampler_ = nullptr;
    native_sampler_ = nullptr;
  }
  void StopReadingCores() { cores_ = nullptr; }
  // How the launcher's own child ended, of which the kernel reports it once.
  void SetEnd(pid_t pid, const ExitStatus& status) { child_end_ = {pid, status}; }
  void Clear() { targets_.clear(); }  // after the session: nothing is recorded any more
  // So many processes that one can wait for their ends.
  void AppendWatched(std::vector<pollfd>* fds) const;
  // The processes that are recorded, as we see them; those whose number is not known are left out.
  std::vector<int> LivePids() const;
  size_t live_processes() const;
  // Of threads that live: what there was no room for in their segments.
  uint64_t DroppedRecords() const;
  // Capture signals that targets have caught since the last call.
  uint64_t ReadCaptureRequests();
  // Whether the handler of the capture signal in `pid` is the library's, not the program's.
  bool HandlesCaptureSignal(pid_t pid) const;
  uint32_t segments_seen() const { return segments_seen_; }
  uint32_t refused() const { return refused_; }

 private:
  void Refuse(int segment_fd, uint64_t bytes);
  // For who records what is not in the segment.
  void Seen(uint32_t segment, const Target::Process& process);
  void Ended(uint32_t segment, const Target::Process& process);
  // Of one that has ended, where the kernel reports it.
  void RecordExit(const Target& target, const Target::Process& process);
  void LookForCore(const Target& target, const Target::Process& process, const std::optional<ExitStatus>& status);
  // Where the processes are, for those that leave core files there.
  void UpdateDirectories(Target* target, uint64_t now_ns);
  // The image that process `pid` ran until its exec has ended. `inner_pid`: its number as it sees it.
  void EndEarlierImage(pid_t pid, int32_t inner_pid);
  static bool MayHold(const Target& target, pid_t pid, int32_t inner_pid);
  // Whether a fork child's own number is also ours.
  static bool HasOurNumbers(const Target& target, const ProcessSlot& slot);

  Drain& drain_;
  StackSampler* sampler_;
  NativeSampler* native_sampler_;
  CrashCores* cores_;
  const ClockKind clock_;
  std::vector<std::string>& notes_;
  Targets targets_;
  uint32_t segments_seen_ = 0;
  uint32_t refused_ = 0;
  std::pair<pid_t, ExitStatus> child_end_{0, {}};
  std::optional<uint64_t> out_of_memory_kills_ = OutOfMemoryKills();
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_TARGET_REGISTRY_H_
