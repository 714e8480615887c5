// SPDX-License-Identifier: Apache-2.0
#include "launcher/capture/capture_targets.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/str_join.h"
#include "launcher/base/text.h"
#include "launcher/capture/profiler_client.h"
#include "wire/ranks.h"
#include "writer/base/parse_number.h"
#include "writer/base/scoped.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

std::string SessionList(const std::vector<FoundSession>& sessions) {
  std::vector<std::string> names;
  names.reserve(sessions.size());
  for (const FoundSession& session : sessions) {
    names.push_back(StrCat(session.status.pid, " (run ", PrintableUtf8(session.status.run), ")"));
  }
  return absl::StrJoin(names, ", ");
}

CaptureTarget TargetOf(const FoundSession& session) {
  CaptureTarget target;
  target.session = session;
  const SessionStatus& status = session.status;
  target.host = status.host;
  target.pid = status.pid;
  target.rank = status.rank;
  target.world_size = status.world_size;
  target.sure_rank = status.sure_rank;
  target.ranks = status.ranks;
  target.name = StrCat("process ", status.pid);
  return target;
}

CaptureTarget TargetOf(const std::string& address) {
  CaptureTarget target;
  target.address = address;
  target.name = PrintableUtf8(address);
  return target;
}

// Reads an endpoints file. Returns null if the file is unusable, or if another user may have written it.
nlohmann::json ReadEndpoints(int directory, const char* name, uid_t owner_of_logdir) {
  constexpr off_t kMaxBytes = 64 << 10;
  const ScopedFd file(openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat facts;
  if (!file.valid() || fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size > kMaxBytes ||
      (!IsTrustedOwner(facts.st_uid) && facts.st_uid != owner_of_logdir)) {
    return nullptr;
  }
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  if (!ReadAll(file.get(), &text, name).ok()) return nullptr;
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// The target that an endpoints file names; nullopt if it is in `local`, dead or unusable.
std::optional<CaptureTarget> EndpointOf(const nlohmann::json& json, const std::set<int>& local) {
  if (!json.is_object() || !json.contains("addresses") || !json["addresses"].is_array()) return std::nullopt;
  const auto text = [&](const char* name) {
    return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : std::string();
  };
  const auto number = [&](const char* name) {
    return json.contains(name) && json[name].is_number_integer() ? json[name].get<int>() : -1;
  };
  const std::string host = HostNameFrom(text("host"));
  const bool here = host == HostName();
  const int pid = number("pid");
  // The launcher was killed; a process that now listens on its port does not belong to this run.
  if (here && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) return std::nullopt;
  if (here && local.count(pid) != 0) return std::nullopt;
  for (const auto& word : json["addresses"]) {
    if (!word.is_string()) continue;
    std::string address = word.get<std::string>();
    const bool loopback = address.starts_with("127.") || address.starts_with("[::1]");
    if (loopback && !here) continue;
    // A wildcard address is replaced by the machine's name.
    if (address.starts_with("0.0.0.0:") || address.starts_with("[::]:")) {
      address = StrCat(host, address.substr(address.rfind(':')));
    }
    if (!CheckAddress(address).ok()) continue;
    CaptureTarget target = TargetOf(address);
    target.host = host;
    target.pid = pid;
    target.rank = number("rank");
    target.world_size = number("world_size");
    target.sure_rank = json.contains("sure_rank") && json["sure_rank"] == true;
    target.ranks = text("ranks");
    return target;
  }
  return std::nullopt;
}

// The targets in the endpoints files of a run in a shared log directory. `local`: pids of this machine's sessions that
// are already targets.
std::vector<CaptureTarget> EndpointsOf(const std::string& logdir, const std::string& run, const std::set<int>& local) {
  std::vector<CaptureTarget> targets;
  struct stat owner;
  const absl::StatusOr<LogDirectory> held = LogDirectory::Open(logdir);
  if (!held.ok() || fstat(held->fd.get(), &owner) != 0 || run.find('/') != std::string::npos) return targets;
  ForEachEntry(held->fd.get(), [&](const char* hidden) {
    if (!IsHiddenDirectory(hidden)) return;
    const absl::StatusOr<ScopedFd> directory =
        OpenBeneath(held->fd.get(), StrCat(hidden, "/endpoints/", run), O_RDONLY | O_DIRECTORY);
    if (!directory.ok()) return;
    ForEachEntry(directory->get(), [&](const char* name) {
      if (!std::string_view(name).ends_with(".endpoints.json")) return;
      std::optional<CaptureTarget> target = EndpointOf(ReadEndpoints(directory->get(), name, owner.st_uid), local);
      if (target.has_value()) targets.push_back(*std::move(target));
    });
  });
  std::sort(targets.begin(), targets.end(), [](const CaptureTarget& a, const CaptureTarget& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.address < b.address;
  });
  return targets;
}

// Sets the file stems and names in messages: by host and rank if known.
void Name(std::vector<CaptureTarget>* targets) {
  std::map<std::string, int> of_host;
  for (const CaptureTarget& target : *targets) ++of_host[target.host];
  std::set<std::string> taken;
  for (CaptureTarget& target : *targets) {
    const bool has_rank = target.rank >= 0 && target.sure_rank;
    if (target.host.empty()) {
      target.stem = StemOfAddress(target.address);
    } else if (has_rank) {
      target.stem = StrCat(target.host, "_r", target.rank);
    } else {
      target.stem = of_host[target.host] == 1 ? target.host : StrCat(target.host, "_", target.pid);
    }
    const std::string wanted = target.stem;
    for (int i = 2; !taken.insert(target.stem).second; ++i) target.stem = StrCat(wanted, "_", i);
    if (target.rank >= 0) target.name = StrCat("rank ", target.rank, " (", target.name, ")");
  }
}

}  // namespace

std::vector<int> CaptureTargets::MissingRanks() const {
  int world = -1;
  std::string ranks;
  if (!whole_run) return {};
  for (const CaptureTarget& target : all) {
    // A target of unknown rank may be any of the ranks.
    if (target.rank < 0) return {};
    world = std::max(world, std::min(target.world_size, kMaxWorld));
    ranks = target.ranks;
  }
  RankChoice choice;
  if (world <= 1 || !ParseRankChoice(ranks.c_str(), &choice) || !IsByNumberAlone(choice, world)) return {};
  std::vector<int> missing;
  for (int rank = 0; rank < world; ++rank) {
    const bool there = std::any_of(all.begin(), all.end(), [&](const CaptureTarget& t) { return t.rank == rank; });
    if (!there && IsChosen(choice, {.rank = rank, .local_rank = -1, .world_size = world})) missing.push_back(rank);
  }
  return missing;
}

absl::StatusOr<CaptureTargets> FindCaptureTargets(const std::vector<std::string>& operands, const std::string& logdir) {
  CaptureTargets targets;
  std::vector<std::string> words;
  for (const std::string& operand : operands) {
    for (const std::string_view word : Split(operand, ',')) {
      if (!Strip(word).empty()) words.emplace_back(Strip(word));
    }
  }
  const auto add = [&](CaptureTarget target) {
    const bool known = std::any_of(targets.all.begin(), targets.all.end(), [&](const CaptureTarget& other) {
      return other.address == target.address && other.session.socket == target.session.socket;
    });
    if (!known) targets.all.push_back(std::move(target));
  };
  const bool by_address = std::all_of(words.begin(), words.end(),
                                      [](const std::string& word) { return word.find(':') != std::string::npos; });
  if (by_address && !words.empty()) {
    for (std::string& word : words) {
      if (word.starts_with("grpc://")) word.erase(0, strlen("grpc://"));
      if (const absl::Status status = CheckAddress(word); !status.ok()) return status;
      add(TargetOf(word));
    }
    Name(&targets.all);
    return targets;
  }
  const std::vector<FoundSession> sessions = FindSessions();
  if (words.empty()) {
    if (sessions.size() != 1) {
      return InvalidArgument(sessions.empty()
                                 ? "no `tbprof run` of this user is running on this machine; for another one name its "
                                   "port: tbprof capture HOST:PORT"
                                 : StrCat("which one? tbprof capture PID, with one of ", SessionList(sessions)));
    }
    add(TargetOf(sessions[0]));
  }
  for (const std::string& word : words) {
    const std::optional<int> number = ParseNumber<int>(word);
    bool found = false;
    std::set<int> local;
    std::set<std::string> logdirs = {logdir};
    for (const FoundSession& session : sessions) {
      const SessionStatus& status = session.status;
      const bool its_pid =
          number && (status.pid == *number || std::ranges::find(status.pids, *number) != status.pids.end());
      if (!its_pid && status.run != word) continue;
      found = true;
      local.insert(status.pid);
      if (!status.logdir.empty()) targets.logdir = status.logdir;
      if (status.run == word) {
        targets.whole_run = true;
        if (!status.logdir.empty()) logdirs.insert(status.logdir);
      }
      add(TargetOf(session));
    }
    for (const std::string& directory : logdirs) {
      for (CaptureTarget& target : EndpointsOf(directory, word, local)) {
        found = targets.whole_run = true;
        add(std::move(target));
      }
    }
    if (found) continue;
    return InvalidArgument(
        StrCat("`", PrintableUtf8(word), "` is no HOST:PORT, and no `tbprof run` of this user on this machine ",
               number ? "has that process" : "has that run",
               sessions.empty() ? "; none is running here" : StrCat("; there is ", SessionList(sessions)),
               number && kill(*number, 0) == 0 ? StrCat("; tbprof attach ", *number, " samples it nevertheless") : ""));
  }
  std::stable_sort(targets.all.begin(), targets.all.end(),
                   [](const CaptureTarget& a, const CaptureTarget& b) { return a.rank < b.rank; });
  Name(&targets.all);
  return targets;
}

}  // namespace tbprof
