// SPDX-License-Identifier: Apache-2.0
//
// `tbprof merge`: merges the profiles of several runs into one run, aligned by the times of their recording.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "launcher/base/text.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/target/command_python.h"
#include "wire/ranks.h"
#include "writer/base/file_ops.h"
#include "writer/base/summary_format.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"
#include "writer/outputs/xspace_shift.h"

namespace tbprof {
namespace {

constexpr std::string_view kSuffix = ".xplane.pb";
constexpr uint64_t kMaxBytes = (uint64_t{1} << 31) - 1;  // protobuf's limit for a message
constexpr uint64_t kMaxSummaryBytes = 16 << 20;
// Captures of the same moment begin within 1 s of each other. For later ones the command prints a warning.
constexpr uint64_t kLateNs = 1'000'000'000;

struct Source {
  std::string path, stem;
  XspaceTimes times;
};

// Symbolic links of other users are not followed: they may lead to files that only the caller can read.
absl::StatusOr<std::string> ReadInput(const std::string& path, uint64_t most_bytes) {
  const absl::StatusOr<ScopedFd> file = OpenForReading(path);
  if (!file.ok()) return file.status();
  struct stat facts;
  if (fstat(file->get(), &facts) != 0) return absl::ErrnoToStatus(errno, StrCat("cannot read ", path));
  if (!S_ISREG(facts.st_mode) || static_cast<uint64_t>(facts.st_size) > most_bytes) {
    return InvalidArgument(StrCat(path, " is no file of at most ", most_bytes >> 20, " MiB"));
  }
  std::string bytes(static_cast<size_t>(facts.st_size), '\0');
  if (const absl::Status status = ReadAll(file->get(), &bytes, path); !status.ok()) return status;
  return bytes;
}

// The ranks that the summaries beside the profiles contain.
struct Ranks {
  std::set<int> there;
  int world_size = -1;
};

void ReadRanks(const std::string& directory, Ranks* ranks) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
    if (!entry.path().string().ends_with("summary.json")) continue;
    const absl::StatusOr<std::string> text = ReadInput(entry.path().string(), kMaxSummaryBytes);
    if (!text.ok()) continue;
    const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    if (json.contains("world_size") && json["world_size"].is_number_integer()) {
      ranks->world_size = std::min(std::max(ranks->world_size, json["world_size"].get<int>()), kMaxWorld);
    }
    if (!json.contains("ranks") || !json["ranks"].is_array()) continue;
    for (const auto& rank : json["ranks"]) {
      if (rank.is_number_integer()) ranks->there.insert(rank.get<int>());
    }
  }
}

class MergeCommand {
 public:
  MergeCommand(const Options& options, Terminal* terminal) : options_(options), terminal_(*terminal) {}

  int Main() {
    if (options_.operands.size() < 2) {
      return Usage(
          InvalidArgument("merge takes two run directories or more: tbprof merge LOGDIR/plugins/profile/RUN ..."));
    }
    absl::StatusOr<std::string> logdir = NormaliseLogdir(options_.logdir, WorkingDirectory());
    if (!logdir.ok()) return Usage(logdir.status());
    for (const std::string& operand : options_.operands) {
      if (const absl::Status status = Find(operand); !status.ok()) return Usage(status);
    }
    if (const absl::Status status = NameThem(); !status.ok()) return Usage(status);
    if (const absl::Status status = PrepareLogdir(*logdir, HostName(), options_.logdir_base); !status.ok()) {
      return Usage(status);
    }
    const absl::StatusOr<LogDirectory> held = LogDirectory::Open(*logdir, options_.logdir_base);
    if (!held.ok()) return Usage(held.status());
    PrintTimes();
    const absl::Status status = Write(*held);
    if (!status.ok()) return Usage(status);
    return 0;
  }

 private:
  int Usage(const absl::Status& status) {
    terminal_.Error(PrintableUtf8(std::string(status.message())));
    return kExitUsage;
  }

  absl::Status Find(const std::string& directory) {
    std::vector<std::string> paths;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
      if (entry.path().string().ends_with(kSuffix)) paths.push_back(entry.path().string());
    }
    if (error) return InvalidArgument(StrCat("cannot read the directory ", directory, ": ", error.message()));
    if (paths.empty()) {
      return InvalidArgument(
          StrCat(directory, " has no *.xplane.pb; the directories of runs lie in LOGDIR/plugins/profile"));
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      const absl::StatusOr<std::string> bytes = ReadInput(path, kMaxBytes);
      if (!bytes.ok()) return bytes.status();
      const absl::StatusOr<XspaceTimes> times = TimesOf(*bytes);
      if (!times.ok()) return InvalidArgument(StrCat(path, ": ", std::string(times.status().message())));
      std::string name = std::filesystem::path(path).filename().string();
      name.resize(name.size() - kSuffix.size());
      // HostNameFrom, because the name appears in the output, in TensorBoard's list of hosts and on terminals.
      sources_.push_back({path, HostNameFrom(name), *times});
    }
    ReadRanks(directory, &ranks_);
    return absl::OkStatus();
  }

  // Gives each file its own name, because TensorBoard distinguishes hosts by the names of the files.
  absl::Status NameThem() {
    std::set<std::string> taken;
    for (Source& source : sources_) {
      const std::string wanted = source.stem;
      for (int i = 2; !taken.insert(source.stem).second; ++i) source.stem = StrCat(wanted, "_", i);
      if (source.times.start_unix_ns == 0) continue;
      earliest_ = earliest_ == 0 ? source.times.start_unix_ns : std::min(earliest_, source.times.start_unix_ns);
    }
    return absl::OkStatus();
  }

  void PrintTimes() {
    constexpr size_t kMostLines = 16;  // of each kind
    size_t unknown = 0, printed = 0, lonely = 0;
    for (const Source& source : sources_) {
      if (source.times.start_unix_ns == 0) {
        if (++unknown > kMostLines) continue;
        terminal_.Warn(
            StrCat(PrintableUtf8(source.path), " has no time at which it was taken: it stays at the beginning"));
        continue;
      }
      const uint64_t later = source.times.start_unix_ns - earliest_;
      if (later >= kLateNs || ++printed <= kMostLines) PrintTime(source.stem, later);
    }
    // TensorBoard shows only steps that overlap with steps of other files.
    for (const Source& source : sources_) {
      if (!IsAlone(source) || ++lonely > kMostLines) continue;
      terminal_.Warn(StrCat(PrintableUtf8(source.stem),
                            " has no moment in common with any other: TensorBoard's step pages show the first file's"));
    }
    for (const size_t lines : {unknown, printed, lonely}) {
      if (lines > kMostLines) terminal_.Print(StrCat("and ", lines - kMostLines, " more files like these"));
    }
    PrintMissingRanks();
  }

  void PrintTime(const std::string& stem, uint64_t later) {
    constexpr uint64_t kMostPrinted = uint64_t{1} << 52;  // fits in int64_t as picoseconds
    const std::string line =
        StrCat(PrintableUtf8(stem), ": ", HumanTime(static_cast<int64_t>(std::min(later, kMostPrinted)) * 1000),
               " behind the first");
    if (later >= kLateNs) {
      terminal_.Warn(line);
    } else {
      terminal_.Print(line);
    }
  }

  bool IsAlone(const Source& source) const {
    return source.times.stop_unix_ns != 0 && std::none_of(sources_.begin(), sources_.end(), [&](const Source& other) {
             return &other != &source && other.times.start_unix_ns < source.times.stop_unix_ns &&
                    source.times.start_unix_ns < other.times.stop_unix_ns;
           });
  }

  void PrintMissingRanks() {
    if (ranks_.world_size < 2) return;
    constexpr int kMostNamed = 64;
    std::string missing;
    int count = 0;
    for (int rank = 0; rank < ranks_.world_size; ++rank) {
      if (ranks_.there.count(rank) != 0) continue;
      if (++count <= kMostNamed) StrAppend(&missing, missing.empty() ? "" : ", ", rank);
    }
    if (count > kMostNamed) StrAppend(&missing, " and ", count - kMostNamed, " more");
    if (!missing.empty()) {
      terminal_.Warn(StrCat("missing ranks: ", missing, " (of ", ranks_.world_size, ")"));
    }
  }

  absl::Status Write(const LogDirectory& logdir) {
    const std::string run = options_.run.empty() ? RunNameFor(time(nullptr)) : options_.run;
    auto directory = RunDirectory::Create(logdir.fd.get(), logdir.path, run, true, HostName(), -1);
    if (!directory.ok()) return directory.status();
    for (const Source& source : sources_) {
      const absl::StatusOr<std::string> bytes = ReadInput(source.path, kMaxBytes);
      if (!bytes.ok()) return bytes.status();
      XspaceShift shift;
      shift.host = source.stem;
      shift.start_unix_ns = earliest_;
      shift.later_ns = source.times.start_unix_ns == 0 ? 0 : source.times.start_unix_ns - earliest_;
      const absl::StatusOr<uint64_t> written = (*directory)->WriteBytes(StrCat(source.stem, kSuffix), [&](Sink& sink) {
        return ShiftXspace(*bytes, shift, sink);
      });
      if (!written.ok())
        return absl::Status(written.status().code(),
                            StrCat(source.path, ": ", std::string(written.status().message())));
    }
    absl::StatusOr<std::vector<RunDirectory::File>> files = (*directory)->Publish();
    if (!files.ok()) return files.status();
    terminal_.Print(StrCat(PrintableUtf8((*directory)->path()), "  ", files->size(), " profiles"));
    terminal_.Print(
        StrCat("view: ", ShellQuoted(ViewerCommand(CurrentEnvironment())), " --logdir ", ShellQuoted(logdir.path)));
    return absl::OkStatus();
  }

  const Options& options_;
  Terminal& terminal_;
  std::vector<Source> sources_;
  Ranks ranks_;
  uint64_t earliest_ = 0;
};

}  // namespace

int CommandMerge(const Options& options) {
  Terminal terminal(options);
  try {
    return MergeCommand(options, &terminal).Main();
  } catch (const std::bad_alloc&) {
    terminal.Error("the profiles need more memory than there is");
    return kExitUsage;
  }
}

}  // namespace tbprof
