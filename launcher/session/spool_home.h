// SPDX-License-Identifier: Apache-2.0
//
// Where a session's spool lies: chooses the directory, makes the file, finds it again, removes it.
//
//   SpoolHome home;
//   absl::StatusOr<ScopedFd> file = home.Make(config, nonce);
//   ... home.Find(file->get()) ...               // its directory may have been renamed since
//   home.Remove(file->get());
//
// Memory is the target's: a spool there could end it. A file server may hang, and is slow. Where the log directory is
// one of the two, the spool is on a disk of this machine, and the log directory's hidden one has a link for `recover`.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_SESSION_SPOOL_HOME_H_
#define TBPROF_LAUNCHER_SESSION_SPOOL_HOME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/base/scoped.h"
#include "launcher/session/session_config.h"
#include "launcher/session/spool_writer.h"

namespace tbprof {

// A directory in one that others may use, too: removed again when it is empty.
struct MadeDirectory {
  // Fails, as it should, while another session has something there.
  void Remove() const;
  ScopedFd parent;
  std::string name;
};

struct SpoolDirectory {
  std::string path;
  ScopedFd fd;
  bool in_memory = false;
  MadeDirectory made;
};

// The hidden directory in the log directory. `logdir_fd` -1: opened by its path.
absl::StatusOr<SpoolDirectory> OpenLogdirsDirectory(const std::string& logdir, int logdir_fd);

class SpoolHome {
 public:
  // Makes the spool, with its header; it is locked while the descriptor is open.
  absl::StatusOr<ScopedFd> Make(const SessionConfig& config, uint64_t nonce);
  // How it is to be filled.
  SpoolPlan Plan(const SessionConfig& config) const;

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }
  // What its path led to when it was made. -1: the directory was removed.
  int directory() const { return removed() ? -1 : directory_.get(); }
  ScopedFd OpenDirectory() const;  // another descriptor of it
  uint64_t limit() const { return limit_; }
  bool in_memory() const { return in_memory_; }

  // Where `file` is by now: its directory may have been renamed or removed since.
  const std::string& Find(int file);
  bool removed() const { return path_.starts_with("/proc/"); }
  void Remove(int file);

 private:
  static absl::StatusOr<SpoolDirectory> OpenNamedDirectory(const std::string& path);
  absl::StatusOr<SpoolDirectory> OpenSpoolDirectory(const SessionConfig& config);

  std::string path_, name_, link_;
  ScopedFd directory_;
  // Where the spool is elsewhere, the logdir's hidden directory has a link to it: `recover` looks there.
  ScopedFd link_directory_;
  std::vector<MadeDirectory> made_directories_;
  uint64_t limit_ = 0;
  bool in_memory_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SPOOL_HOME_H_
