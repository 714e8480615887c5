// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/sides.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/gate/baseline_store.h"
#include "writer/base/scoped.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr size_t kMostRuns = 1000;
constexpr std::string_view kRuns = "/plugins/profile";

std::vector<std::string> RunsOf(const std::string& logdir) {
  std::vector<std::string> runs;
  const std::string above = StrCat(logdir, kRuns);
  const ScopedDirectory listing(opendir(above.c_str()));
  if (listing == nullptr) return runs;
  while (const dirent* entry = readdir(listing.get())) {
    const std::string path = StrCat(above, "/", entry->d_name);
    struct stat facts;
    if (entry->d_name[0] != '.' && stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) runs.push_back(path);
  }
  std::ranges::sort(runs);
  return runs;
}

bool IsWhole(const RunNumbers& run) { return KindOfWindow(run.identity) == WindowKind::kWhole; }

// Adds the complete runs of a log directory: no captures, no parts of a run, no runs that are still active.
absl::Status AddRuns(const std::vector<std::string>& paths, std::optional<int64_t> rank, Side* side) {
  std::vector<RunNumbers> found;
  for (const std::string& path : paths) {
    absl::StatusOr<RunNumbers> run = ReadRunNumbers(path, rank);
    if (!run.ok() && absl::IsNotFound(run.status())) continue;  // a run of another tool, or one being written
    if (!run.ok()) return run.status();
    if (!run->running && KindOfWindow(run->identity) != WindowKind::kCapture) found.push_back(*std::move(run));
  }
  const bool has_whole = std::ranges::any_of(found, IsWhole);
  for (RunNumbers& run : found) {
    if (!has_whole || IsWhole(run) || !run.unfit.empty()) side->runs.push_back(std::move(run));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Side> ReadSide(const std::vector<std::string>& paths, std::optional<int64_t> rank,
                              const std::string& store, const std::string& logdir) {
  Side side;
  for (const std::string& path : paths) {
    const size_t before = side.runs.size();
    if (path.starts_with(kBaselinePrefix)) {
      absl::StatusOr<Side> baseline = LoadBaseline(store, path.substr(kBaselinePrefix.size()));
      if (!baseline.ok()) return baseline.status();
      for (RunNumbers& run : baseline->runs) side.runs.push_back(std::move(run));
      continue;
    }
    if (const std::vector<std::string> runs = RunsOf(path); !runs.empty()) {
      if (const absl::Status status = AddRuns(runs, rank, &side); !status.ok()) return status;
      if (side.runs.size() > before) continue;
      return absl::NotFoundError(StrCat(PrintableUtf8(path), ": no run in it has ended and is no capture"));
    }
    absl::StatusOr<RunNumbers> run = ReadRunNumbers(path, rank, logdir);
    if (!run.ok()) return run.status();
    if (run->damaged) return absl::DataLossError(run->unfit);
    side.runs.push_back(*std::move(run));
  }
  if (side.runs.size() > kMostRuns) {
    return absl::ResourceExhaustedError(
        StrCat(side.runs.size(), " runs on a side; at most ", kMostRuns, " are compared"));
  }
  std::ranges::stable_sort(side.runs, {}, &RunNumbers::start_unix_ns);
  return side;
}

}  // namespace tbprof
