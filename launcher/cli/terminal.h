// SPDX-License-Identifier: Apache-2.0
//
// tbprof's output: lines on stderr with the prefix `tbprof: `, each one write(2), so that they do not mix with the
// target's lines. stdout gets only output that the user requested by name (such as help, --version, config).
//
//   Terminal terminal(options);
//   terminal.Print("recording ...");
//   terminal.Error("cannot write /logs: Permission denied");
//   Progress progress(&terminal, "converting");
//   progress.Update(done, total);
//
// Process: launcher and converter. Thread-safe: a line is one system call, nothing is buffered.
#ifndef TBPROF_LAUNCHER_CLI_TERMINAL_H_
#define TBPROF_LAUNCHER_CLI_TERMINAL_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "launcher/cli/options.h"
#include "writer/base/scoped.h"

namespace tbprof {

class Terminal {
 public:
  // Writes to descriptor 2, without a log file: for errors before the options are known.
  Terminal();
  // Follows --quiet, --log-file, TBPROF_LOG=debug, NO_COLOR. A log file that can't be opened is reported and not used.
  explicit Terminal(const Options& options);
  // For tests: lines go to `fd`, which the caller owns.
  Terminal(int fd, bool quiet, bool color, int width);

  void Print(std::string_view line);  // not with --quiet
  void Warn(std::string_view line);   // not with --quiet
  void Error(std::string_view line);  // always
  void Debug(std::string_view line);  // TBPROF_LOG=debug, and always in the log file

  void SetQuiet() { quiet_ = true; }  // from now on as with --quiet

  bool color() const { return color_; }
  bool interactive() const { return interactive_; }  // descriptor 2 is a terminal
  bool quiet() const { return quiet_; }
  int width() const;  // columns; 100 if unknown

 private:
  friend class Progress;
  void Line(std::string_view style, std::string_view line, bool show);
  bool IsMidLine() const;
  void Raw(std::string_view bytes);

  int fd_ = 2;
  ScopedFd log_file_;
  bool quiet_ = false;
  bool debug_ = false;
  bool color_ = false;
  bool interactive_ = false;
  int fixed_width_ = 0;
};

// Shown only for work that takes over 2 s: a bar on a terminal, elsewhere one line every 10 s. One thread.
class Progress {
 public:
  Progress(Terminal* terminal, std::string what) : Progress(terminal, std::move(what), absl::Now()) {}
  Progress(Terminal* terminal, std::string what, absl::Time start);
  ~Progress() { Finish(); }
  void Update(uint64_t done, uint64_t total) { Update(done, total, absl::Now()); }
  void Update(uint64_t done, uint64_t total, absl::Time now);
  void Finish();  // clears the bar

 private:
  Terminal* terminal_;
  std::string what_;
  absl::Time start_;
  absl::Time last_shown_ = absl::InfinitePast();
  bool bar_shown_ = false;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CLI_TERMINAL_H_
