// SPDX-License-Identifier: Apache-2.0
//
// Finds the rank of a process in a distributed job from its environment, and decides which ranks are recorded
// (--ranks).
//
//   RankFacts facts = ReadRank([&](const char* name) { return getenv(name); });
//   RankChoice choice;
//   if (ParseRankChoice("every:8", &choice) && !IsChosen(choice, facts)) ...
//
// Read in each process: under torchrun only the children have a rank.
//
// Process: target (in the constructor: does it record?), launcher, converter. No allocation.
#ifndef TBPROF_WIRE_RANKS_H_
#define TBPROF_WIRE_RANKS_H_

#include <stdint.h>

namespace tbprof {

// The variable in which the launcher passes the value of --ranks to the processes of the command.
inline constexpr char kRanksVariable[] = "TBPROF_RANKS";

// A scheduler or launcher of ranks. The variables of several may be set: the first row counts whose rank is a number
// and whose condition `with` holds.
struct RankScheduler {
  const char* name;
  const char* rank;
  const char* local_rank;  // "": has none
  const char* world_size;
  const char* with;  // "": needs nothing else
};
inline constexpr RankScheduler kRankSchedulers[] = {
    // Before Slurm: under `srun torchrun` SLURM_PROCID numbers the nodes.
    {"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_RANK"},
    // Before Slurm, PMI and PMIx: mpirun in an allocation is a job step of its own, one task per node.
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", ""},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", ""},
    {"Horovod", "HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE", ""},
    {"MPICH", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", ""},
    {"Cray PALS", "PALS_RANKID", "PALS_LOCAL_RANKID", "", ""},
    // A batch script has SLURM_PROCID=0 and the size of the whole allocation, but is not a task of a step.
    {"Slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_STEP_ID"},
    {"Flux", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE", ""},
    {"PMIx", "PMIX_RANK", "", "", ""},
    {"RANK", "RANK", "", "WORLD_SIZE", ""},
    {"JAX", "JAX_PROCESS_ID", "", "JAX_NUM_PROCESSES", ""},
    // On the first node the local rank is the rank.
    {"Lightning", "LOCAL_RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK=0"},
    {"Kubernetes indexed job", "JOB_COMPLETION_INDEX", "", "", ""},
};
inline constexpr int kRankSchedulerCount = static_cast<int>(sizeof(kRankSchedulers) / sizeof(kRankSchedulers[0]));

// The values of these variables are recorded, and no others of the environment.
inline constexpr const char* kRankVariables[] = {
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_SIZE",
    "HOROVOD_RANK",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_SIZE",
    "PMI_RANK",
    "MPI_LOCALRANKID",
    "PMI_SIZE",
    "PALS_RANKID",
    "PALS_LOCAL_RANKID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
    "SLURM_NODEID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "FLUX_TASK_RANK",
    "FLUX_TASK_LOCAL_ID",
    "FLUX_JOB_SIZE",
    "PMIX_RANK",
    "JAX_PROCESS_ID",
    "JAX_NUM_PROCESSES",
    "NODE_RANK",
    "JOB_COMPLETION_INDEX",
    "TF_CONFIG",
};

struct RankFacts {
  int rank = -1;  // -1: not known, also below
  int local_rank = -1;
  int world_size = -1;
  int scheduler = -1;  // index into kRankSchedulers
};

namespace ranks_internal {

// A whole number below about 2^30, without trailing text; -1: not such a number.
inline int Number(const char* text) {
  if (text == nullptr || *text == '\0') return -1;
  int value = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9' || value >= (1 << 30) / 10) return -1;
    value = value * 10 + (*text - '0');
  }
  return value;
}

// Reads digits at *cursor; -1: there are none, or too many.
inline int ReadNumber(const char** cursor) {
  const char* at = *cursor;
  int value = 0;
  while (*at >= '0' && *at <= '9') {
    if (value >= (1 << 30) / 10) return -1;
    value = value * 10 + (*at++ - '0');
  }
  if (at == *cursor) return -1;
  *cursor = at;
  return value;
}

// The part of `text` after `prefix`; null if `text` does not begin with it.
inline const char* Behind(const char* text, const char* prefix) {
  while (*prefix != '\0') {
    if (*text++ != *prefix++) return nullptr;
  }
  return text;
}

inline uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

// `lookup(name)`: the value, or null. `condition`: `NAME` or `NAME=value`.
template <typename Lookup>
bool Holds(const char* condition, const Lookup& lookup) {
  if (*condition == '\0') return true;
  char name[64];
  int length = 0;
  while (condition[length] != '\0' && condition[length] != '=' && length < 63) {
    name[length] = condition[length];
    ++length;
  }
  name[length] = '\0';
  const char* value = lookup(name);
  if (value == nullptr) return false;
  if (condition[length] != '=') return true;
  const char* rest = Behind(value, condition + length + 1);
  return rest != nullptr && *rest == '\0';
}

}  // namespace ranks_internal

template <typename Lookup>
RankFacts ReadRank(const Lookup& lookup) {
  RankFacts facts;
  for (int i = 0; i < kRankSchedulerCount; ++i) {
    const RankScheduler& row = kRankSchedulers[i];
    const int rank = ranks_internal::Number(lookup(row.rank));
    if (rank < 0 || !ranks_internal::Holds(row.with, lookup)) continue;
    facts.rank = rank;
    if (*row.local_rank != '\0') facts.local_rank = ranks_internal::Number(lookup(row.local_rank));
    if (*row.world_size != '\0') facts.world_size = ranks_internal::Number(lookup(row.world_size));
    facts.scheduler = i;
    return facts;
  }
  return facts;
}

// With more ranks than this, `auto` records one per node.
inline constexpr int kManyRanks = 16;
inline constexpr int kMaxRankRanges = 32;
inline constexpr int kMaxWorld = 1 << 16;  // missing ranks of larger jobs are not listed

struct RankChoice {
  enum Kind { kAuto, kAll, kRanges, kEvery, kNodeFirst, kRandom };
  struct Range {
    int first, last;
  };
  Kind kind;
  int range_count;
  Range ranges[kMaxRankRanges];
  int every;
  int percent;
  uint64_t seed;
};

// `auto`, `all`, `0`, `0,8,16`, `0-7`, `every:8`, `node-first`, `random:2%` or `random:2%SEED`.
inline bool ParseRankChoice(const char* text, RankChoice* choice) {
  using namespace ranks_internal;
  *choice = RankChoice{};
  const auto is = [text](const char* word) {
    const char* rest = Behind(text, word);
    return rest != nullptr && *rest == '\0';
  };
  if (is("auto") || is("all") || is("node-first")) {
    choice->kind = text[1] == 'u' ? RankChoice::kAuto : text[1] == 'l' ? RankChoice::kAll : RankChoice::kNodeFirst;
    return true;
  }
  if (const char* number = Behind(text, "every:")) {
    choice->kind = RankChoice::kEvery;
    choice->every = Number(number);
    return choice->every > 0;
  }
  if (const char* cursor = Behind(text, "random:")) {
    choice->kind = RankChoice::kRandom;
    choice->percent = ReadNumber(&cursor);
    if (choice->percent < 1 || choice->percent > 100 || *cursor != '%') return false;
    // The seed may be any text, such as a name.
    for (++cursor; *cursor != '\0'; ++cursor) {
      choice->seed = Mix(choice->seed ^ static_cast<unsigned char>(*cursor));
    }
    return true;
  }
  choice->kind = RankChoice::kRanges;
  const char* cursor = text;
  for (;;) {
    RankChoice::Range range{ReadNumber(&cursor), 0};
    range.last = range.first;
    if (*cursor == '-') {
      ++cursor;
      range.last = ReadNumber(&cursor);
    }
    if (range.first < 0 || range.last < range.first || choice->range_count == kMaxRankRanges) return false;
    choice->ranges[choice->range_count++] = range;
    if (*cursor == '\0') return true;
    if (*cursor++ != ',') return false;
  }
}

// A process without a rank (torchrun itself, a shell) is always chosen.
inline bool IsChosen(const RankChoice& choice, const RankFacts& facts) {
  if (facts.rank < 0) return true;
  // If no local rank is known, each process may be the first of its node.
  const bool node_first = facts.local_rank <= 0;
  switch (choice.kind) {
    case RankChoice::kAuto:
      return facts.world_size <= kManyRanks || node_first;
    case RankChoice::kAll:
      return true;
    case RankChoice::kNodeFirst:
      return node_first;
    case RankChoice::kEvery:
      return facts.rank % choice.every == 0;
    case RankChoice::kRandom:
      // One rank is always chosen, so that a small job is not left without one.
      if (facts.world_size > 0 &&
          choice.seed % static_cast<uint64_t>(facts.world_size) == static_cast<uint64_t>(facts.rank)) {
        return true;
      }
      return ranks_internal::Mix(choice.seed ^ ranks_internal::Mix(static_cast<uint64_t>(facts.rank))) % 100 <
             static_cast<uint64_t>(choice.percent);
    case RankChoice::kRanges:
      for (int i = 0; i < choice.range_count; ++i) {
        if (facts.rank >= choice.ranges[i].first && facts.rank <= choice.ranges[i].last) return true;
      }
      return false;
  }
  return true;
}

// Whether the rank's number alone decides if it is chosen. If the choice depends on the node, missing ranks are
// unknown.
inline bool IsByNumberAlone(const RankChoice& choice, int world_size) {
  return choice.kind != RankChoice::kNodeFirst && (choice.kind != RankChoice::kAuto || world_size <= kManyRanks);
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_RANKS_H_
