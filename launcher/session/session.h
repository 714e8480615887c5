// SPDX-License-Identifier: Apache-2.0
//
// A session: from the start of a command to its profile. Owns the rendezvous, the segments, the drain and the spool;
// opens and closes windows.
//
//   auto session = Session::Create(config);
//   environment.push_back((*session)->Variable());       // for the target
//   while (...) {
//     ppoll({(*session)->fds()..., ...}, (*session)->TimeoutMs());
//     (*session)->Handle();
//   }
//   (*session)->Close(end);                              // everything is in the spool
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_SESSION_SESSION_H_
#define TBPROF_LAUNCHER_SESSION_SESSION_H_

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/base/control_socket.h"
#include "launcher/base/listener_pause.h"
#include "launcher/base/scoped.h"
#include "launcher/session/drain.h"
#include "launcher/session/sampling_governor.h"
#include "launcher/session/triggers.h"
#include "launcher/target/memory_limit.h"
#include "wire/clock.h"
#include "wire/rendezvous.h"
#include "writer/spool/spool.h"

namespace tbprof {

struct SessionConfig {
  std::vector<std::string> command;
  std::string logdir;  // absolute
  int logdir_fd = -1;  // the same, open while the session lives; -1: opened by its path
  std::string run;
  bool run_exclusive = true;
  std::string host;
  std::string spool_dir;     // absolute; empty: <logdir>/.tbprof, or a directory on a disk where that is in memory
  uint64_t spool_limit = 0;  // 0: half of what is free, 2 GiB where the run may be split
  uint64_t spool_rate = 0;   // bytes a minute that allocator samples are adapted to; 0: none
  bool keep_spool = false;   // what was published stays, as long as there is room
  bool everything = true;    // the run's own window keeps all of it
  uint64_t split_ns = 0;     // not 0: when the spool gets too large, what is there and the last so much of it
  uint64_t last_ns = 0;      // it keeps the last so much; 0: no such window
  uint64_t long_span_ns = 100'000;
  uint32_t families = kFamilyAll;
  bool armed_at_start = true;
  bool record_arguments = true;
  bool only_command = false;  // --follow=none
  int capture_signal = 0;     // caught in targets that leave it at its default; 0: none
  uint32_t gpu_options = 0;   // GpuOption
  uint64_t wait_threshold_ns = 1000;
  uint64_t malloc_interval = 512 * 1024;
  std::string step_marker;
  uint32_t malloc_stamp_every = 0;  // 0: not every block is recorded
  TriggerKind trigger = TriggerKind::kNone;
  uint64_t trigger_name = 0;  // kRange: NameNumberOf it
  uint64_t segment_bytes = 256u << 20;
  std::string window;  // as given, for the profile
  std::string ranks;   // --ranks, likewise
  int rank = -1;       // the launcher's own, by that scheduler of wire/ranks.h
  int scheduler = -1;
  uint64_t max_profile_size = 0;
  std::vector<std::string> also;
};

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Create(const SessionConfig& config);
  ~Session();  // removes the rendezvous

  // `TBPROF_SESSION=...`
  std::string Variable() const;

  // False: not for a moment, though somebody waits there.
  bool listens() const { return pause_.over(); }
  int listen_fd() const { return listen_.get(); }
  int abstract_fd() const { return abstract_.get(); }
  // Descriptors that something has happened on: LookSoon is due before the next Handle.
  void AppendWatched(std::vector<pollfd>* fds) const;
  void LookSoon() { next_look_ns_ = 0; }
  // Accepts hellos, looks after processes, takes clock pairs. Never waits.
  void Handle();
  // When Handle wants to be called at the latest.
  int TimeoutMs() const;

  // Capture signals that targets have caught since the last call.
  uint64_t TakeCaptureRequests() { return std::exchange(capture_requests_, 0); }
  // Windows that the program has begun and ended since the last call. What was recorded from their begin on is there.
  std::vector<TriggerChange> TakeTriggers();
  uint64_t triggers_missed() const { return triggers_.missed(); }
  // There is no further window: ranges are counted, and arm nothing.
  void DisarmTriggers();
  // Whether the handler of the capture signal in `pid` is the library's, not the program's.
  bool HandlesCaptureSignal(pid_t pid) const;

  // `number` 0: the run's own window; captures from 1. Arms the families everywhere. Returns the border's ticks.
  // Of the session's families only `families`.
  uint64_t OpenWindow(uint32_t number, uint32_t families = kFamilyAll, uint64_t from_ticks = 0);  // 0: now
  // The same for one that somebody has asked for: while it is open, PyTorch's operations are not sampled. Waits until
  // the processes that use it have answered, at most 50 ms, and as long for GPUs that are recorded only in windows.
  uint64_t OpenAskedWindow(uint32_t number, uint32_t families);
  uint64_t CloseWindow(uint32_t number, uint64_t at_ticks = 0);  // 0: now
  // One whose borders lie in the past; nothing is armed for it. What is still there of it stays until it is published.
  void AddWindow(uint32_t number, uint64_t from_ticks, uint64_t to_ticks);
  // The run does not fit one profile: from `start_to` on only the last `end_ns` stay, for the window `end`, which the
  // end of the run closes. `add_start`: what was before becomes the window `start`, which is not there yet.
  void SplitRun(uint64_t start_to, uint64_t end_ns, bool add_start);
  // The run's own window was [from, to): what lies outside may go, and nothing is recorded for it any more.
  void NarrowRun(uint64_t from_ticks, uint64_t to_ticks);
  // The profile of a window is written: its records may go. Not `ok`: they may go when room is short.
  void Published(uint32_t number, bool ok);
  uint64_t run_open_ticks() const { return run_open_ticks_; }
  // Where a window's records are. Everything before the last Flush.
  SpoolExtent ExtentOf(uint32_t number) const;
  bool armed() const { return !open_.empty(); }
  // Where the control socket belongs.
  std::string control_path() const { return directory_ + "/" + kControlName; }
  // At so much after the run's window was opened, by how fast the counter has run since.
  uint64_t TicksInRun(uint64_t ns) const;
  uint64_t TicksOf(uint64_t ns) const { return static_cast<uint64_t>(static_cast<double>(ns) * ticks_per_ns_); }

  // All that was recorded until now is in the spool. False: not within the limit.
  bool Flush(int limit_ms = 10000, bool rotate = false);
  // The same without waiting for it.
  void RequestFlush();
  // The end: reads what is left, writes the end frame. Nothing is recorded any more. False: the spool's file system
  // gave no answer for `patience_ms`; nothing of the spool can be read, written or removed.
  bool Close(const EndFact& end, int patience_ms);
  // After that: unmaps all segments, which takes tens of milliseconds after hundreds of short processes.
  void ReleaseTargets();

  uint64_t Now() const { return ReadTicks(clock_); }
  ClockKind clock() const { return clock_; }
  const std::string& spool_path() const { return spool_path_; }
  // What its path led to when it was made. -1: the directory was removed.
  int spool_directory() const { return spool_removed() ? -1 : spool_directory_.get(); }
  const std::string& spool_name() const { return spool_name_; }
  const SpoolWriter& spool() const { return drain_->spool(); }
  uint64_t spool_limit() const { return spool_limit_; }
  // Where it is by now: its directory may have been renamed or removed since.
  const std::string& FindSpool();
  bool spool_removed() const { return spool_path_.starts_with("/proc/"); }
  void RemoveSpool();

  // The processes that are recorded, as we see them; those whose number is not known are left out.
  std::vector<int> LivePids() const;
  // For the terminal.
  uint32_t segments_seen() const { return segments_seen_; }
  std::vector<std::string> TakeNotes();
  // A process whose GPUs are recorded only in windows, GpuState::kLimited; 0: none.
  pid_t FindLimitedGpu() const;
  uint64_t records() const { return drain_->records(); }
  // Of threads that live: what there was no room for in their segments.
  uint64_t DroppedRecords() const;
  uint64_t records_not_kept() const { return drain_->spool().records_not_kept(); }
  std::string SpoolError() const;
  uint32_t targets_refused() const { return targets_refused_; }
  size_t live_processes() const;
  // Looks for processes that have come or ended, as the passes of Handle do now and then.
  void LookForProcesses();

 private:
  struct Process {
    uint32_t slot, serial;
    pid_t pid;          // as we see it, 0: not known
    int32_t inner_pid;  // as it sees it
    ScopedFd pidfd;
  };
  struct Target {
    MappedSegment* mapped;  // owned by the drain
    std::vector<Process> processes;
    // By slot: the process that was seen there last. One whose end was seen keeps the slot until the drain frees it.
    std::vector<uint32_t> seen_serials;
    bool dead = false;
    uint64_t dead_since_ns = 0;
    uint32_t modules_missed = 0;
    uint64_t next_maps_ns = 0;
    int maps_read = 0;
    uint32_t capture_requests = 0;
    uint32_t borders_seen = 0;
  };

  Session() = default;
  // The private directory with the sockets: where TMPDIR and /tmp have no room, somewhere else.
  absl::Status MakeRendezvous();
  absl::Status MakeRendezvousIn(const std::string& base);
  void RemoveRendezvous();
  absl::Status MakeSpool(const SessionConfig& config);
  // A directory in one that others may use, too: removed again when it is empty.
  struct MadeDirectory {
    ScopedFd parent;
    std::string name;
  };
  struct SpoolDirectory {
    std::string path;
    ScopedFd fd;
    bool in_memory = false;
    MadeDirectory made;
  };
  static absl::StatusOr<SpoolDirectory> OpenNamedDirectory(const std::string& path);
  static absl::StatusOr<SpoolDirectory> OpenLogdirsDirectory(const SessionConfig& config);
  absl::StatusOr<SpoolDirectory> OpenSpoolDirectory(const SessionConfig& config);
  struct GpuAnswer {
    ProcessSlot* slot;
    uint32_t wanted;
  };
  void SetAllTorchOperations();
  void WaitForAllTorchOperations(int limit_ms);
  void OpenGpuWindow(uint32_t number, uint32_t families);
  void SetGpuWindows();
  uint32_t GpuWindows() const;
  void WaitForLimitedGpus(int limit_ms);
  template <typename Visit>
  void VisitLimitedGpus(Visit visit) const;
  // Has the library of each process that uses a GPU look at the control word and flush.
  static void AskGpus(MappedSegment* mapped, std::vector<GpuAnswer>* answers);
  // And waits for them, but not longer: a stopped process or a lost device may never answer.
  void FlushGpus(int limit_ms);
  void WriteWindow(uint32_t number, WindowEvent event, uint64_t ticks, uint32_t length_ms = 0,
                   uint32_t families = kFamilyAll);
  uint32_t ArmedFamilies() const;
  void ArmAgain(uint32_t before);
  void SetDrainInterval();
  void SetRetention();
  void Refuse(int segment_fd, uint64_t bytes);
  void TakeCallers();
  void Accept(int listener);
  void TakeHellos();
  // False: nothing has come yet.
  bool ReceiveHello(int connection);
  void LookAfter(Target* target, uint64_t now_ns);
  // Of one that has ended, where the kernel reports it.
  void RecordExit(uint32_t segment, const Process& process);
  // The image that process `pid` ran until its exec has ended. `inner_pid`: its number as it sees it.
  void EndEarlierImage(pid_t pid, int32_t inner_pid);
  static bool MayHold(const Target& target, pid_t pid, int32_t inner_pid);
  // Whether a fork child's own number is also ours.
  static bool HasOurNumbers(const Target& target, const ProcessSlot& slot);
  void ReadCaptureRequests();
  void ReadMaps(Target* target);
  void TakeClockPair();
  void SetControl(Target* target);
  void SetSampling(Target* target);
  void AdaptSampling(uint64_t now_ns);
  void ReadTriggers();
  void TakeInert(const InertNotice& notice, pid_t pid);
  void Note(std::string text);

  SessionConfig config_;
  std::string directory_, socket_path_, spool_path_, spool_link_;
  std::string spool_name_;
  ScopedFd spool_directory_;
  // Where the spool is elsewhere, the logdir's hidden directory has a link to it: `recover` looks there.
  ScopedFd link_directory_;
  std::vector<MadeDirectory> made_directories_;
  uint64_t spool_limit_ = 0;
  ScopedFd directory_lock_;
  MadeDirectory rendezvous_parent_;  // where the private directory is in the logdir's hidden one
  ScopedFd listen_, abstract_;
  ListenerPause pause_;
  struct Caller {
    ScopedFd connection;
    uint64_t since_ns;
    bool foreign;  // of another user: whoever is in our network namespace can reach the abstract name
  };
  std::vector<Caller> callers_;  // connected, and not yet heard; the latest last
  uint32_t inert_told_ = 0;
  uint64_t nonce_ = 0;
  ClockKind clock_ = ClockKind::kMonotonic;
  double ticks_per_ns_ = 1;
  std::unique_ptr<Drain> drain_;
  std::unique_ptr<SamplingGovernor> governor_;
  std::vector<std::unique_ptr<Target>> targets_;
  uint32_t segments_seen_ = 0;
  uint32_t targets_refused_ = 0;
  std::optional<uint64_t> out_of_memory_kills_ = OutOfMemoryKills();
  std::map<uint32_t, uint32_t> open_;  // windows, and what is recorded for each
  std::set<uint32_t> asked_for_;       // of these, OpenAskedWindow's
  std::set<uint32_t> gpu_windows_;     // of these, those that record GPUs and end before the program does
  uint32_t gpu_windows_opened_ = 0;
  uint64_t run_open_ticks_ = 0, run_open_ns_ = 0;
  uint64_t sliding_ticks_ = 0;
  struct WindowRange {
    uint32_t number;
    Retention::Range range;  // of when its records were drained
    bool closing = false;    // closed, and not all of it may be in the spool yet
  };
  std::vector<WindowRange> ranges_;
  uint64_t next_look_ns_ = 0;
  uint64_t next_clock_ns_ = 0;
  uint64_t busy_until_ns_ = 0;
  uint64_t capture_requests_ = 0;
  TriggerReader triggers_;
  bool triggers_disarmed_ = false;
  std::vector<std::string> notes_;
  bool closed_ = false;
  bool hangs_ = false;  // the spool; its threads are left behind
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SESSION_H_
