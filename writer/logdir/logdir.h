// SPDX-License-Identifier: Apache-2.0
//
// The logdir as TensorBoard finds it: <logdir>/plugins/profile/<run>/<host>.xplane.pb. Everything about names,
// probing, temporary files and publishing is here and nowhere else.
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

// Absolute, normalised (`.`/`..`/doubled slashes), without a trailing `plugins` or `plugins/profile`, which users give
// by mistake. A `scheme://` is InvalidArgument with the two ways that work.
absl::StatusOr<std::string> NormaliseLogdir(const std::string& logdir, const std::string& working_directory);

// Makes the directory levels and tries a real create + write (on a file server: + fsync) + rename + unlink from
// <logdir>/.tbprof, where profiles are staged, to <logdir>/plugins/profile.
// The error has absolute path, cause, uid, owner and mode. Also writes `.gitignore` (in a logdir it made) and the
// empty `events.out.tfevents.<seconds>.<host>.profile-empty` file once.
// On the way to the logdir only links of the caller and root are followed, below `no_links_below` (a prefix of the
// path, if not empty) and beneath the logdir none.
absl::Status PrepareLogdir(const std::string& logdir, const std::string& host, const std::string& no_links_below = "");
absl::Status PrepareLogdir(FileDescriptor logdir, const std::string& path, const std::string& host, bool made = false);

// The logdir, resolved once and held: what is published beneath the descriptor stays in the directory that was checked,
// whatever is renamed or linked since.
struct LogDirectory {
  FileDescriptor fd;  // O_PATH
  std::string path;   // as it was given
  std::string place;  // without links, when it was opened

  static absl::StatusOr<LogDirectory> Open(const std::string& path, const std::string& no_links_below = "");
};

// <logdir>/.tbprof, where raw records and profiles on their way lie: made if missing, 0755. Where that cannot be kept
// from other users, or is no directory, a `.tbprof-XXXXXX`. *name becomes its name. `fresh`: such a one at once.
absl::StatusOr<FileDescriptor> OpenHiddenDirectory(int logdir, const std::string& path, std::string* name,
                                                   bool fresh = false);
inline constexpr char kHiddenDirectory[] = ".tbprof";
bool IsHiddenDirectory(std::string_view name);

// `YYYY_MM_DD_HH_MM_SS`, local time: what every writer uses, newest first in TensorBoard's list.
std::string RunNameFor(time_t when);

// This machine's name, fit for a file name and for TensorBoard's `hosts` parameter: no `/ , :`, not a reserved word,
// valid UTF-8, not empty.
std::string HostName();
// Any text (a host named in a spool) made fit in the same way.
std::string HostNameFrom(std::string_view text);

// How the files of several ranks of one launcher are distinguished.
enum class RankNames {
  kHosts,   // each is a host of TensorBoard's list: <host>_r<rank>, a single one as well
  kClient,  // the first is <host>, the others <host>.r<rank>: a client puts its own name of the host in front
};

// A capture's directory while it is being made. It appears under its final name only when Publish succeeds.
class RunDirectory {
 public:
  // `exclusive`: the name is ours alone: `_2`, `_3`... is appended on collision. Otherwise (a name given by the user)
  // the directory is shared and the *file stem* is made unique: <host> becomes <host>_<pid>-<4 hex>. Behind it stands
  // the rank wherever it is known, `_r<rank>`. `path` is what the directory that `logdir` holds is called in messages.
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Create(int logdir, const std::string& path,
                                                              const std::string& run, bool exclusive,
                                                              const std::string& host, int rank,
                                                              const std::vector<int>& further_ranks = {},
                                                              RankNames names = RankNames::kHosts);
  ~RunDirectory();  // removes what was not published

  // false: what is published need not survive a power cut, and no disk is waited for.
  void set_durable(bool durable) { durable_ = durable; }

  const std::string& run() const { return run_; }
  const std::string& path() const { return path_; }     // absolute final path of the directory
  int profile_fd() const { return profile_fd_.get(); }  // <logdir>/plugins/profile
  const std::string& host() const { return host_; }     // the file stem in use
  // The stem of the file of one of the ranks that Create was given.
  std::string HostOf(int rank) const;
  // `xplane.pb`, `r1.xplane.pb`: what a client appends to its name of the host. `stem` is HostOf(the first rank).
  static std::string NameForClient(std::string_view file_name, std::string_view stem);

  // Writes one output, named after `timeline.host`, which is a HostOf.
  // Under a temporary name (never ending in `.xplane.pb`), verifies it. Nothing visible
  // yet: TensorBoard takes every directory of plugins/profile for a run, so the files wait in <logdir>/.tbprof/staging.
  // Returns the bytes that it takes: where these are more than `most_bytes`, nothing is kept of it.
  absl::StatusOr<uint64_t> Write(const Output& output, const Timeline& timeline, uint64_t most_bytes = UINT64_MAX);
  // What was made elsewhere, e.g. on another machine: `fill` appends it. Not verified.
  absl::StatusOr<uint64_t> WriteBytes(const std::string& file_name, const std::function<absl::Status(Sink&)>& fill);
  // The same for text that is no row of the table (summary.json). In a shared directory the name gets `<stem>.` in
  // front.
  absl::Status WriteText(const std::string& file_name, std::string_view text);

  using File = PublishedFile;
  // Files from the given one on come before those that were written earlier.
  void PutFirst(size_t index);
  // What was written so far, with the paths that it will have: for a summary that is published along.
  std::vector<File> written() const;
  // Fsyncs, then renames everything into place without replacing anything (RENAME_NOREPLACE, else link + unlink).
  absl::StatusOr<std::vector<File>> Publish();

 private:
  RunDirectory() = default;
  struct Pending {
    std::string name;  // final; in the staging directory it has `.tmp` behind it
    File file;
    FileDescriptor unsynced;  // to be fsynced before it is published; none: it was, or need not be
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
  FileDescriptor logdir_fd_;
  FileDescriptor profile_fd_;         // <logdir>/plugins/profile
  FileDescriptor hidden_fd_;          // <logdir>/.tbprof
  FileDescriptor staging_parent_fd_;  // <logdir>/.tbprof/staging
  FileDescriptor staging_fd_;         // our directory in it, locked while we live
  std::string hidden_name_, staging_name_;
  std::vector<Pending> pending_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_LOGDIR_LOGDIR_H_
