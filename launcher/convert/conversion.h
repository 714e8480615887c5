// SPDX-License-Identifier: Apache-2.0
//
// Makes a profile from a spool in a separate process: bounded memory, first victim when memory runs out, and low
// priority while the command runs. Data of a hostile target can at most end that process.
//
//   auto conversion = Conversion::Start(request);
//   ... ppoll on (*conversion)->fd() ...
//   if ((*conversion)->Read()) { const ConversionResult& result = (*conversion)->result(); }
//
// Process: launcher, main thread; ConvertWorker runs in the other process.
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
#include "launcher/cli/options.h"
#include "writer/base/scoped.h"
#include "writer/logdir/logdir.h"
#include "writer/spool/spool.h"

namespace tbprof {

struct ConversionRequest {
  std::string spool;
  // Not -1: the worker reads `spool_name` in this directory, and `spool` is the name in messages.
  int spool_directory = -1;
  std::string spool_name;
  SpoolExtent extent;
  uint32_t window = 0;
  std::string logdir;        // as given by the user
  std::string logdir_place;  // path of the log directory when it was opened
  int logdir_fd = -1;        // the worker writes beneath it; -1: the worker opens the log directory by path
  std::string run;
  bool run_exclusive = true;
  std::string host;
  uint64_t max_profile_size = 0;
  uint64_t max_reply_bytes = 0;  // limit for all files together; 0: no limit
  std::string step_marker;       // empty: the session's step marker
  std::vector<std::string> also;
  std::vector<std::string> warnings;
  bool recovered = false;
  bool wait_for_ranks = false;  // waits for ranks of other launchers in the same run directory
  int rank_wait_ms = 0;
  int world_size = -1;  // from the launcher's scheduler; -1: unknown
  uint64_t agreed_start_unix_ns = 0;
  bool durable = true;        // false: the files are read and removed at once, and need not survive a power cut
  bool delivered = false;     // to a client, which prefixes the file names with its own name for this host
  bool summary_only = false;  // writes no files and makes only the summary
  // Not -1: only the part of the window with these steps; with summary_only: only finds that part.
  int64_t first_step = -1, last_step = -1;
  bool beside_command = false;  // the command still runs: the worker must not take its CPU time
  bool on_request = false;      // a user waits for the result, even with beside_command
  bool summary_wanted = true;   // false: the summary in the run directory suffices (1 MB for a thousand processes)
  // For a run whose command has ended: tbprof's time before the command, and the monotonic time of the command's end;
  // 0: not set.
  uint64_t before_command_ns = 0, command_end_ns = 0;
  bool command_ended = false;  // the command's end closed the window; the spool has no exit status yet
  bool color = false;
  int width = 100;
  bool full_summary = false;  // all tables instead of the end block
};

// Makes `request` write beneath `logdir`, which must stay open while the conversion runs.
void SetLogdir(const LogDirectory& logdir, ConversionRequest* request);

struct ConversionResult {
  absl::Status status;
  std::vector<std::string> lines;  // the summary
  std::string run;
  std::string directory;
  std::vector<std::string> files;  // published files, with their paths
  std::string summary_json;
  // Bounds of the requested steps, from the window's beginning; -1: none of them was found yet.
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
  // Reads messages of the worker. True: it has finished. Never blocks.
  bool Read();
  bool finished() const { return finished_; }
  // How long the log directory has not responded; zero while the worker does other work or has no CPU.
  absl::Duration Stalled();
  // For a caller that waits: gives the worker the priority of this process. Without CAP_SYS_NICE or RLIMIT_NICE it
  // keeps the lowest priority.
  void RaisePriority();
  void Abandon();  // kills the worker; does not wait for one that cannot exit
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

// True: this process was started as a convert worker. ConvertWorker is the worker's main function.
bool IsConvertWorker(int argc, char** argv);
int ConvertWorker();

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CONVERT_CONVERSION_H_
