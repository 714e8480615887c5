// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/process_model.h"

#include <algorithm>

#include "writer/base/arguments.h"
#include "writer/base/secrets.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

// The limit of lines that belong to no thread, and of threads that are known only by their CUDA calls.
constexpr size_t kMaxLines = 1000;

using Order = std::vector<std::pair<uint64_t, Identity>>;  // sorted by start ticks

template <typename Index>
uint32_t Find(const Index& index, const Identity& identity, uint32_t none, std::pair<Identity, uint32_t>* last) {
  if (last->second != none && last->first == identity) return last->second;
  const auto found = index.find(identity);
  if (found == index.end()) return none;
  *last = {identity, found->second};
  return found->second;
}

bool IsShown(const CaptureWindow& window, uint64_t start_ticks, uint64_t end_ticks) {
  return start_ticks <= window.close && (end_ticks == 0 || end_ticks >= window.open);
}

}  // namespace

uint32_t ProcessModel::IndexOfProcess(const Identity& identity) {
  return Find(process_index_, identity, kNoProcess, &last_process_);
}

uint32_t ProcessModel::IndexOfThread(const Identity& identity) {
  return Find(thread_index_, identity, kNoLine, &last_thread_);
}

void ProcessModel::AddProcesses(int wanted_rank, Ranks* ranks) {
  Order order;
  for (const auto& [identity, process] : facts_.processes) {
    if (process.start_ticks == 0 && process.modules.empty()) continue;
    if (IsShown(window_, process.start_ticks, process.end_ticks)) order.emplace_back(process.start_ticks, identity);
  }
  std::sort(order.begin(), order.end());
  ranks->Choose(wanted_rank, &order);
  images_ = FindExecImages(facts_, order);
  for (const auto& [ticks, identity] : order) {
    Process process = MakeProcess(identity, *ranks);
    // A fork child that became another program by exec is one process with it.
    if (HasForkedImage(identity)) {
      const uint32_t index = process_index_[images_.before[identity]];
      process_index_[identity] = index;
      process.start_ps = timeline_.processes[index].start_ps;
      timeline_.processes[index] = std::move(process);
      continue;
    }
    process_index_[identity] = static_cast<uint32_t>(timeline_.processes.size());
    timeline_.processes.push_back(std::move(process));
  }
  for (const auto& [identity, index] : process_index_) {
    if (!HasForkedImage(identity)) timeline_.processes[index].parent = ParentOf(identity, index);
  }
  MarkCommand();
}

Process ProcessModel::MakeProcess(const Identity& identity, const Ranks& ranks) {
  const ProcessFacts& facts = facts_.processes[identity];
  const ProcessFacts& image = ImageOf(identity, &facts_);
  Process process;
  process.pid = facts.pid;
  process.forked = facts.forked;
  process.executable = image.executable;
  process.arguments = MaskSecrets(image.arguments);
  process.name = ProcessName(process.executable, process.arguments);
  process.started_ticks = facts.start_ticks;
  process.start_ps = PsInWindow(facts_, timeline_, facts.start_ticks);
  process.end_ps = facts.end_ticks == 0 ? timeline_.duration_ps
                                        : std::max(process.start_ps, PsInWindow(facts_, timeline_, facts.end_ticks));
  if (window_.HasEnded(facts.end_ticks, facts_)) {
    process.exit_code = facts.exit_code;
    process.exit_signal = facts.exit_signal;
  }
  const RankFacts rank = ranks.OwnRankOf(image);
  process.rank = rank.rank;
  process.local_rank = rank.local_rank;
  process.world_size = rank.world_size;
  process.replaced = images_.after.contains(identity);
  return process;
}

// Whether the image was a fork child before its exec. The fork child then has no entry of its own.
bool ProcessModel::HasForkedImage(const Identity& identity) const {
  const auto before = images_.before.find(identity);
  return before != images_.before.end() && facts_.processes.at(before->second).forked;
}

// Marks the first process, as the image of its last exec: a shim or `env` before it is not the command.
void ProcessModel::MarkCommand() {
  if (timeline_.processes.empty()) return;
  uint32_t command = 0;
  for (uint32_t i = 1; i < timeline_.processes.size(); ++i) {
    if (timeline_.processes[i].pid == timeline_.processes[0].pid && !timeline_.processes[i].forked) command = i;
  }
  Process& process = timeline_.processes[command];
  process.is_command = true;
  if (facts_.ended && process.exit_code < 0 && process.exit_signal == 0) {
    process.exit_code = facts_.end.exit_code;
    process.exit_signal = facts_.end.exit_signal;
  }
}

int ProcessModel::ParentOf(const Identity& identity, uint32_t index) const {
  const ProcessFacts& facts = facts_.processes.at(identity);
  if (facts.parent_serial != 0) {
    const auto parent = process_index_.find({identity.segment, facts.parent_serial});
    if (parent != process_index_.end() && parent->second < index) return static_cast<int>(parent->second);
  }
  // By pid: the latest process with that pid that began before this one. Never a later one: no cycles.
  int best = -1;
  for (uint32_t i = 0; i < index; ++i) {
    const Process& other = timeline_.processes[i];
    // The same pid: the earlier image of the process, before an exec.
    if ((other.pid == facts.parent_pid || other.pid == facts.pid) && other.pid != 0) best = static_cast<int>(i);
  }
  return best;
}

void ProcessModel::AddThreads(HostEvents* events) {
  Order order;
  for (const auto& [identity, thread] : facts_.threads) {
    if (!process_index_.contains({identity.segment, thread.process_serial}) || thread.is_own) continue;
    if (IsShown(window_, thread.start_ticks, thread.end_ticks)) order.emplace_back(thread.start_ticks, identity);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [ticks, identity] : order) AddThread(identity, events);
}

void ProcessModel::AddThread(const Identity& identity, HostEvents* events) {
  const ThreadFacts& facts = facts_.threads[identity];
  const Identity owner{identity.segment, facts.process_serial};
  if (ContinueThread(identity, owner)) return;
  const auto index = static_cast<uint32_t>(timeline_.threads.size());
  thread_index_[identity] = index;
  Thread& thread = timeline_.threads.emplace_back();
  thread.process = process_index_[owner];
  thread.tid = facts.tid;
  thread.line_id = timeline_.threads.size();
  thread.is_main = IsMainThread(facts, facts_.processes[owner]);
  if (thread.is_main && IsForkedImage(owner)) main_threads_[owner] = index;
  thread.start_ps = PsInWindow(facts_, timeline_, facts.start_ticks);
  AddLife(identity, owner, index);
  events->Expect(index, facts.spans);
}

bool ProcessModel::IsMainThread(const ThreadFacts& thread, const ProcessFacts& process) {
  return thread.tid == (process.has_last ? process.last.pid : process.pid);
}

// exec keeps the process's first thread: the line of the fork child continues.
bool ProcessModel::ContinueThread(const Identity& identity, const Identity& owner) {
  if (!HasForkedImage(owner) || !IsMainThread(facts_.threads[identity], facts_.processes[owner])) return false;
  const auto known = main_threads_.find(images_.before[owner]);
  if (known == main_threads_.end()) return false;
  thread_index_[identity] = known->second;
  continued_.insert(identity);
  AddLife(identity, owner, known->second);
  return true;
}

void ProcessModel::AddLife(const Identity& identity, const Identity& owner, uint32_t index) {
  const ThreadFacts& facts = facts_.threads[identity];
  Thread& thread = timeline_.threads[index];
  const uint64_t end = facts.end_ticks != 0 ? facts.end_ticks : facts_.processes[owner].end_ticks;
  thread.name = facts.name;
  thread.end_ps = end == 0 ? timeline_.duration_ps : std::max(thread.start_ps, PsInWindow(facts_, timeline_, end));
  threads_of_tid_[{thread.process, facts.tid}].push_back({facts.start_ticks, end == 0 ? UINT64_MAX : end, index});
}

uint32_t ProcessModel::LineOf(uint32_t process, const std::string& name) {
  const auto known = lines_.find({process, name});
  if (known != lines_.end()) return known->second;
  if (lines_.size() >= kMaxLines) return kNoLine;
  const auto index = static_cast<uint32_t>(timeline_.threads.size());
  lines_[{process, name}] = index;
  Thread& line = timeline_.threads.emplace_back();
  line.process = process;
  line.line_id = timeline_.threads.size();
  line.name = name;
  line.is_line = true;
  line.start_ps = timeline_.processes[process].start_ps;
  line.end_ps = timeline_.processes[process].end_ps;
  return index;
}

uint32_t ProcessModel::LineOfThread(uint32_t process, int32_t tid, uint64_t ticks) {
  const auto known = threads_of_tid_.find({process, tid});
  if (known == threads_of_tid_.end()) return LineOf(process, StrCat("thread ", tid));
  // tids are reused: the thread that lived at the time, else the latest that had begun.
  const ThreadLife* best = &known->second.front();
  for (const ThreadLife& thread : known->second) {
    if (thread.start <= ticks && ticks <= thread.end) return thread.index;
    if (thread.start <= ticks) best = &thread;
  }
  return best->index;
}

uint32_t ProcessModel::ProcessOfInterest(const std::map<uint32_t, int64_t>& device_ps) const {
  uint32_t at = 0;
  // Device events belong to a step only if the calls that caused them do.
  int64_t most = 0;
  for (const auto& [process, ps] : device_ps) {
    if (ps > most) at = process, most = ps;
  }
  if (most > 0) return at;
  for (uint32_t i = 0; i < timeline_.processes.size(); ++i) {
    if (timeline_.processes[i].is_command) at = i;
  }
  for (int depth = 0; depth < 16; ++depth) {
    const Process& process = timeline_.processes[at];
    int64_t waited = 0;
    for (const OperationTotal& total : process.operations) {
      if (timeline_.types[total.type].family == EventFamily::kProcess) waited += total.total_ps;
    }
    const int child = waited < (process.end_ps - process.start_ps) / 2 ? -1 : LongestChildOf(at);
    if (child < 0) break;
    at = LastImageOf(static_cast<uint32_t>(child));
  }
  return at;
}

// The latest of the children that lived longest; -1: there is none.
int ProcessModel::LongestChildOf(uint32_t process) const {
  const auto life = [](const Process& one) { return one.end_ps - one.start_ps; };
  int child = -1;
  for (uint32_t i = 0; i < timeline_.processes.size(); ++i) {
    const Process& other = timeline_.processes[i];
    if (other.parent != static_cast<int>(process) || i == process || other.pid == timeline_.processes[process].pid) {
      continue;
    }
    if (child < 0 || life(other) >= life(timeline_.processes[static_cast<uint32_t>(child)])) {
      child = static_cast<int>(i);
    }
  }
  return child;
}

// The image of the process's own last exec.
uint32_t ProcessModel::LastImageOf(uint32_t process) const {
  for (uint32_t i = 0; i < timeline_.processes.size(); ++i) {
    const Process& other = timeline_.processes[i];
    if (other.pid == timeline_.processes[process].pid && other.start_ps > timeline_.processes[process].start_ps &&
        !other.forked) {
      process = i;
    }
  }
  return process;
}

}  // namespace tbprof
