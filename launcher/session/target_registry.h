// SPDX-License-Identifier: Apache-2.0
//
// Keeps the segments of recorded programs and the processes in them: registers new ones, detects their end, records
// facts of each.
//
//   TargetRegistry registry(&drain, {&sampler, &native_sampler, &cores}, clock, &notes);
//   Target* target = registry.Add(introduction, nonce);  // null: not recorded
//   registry.UpdateProcesses(target, now);               // at intervals
//   registry.RemoveEnded(now, [](uint32_t segment) { ... });
//
// Process: launcher, main thread. Never waits. Does not trust a segment's content.
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
#include "launcher/sampling/native_sampler.h"
#include "launcher/sampling/stack_sampler.h"
#include "launcher/session/crash_cores.h"
#include "launcher/session/drain.h"
#include "launcher/session/rendezvous.h"
#include "launcher/target/memory_limit.h"
#include "wire/clock.h"
#include "writer/base/scoped.h"

namespace tbprof {

struct Target {
  struct Process {
    uint32_t slot, serial;
    pid_t pid;          // in the launcher's pid namespace; 0: unknown
    int32_t inner_pid;  // in its own pid namespace
    ScopedFd pidfd;
    uint64_t start_ticks = 0;
    std::string directory = {};  // its working directory, if core files go there; empty: unknown
  };
  bool Has(uint32_t process_serial) const;

  MappedSegment* mapped;  // owned by the drain
  std::vector<Process> processes;
  // By slot: the serial of the last process seen there. An ended process keeps its slot until the drain frees it.
  std::vector<uint32_t> seen_serials;
  bool dead = false;
  uint64_t dead_since_ns = 0;
  uint32_t modules_missed = 0;
  uint64_t next_maps_ns = 0;
  int maps_read = 0;
  uint32_t user = 0;  // uid of the processes
  uint64_t next_directories_ns = 0;
  uint32_t capture_requests = 0;
  uint32_t borders_seen = 0;
};
using Targets = std::vector<std::unique_ptr<Target>>;

class TargetRegistry {
 public:
  // Readers of stacks and core files; null: disabled.
  struct Readers {
    StackSampler* python = nullptr;
    NativeSampler* native = nullptr;
    CrashCores* cores = nullptr;
  };
  // `notes`: receives lines for the terminal. All arguments must outlive this object.
  TargetRegistry(Drain* drain, const Readers& readers, ClockKind clock, std::vector<std::string>* notes)
      : drain_(*drain),
        sampler_(readers.python),
        native_sampler_(readers.native),
        cores_(readers.cores),
        clock_(clock),
        notes_(*notes) {}

  // Maps the segment and passes it to the drain; null: refused. UpdateProcesses registers its processes.
  Target* Add(Introduction introduction, uint64_t nonce);
  // Registers new processes of the segment and detects the end of known ones.
  void UpdateProcesses(Target* target, uint64_t now_ns);
  // Removes segments whose processes ended a while ago; calls `removed` with the number of each.
  void RemoveEnded(uint64_t now_ns, const std::function<void(uint32_t segment)>& removed);
  // Records the file mappings of a program (/proc/PID/maps).
  void ReadMaps(Target* target);

  const Targets& targets() const { return targets_; }
  // To be called before the samplers are destroyed.
  void StopSampling() {
    sampler_ = nullptr;
    native_sampler_ = nullptr;
  }
  void StopReadingCores() { cores_ = nullptr; }
  // Sets how the launcher's own child ended: the kernel reports its status only once.
  void SetEnd(pid_t pid, const ExitStatus& status) { child_end_ = {pid, status}; }
  void Clear() { targets_.clear(); }  // after the session has ended
  // Appends the pidfds of at most kMaxWatched processes, to wait for their end.
  void AppendWatched(std::vector<pollfd>* fds) const;
  // The recorded processes as pids of the launcher's pid namespace; processes whose pid is unknown are left out.
  std::vector<int> LivePids() const;
  size_t live_processes() const;
  // Records that found no room in their segment since the start.
  uint64_t DroppedRecords() const;
  // Capture signals that targets have caught since the last call.
  uint64_t ReadCaptureRequests();
  // Whether `pid` handles the capture signal with the library's handler, not with one of the program.
  bool HandlesCaptureSignal(pid_t pid) const;
  uint32_t segments_seen() const { return segments_seen_; }
  uint32_t refused() const { return refused_; }

 private:
  void Refuse(int segment_fd, uint64_t bytes);
  size_t MostDead() const;
  // Notify the drain and the samplers of a new or ended process.
  void Seen(uint32_t segment, const Target::Process& process);
  void Ended(uint32_t segment, const Target::Process& process);
  // Records the exit status of an ended process, if the kernel reports it.
  void RecordExit(const Target& target, const Target::Process& process);
  void LookForCore(const Target& target, const Target::Process& process, const std::optional<ExitStatus>& status);
  // Updates the working directories of the processes, for core files that are written there.
  void UpdateDirectories(Target* target, uint64_t now_ns);
  // Ends the image that process `pid` ran before its exec. `inner_pid`: the pid in its own pid namespace.
  void EndEarlierImage(pid_t pid, int32_t inner_pid);
  static bool MayHold(const Target& target, pid_t pid, int32_t inner_pid);
  // Whether the pid in a fork child's slot is also valid in the launcher's pid namespace.
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
  uint32_t not_mapped_ = 0;
  uint64_t dropped_by_removed_ = 0;  // records of segments that are no longer mapped
  std::pair<pid_t, ExitStatus> child_end_{0, {}};
  std::optional<uint64_t> out_of_memory_kills_ = OutOfMemoryKills();
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_TARGET_REGISTRY_H_
