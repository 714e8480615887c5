// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>

#include "launcher/base/text.h"
#include "launcher/target/preflight.h"

namespace tbprof {
namespace {

struct Wrapper {
  std::string_view name;
  std::string_view subcommands;  // blank-separated; empty: always
  std::string_view where;        // the work happens…
  std::string_view instead;
};
constexpr Wrapper kWrappers[] = {
    {"docker", "run exec compose start", "in a container", "docker run … tbprof run -- COMMAND"},
    {"podman", "run exec start", "in a container", "podman run … tbprof run -- COMMAND"},
    {"nerdctl", "run exec compose start", "in a container", "nerdctl run … tbprof run -- COMMAND"},
    {"kubectl", "exec run", "in a pod", "kubectl exec … -- tbprof run -- COMMAND"},
    {"oc", "exec rsh run", "in a pod", "oc exec … -- tbprof run -- COMMAND"},
    {"lxc", "exec", "in a container", "lxc exec … -- tbprof run -- COMMAND"},
    {"lxc-attach", "", "in a container", "lxc-attach … -- tbprof run -- COMMAND"},
    {"machinectl", "shell login", "in a container", "machinectl shell … tbprof run -- COMMAND"},
    {"apptainer", "exec run shell", "in a container", "apptainer exec … tbprof run -- COMMAND"},
    {"singularity", "exec run shell", "in a container", "singularity exec … tbprof run -- COMMAND"},
    {"enroot", "start exec", "in a container", "enroot start … tbprof run -- COMMAND"},
    {"flatpak", "run", "in a sandbox", "flatpak run --command=tbprof … run -- COMMAND"},
    {"srun", "", "in tasks that Slurm starts", "srun … tbprof run -- COMMAND"},
    {"sbatch", "", "in a job that Slurm starts later", "tbprof run -- COMMAND inside the script"},
    {"salloc", "", "in an allocation", "srun … tbprof run -- COMMAND inside it"},
    {"qsub", "", "in a job that starts later", "tbprof run -- COMMAND inside the script"},
    {"bsub", "", "in a job that starts later", "bsub … tbprof run -- COMMAND"},
    {"flux", "run submit alloc batch", "in tasks that Flux starts", "flux run … tbprof run -- COMMAND"},
    {"aprun", "", "on compute nodes", "aprun … tbprof run -- COMMAND"},
    {"ssh", "", "on another machine", "ssh HOST tbprof run -- COMMAND"},
    {"mosh", "", "on another machine", "tbprof run -- COMMAND there"},
    {"pdsh", "", "on other machines", "pdsh … tbprof run -- COMMAND"},
    {"sudo", "", "with an environment that sudo cleans", "sudo … tbprof run -- COMMAND"},
    {"doas", "", "with an environment that doas cleans", "doas … tbprof run -- COMMAND"},
    {"su", "", "with another user's environment", "su … -c 'tbprof run -- COMMAND'"},
    {"runuser", "", "with another user's environment", "runuser … -c 'tbprof run -- COMMAND'"},
    {"pkexec", "", "with an environment that pkexec cleans", "pkexec … tbprof run -- COMMAND"},
    {"systemd-run", "", "in a unit that systemd starts", "systemd-run … tbprof run -- COMMAND"},
    {"systemctl", "start restart", "in a unit that systemd starts", "ExecStart=tbprof run -- COMMAND in the unit"},
    {"at", "", "in a job that atd starts later", "tbprof run -- COMMAND inside the job"},
    {"batch", "", "in a job that atd starts later", "tbprof run -- COMMAND inside the job"},
    {"tmux", "", "in a server, if one runs already", "tbprof run -- COMMAND inside it"},
    {"screen", "", "in a process of its own", "tbprof run -- COMMAND inside it"},
    {"ray", "submit job", "in workers of the cluster", "tbprof run -- ray start …, or in the job's entry point"},
};

// su and runuser pass the environment on, including LD_PRELOAD, unless they start a login shell. This holds only for
// root: for other users su is a setuid program, and the loader drops the library.
bool KeepsEnvironment(const std::vector<std::string>& command) {
  if (geteuid() != 0) return false;
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "-" || word == "--login") return false;
    if (word == "--") break;
    if (word.size() < 2 || word[0] != '-' || word[1] == '-') {
      const bool takes_next = word == "--command" || word == "--session-command" || word == "--shell" ||
                              word == "--group" || word == "--supp-group" || word == "--whitelist-environment" ||
                              word == "--user";
      i += takes_next ? 1 : 0;
      continue;
    }
    // Combined options such as `-lc`: the text after a letter that takes a value is that value.
    for (size_t at = 1; at < word.size(); ++at) {
      if (word[at] == 'l') return false;
      if (std::string_view("csgGwu").find(word[at]) == std::string_view::npos) continue;
      i += at + 1 == word.size() ? 1 : 0;
      break;
    }
  }
  return true;
}

}  // namespace

std::string WrapperAdvice(const std::vector<std::string>& command) {
  if (command.empty()) return "";
  const std::string_view name = BaseName(command[0]);
  for (const Wrapper& wrapper : kWrappers) {
    if (wrapper.name != name) continue;
    bool moves = wrapper.subcommands.empty();
    for (std::string_view subcommand : Split(wrapper.subcommands, ' ')) {
      // Options with values may precede the subcommand, so any word is accepted.
      moves = moves || std::find(command.begin() + 1, command.end(), subcommand) != command.end();
    }
    if (!moves) return "";
    if ((name == "su" || name == "runuser") && KeepsEnvironment(command)) return "";
    return StrCat("`", name, "` does its work ", wrapper.where,
                  ", where nothing is recorded; instead: ", wrapper.instead);
  }
  return "";
}

}  // namespace tbprof
