// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "launcher/base/text.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr std::string_view kPrefix = "tbprof: ";
constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr absl::Duration kProgressAfter = absl::Seconds(2);
constexpr absl::Duration kBarEvery = absl::Milliseconds(200);
constexpr absl::Duration kLineEvery = absl::Seconds(10);

// Writes the line in one call, so that it stays whole. If a pipe or terminal takes only a part, writes the rest; gives
// up if it takes nothing, because a full non-blocking pipe must not block the launcher.
void WriteLine(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

// Makes one line of the text. ESC passes: tbprof's own colours use it; foreign text is escaped at its source.
std::string OneLine(std::string_view line) {
  std::string clean;
  clean.reserve(line.size());
  for (char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\x1b' && c != '\t') || byte == 0x7f) {
      char escaped[5];
      snprintf(escaped, sizeof(escaped), "\\x%02X", byte);
      clean += escaped;
    } else {
      clean.push_back(c);
    }
  }
  return clean;
}

std::string WithoutColor(std::string_view line) {
  std::string plain;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i = std::min(line.find_first_not_of("0123456789;", i + 2), line.size());
      continue;
    }
    plain.push_back(line[i]);
  }
  return plain;
}

bool ColorWanted() {
  const char* no_color = getenv("NO_COLOR");
  const char* term = getenv("TERM");
  return (no_color == nullptr || no_color[0] == '\0') && term != nullptr && strcmp(term, "dumb") != 0;
}

}  // namespace

Terminal::Terminal() : interactive_(isatty(2) == 1) { color_ = interactive_ && ColorWanted(); }

Terminal::Terminal(const Options& options) : Terminal() {
  quiet_ = options.quiet;
  const char* log = getenv("TBPROF_LOG");
  debug_ = log != nullptr && strcmp(log, "debug") == 0;
  if (options.log_file.empty()) return;
  absl::StatusOr<ScopedFd> log_file = OpenForWriting(options.log_file, O_APPEND);
  if (log_file.ok()) {
    log_file_ = std::move(*log_file);
    return;
  }
  // Another user may have prepared the file: it must not keep the command from running. Printed even with --quiet,
  // because the file would have had the lines.
  Error(StrCat("no log file: ", PrintableUtf8(std::string(log_file.status().message())), "; lines go to stderr only"));
}

Terminal::Terminal(int fd, bool quiet, bool color, int width)
    : fd_(fd), quiet_(quiet), color_(color), interactive_(color), fixed_width_(width) {}

int Terminal::width() const {
  if (fixed_width_ > 0) return fixed_width_;
  winsize size;
  if (interactive_ && ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
  return 100;
}

// Whether a file that gets the lines ends within a line: a progress bar of the program. Of a terminal or a pipe that is
// not known.
bool Terminal::IsMidLine() const {
  struct stat facts;
  if (fstat(fd_, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size <= 0) return false;
  const ScopedFd file(open(StrCat("/proc/self/fd/", fd_).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char last = '\n';
  return file.valid() && pread(file.get(), &last, 1, facts.st_size - 1) == 1 && last != '\n';
}

void Terminal::Raw(std::string_view bytes) { WriteLine(fd_, bytes); }

void Terminal::Line(std::string_view style, std::string_view line, bool show) {
  const std::string clean = OneLine(line);
  if (show) {
    const bool styled = color_ && !style.empty();
    WriteLine(fd_, StrCat(IsMidLine() ? "\n" : "", kPrefix, styled ? style : "", color_ ? clean : WithoutColor(clean),
                          styled ? "\x1b[0m" : "", "\n"));
  }
  if (log_file_.valid()) WriteLine(log_file_.get(), StrCat(kPrefix, WithoutColor(clean), "\n"));
}

void Terminal::Print(std::string_view line) { Line("", line, !quiet_); }
void Terminal::Warn(std::string_view line) { Line("\x1b[33m", line, !quiet_); }
void Terminal::Error(std::string_view line) { Line("\x1b[31m", line, true); }
void Terminal::Debug(std::string_view line) { Line("\x1b[2m", line, debug_ && !quiet_); }

Progress::Progress(Terminal* terminal, std::string what, absl::Time start)
    : terminal_(terminal), what_(std::move(what)), start_(start), last_shown_(start) {}

void Progress::Update(uint64_t done, uint64_t total, absl::Time now) {
  if (terminal_->quiet() || now - start_ < kProgressAfter) return;
  const bool bar = terminal_->interactive();
  if (now - last_shown_ < (bar ? kBarEvery : kLineEvery)) return;
  last_shown_ = now;
  const double share = total == 0 ? 0 : std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int percent = static_cast<int>(share * 100);
  std::string left;
  if (share > 0.01) {
    left = StrCat(", ", absl::ToInt64Seconds((now - start_) * ((1 - share) / share)) + 1, " s left");
  }
  if (!bar) {
    terminal_->Print(StrCat(what_, ": ", percent, " %", left));
    return;
  }
  const size_t cells = static_cast<size_t>(std::clamp(terminal_->width() - 60, 10, 30));
  const size_t full = static_cast<size_t>(share * static_cast<double>(cells));
  terminal_->Raw(StrCat(kClearLine, kPrefix, what_, " [", std::string(full, '#'), std::string(cells - full, '.'), "] ",
                        percent, " %", left));
  bar_shown_ = true;
}

void Progress::Finish() {
  if (bar_shown_) terminal_->Raw(kClearLine);
  bar_shown_ = false;
}

}  // namespace tbprof
