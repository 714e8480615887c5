// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_source.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/check/file_content.h"
#include "writer/base/file_window.h"
#include "writer/base/saturating.h"
#include "writer/base/scoped.h"
#include "writer/base/utf8.h"
#include "writer/spool/spool.h"

namespace tbprof {
namespace {

constexpr size_t kMostEntries = 100'000;
constexpr std::string_view kProfileSuffix = ".xplane.pb", kSummaryName = "summary.json",
                           kSummarySuffix = ".summary.json", kSpoolSuffix = ".spool", kRuns = "/plugins/profile";

absl::Status Failed(const std::string& path, std::string_view what) {
  return absl::NotFoundError(StrCat(PrintableUtf8(path), ": ", what));
}

bool IsDirectory(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

std::vector<std::string> Entries(const std::string& directory) {
  std::vector<std::string> names;
  const ScopedDirectory listing(opendir(directory.c_str()));
  if (listing == nullptr) return names;
  while (const dirent* entry = readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && names.size() < kMostEntries) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsSummaryName(std::string_view name) { return name == kSummaryName || name.ends_with(kSummarySuffix); }

void AddFiles(const std::string& run, ReportSource* source) {
  source->run = run;
  for (const std::string& name : Entries(run)) {
    if (IsSummaryName(name)) source->summaries.push_back(StrCat(run, "/", name));
    if (name.ends_with(kProfileSuffix)) source->profiles.push_back(StrCat(run, "/", name));
  }
}

int64_t NewestFile(const ReportSource& run) {
  int64_t newest = INT64_MIN;
  for (const std::vector<std::string>* files : {&run.summaries, &run.profiles}) {
    for (const std::string& file : *files) {
      struct stat facts;
      if (stat(file.c_str(), &facts) != 0) continue;
      newest = std::max(newest, NanosecondsOf(facts.st_mtim));
    }
  }
  return newest;
}

absl::StatusOr<ReportSource> RunOf(const std::string& logdir, const std::string& run) {
  const std::string runs = StrCat(logdir, kRuns);
  ReportSource newest;
  int64_t newest_ns = INT64_MIN;
  size_t count = 0;
  for (const std::string& name : Entries(runs)) {
    if (!run.empty() && name != run) continue;
    ReportSource source{SourceKind::kLogdir, logdir, "", {}, {}};
    AddFiles(StrCat(runs, "/", name), &source);
    if (source.summaries.empty() && source.profiles.empty()) continue;
    ++count;
    // Of runs with the same time, the one with the later name.
    if (const int64_t at = NewestFile(source); at >= newest_ns) {
      newest_ns = at;
      newest = std::move(source);
    }
  }
  if (count > 0) return newest;
  if (!IsDirectory(logdir)) return Failed(logdir, strerror(errno != 0 ? errno : ENOENT));
  if (run.empty()) return Failed(logdir, "no run with a profile below plugins/profile; what is in it: tbprof check");
  return Failed(StrCat(runs, "/", run), "no such run, or no profile in it");
}

absl::StatusOr<ReportSource> DirectorySource(std::string path, const std::string& run) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (IsDirectory(StrCat(path, kRuns))) return RunOf(path, run);
  // Users give this path by mistake.
  if (path.ends_with(kRuns)) return RunOf(path.substr(0, path.size() - kRuns.size()), run);
  ReportSource source{SourceKind::kRun, path, "", {}, {}};
  AddFiles(path, &source);
  if (!source.summaries.empty() || !source.profiles.empty()) return source;
  return Failed(path, "neither a log directory (no plugins/profile) nor a run (no *.xplane.pb, no summary.json)");
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

bool BeginsAnObject(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && head[first] == '{';
}

// Detects the type by content, because any file name is possible.
absl::StatusOr<ReportSource> FileSource(const std::string& path) {
  const absl::StatusOr<OpenedFile> file = OpenRegularFile(path);
  if (!file.ok()) return file.status();
  FileWindow window(file->fd.get(), file->size);
  const std::string head(window.Read(0, kContentBytes));
  if (head.empty()) return Failed(path, "byte 0: the file is empty");
  ReportSource source{SourceKind::kProfile, path, DirectoryOf(path), {}, {path}};
  if (head.starts_with(std::string_view(kSpoolMagic, sizeof(kSpoolMagic))) || path.ends_with(kSpoolSuffix)) {
    source.kind = SourceKind::kSpool;
    source.profiles.clear();
    return source;
  }
  if (path.ends_with(kProfileSuffix)) {
    const std::string stem = path.substr(0, path.size() - kProfileSuffix.size());
    source.summaries = {StrCat(stem, kSummarySuffix), StrCat(source.run, "/", kSummaryName)};
    std::erase_if(source.summaries, [](const std::string& summary) {
      struct stat of_summary;
      return stat(summary.c_str(), &of_summary) != 0;
    });
    return source;
  }
  if (path.ends_with(".json") || BeginsAnObject(head)) {
    source = {SourceKind::kSummary, path, DirectoryOf(path), {path}, {}};
    return source;
  }
  const FileText text = TextOf(ContentByMagic(head));
  if (!text.what.empty()) return Failed(path, StrCat("byte 0: ", text.what, text.fix.empty() ? "" : "; ", text.fix));
  return source;  // a profile with another name; for any other file, the reader reports the first broken byte
}

}  // namespace

absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path) {
  OpenedFile file{ScopedFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), 0};
  if (!file.fd.valid()) return Failed(path, strerror(errno));
  struct stat facts;
  if (fstat(file.fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return Failed(path, "no regular file");
  file.size = static_cast<uint64_t>(facts.st_size);
  return file;
}

absl::StatusOr<ReportSource> FindSource(const std::string& operand, const std::string& logdir, const std::string& run) {
  if (operand.empty()) return DirectorySource(logdir, run);
  struct stat facts;
  if (operand.find('\0') == std::string::npos && stat(operand.c_str(), &facts) == 0) {
    return S_ISDIR(facts.st_mode) ? DirectorySource(operand, run) : FileSource(operand);
  }
  const int error = errno;
  const bool is_name = !logdir.empty() && operand.find('/') == std::string::npos && operand != "." && operand != "..";
  if (is_name && IsDirectory(StrCat(logdir, kRuns, "/", operand))) {
    absl::StatusOr<ReportSource> source = RunOf(logdir, operand);
    if (source.ok()) {
      source->kind = SourceKind::kRun;
      source->path = source->run;
    }
    return source;
  }
  return Failed(operand, is_name && error == ENOENT
                             ? StrCat("no such file, and no such run below ", PrintableUtf8(logdir), kRuns)
                             : std::string(strerror(error)));
}

}  // namespace tbprof
