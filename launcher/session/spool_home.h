// SPDX-License-Identifier: Apache-2.0
//
// The place of a session's spool: chooses the directory, creates the file, finds it again, removes it.
//
//   SpoolHome home;
//   absl::StatusOr<ScopedFd> file = home.Make(config, nonce);
//   ... home.Find(file->get()) ...               // its directory may have been renamed since
//   home.Remove(file->get());
//
// A log directory in memory is avoided, since the spool would take the memory that the target needs; one on a file
// server too, since it is slow and may hang. In both cases the spool goes to a local disk, and the log directory's
// hidden directory gets a link to it for `recover`.
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_SESSION_SPOOL_HOME_H_
#define TBPROF_LAUNCHER_SESSION_SPOOL_HOME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/session/session_config.h"
#include "launcher/session/spool_writer.h"
#include "writer/base/scoped.h"

namespace tbprof {

// A directory in a parent that others may also use; removed when it is empty.
struct MadeDirectory {
  // Fails, as intended, while another session still uses the directory.
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
  // Creates the spool with its header. The file is locked while the descriptor is open.
  absl::StatusOr<ScopedFd> Make(const SessionConfig& config, uint64_t nonce);
  // The limits and part sizes of the spool.
  SpoolPlan Plan(const SessionConfig& config) const;

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }
  // The directory in which the spool was created, as a descriptor. -1: the directory was removed.
  int directory() const { return removed() ? -1 : directory_.get(); }
  ScopedFd OpenDirectory() const;  // a new descriptor of directory()
  uint64_t limit() const { return limit_; }
  bool in_memory() const { return in_memory_; }

  // The current path of `file`: its directory may have been renamed or removed.
  const std::string& Find(int file);
  bool removed() const { return path_.starts_with("/proc/"); }
  void Remove(int file);

 private:
  static absl::StatusOr<SpoolDirectory> OpenNamedDirectory(const std::string& path);
  absl::StatusOr<SpoolDirectory> OpenSpoolDirectory(const SessionConfig& config);

  std::string path_, name_, link_;
  ScopedFd directory_;
  // The logdir's hidden directory, if it has a link to a spool elsewhere: `recover` searches there.
  ScopedFd link_directory_;
  std::vector<MadeDirectory> made_directories_;
  uint64_t limit_ = 0;
  bool in_memory_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SPOOL_HOME_H_
