// SPDX-License-Identifier: Apache-2.0
//
// Making a profile from a spool, in a process of its own: bounded memory, first to go when memory runs out, and at a
// low priority while the command runs. Whatever a hostile target has written, it can only end that process.
//
//   auto conversion = Conversion::Start(request);
//   ... ppoll on (*conversion)->fd() ...
//   if ((*conversion)->Read()) { const ConversionResult& result = (*conversion)->result(); }
//
// Process: launcher, main thread; ConvertWorker is the other process.
#ifndef TBPROF_LAUNCHER_CONVERT_CONVERSION_H_
#define TBPROF_LAUNCHER_CONVERT_CONVERSION_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/base/deadline.h"
#include "launcher/base/scoped.h"
#include "launcher/cli/options.h"
#include "writer/logdir/logdir.h"
#include "writer/spool/spool.h"

namespace tbprof {

struct ConversionRequest {
  std::string spool;
  // Not -1: the spool is read as `spool_name` in this directory, the name `spool` is for messages.
  int spool_directory = -1;
  std::string spool_name;
  SpoolExtent extent;
  uint32_t window = 0;
  std::string logdir;        // as it was given
  std::string logdir_place;  // where it was when it was opened
  int logdir_fd = -1;        // what is written, is written beneath it; -1: opened by its path
  std::string run;
  bool run_exclusive = true;
  std::string host;
  uint64_t max_profile_size = 0;
  uint64_t max_reply_bytes = 0;  // of all its files together; 0: as many as there are
  std::string step_marker;       // empty: the session's
  std::vector<std::string> also;
  std::vector<std::string> warnings;
  bool recovered = false;
  bool wait_for_ranks = false;  // of other launchers, in the same run directory
  int rank_wait_ms = 0;
  int world_size = -1;  // as the launcher's scheduler says, -1: it does not
  uint64_t agreed_start_unix_ns = 0;
  bool durable = true;        // false: it is read and removed at once, and need not survive a power cut
  bool delivered = false;     // to a client, which puts its own name of this host before the names of the files
  bool summary_only = false;  // nothing is written: only the summary is wanted
  // Not -1: only the part of the window where these steps are; with summary_only, where they are.
  int64_t first_step = -1, last_step = -1;
  bool beside_command = false;  // it must not take the command's time
  bool on_request = false;      // somebody waits for it, even so
  bool summary_wanted =
      true;  // false: the summary in the run directory is enough (a thousand processes are 1 MB of it)
  // Of a run whose command has ended: how long tbprof took before it, and the monotonic time of its end; 0: neither.
  uint64_t before_command_ns = 0, command_end_ns = 0;
  bool color = false;
  int width = 100;
  bool full_summary = false;  // all tables, not the end block
};

// For `request`: written beneath `logdir`, which stays open while the conversion runs.
void SetLogdir(const LogDirectory& logdir, ConversionRequest* request);

struct ConversionResult {
  absl::Status status;
  std::vector<std::string> lines;  // the summary
  std::string run;
  std::string directory;
  std::vector<std::string> files;  // published, with their paths
  std::string summary_json;
  // Of ConversionRequest::last_step, from the window's beginning; -1: it has not been seen yet.
  int64_t steps_from_ns = -1, steps_to_ns = -1;
  int64_t newest_step = -1;
  std::string step_source;
};

class Conversion {
 public:
  static absl::StatusOr<std::unique_ptr<Conversion>> Start(const ConversionRequest& request);
  ~Conversion();  // kills the worker if it still runs

  int fd() const { return pipe_.get(); }
  pid_t pid() const { return pid_; }
  // Takes what the worker has said; true when it has finished. Never waits.
  bool Read();
  bool finished() const { return finished_; }
  // How long the log directory has been silent; zero while the worker does other things or has no CPU.
  absl::Duration Stalled();
  // From now on it is waited for: our own priority. Without CAP_SYS_NICE or RLIMIT_NICE it keeps the lowest.
  void RaisePriority();
  void Abandon();  // kills the worker; does not wait for one that cannot go
  uint64_t done() const { return done_; }
  uint64_t total() const { return total_; }
  const ConversionResult& result() const { return result_; }
  const ConversionRequest& request() const { return request_; }

 private:
  Conversion() = default;
  void TakeLine(const std::string& line);
  ConversionRequest request_;
  ConversionResult result_;
  pid_t pid_ = -1;
  ScopedFd pipe_;
  std::string buffer_;
  uint64_t done_ = 0, total_ = 0;
  bool has_result_ = false;
  bool finished_ = false;
  bool publishing_ = false;
  Patience silence_;
};

// The summary to where --summary-json wants it; nothing without that option.
absl::Status WriteSummaryJson(const Options& options, const std::string& text);

// Whether this process was started as a worker, and what it then does.
bool IsConvertWorker(int argc, char** argv);
int ConvertWorker();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CONVERT_CONVERSION_H_
