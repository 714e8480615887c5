// SPDX-License-Identifier: Apache-2.0
//
// A session lasts from the start of a command to its profile. Opens and closes windows, and connects its parts: the
// rendezvous, the targets, the drain, the spool, the ledger of windows.
//
//   auto session = Session::Create(config);
//   environment.push_back((*session)->Variable());       // for the target
//   while (...) {
//     (*session)->AppendWatched(&fds);                   // and listen_fd(), abstract_fd()
//     if (poll(fds, (*session)->TimeoutMs()) > 0) (*session)->LookSoon();
//     (*session)->Handle();
//   }
//   (*session)->Close(end);                              // all records are in the spool
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_SESSION_SESSION_H_
#define TBPROF_LAUNCHER_SESSION_SESSION_H_

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/base/control_socket.h"
#include "launcher/sampling/native_sampler.h"
#include "launcher/sampling/stack_sampler.h"
#include "launcher/session/crash_cores.h"
#include "launcher/session/drain.h"
#include "launcher/session/rendezvous.h"
#include "launcher/session/sampling_governor.h"
#include "launcher/session/session_config.h"
#include "launcher/session/spool_home.h"
#include "launcher/session/target_registry.h"
#include "launcher/session/target_requests.h"
#include "launcher/session/triggers.h"
#include "launcher/session/window_ledger.h"
#include "wire/clock.h"
#include "writer/spool/spool.h"

namespace tbprof {

class Session {
 public:
  static absl::StatusOr<std::unique_ptr<Session>> Create(const SessionConfig& config);
  ~Session();  // removes the rendezvous

  // The environment variable `TBPROF_SESSION=...` for the target.
  std::string Variable() const;
  // How it begins in every process of the session. The rest depends on when it was made.
  std::string VariableStart() const { return SessionVariableStart(rendezvous_->socket_path()); }

  // False: accept failed a moment ago for lack of descriptors or memory; do not poll the sockets although callers wait.
  bool listens() const { return rendezvous_->listens(); }
  int listen_fd() const { return rendezvous_->listen_fd(); }
  int abstract_fd() const { return rendezvous_->abstract_fd(); }
  // Appends descriptors; if one of them is readable, call LookSoon before the next Handle.
  void AppendWatched(std::vector<pollfd>* fds) const;
  void LookSoon() { next_look_ns_ = 0; }
  // Takes a process into the session, as if it had called at the rendezvous: `tbprof attach`.
  void Introduce(Introduction introduction) { TakeIntroduction(std::move(introduction)); }
  uint64_t nonce() const { return nonce_; }
  // Accepts hellos, registers new and ended processes, records clock pairs. Never waits.
  void Handle();
  // Milliseconds until Handle has to be called again.
  int TimeoutMs() const;

  // Capture signals that targets have caught since the last call.
  uint64_t TakeCaptureRequests() { return std::exchange(capture_requests_, 0); }
  // Windows that the program has begun and ended since the last call. Records from their begin on are still in the
  // spool.
  std::vector<TriggerChange> TakeTriggers();
  uint64_t triggers_missed() const { return triggers_.missed(); }
  // No further window opens: ranges of the program are counted, but arm nothing.
  void DisarmTriggers();
  // Whether `pid` handles the capture signal with the library's handler, not with one of the program.
  bool HandlesCaptureSignal(pid_t pid) const { return targets_->HandlesCaptureSignal(pid); }

  // Opens a window. `number` 0: the run's own window; captures are numbered from 1. Arms those of the session's
  // families that are in `families` in all targets. Returns the ticks of the border.
  uint64_t OpenWindow(uint32_t number, uint32_t families = kFamilyAll, uint64_t from_ticks = 0);  // 0: now
  // Opens a requested window: while it is open, all PyTorch operations are recorded instead of samples. Waits at most
  // 50 ms for the processes that use PyTorch, and at most 50 ms for GPUs that are recorded only in windows.
  uint64_t OpenAskedWindow(uint32_t number, uint32_t families);
  uint64_t CloseWindow(uint32_t number, uint64_t at_ticks = 0);  // 0: now
  // Adds a window that lies in the past; arms nothing. Its records that are still in the spool stay until it is
  // published.
  void AddWindow(uint32_t number, uint64_t from_ticks, uint64_t to_ticks);
  // The run does not fit one profile: after `start_to` only the records of the last `end_ns` are kept, for the window
  // kEndWindow, which closes at the end of the run. `add_start`: adds the window kStartWindow for the time before
  // `start_to`.
  void SplitRun(uint64_t start_to, uint64_t end_ns, bool add_start);
  // Narrows the run's own window to [from, to): records outside of it may be dropped, and nothing more is recorded for
  // it.
  void NarrowRun(uint64_t from_ticks, uint64_t to_ticks);
  // The profile of a window is written: its records may be dropped. Not `ok`: they may be dropped only when the spool
  // is short of room.
  void Published(uint32_t number, bool ok);
  uint64_t run_open_ticks() const { return run_open_ticks_; }
  // The parts of the spool that hold a window's records, up to the last Flush.
  SpoolExtent ExtentOf(uint32_t number) const;
  bool armed() const { return windows_.armed(); }
  // The path for the control socket.
  std::string control_path() const { return rendezvous_->directory() + "/" + kControlName; }
  // The ticks at `ns` after the run's window was opened, computed with the rate of the counter since then.
  uint64_t TicksInRun(uint64_t ns) const;
  uint64_t TicksOf(uint64_t ns) const { return static_cast<uint64_t>(static_cast<double>(ns) * ticks_per_ns_); }

  // Returns when all records made until now are in the spool. False: not within the limit.
  bool Flush(int limit_ms = 10000, bool rotate = false);
  // Requests a flush without waiting for it.
  void RequestFlush() { drain_->RequestFlush(); }
  // Ends recording, drains the rest and writes the end frame. False: the spool's file system did not respond for
  // `patience_ms`; the spool cannot be read, written or removed.
  bool Close(const EndFact& end, int patience_ms);
  // After Close: unmaps all segments, which takes tens of milliseconds after hundreds of short processes.
  void ReleaseTargets();

  uint64_t Now() const { return ReadTicks(clock_); }
  ClockKind clock() const { return clock_; }
  const std::string& spool_path() const { return home_.path(); }
  // The directory in which the spool was created, as a descriptor. -1: the directory was removed.
  int spool_directory() const { return home_.directory(); }
  const std::string& spool_name() const { return home_.name(); }
  const SpoolWriter& spool() const { return drain_->spool(); }
  uint64_t spool_limit() const { return home_.limit(); }
  // The current path of the spool: its directory may have been renamed or removed.
  const std::string& FindSpool() { return home_.Find(drain_->spool().fd()); }
  bool spool_removed() const { return home_.removed(); }
  void RemoveSpool() { home_.Remove(drain_->spool().fd()); }

  // The recorded processes as pids of the launcher's pid namespace; processes whose pid is unknown are left out.
  std::vector<int> LivePids() const { return targets_->LivePids(); }
  // Sets the exit status of the command: some kernels report it to the parent only.
  void SetEnd(pid_t pid, const ExitStatus& status) { targets_->SetEnd(pid, status); }
  // Lines and counts for the terminal.
  uint32_t segments_seen() const { return targets_->segments_seen(); }
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }
  // A process in GpuState::kLimited: its GPUs are recorded only in windows. 0: none.
  pid_t FindLimitedGpu() const { return tbprof::FindLimitedGpu(targets_->targets()); }
  uint64_t records() const { return drain_->records(); }
  // Records of live threads that found no room in their segment.
  uint64_t DroppedRecords() const { return targets_->DroppedRecords(); }
  uint64_t records_not_kept() const { return drain_->spool().records_not_kept(); }
  std::string SpoolError() const;
  uint32_t targets_refused() const { return targets_->refused(); }
  size_t live_processes() const { return targets_->live_processes(); }
  // Registers new and ended processes at once; Handle does it at intervals.
  void LookForProcesses();

 private:
  void NoteStalls();
  Session() = default;
  absl::Status MakeSpool();
  void RecordStart(const ClockFact& first);
  // Handles a caller of the rendezvous.
  void TakeIntroduction(Introduction introduction);
  void TakeInert(const InertNotice& notice, pid_t pid);
  void TakeClockPair();
  void OpenGpuWindow(uint32_t number, uint32_t families);
  void WriteWindow(uint32_t number, WindowEvent event, uint64_t ticks, uint32_t length_ms = 0,
                   uint32_t families = kFamilyAll);
  void ArmAgain(uint32_t before);
  void SetDrainInterval();
  void SetRetention();
  void SetControl(Target* target);
  void SetSampling(Target* target);
  void AdaptSampling(uint64_t now_ns);
  void ReadTriggers();

  SessionConfig config_;
  std::vector<std::string> notes_;  // declared before the parts that write to it
  SpoolHome home_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<Drain> drain_;
  std::unique_ptr<StackSampler> sampler_;          // of Python stacks; null: disabled
  std::unique_ptr<NativeSampler> native_sampler_;  // of native stacks; null: disabled
  std::unique_ptr<CrashCores> cores_;              // reads core files
  std::unique_ptr<SamplingGovernor> governor_;
  std::unique_ptr<TargetRegistry> targets_;
  WindowLedger windows_;
  TriggerReader triggers_;
  bool triggers_disarmed_ = false;
  uint32_t inert_recorded_ = 0;
  uint64_t nonce_ = 0;
  ClockKind clock_ = ClockKind::kMonotonic;
  double ticks_per_ns_ = 1;
  uint64_t run_open_ticks_ = 0, run_open_ns_ = 0;
  uint64_t next_look_ns_ = 0;
  uint64_t next_clock_ns_ = 0;
  uint64_t busy_until_ns_ = 0;
  uint64_t capture_requests_ = 0;
  bool closed_ = false;
  bool hangs_ = false;  // the spool's file system; the drain's threads are left blocked
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SESSION_H_
