// SPDX-License-Identifier: Apache-2.0
#include "launcher/attach/process_tree.h"

#include <unistd.h>

#include <utility>

#include "launcher/base/text.h"

namespace tbprof {
namespace {

constexpr uint64_t kIntervalNs = 100'000'000;
constexpr size_t kMaxProcesses = 512;

}  // namespace

absl::Status ProcessTree::Add(const RunningProcess& process) {
  absl::StatusOr<std::unique_ptr<AttachedProcess>> attached = AttachedProcess::Make(process, config_);
  if (!attached.ok()) return attached.status();
  session_->Introduce((*attached)->TakeIntroduction());
  processes_[process.pid] = *std::move(attached);
  return absl::OkStatus();
}

absl::Status ProcessTree::AddRoot(const RunningProcess& process) {
  if (processes_.contains(process.pid)) return absl::OkStatus();
  return Add(process);
}

void ProcessTree::Refuse(pid_t pid, const absl::Status& why) {
  if (refused_.empty()) why_left_out_ = ToText(why);
  refused_.insert(pid);
}

void ProcessTree::AddDescendants() {
  std::vector<pid_t> parents;
  for (const auto& [pid, process] : processes_) parents.push_back(pid);
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    for (const pid_t child : ChildrenOf(parent)) {
      // tbprof itself may be a descendant, of the shell that it attaches to.
      if (child == getpid() || processes_.contains(child) || refused_.contains(child)) continue;
      const absl::StatusOr<RunningProcess> process = ReadRunningProcess(child);
      if (!process.ok()) continue;
      absl::Status added = HasTbprofLibrary(child) || BaseName(process->executable) == "tbprof"
                               ? absl::FailedPreconditionError(StrCat("process ", child, " runs under `tbprof run`"))
                           : processes_.size() < kMaxProcesses
                               ? CheckMemoryAccess(*process)
                               : Unavailable(StrCat("more than ", kMaxProcesses, " processes"));
      if (added.ok()) added = Add(*process);
      if (added.ok()) {
        parents.push_back(child);
      } else if (!absl::IsInvalidArgument(added)) {  // has not ended meanwhile
        Refuse(child, added);
      }
    }
  }
}

void ProcessTree::Handle(uint64_t now_ns) {
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + kIntervalNs;
  std::vector<RunningProcess> replaced;
  std::erase_if(processes_, [&](const auto& entry) {
    if (IsStill(entry.second->process())) return false;
    // Another program by exec: it gets a segment of its own.
    const absl::StatusOr<RunningProcess> now = ReadRunningProcess(entry.first);
    if (now.ok() && now->start_ticks == entry.second->process().start_ticks) replaced.push_back(*now);
    return true;
  });
  for (const RunningProcess& process : replaced) {
    if (const absl::Status added = Add(process); !added.ok()) Refuse(process.pid, added);
  }
  if (follows_) AddDescendants();
  for (const auto& [pid, process] : processes_) process->Update();
}

void ProcessTree::Finish() {
  for (const auto& [pid, process] : processes_) process->Update();
}

}  // namespace tbprof
