// SPDX-License-Identifier: Apache-2.0
//
// Stands in for tbprof's library in a process that was started without it: makes a segment, and keeps in it what /proc
// has of the process and its threads. The session then records and samples it like any other target. The segment has no
// calls, since nobody hooks them, and nothing in the process changes.
//
//   absl::StatusOr<std::unique_ptr<AttachedProcess>> process = AttachedProcess::Make(facts, config);
//   session->Introduce((*process)->TakeIntroduction());
//   (*process)->Update();        // at intervals: threads that began and ended
//
// Process: launcher, main thread. Never waits. Untrusted: all that /proc has of the process.
#ifndef TBPROF_LAUNCHER_ATTACH_ATTACHED_PROCESS_H_
#define TBPROF_LAUNCHER_ATTACH_ATTACHED_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/attach/running_process.h"
#include "launcher/sampling/target_modules.h"
#include "launcher/session/rendezvous.h"
#include "wire/chunk.h"
#include "wire/clock.h"
#include "wire/records.h"
#include "wire/segment.h"
#include "writer/base/scoped.h"

namespace tbprof {

class AttachedProcess {
 public:
  struct Config {
    uint64_t nonce = 0;  // of the session
    ClockKind clock = ClockKind::kMonotonic;
    bool record_arguments = true;  // --no-argv
  };
  // Most threads that get a slot at a time.
  static constexpr size_t kMaxThreads = kThreadSlots / 2;

  static absl::StatusOr<std::unique_ptr<AttachedProcess>> Make(const RunningProcess& process, const Config& config);

  Introduction TakeIntroduction() { return std::move(introduction_); }
  // Gives new threads a slot, and ends those of threads that are gone. At times records code that was mapped meanwhile.
  void Update();
  pid_t pid() const { return process_.pid; }
  const RunningProcess& process() const { return process_; }

 private:
  struct Thread {
    ThreadSlot* slot;
    bool seen = true;
  };

  AttachedProcess(const RunningProcess& process, const Config& config)
      : process_(process), config_(config), modules_(process.pid, &files_) {}
  absl::Status MakeSegment();
  void FillHeader();
  void FillProcessSlot();
  // Records of the first thread: the executable, the arguments and the variables of ranks; mapped code.
  void RecordFacts();
  void RecordModules();
  void RecordModule(const Module& module);
  void RecordInfo(ProcessInfoKey key, std::string_view text);
  ThreadSlot* ClaimThreadSlot();
  void AddThread(pid_t tid);
  void EndThread(ThreadSlot* slot);
  uint64_t Now() const { return ReadTicks(config_.clock); }

  const RunningProcess process_;
  const Config config_;
  ScopedMapping mapping_;
  Segment segment_{};
  Introduction introduction_;
  ChunkWriter writer_{};
  ModuleFiles files_;
  TargetModules modules_;
  std::set<std::pair<uint64_t, std::string>> recorded_modules_;  // start and path
  std::map<pid_t, Thread> threads_;                              // by thread id in the launcher's pid namespace
  uint32_t next_slot_ = 0;
  uint32_t updates_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_ATTACH_ATTACHED_PROCESS_H_
