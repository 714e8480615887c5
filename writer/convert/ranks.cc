// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/ranks.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "writer/base/arguments.h"
#include "writer/convert/rank_report.h"
#include "writer/spool/exec_images.h"

namespace tbprof {

RankFacts Ranks::OwnRankOf(const ProcessFacts& image) const {
  const RankFacts facts = RankOf(image.ranks);
  return facts.scheduler == scheduler_ ? facts : RankFacts{};
}

// Lightning makes its own process rank 0, and sets variables only for the other ranks, which it starts with the same
// program.
void Ranks::GiveRankToStarter() {
  if (scheduler_ < 0 || scheduler_ >= kRankSchedulerCount) return;
  const RankScheduler& scheduler = kRankSchedulers[scheduler_];
  // Other schedulers give every rank a number. Without rank 0, it was not recorded.
  if (std::string_view(scheduler.rank) != scheduler.local_rank) return;
  const ProcessFacts* other = nullptr;     // a rank that its starter may join
  std::map<int32_t, std::string> started;  // names of programs, by the pid of the starter
  for (const auto& [identity, process] : facts_->processes) {
    const RankFacts facts = OwnRankOf(process);
    if (facts.rank == 0 || facts.local_rank == 0) return;
    if (facts.rank < 0 || process.forked || process.arguments.empty()) continue;
    started[process.parent_pid] = ProcessName(process.executable, process.arguments);
    other = &process;
  }
  if (other == nullptr) return;
  ProcessFacts* starter = nullptr;
  for (auto& [identity, process] : facts_->processes) {
    const auto name = started.find(process.pid);
    if (process.forked || process.arguments.empty() || name == started.end()) continue;
    if (OwnRankOf(process).rank >= 0) continue;
    if (ProcessName(process.executable, process.arguments) != name->second) continue;
    if (starter != nullptr && starter->pid != process.pid) return;
    starter = &process;
  }
  if (starter == nullptr) return;
  starter->ranks = other->ranks;
  starter->ranks[scheduler.rank] = "0";
}

void Ranks::Find() {
  std::set<int> ranks;
  for (const auto& [identity, process] : facts_->processes) {
    const RankFacts facts = RankOf(process.ranks);
    if (facts.rank >= 0 && (scheduler_ < 0 || facts.scheduler < scheduler_)) scheduler_ = facts.scheduler;
  }
  GiveRankToStarter();
  int local_world_size = -1;
  int group = 0;
  for (const auto& [identity, process] : facts_->processes) {
    const RankFacts facts = OwnRankOf(process);
    if (facts.rank < 0) continue;
    ranks.insert(facts.rank);
    timeline_->world_size = std::max(timeline_->world_size, facts.world_size);
    const auto number = [&process = process](const char* name) {
      const auto found = process.ranks.find(name);
      return found == process.ranks.end() ? -1 : ranks_internal::Number(found->second.c_str());
    };
    local_world_size = std::max(local_world_size, number("LOCAL_WORLD_SIZE"));
    group = std::max(group, number("GROUP_RANK"));
    if (facts_->ended && process.end_ticks == 0 && !process.forked) unended_.insert(facts.rank);
  }
  timeline_->ranks.assign(ranks.begin(), ranks.end());
  FindMissing(ranks, local_world_size, group);
  AddReports();
}

std::map<int, std::vector<Ranks::RankProcess>> Ranks::FindProcesses() {
  std::map<int32_t, std::set<int>> ranks_of_pid;
  for (const auto& [identity, process] : facts_->processes) {
    if (const int rank = OwnRankOf(ImageOf(identity, facts_)).rank; rank >= 0) ranks_of_pid[process.pid].insert(rank);
  }
  std::map<int, std::vector<RankProcess>> found;
  for (const auto& [identity, process] : facts_->processes) {
    const RankFacts facts = OwnRankOf(process);
    if (facts.rank < 0 || process.forked) continue;
    const auto parent = ranks_of_pid.find(process.parent_pid);
    if (parent != ranks_of_pid.end() && process.parent_pid != process.pid && parent->second.count(facts.rank) != 0) {
      continue;
    }
    std::vector<RankProcess>& of_rank = found[facts.rank];
    auto entry = std::find_if(of_rank.begin(), of_rank.end(),
                              [pid = process.pid](const RankProcess& other) { return other.pid == pid; });
    if (entry == of_rank.end()) {
      of_rank.push_back({.pid = process.pid, .start_ticks = process.start_ticks});
      entry = std::prev(of_rank.end());
    }
    const bool is_last_image = process.start_ticks >= entry->start_ticks;
    entry->start_ticks = std::min(entry->start_ticks, process.start_ticks);
    entry->local_rank = facts.local_rank;
    if (!is_last_image) continue;
    entry->end_ticks = process.end_ticks;
    entry->exit_code = process.exit_code;
    entry->exit_signal = process.exit_signal;
    entry->out_of_memory = process.out_of_memory;
  }
  return found;
}

void Ranks::AddReports() {
  for (auto& [rank, processes] : FindProcesses()) {
    // A window shows the state at its close.
    for (RankProcess& process : processes) {
      if (!window_.HasEnded(process.end_ticks, *facts_)) process.end_ticks = 0;
    }
    const auto lasted_less = [](const RankProcess& a, const RankProcess& b) {
      const uint64_t end_of_a = a.end_ticks == 0 ? UINT64_MAX : a.end_ticks;
      const uint64_t end_of_b = b.end_ticks == 0 ? UINT64_MAX : b.end_ticks;
      return end_of_a != end_of_b ? end_of_a < end_of_b : a.start_ticks > b.start_ticks;
    };
    std::sort(processes.begin(), processes.end(), lasted_less);
    const RankProcess& last = processes.back();
    RankReport report;
    report.rank = rank;
    report.local_rank = last.local_rank;
    report.pid = last.pid;
    report.state = last.end_ticks == 0 ? RankState::kRunning : RankState::kEnded;
    if (last.end_ticks != 0) {
      report.exit_code = last.exit_code;
      report.exit_signal = last.exit_signal;
      report.out_of_memory = last.out_of_memory;
      if (last.end_ticks >= window_.open) report.end_ps = facts_->clock.ToPs(last.end_ticks);
    }
    for (const RankProcess& process : processes) {
      if (&process == &last || process.end_ticks == 0 || !process.failed()) continue;
      if (report.earlier_failures++ == 0) {
        report.earlier_failure = ExitText(process.exit_code, process.exit_signal, process.out_of_memory);
        if (process.end_ticks >= window_.open) report.earlier_end_ps = facts_->clock.ToPs(process.end_ticks);
      }
    }
    timeline_->by_rank.push_back(std::move(report));
  }
  for (const int rank : timeline_->missing_ranks) {
    RankReport report;
    report.rank = rank;
    timeline_->by_rank.push_back(std::move(report));
  }
  std::sort(timeline_->by_rank.begin(), timeline_->by_rank.end(),
            [](const RankReport& a, const RankReport& b) { return a.rank < b.rank; });
}

// Finds the missing ranks among those that this launcher's command should have.
void Ranks::FindMissing(const std::set<int>& ranks, int local_world_size, int group) {
  const int world = timeline_->world_size;
  RankChoice choice;
  if (!ParseRankChoice(timeline_->ranks_recorded.c_str(), &choice) || !IsByNumberAlone(choice, world)) return;
  if (world < 1 || world > kMaxWorld) return;
  int first = 0;
  int last = world - 1;
  if (local_world_size > 0 && local_world_size < world) {
    // A process reports both numbers: their product may exceed an int.
    first = static_cast<int>(std::min<int64_t>(int64_t{group} * local_world_size, world));
    last = std::min(first + local_world_size, world) - 1;
  }
  // With one launcher per rank, only the rank of this launcher can be missing.
  if (session_.rank >= 0 && session_.scheduler == scheduler_) first = last = session_.rank;
  for (int rank = first; rank <= last; ++rank) {
    if (IsChosen(choice, {.rank = rank, .local_rank = -1, .world_size = world}) && ranks.count(rank) == 0) {
      timeline_->missing_ranks.push_back(rank);
    }
  }
  if (session_.rank >= 0) return;
  for (int rank = 0; rank < world; ++rank) {
    const bool here = (rank >= first && rank <= last) || ranks.count(rank) != 0;
    timeline_->ranks_elsewhere += !here && IsChosen(choice, {.rank = rank, .local_rank = -1, .world_size = world});
  }
}

void Ranks::Choose(int wanted, std::vector<std::pair<uint64_t, Identity>>* order) {
  Find();
  std::map<Identity, int> rank_of;
  std::map<int32_t, int> rank_of_pid;
  std::set<int> ranks;
  for (const auto& [ticks, identity] : *order) {
    const ProcessFacts& facts = facts_->processes[identity];
    int rank = OwnRankOf(ImageOf(identity, facts_)).rank;
    if (rank < 0 && facts.parent_serial != 0) {
      const auto parent = rank_of.find({identity.segment, facts.parent_serial});
      if (parent != rank_of.end()) rank = parent->second;
    }
    if (rank < 0) {
      const auto parent = rank_of_pid.find(facts.parent_pid);
      if (parent != rank_of_pid.end()) rank = parent->second;
    }
    rank_of[identity] = rank;
    if (facts.pid != 0) rank_of_pid[facts.pid] = rank;
    if (rank >= 0) ranks.insert(rank);
  }
  if (ranks.empty()) return;
  const int lowest = *ranks.begin();
  timeline_->rank = wanted == kAnyRank ? lowest : wanted;
  if (ranks.size() == 1) return;
  if (wanted == kAnyRank) timeline_->further_ranks.assign(std::next(ranks.begin()), ranks.end());
  std::erase_if(*order, [&](const auto& entry) {
    const int rank = rank_of[entry.second];
    return (rank < 0 ? lowest : rank) != timeline_->rank;
  });
}

}  // namespace tbprof
