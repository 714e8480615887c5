// SPDX-License-Identifier: Apache-2.0
//
// The logdir as TensorBoard reads it: <logdir>/plugins/profile/<run>/<host>.xplane.pb. Names, probing, temporary files
// and publishing are handled only here.
//
// Process: launcher (probe, names) and converter (publish). Not thread-safe.
#ifndef TBPROF_WRITER_LOGDIR_LOGDIR_H_
#define TBPROF_WRITER_LOGDIR_LOGDIR_H_

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "writer/base/file_ops.h"
#include "writer/outputs/outputs.h"
#include "writer/outputs/published_file.h"

namespace tbprof {

// Makes the path absolute, normalises it (`.`/`..`/doubled slashes), and removes a trailing `plugins` or
// `plugins/profile`, which users append by mistake. A `scheme://` gives InvalidArgument with the two ways that work.
absl::StatusOr<std::string> NormaliseLogdir(const std::string& logdir, const std::string& working_directory);

// Creates the directory levels and tries a real create + write (on a file server: + fsync) + rename + unlink from
// <logdir>/.tbprof, where profiles are staged, to <logdir>/plugins/profile. The error contains the absolute path,
// cause, uid, owner and mode. Also writes `.gitignore` (in a logdir that it created) and the empty
// `events.out.tfevents.<seconds>.<host>.profile-empty` file once. On the way to the logdir, only links of the caller
// and root are followed. Below `no_links_below` (a prefix of the path, if not empty) and beneath the logdir, no link is
// followed.
absl::Status PrepareLogdir(const std::string& logdir, const std::string& host, const std::string& no_links_below = "");
absl::Status PrepareLogdir(ScopedFd logdir, const std::string& path, const std::string& host, bool made = false);

// The logdir, resolved once and held open: files published beneath the descriptor stay in the directory that was
// checked, whatever is renamed or linked later.
struct LogDirectory {
  ScopedFd fd;        // O_PATH
  std::string path;   // as given
  std::string place;  // without links, at the time of opening

  static absl::StatusOr<LogDirectory> Open(const std::string& path, const std::string& no_links_below = "");
};

// Opens <logdir>/.tbprof, which holds raw records and profiles that are not yet published; creates it (0755) if it is
// missing. If it cannot be protected from other users, or is not a directory, opens a `.tbprof-XXXXXX` instead. *name
// is set to the name. `fresh`: opens a `.tbprof-XXXXXX` at once.
absl::StatusOr<ScopedFd> OpenHiddenDirectory(int logdir, const std::string& path, std::string* name,
                                             bool fresh = false);
inline constexpr char kHiddenDirectory[] = ".tbprof";
bool IsHiddenDirectory(std::string_view name);

// `YYYY_MM_DD_HH_MM_SS`, local time: the format of every writer. TensorBoard lists the newest first.
std::string RunNameFor(time_t when);

// This machine's name, valid as a file name and for TensorBoard's `hosts` parameter: no `/ , :`, not a reserved word,
// valid UTF-8, not empty.
std::string HostName();
// Makes any text (a host named in a spool) valid in the same way.
std::string HostNameFrom(std::string_view text);

// How the files of several ranks of one launcher are named.
enum class RankNames {
  kHosts,   // each rank is a host of TensorBoard's list: <host>_r<rank>, also a single rank
  kClient,  // the first is <host>, the others <host>.r<rank>: a client prepends its own name of the host
};

// A capture's directory while it is being made. It appears under its final name only when Publish succeeds.
class RunDirectory {
 public:
  // `exclusive`: the run's name must be unused: `_2`, `_3`... is appended on collision. Otherwise (a name given by the
  // user) the directory is shared and the *file stem* is made unique: <host> becomes <host>_<pid>-<4 hex>. The rank, if
  // known, is appended to the stem: `_r<rank>`. `path` is the path of `logdir` in messages.
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Create(int logdir, const std::string& path,
                                                              const std::string& run, bool exclusive,
                                                              const std::string& host, int rank,
                                                              const std::vector<int>& further_ranks = {},
                                                              RankNames names = RankNames::kHosts);
  ~RunDirectory();  // removes files that were not published

  // `durable` false: published files need not survive a power cut, and nothing waits for the disk.
  void set_durable(bool durable) { durable_ = durable; }

  const std::string& run() const { return run_; }
  const std::string& path() const { return path_; }     // absolute final path of the directory
  int profile_fd() const { return profile_fd_.get(); }  // <logdir>/plugins/profile
  const std::string& host() const { return host_; }     // the file stem in use
  // The file stem of one of the ranks that were passed to Create.
  std::string HostOf(int rank) const;
  // `xplane.pb`, `r1.xplane.pb`: the part that a client appends to its name of the host. `stem` is HostOf(the first
  // rank).
  static std::string NameForClient(std::string_view file_name, std::string_view stem);

  // Writes one output, named after `timeline.host` (a result of HostOf), under a temporary name (never ending in
  // `.xplane.pb`), and verifies it. Nothing is visible yet: TensorBoard lists every directory of plugins/profile as a
  // run, so the files wait in <logdir>/.tbprof/staging. Returns the size in bytes; an output larger than `most_bytes`
  // is discarded.
  absl::StatusOr<uint64_t> Write(const Output& output, const Timeline& timeline, uint64_t most_bytes = UINT64_MAX);
  // Writes a file that was made elsewhere, e.g. on another machine: `fill` appends its bytes. It is not verified.
  absl::StatusOr<uint64_t> WriteBytes(const std::string& file_name, const std::function<absl::Status(Sink&)>& fill);
  // Writes text that is not in the table of outputs (summary.json). In a shared directory the name gets the prefix
  // `<stem>.`.
  absl::Status WriteText(const std::string& file_name, std::string_view text);
  // The same about a further rank; the name always gets the prefix, that of the rank's profile.
  absl::Status WriteTextOfRank(int rank, const std::string& file_name, std::string_view text);

  using File = PublishedFile;
  // Moves the files from `index` on to the front, before the files that were written earlier.
  void PutFirst(size_t index);
  // The files written so far, with their final paths: for a summary that is published with them.
  std::vector<File> written() const;
  // Fsyncs, then renames all files into place without replacing any (RENAME_NOREPLACE, else link + unlink).
  absl::StatusOr<std::vector<File>> Publish();

 private:
  RunDirectory() = default;
  struct Pending {
    std::string name;  // final name; in the staging directory it has the suffix `.tmp`
    File file;
    ScopedFd unsynced;  // to be fsynced before publishing; none: already done or not needed
  };
  absl::Status OpenStaging();
  absl::Status Reserve(const std::string& run);
  bool Taken() const;
  absl::StatusOr<uint64_t> WriteFile(const std::string& name, const Output* output, const Timeline* timeline,
                                     const std::function<absl::Status(Sink&)>& fill, uint64_t most_bytes);
  absl::Status SyncPending();
  absl::Status PublishDirectory();
  absl::Status PublishFiles();

  std::string logdir_, run_, path_, host_;
  int rank_ = -1;
  std::vector<int> further_ranks_;
  RankNames names_ = RankNames::kHosts;
  bool exclusive_ = false;
  bool published_ = false;
  bool durable_ = true;
  ScopedFd logdir_fd_;
  ScopedFd profile_fd_;         // <logdir>/plugins/profile
  ScopedFd hidden_fd_;          // <logdir>/.tbprof
  ScopedFd staging_parent_fd_;  // <logdir>/.tbprof/staging
  ScopedFd staging_fd_;         // this object's directory in it, locked during the object's lifetime
  std::string hidden_name_, staging_name_;
  std::vector<Pending> pending_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_LOGDIR_LOGDIR_H_
