// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/baseline_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

#include "absl/time/clock.h"
#include "launcher/base/paths.h"
#include "launcher/base/text.h"
#include "launcher/cli/options.h"
#include "writer/base/file_ops.h"
#include "writer/base/trusted_path.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// A process holds the lock only while it reads and writes a file: one that holds it longer hangs.
constexpr absl::Duration kLockWait = absl::Minutes(1);
constexpr absl::Duration kLockPoll = absl::Milliseconds(5);
constexpr std::string_view kSuffix = ".json", kTemporarySuffix = ".tmp";
constexpr char kLockFile[] = ".lock";
constexpr size_t kMostListed = 1000;

struct Store {
  std::string directory;  // absolute
  std::string file;       // name of the file; empty: one file per baseline
  std::string path;       // path as given by the user
};

absl::StatusOr<Store> StoreAt(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) return InvalidArgument("--store: no path");
  std::string absolute = path[0] == '/' ? path : JoinPath(WorkingDirectory(), path);
  while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  struct stat facts;
  const bool exists = stat(absolute.c_str(), &facts) == 0;
  const bool is_file = exists ? !S_ISDIR(facts.st_mode) : absolute.ends_with(kSuffix) && path.back() != '/';
  if (!is_file) return Store{absolute, "", path};
  const std::string parent = ParentOf(absolute);
  return Store{parent.empty() ? "/" : parent, std::string(BaseName(absolute)), path};
}

std::string FileOf(const Store& store, const std::string& name) {
  return store.file.empty() ? StrCat(name, kSuffix) : store.file;
}

absl::StatusOr<ScopedFd> OpenStore(const Store& store, bool make) {
  DirectoryWalk walk;
  walk.make = make;
  absl::StatusOr<ScopedFd> held = OpenDirectoryTrusted(store.directory, walk);
  if (!held.ok()) return held.status();
  ScopedFd directory(openat(held->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return ErrnoStatus(errno, "cannot open", PrintableUtf8(store.directory));
  return directory;
}

// Locks the directory, or a file in it where the file system does not support locks on directories (NFS).
absl::StatusOr<ScopedFd> LockStore(int directory, const std::string& path) {
  ScopedFd lock(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const absl::Time end = absl::Now() + kLockWait;
  bool is_file = false;
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) {
      if (absl::Now() > end) {
        return Unavailable(StrCat(PrintableUtf8(path), ": another process has had it locked for a minute"));
      }
      absl::SleepFor(kLockPoll);
    } else if (!is_file) {
      is_file = true;
      lock = ScopedFd(openat(directory, kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
      if (lock.get() < 0) return ErrnoStatus(errno, "cannot lock", PrintableUtf8(path));
    } else {
      return ErrnoStatus(errno, "cannot lock", PrintableUtf8(path));
    }
  }
  return lock;
}

// Returns NotFound if the file does not exist.
absl::StatusOr<std::vector<Baseline>> ReadFile(int directory, const std::string& name, const std::string& path) {
  const ScopedFd file(openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ELOOP) return InvalidArgument(StrCat(PrintableUtf8(path), ": a link, which is not followed"));
    if (errno == ENOENT) return absl::NotFoundError(StrCat(PrintableUtf8(path), ": no such file"));
    return ErrnoStatus(errno, "cannot read", PrintableUtf8(path));
  }
  struct stat facts;
  if (fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return InvalidArgument(StrCat(PrintableUtf8(path), ": no regular file"));
  }
  if (static_cast<uint64_t>(facts.st_size) > kMostBaselineBytes) {
    return absl::ResourceExhaustedError(StrCat(PrintableUtf8(path), ": ", facts.st_size >> 20,
                                               " MiB; baselines have at most ", kMostBaselineBytes >> 20));
  }
  std::string text(static_cast<size_t>(facts.st_size), '\0');
  if (absl::Status status = ReadAll(file.get(), &text, PrintableUtf8(path)); !status.ok()) return status;
  return BaselinesFromJson(text, path);
}

bool IsTemporary(std::string_view entry, const std::string& name) {
  return entry.starts_with(StrCat(".", name, ".")) && entry.ends_with(kTemporarySuffix) &&
         entry.size() == name.size() + 2 + 16 + kTemporarySuffix.size();
}

absl::Status ReplaceFile(int directory, const std::string& name, const std::string& text, const std::string& path) {
  // No other process writes here while this one has the lock, so these files are left over from killed processes.
  ForEachEntry(directory, [&](const char* entry) {
    if (IsTemporary(entry, name)) unlinkat(directory, entry, 0);
  });
  const std::string shown = PrintableUtf8(path);
  const std::string temporary = StrCat(".", name, ".", RandomHex(16), kTemporarySuffix);
  absl::StatusOr<ScopedFd> file = CreateFile(directory, temporary, shown);
  if (!file.ok()) return file.status();
  absl::Status status = WriteAll(file->get(), text, shown);
  if (status.ok()) status = Sync(file->get(), shown);
  if (status.ok() && renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) {
    status = ErrnoStatus(errno, "cannot write", shown);
  }
  if (!status.ok()) {
    unlinkat(directory, temporary.c_str(), 0);
    return status;
  }
  return Sync(directory, shown);
}

absl::Status CheckName(const std::string& name) {
  if (IsBaselineName(name)) return absl::OkStatus();
  const std::string shown = PrintableUtf8(name);
  return InvalidArgument(StrCat("`", TruncateUtf8(shown, 100), "` is no name of a baseline: letters, digits, `.`, `_` ",
                                "and `-`, at most 100, a letter or digit first"));
}

absl::Status NoSuchBaseline(const Store& store, const std::string& name, const std::vector<Baseline>& there) {
  std::vector<std::string> names;
  for (const Baseline& baseline : there) names.push_back(baseline.name);
  std::string text = StrCat("no baseline ", name, " in ", PrintableUtf8(store.path));
  const std::string near = NearestName(name, names);
  StrAppend(&text, near.empty() ? "" : StrCat("; did you mean ", near, "?"));
  StrAppend(&text, "; to make it: tbprof baseline save ", name, " RUN...");
  return absl::NotFoundError(text);
}

// Adds `saved` to the baselines of its file.
absl::StatusOr<SavedBaseline> Merge(const Baseline& saved, const SaveOptions& options, const std::string& path,
                                    std::vector<Baseline>* there) {
  const auto found = std::ranges::find_if(*there, [&](const Baseline& one) { return one.name == saved.name; });
  if (found == there->end()) {
    if (there->size() >= kMostBaselines) {
      return InvalidArgument(StrCat(PrintableUtf8(path), ": holds ", kMostBaselines, " baselines, which are the most"));
    }
    there->push_back({saved.name, 0, {}});
    std::ranges::stable_sort(*there, {}, &Baseline::name);
    return Merge(saved, options, path, there);
  }
  std::vector<RunNumbers>& runs = found->side.runs;
  if (!options.add) runs.clear();
  found->saved_unix_ns = saved.saved_unix_ns;
  SavedBaseline result;
  for (const RunNumbers& run : saved.side.runs) {
    // A run that is there twice would hide how much runs differ.
    result.again += std::erase_if(runs, [&](const RunNumbers& other) { return IsSameRun(run, other); });
    runs.push_back(run);
  }
  std::ranges::stable_sort(runs, {}, &RunNumbers::start_unix_ns);
  result.dropped = runs.size() - std::min({runs.size(), options.keep, kMostBaselineRuns});
  runs.erase(runs.begin(), runs.begin() + static_cast<ptrdiff_t>(result.dropped));
  result.runs = runs.size();
  return result;
}

}  // namespace

absl::StatusOr<SavedBaseline> SaveBaseline(const std::string& store_path, const std::string& name, const Side& side,
                                           const SaveOptions& options) {
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  if (side.runs.empty()) return InvalidArgument("no runs to save");
  const absl::StatusOr<Store> store = StoreAt(store_path);
  if (!store.ok()) return store.status();
  const absl::StatusOr<ScopedFd> directory = OpenStore(*store, /*make=*/true);
  if (!directory.ok()) return directory.status();
  const std::string file = FileOf(*store, name), path = JoinPath(store->directory, file);
  const absl::StatusOr<ScopedFd> lock = LockStore(directory->get(), store->path);
  if (!lock.ok()) return lock.status();
  absl::StatusOr<std::vector<Baseline>> there = ReadFile(directory->get(), file, path);
  if (absl::IsNotFound(there.status())) there = std::vector<Baseline>();
  // A damaged file is not replaced: the user may want to recover its baselines.
  if (!there.ok()) return there.status();
  const Baseline saved{name, absl::ToUnixNanos(absl::Now()), side};
  const absl::StatusOr<SavedBaseline> merged = Merge(saved, options, path, &*there);
  if (!merged.ok()) return merged.status();
  const std::string text = BaselinesAsJson(*there);
  // Fails before the file is replaced if this tbprof could not read the new text.
  if (const auto back = BaselinesFromJson(text, path); !back.ok()) return back.status();
  if (const absl::Status replaced = ReplaceFile(directory->get(), file, text, path); !replaced.ok()) return replaced;
  return merged;
}

absl::StatusOr<Baseline> ReadBaseline(const std::string& store_path, const std::string& name) {
  if (absl::Status status = CheckName(name); !status.ok()) return status;
  const absl::StatusOr<Store> store = StoreAt(store_path);
  if (!store.ok()) return store.status();
  const absl::StatusOr<ScopedFd> directory = OpenStore(*store, /*make=*/false);
  if (absl::IsNotFound(directory.status())) return NoSuchBaseline(*store, name, {});
  if (!directory.ok()) return directory.status();
  const std::string file = FileOf(*store, name), path = JoinPath(store->directory, file);
  const absl::StatusOr<std::vector<Baseline>> there = ReadFile(directory->get(), file, path);
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  if (there.ok()) {
    for (const Baseline& baseline : *there) {
      if (baseline.name == name) return baseline;
    }
    if (store->file.empty()) return absl::DataLossError(StrCat(PrintableUtf8(path), ": holds another baseline"));
    return NoSuchBaseline(*store, name, *there);
  }
  std::vector<std::string> faults;
  const absl::StatusOr<std::vector<Baseline>> all = ListBaselines(store_path, &faults);
  return NoSuchBaseline(*store, name, all.ok() ? *all : std::vector<Baseline>());
}

absl::StatusOr<Side> LoadBaseline(const std::string& store, const std::string& name) {
  absl::StatusOr<Baseline> baseline = ReadBaseline(store, name);
  if (!baseline.ok()) return baseline.status();
  for (RunNumbers& run : baseline->side.runs) run.of_baseline = true;
  return std::move(baseline->side);
}

absl::StatusOr<std::vector<Baseline>> ListBaselines(const std::string& store_path, std::vector<std::string>* faults) {
  const absl::StatusOr<Store> store = StoreAt(store_path);
  if (!store.ok()) return store.status();
  const absl::StatusOr<ScopedFd> directory = OpenStore(*store, /*make=*/false);
  std::vector<Baseline> found;
  if (absl::IsNotFound(directory.status())) return found;
  if (!directory.ok()) return directory.status();
  if (!store->file.empty()) {
    absl::StatusOr<std::vector<Baseline>> all = ReadFile(directory->get(), store->file, store->path);
    return absl::IsNotFound(all.status()) ? found : all;
  }
  std::vector<std::string> names;
  ForEachEntry(directory->get(), [&](const char* entry) {
    const std::string_view file = entry;
    if (!file.ends_with(kSuffix) || names.size() >= kMostListed) return;
    const std::string name(file.substr(0, file.size() - kSuffix.size()));
    if (IsBaselineName(name)) names.push_back(name);
  });
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const std::string path = JoinPath(store->path, StrCat(name, kSuffix));
    absl::StatusOr<std::vector<Baseline>> one = ReadFile(directory->get(), StrCat(name, kSuffix), path);
    if (!one.ok()) {
      faults->emplace_back(one.status().message());
    } else if (one->size() != 1 || one->front().name != name) {
      faults->push_back(StrCat(PrintableUtf8(path), ": holds another baseline"));
    } else {
      found.push_back(std::move(one->front()));
    }
  }
  return found;
}

std::optional<RunNoise> NoiseOf(const Side& side) {
  std::vector<double> logs;
  for (const RunNumbers& run : side.runs) {
    if (run.unfit.empty() && run.no_times.empty() && run.median_step_s > 0) logs.push_back(std::log(run.median_step_s));
  }
  if (logs.size() < 3) return std::nullopt;
  double mean = 0, squares = 0;
  for (const double value : logs) mean += value / static_cast<double>(logs.size());
  for (const double value : logs) squares += (value - mean) * (value - mean);
  const size_t degrees = logs.size() - 1;
  return RunNoise{std::sqrt(squares / static_cast<double>(degrees)), static_cast<double>(degrees)};
}

}  // namespace tbprof
