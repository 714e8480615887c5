// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/job.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>

#include "launcher/base/text.h"
#include "launcher/target/preflight.h"
#include "wire/rendezvous.h"
#include "writer/base/arguments.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

// Programs that start several ranks, or may start them: a script can contain any command.
constexpr std::string_view kRankStarters[] = {"torchrun", "accelerate", "deepspeed", "colossalai", "horovodrun",
                                              "sh",       "bash",       "dash",      "zsh",        "ksh",
                                              "fish",     "env",        "xargs",     "parallel",   "make"};
constexpr std::string_view kRemoteStarters[] = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun",
                                                "prun",   "jsrun",   "ibrun",         "srun",    "aprun"};
constexpr std::string_view kStarterModules[] = {"torch.distributed.run", "torch.distributed.launch",
                                                "accelerate.commands.launch", "deepspeed.launcher.launch",
                                                "horovod.runner.launch"};

template <size_t count>
bool Holds(const std::string_view (&names)[count], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool StartsRanks(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  if (Holds(kRankStarters, BaseName(command[0])) || Holds(kRemoteStarters, BaseName(command[0]))) return true;
  for (size_t i = 1; i + 1 < command.size(); ++i) {
    if (command[i] == "-m" && Holds(kStarterModules, command[i + 1])) return true;
  }
  return std::any_of(command.begin(), command.end(),
                     [](const std::string& word) { return BaseName(word) == "torchrun"; });
}

// The result is valid as the name of a directory.
std::string NameOf(std::string_view scheduler, std::string_view id) {
  std::string name = StrCat(scheduler, "-", id.substr(0, 100));
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return name;
}

std::string AttemptOf(const std::map<std::string, std::string>& variables, const char* count) {
  const auto found = variables.find(count);
  const int number = found == variables.end() ? -1 : ranks_internal::Number(found->second.c_str());
  return number > 0 ? StrCat("_attempt", number) : "";
}

std::string RunOf(const std::map<std::string, std::string>& variables, const RankFacts& rank) {
  const auto value = [&](const char* name) -> std::string {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  };
  const std::string_view scheduler =
      rank.scheduler >= 0 && rank.scheduler < kRankSchedulerCount ? kRankSchedulers[rank.scheduler].name : "";
  const std::string elastic = value("TORCHELASTIC_RUN_ID");
  if (scheduler == "torchrun" && !elastic.empty() && elastic != "none") {
    return StrCat(NameOf("torchrun", elastic), AttemptOf(variables, "TORCHELASTIC_RESTART_COUNT"));
  }
  const std::string step = value("SLURM_STEP_ID");
  const bool of_mpi = scheduler == "Open MPI" || scheduler == "PMIx";
  // Under mpirun the Slurm steps of an allocation belong to mpirun itself, and differ from node to node.
  if (!value("SLURM_JOB_ID").empty() && !step.empty() && !of_mpi) {
    return StrCat(NameOf("slurm", StrCat(value("SLURM_JOB_ID"), ".", step)),
                  AttemptOf(variables, "SLURM_RESTART_COUNT"));
  }
  static constexpr struct {
    const char* variable;
    const char* name;
  } kIds[] = {{"PMIX_NAMESPACE", "pmix"}, {"OMPI_MCA_ess_base_jobid", "ompi"},
              {"FLUX_JOB_ID", "flux"},    {"PALS_APID", "pals"},
              {"PBS_JOBID", "pbs"},       {"LSB_JOBID", "lsf"},
              {"SLURM_JOB_ID", "slurm"}};
  for (const auto& id : kIds) {
    if (const std::string text = value(id.variable); !text.empty()) return NameOf(id.name, text);
  }
  return "";
}

}  // namespace

Job JobOf(const Environment& environment, const std::vector<std::string>& command) {
  std::map<std::string, std::string> variables;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  Job job;
  job.rank = RankOf(variables);
  // The first row of kRankSchedulers has priority over all others, and the command's processes inherit its variables.
  job.sure_rank = job.rank.rank >= 0 && (job.rank.scheduler == 0 || !StartsRanks(command));
  if (job.rank.rank >= 0) job.run = RunOf(variables, job.rank);
  job.starts_remotely =
      !command.empty() && (Holds(kRemoteStarters, BaseName(command[0])) || !WrapperAdvice(command).empty());
  return job;
}

int PrintingRank(const RankChoice& choice, const RankFacts& facts) {
  if (choice.kind == RankChoice::kRanges) {
    int lowest = choice.ranges[0].first;
    for (int i = 1; i < choice.range_count; ++i) lowest = std::min(lowest, choice.ranges[i].first);
    return lowest;
  }
  if (choice.kind != RankChoice::kRandom) return 0;
  for (int rank = 0; rank < std::min(facts.world_size, 1 << 20); ++rank) {
    RankFacts other = facts;
    other.rank = rank;
    if (IsChosen(choice, other)) return rank;
  }
  return 0;
}

bool SessionListens(std::string_view session_variable) {
  SessionVariable session;
  if (!ParseSessionVariable(std::string(session_variable).c_str(), &session)) return false;
  const size_t length = strlen(session.socket_path);
  for (const bool abstract : {false, true}) {
    ScopedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return true;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + (abstract ? 1 : 0), session.socket_path, length);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + 1);
    // EAGAIN: the launcher listens, but its backlog is full.
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 || errno == EAGAIN) return true;
  }
  return false;
}

}  // namespace tbprof
