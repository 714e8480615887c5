// SPDX-License-Identifier: Apache-2.0
//
// A session: from the start of a command to its profile. Opens and closes windows, and has its parts work together: the
// rendezvous, the targets, the drain, the spool, the ledger of windows.
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

  // `TBPROF_SESSION=...`
  std::string Variable() const;

  // False: not for a moment, though somebody waits there.
  bool listens() const { return rendezvous_->listens(); }
  int listen_fd() const { return rendezvous_->listen_fd(); }
  int abstract_fd() const { return rendezvous_->abstract_fd(); }
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
  bool HandlesCaptureSignal(pid_t pid) const { return targets_->HandlesCaptureSignal(pid); }

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
  bool armed() const { return windows_.armed(); }
  // Where the control socket belongs.
  std::string control_path() const { return rendezvous_->directory() + "/" + kControlName; }
  // At so much after the run's window was opened, by how fast the counter has run since.
  uint64_t TicksInRun(uint64_t ns) const;
  uint64_t TicksOf(uint64_t ns) const { return static_cast<uint64_t>(static_cast<double>(ns) * ticks_per_ns_); }

  // All that was recorded until now is in the spool. False: not within the limit.
  bool Flush(int limit_ms = 10000, bool rotate = false);
  // The same without waiting for it.
  void RequestFlush() { drain_->RequestFlush(); }
  // The end: reads what is left, writes the end frame. Nothing is recorded any more. False: the spool's file system
  // gave no answer for `patience_ms`; nothing of the spool can be read, written or removed.
  bool Close(const EndFact& end, int patience_ms);
  // After that: unmaps all segments, which takes tens of milliseconds after hundreds of short processes.
  void ReleaseTargets();

  uint64_t Now() const { return ReadTicks(clock_); }
  ClockKind clock() const { return clock_; }
  const std::string& spool_path() const { return home_.path(); }
  // What its path led to when it was made. -1: the directory was removed.
  int spool_directory() const { return home_.directory(); }
  const std::string& spool_name() const { return home_.name(); }
  const SpoolWriter& spool() const { return drain_->spool(); }
  uint64_t spool_limit() const { return home_.limit(); }
  // Where it is by now: its directory may have been renamed or removed since.
  const std::string& FindSpool() { return home_.Find(drain_->spool().fd()); }
  bool spool_removed() const { return home_.removed(); }
  void RemoveSpool() { home_.Remove(drain_->spool().fd()); }

  // The processes that are recorded, as we see them; those whose number is not known are left out.
  std::vector<int> LivePids() const { return targets_->LivePids(); }
  // How the command ended, for a kernel that reports it to its parent alone.
  void SetEnd(pid_t pid, const ExitStatus& status) { targets_->SetEnd(pid, status); }
  // For the terminal.
  uint32_t segments_seen() const { return targets_->segments_seen(); }
  std::vector<std::string> TakeNotes() { return std::exchange(notes_, {}); }
  // A process whose GPUs are recorded only in windows, GpuState::kLimited; 0: none.
  pid_t FindLimitedGpu() const { return tbprof::FindLimitedGpu(targets_->targets()); }
  uint64_t records() const { return drain_->records(); }
  // Of threads that live: what there was no room for in their segments.
  uint64_t DroppedRecords() const { return targets_->DroppedRecords(); }
  uint64_t records_not_kept() const { return drain_->spool().records_not_kept(); }
  std::string SpoolError() const;
  uint32_t targets_refused() const { return targets_->refused(); }
  size_t live_processes() const { return targets_->live_processes(); }
  // Looks for processes that have come or ended, as the passes of Handle do now and then.
  void LookForProcesses();

 private:
  Session() = default;
  absl::Status MakeSpool();
  void RecordStart(const ClockFact& first);
  // A caller of the rendezvous.
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
  std::vector<std::string> notes_;  // before the parts that write to it
  SpoolHome home_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<Drain> drain_;
  std::unique_ptr<StackSampler> sampler_;          // of Python stacks; null: not wanted
  std::unique_ptr<NativeSampler> native_sampler_;  // likewise, of native stacks
  std::unique_ptr<CrashCores> cores_;              // likewise, of core files
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
  bool hangs_ = false;  // the spool; its threads are left behind
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SESSION_H_
