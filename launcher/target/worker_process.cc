// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/worker_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "writer/base/scoped.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr int kHigh = 32;  // above the descriptors that dup2 overwrites

}  // namespace

absl::Status NoDescriptor(const char* failure) {
  const int error = errno;
  rlimit limit;
  if ((error != EMFILE && error != EINVAL) || getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::ErrnoToStatus(error, failure);
  }
  return absl::ResourceExhaustedError(StrCat(failure, ": too few descriptors (`ulimit -Hn` is ", limit.rlim_max, ")"));
}

absl::StatusOr<pid_t> StartWorker(const std::vector<std::string>& arguments,
                                  const std::vector<WorkerDescriptor>& descriptors, const sigset_t& blocked,
                                  const char* failure) {
  std::vector<ScopedFd> high;
  for (const WorkerDescriptor& descriptor : descriptors) {
    high.emplace_back(fcntl(descriptor.fd, F_DUPFD_CLOEXEC, kHigh));
    // A worker cannot run without one of its descriptors.
    if (!high.back().valid()) return NoDescriptor(failure);
  }
  std::vector<std::string> words = {"tbprof"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (strncmp(*entry, "LD_PRELOAD=", 11) != 0 && strncmp(*entry, "GRPC_", 5) != 0) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (size_t i = 0; i < high.size(); ++i) {
    posix_spawn_file_actions_adddup2(&actions, high[i].get(), descriptors[i].as);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return absl::ErrnoToStatus(error, failure);
  return pid;
}

}  // namespace tbprof
