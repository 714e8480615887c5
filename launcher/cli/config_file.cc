// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "launcher/base/text.h"
#include "launcher/cli/option_layers.h"
#include "writer/base/file_ops.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

constexpr off_t kMaxConfigBytes = 1 << 20;
// Limits for ./tbprof.toml, which may be written to waste time and memory: the reader's cost grows faster than a line's
// length.
constexpr off_t kMaxProjectBytes = 64 << 10;
constexpr size_t kMaxProjectLine = 1000;
constexpr size_t kMaxProjectFaults = 8;
constexpr size_t kMaxWarning = 400;
constexpr int kMaxLinks = 8;
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// The origin of a file decides who may have written it.
enum class Origin {
  kNamed,    // the user has named it
  kProject,  // ./tbprof.toml: a cloned repository, a shared directory
  kUser,     // in the user's own directory
};

// ---- ownership of a file

// Mode bits that make a file of this origin untrusted, because other users could change it. In the user's own
// directories the group may be private, so the group bit is allowed there.
mode_t OtherWriters(Origin origin) { return origin == Origin::kUser ? S_IWOTH : S_IWGRP | S_IWOTH; }

std::string WhoWrites(const std::string& path, const struct stat& facts) {
  if (!IsTrustedOwner(facts.st_uid)) return StrCat(path, " belongs to uid ", facts.st_uid);
  return absl::StrFormat("others can write to %s (mode %04o)", path, facts.st_mode & 07777);
}

struct FoundFile {
  ScopedFd fd;
  std::string distrust;  // why the file is ignored; empty: it is used
};

// Checks every directory from the root to the one that contains the file.
class PathCheck {
 public:
  explicit PathCheck(Origin origin) : writers_(OtherWriters(origin)) {}

  absl::Status Visit(int fd, const std::string& path) {
    Judge(/*sticky_is_safe=*/true);
    path_ = path;
    seen_ = fstat(fd, &facts_) == 0;
    return absl::OkStatus();
  }
  // In the directory of the file a sticky bit does not suffice: another user may create a hard link to another
  // file of the caller there.
  std::string Finish() {
    Judge(/*sticky_is_safe=*/false);
    return distrust_;
  }

 private:
  void Judge(bool sticky_is_safe) {
    if (seen_ && distrust_.empty() && OthersCanWrite(facts_, sticky_is_safe, writers_)) {
      distrust_ = WhoWrites(path_, facts_);
    }
  }

  const mode_t writers_;
  std::string path_, distrust_;
  struct stat facts_ {};
  bool seen_ = false;
};

// Opens a file that the user did not name. std::nullopt: it does not exist.
std::optional<FoundFile> OpenFound(std::string directory, std::string name, Origin origin) {
  PathCheck check(origin);
  DirectoryWalk walk;
  walk.visit = [&](int fd, const std::string& path) { return check.Visit(fd, path); };
  for (int links = 0;; ++links) {
    const absl::StatusOr<ScopedFd> parent = OpenDirectoryTrusted(directory, walk);
    if (!parent.ok()) {
      if (!IsUntrusted(parent.status()) && !absl::IsPermissionDenied(parent.status())) return std::nullopt;
      struct stat hidden;
      const std::string path = StrCat(directory, "/", name);
      if (lstat(path.c_str(), &hidden) != 0) return std::nullopt;
      return FoundFile{ScopedFd(), std::string(parent.status().message())};
    }
    FoundFile found{ScopedFd(openat(parent->get(), name.c_str(), kReadFlags | O_NOFOLLOW)), ""};
    if (found.fd.get() >= 0) {
      found.distrust = check.Finish();
      return found;
    }
    if (errno == ENOENT) return std::nullopt;
    if (errno != ELOOP) {
      found.distrust = strerror(errno);
      return found;
    }
    const ScopedFd link(openat(parent->get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts;
    char target[PATH_MAX];
    const ssize_t size = readlinkat(link.get(), "", target, sizeof(target));
    if (origin != Origin::kUser || size <= 0 || links == kMaxLinks || fstat(link.get(), &facts) != 0 ||
        !IsTrustedOwner(facts.st_uid)) {
      found.distrust = "it is a symbolic link";
      return found;
    }
    // Follows the link: users keep their settings in a collection elsewhere and link to them.
    std::string path(target, static_cast<size_t>(size));
    if (path[0] != '/') path = StrCat(directory, "/", path);
    directory = path.substr(0, path.rfind('/') + 1);
    name = path.substr(path.rfind('/') + 1);
  }
}

// Returns the reason why an open file is not used; empty: it is used. Also applies to a file that the user named.
std::string WhyNoConfig(int fd, Origin origin) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return strerror(errno);
  if (!S_ISREG(facts.st_mode) || facts.st_size > kMaxConfigBytes) return "not a file of at most 1 MiB";
  if (origin == Origin::kNamed) return "";
  if (origin == Origin::kProject && facts.st_size > kMaxProjectBytes) return "larger than 64 KiB";
  if (!IsTrustedOwner(facts.st_uid) || (facts.st_mode & OtherWriters(origin)) != 0) return WhoWrites("it", facts);
  return "";
}

// ---- content of a file

absl::StatusOr<std::string> ReadWhole(int fd, const std::string& path) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return ErrnoStatus(errno, "cannot read", path);
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  if (const absl::Status done = ReadAll(fd, &text, path); !done.ok()) return done;
  return text;
}

// CLI11's reader truncates quoted text at `#`, so comments are removed here.
std::string WithoutComments(const std::string& text) {
  std::string plain;
  char quote = '\0';
  bool comment = false;
  for (char c : text) {
    if (c == '\n') {
      quote = '\0';
      comment = false;
    } else if (quote == '\0' && c == '#') {
      comment = true;
    } else if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    }
    if (!comment) plain.push_back(c);
  }
  return plain;
}

// Parses the text with CLI11. Its exceptions (std::out_of_range for garbage) are errors in the file.
absl::StatusOr<std::vector<CLI::ConfigItem>> Parse(const std::string& text, const std::string& path) {
  try {
    CLI::ConfigTOML reader;
    reader.comment('\x01');
    std::istringstream input(WithoutComments(text));
    return reader.from_config(input);
  } catch (const std::exception& error) {
    return UsageError(StrCat(path, ": ", error.what()));
  }
}

class ConfigReader {
 public:
  ConfigReader(const Subcommand& subcommand, const std::string& working_directory, ConfigFiles* files)
      : subcommand_(subcommand), working_directory_(working_directory), files_(*files) {
    for (const Subcommand& known : Subcommands()) {
      if (known.bit != 0) sections_.emplace_back(known.name);
    }
    std::erase(names_, "config");
  }

  absl::Status ReadNamed(const std::string& path) {
    const ScopedFd file(open(path.c_str(), kReadFlags));
    if (file.get() < 0 && (errno == ENOENT || errno == ENOTDIR)) {
      return UsageError(StrCat("no configuration file ", path));
    }
    if (file.get() < 0) return UsageError(StrCat("cannot read ", path, ": ", strerror(errno)));
    return Take(file.get(), path, Origin::kNamed);
  }

  absl::Status ReadFound(const std::string& directory, const std::string& name, Origin origin) {
    const std::string path = StrCat(directory, "/", name);
    std::optional<FoundFile> found = OpenFound(directory, name, origin);
    if (!found.has_value() || (found->fd.get() >= 0 && WasTaken(found->fd.get()))) return absl::OkStatus();
    if (found->distrust.empty()) found->distrust = WhyNoConfig(found->fd.get(), origin);
    if (found->distrust.empty()) return Take(found->fd.get(), path, origin);
    Warn(StrCat("ignored ", path, ": ", found->distrust, "; to use it: --config=", path));
    return absl::OkStatus();
  }

 private:
  // The named file may also be one of the files that are searched for.
  bool WasTaken(int fd) const {
    struct stat facts;
    return fstat(fd, &facts) == 0 &&
           std::find(taken_.begin(), taken_.end(), std::pair(facts.st_dev, facts.st_ino)) != taken_.end();
  }

  void Warn(std::string_view text) {
    const std::string line = PrintableUtf8(text);
    files_.warnings.push_back(line.size() <= kMaxWarning ? line : StrCat(TruncateUtf8(line, kMaxWarning), "…"));
  }

  absl::Status Take(int fd, const std::string& path, Origin origin) {
    struct stat facts;
    if (fstat(fd, &facts) == 0) taken_.emplace_back(facts.st_dev, facts.st_ino);
    if (const std::string why = WhyNoConfig(fd, origin); !why.empty()) {
      return UsageError(StrCat("cannot read ", path, ": ", why));
    }
    const absl::StatusOr<std::string> text = ReadWhole(fd, path);
    if (!text.ok()) return UsageError(std::string(text.status().message()));
    absl::Status status = Fill(*text, path, origin);
    if (status.ok() || origin != Origin::kProject) return status;
    Warn(StrCat(std::string(status.message()), "; the file is not used"));
    return absl::OkStatus();
  }

  absl::Status Fill(const std::string& text, const std::string& path, Origin origin) {
    const bool project = origin == Origin::kProject;
    if (project) {
      for (const std::string_view line : Split(text, '\n')) {
        if (line.size() > kMaxProjectLine) return UsageError(StrCat(path, " has a line of over 1000 bytes"));
      }
    }
    absl::StatusOr<std::vector<CLI::ConfigItem>> items = Parse(text, path);
    if (!items.ok()) return items.status();
    const OptionSource source = project ? OptionSource::kProjectFile : OptionSource::kConfigFile;
    OptionLayer general{source, path}, special{source, path};
    std::set<std::string> refused;
    size_t faults = 0;
    for (const CLI::ConfigItem& item : *items) {
      if (item.name == "++" || item.name == "--") continue;  // CLI11's marks for begin and end of a section
      const std::string section = absl::StrJoin(item.parents, ".");
      const absl::Status status = TakeItem(item, section, path, section.empty() ? &general : &special, &refused);
      if (status.ok()) continue;
      if (!project) return status;
      if (++faults > kMaxProjectFaults) return UsageError(StrCat(path, " has many faults"));
      Warn(std::string(status.message()));
    }
    if (!refused.empty()) {
      Warn(StrCat("ignored ", absl::StrJoin(refused, ", "), " of ", path,
                  ", which others may have written; to accept: --config=./tbprof.toml"));
    }
    if (!special.values.empty() || !general.values.empty()) files_.used.push_back(path);
    files_.layers.push_back(std::move(special));
    files_.layers.push_back(std::move(general));
    return absl::OkStatus();
  }

  absl::Status TakeItem(const CLI::ConfigItem& item, const std::string& section, const std::string& path,
                        OptionLayer* layer, std::set<std::string>* refused) {
    if (!section.empty() && std::find(sections_.begin(), sections_.end(), section) == sections_.end()) {
      return UsageError(StrCat(path, ": unknown section [", section, "]", DidYouMean(section, sections_)));
    }
    const std::string name = Replace(item.name, '_', '-');
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
      return UsageError(StrCat(path, ": unknown key ", item.name, DidYouMean(name, names_)));
    }
    const OptionRow& row = *FindRow(name);
    if ((!section.empty() && section != subcommand_.name) || (row.commands & subcommand_.bit) == 0) {
      return absl::OkStatus();
    }
    std::string value = absl::StrJoin(item.inputs, ",");
    if (layer->source == OptionSource::kProjectFile) {
      if (!MayComeFromProject(row, value)) {
        refused->emplace(row.name);
        return absl::OkStatus();
      }
      if (row.in_project == InProject::kOnlyBelow) {
        absl::StatusOr<std::string> below = Below(value);
        if (!below.ok()) return UsageError(StrCat(path, ": ", row.name, ": ", std::string(below.status().message())));
        value = *std::move(below);
      }
    }
    layer->values[name] = std::move(value);
    return absl::OkStatus();
  }

  // A cloned repository must not suppress the recording, write outside itself, reach the network, start a program or
  // hide actions of tbprof.
  static bool MayComeFromProject(const OptionRow& row, const std::string& value) {
    Options options;
    switch (row.in_project) {
      case InProject::kAllowed:
      case InProject::kOnlyBelow:
        return true;
      case InProject::kOnlyOn:
        options.record_argv = true;
        return !row.set(options, value).ok() || !options.record_argv;
      case InProject::kOnlyMore:
        // An invalid value gets its own error message.
        return !row.set(options, value).ok() || row.records_enough(options);
      case InProject::kNever:
        break;
    }
    return false;
  }

  // An absolute path below the working directory; no link leads out of it.
  absl::StatusOr<std::string> Below(const std::string& value) const {
    const std::string outside = StrCat("`", value, "` is not below ", working_directory_);
    for (const std::string_view part : Split(value, '/')) {
      if (part == "..") return InvalidArgument(outside);
    }
    if (PrintableUtf8(value) != value) return InvalidArgument(outside);
    const absl::StatusOr<std::string> path = NormaliseLogdir(value, working_directory_);
    if (!path.ok()) return path.status();
    const std::string base = working_directory_ == "/" ? "/" : StrCat(working_directory_, "/");
    if (!path->starts_with(base) || path->size() == base.size()) return InvalidArgument(outside);
    DirectoryWalk walk;
    walk.no_links_below = working_directory_;
    const absl::StatusOr<ScopedFd> directory = OpenDirectoryTrusted(*path, walk);
    if (!directory.ok() && !absl::IsNotFound(directory.status())) return directory.status();
    return path;
  }

  const Subcommand& subcommand_;
  const std::string& working_directory_;
  ConfigFiles& files_;
  std::vector<std::string> sections_;
  std::vector<std::string> names_ = RowNames(~0u);
  std::vector<std::pair<dev_t, ino_t>> taken_;
};

}  // namespace

absl::Status ReadConfigFiles(const Subcommand& subcommand, const std::string& named, const Environment& environment,
                             const std::string& working_directory, ConfigFiles* files) {
  ConfigReader reader(subcommand, working_directory, files);
  if (!named.empty()) {
    const std::string path = named[0] == '/' ? named : StrCat(working_directory, "/", named);
    if (absl::Status status = reader.ReadNamed(path); !status.ok()) return status;
  }
  if (absl::Status status = reader.ReadFound(working_directory, "tbprof.toml", Origin::kProject); !status.ok()) {
    return status;
  }
  const std::string_view home = Lookup(environment, "HOME").value_or("");
  const std::string_view xdg = Lookup(environment, "XDG_CONFIG_HOME").value_or("");
  if (!xdg.starts_with("/") && !home.starts_with("/")) return absl::OkStatus();
  const std::string directory = xdg.starts_with("/") ? StrCat(xdg, "/tbprof") : StrCat(home, "/.config/tbprof");
  return reader.ReadFound(directory, "config.toml", Origin::kUser);
}

}  // namespace tbprof
