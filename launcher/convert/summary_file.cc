// SPDX-License-Identifier: Apache-2.0
#include "launcher/convert/summary_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "absl/status/statusor.h"
#include "launcher/base/text.h"
#include "writer/base/file_ops.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// How a summary begins (writer/outputs/summary_json.cc).
constexpr std::string_view kBeginning = "{\n \"schema_version\": ", kSecondField = "\"tbprof_version\"";

// Also true of one that a full disk has cut.
bool BeginsAsSummary(std::string_view start) {
  if (start.size() <= kBeginning.size()) return kBeginning.starts_with(start);
  const bool is_short = start.size() < kBeginning.size() + kSecondField.size() + 16;
  return start.starts_with(kBeginning) && (is_short || start.find(kSecondField) != std::string_view::npos);
}

// `out.json` and `_r3` give `out_r3.json`.
std::string WithSuffix(const std::string& path, std::string_view suffix) {
  if (path.empty() || path.starts_with("/dev/") || path.starts_with("/proc/")) return path;
  const size_t name = path.rfind('/') + 1;  // 0 without a slash
  const size_t dot = path.rfind('.');
  const size_t at = dot == std::string::npos || dot <= name ? path.size() : dot;
  return StrCat(path.substr(0, at), suffix, path.substr(at));
}

}  // namespace

std::string SummaryPath(const Options& options, int rank) {
  return rank < 0 ? options.summary_json : WithSuffix(options.summary_json, StrCat("_r", rank));
}

std::string NumberedSummaryPath(const Options& options, size_t number) {
  return number < 2 ? options.summary_json : WithSuffix(options.summary_json, StrCat("_", number));
}

absl::Status CheckSummaryFile(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const absl::StatusOr<ScopedFd> file = OpenForReading(path);
  struct stat facts;
  if (!file.ok() || fstat(file->get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return absl::OkStatus();
  char start[256];
  const ssize_t size = pread(file->get(), start, sizeof start, 0);
  if (size <= 0 || BeginsAsSummary({start, static_cast<size_t>(size)})) return absl::OkStatus();
  return absl::AlreadyExistsError(StrCat("--summary-json=", PrintableUtf8(path),
                                         ": this file exists and is no summary of tbprof: it is not replaced"));
}

absl::Status WriteSummaryJson(const Options& options, const std::string& path, const std::string& text) {
  if (options.summary_json_fd >= 0) {
    return WriteAll(options.summary_json_fd, text, StrCat("descriptor ", options.summary_json_fd));
  }
  if (path.empty()) return absl::OkStatus();
  if (const absl::Status status = CheckSummaryFile(path); !status.ok()) return status;
  const absl::StatusOr<ScopedFd> file = OpenForWriting(path, O_TRUNC);
  absl::Status status = file.status();
  if (status.ok()) {
    fcntl(file->get(), F_SETFL, fcntl(file->get(), F_GETFL) & ~O_NONBLOCK);  // waits for a slow reader
    status = WriteAll(file->get(), text, path);
  }
  return status.ok() ? status : absl::Status(status.code(), StrCat("the summary: ", std::string(status.message())));
}

}  // namespace tbprof
