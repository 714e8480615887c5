// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/logdir_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <map>

#include "launcher/base/text.h"
#include "writer/base/file_window.h"
#include "writer/base/saturating.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr size_t kMaxOthers = 1000;  // per directory
constexpr size_t kMaxSiblings = 1000;
constexpr size_t kMaxDangling = 100;
constexpr size_t kMaxLoops = 100;
constexpr uint64_t kMaxTextBytes = 1 << 20;
constexpr uint64_t kMaxAllTextBytes = 64 << 20;

bool IsProfileName(std::string_view name) {
  return name.ends_with(".xplane.pb") || name.ends_with(".xplane.riegeli") || name == "xplane.pb";
}

// True for files beside a profile that describe it or show the user's intention.
bool IsDescriptive(std::string_view name) {
  for (std::string_view part : {".cached_tools.json", "cache_version.txt", "summary.json"}) {
    if (name == part || (part == "summary.json" && name.ends_with(".summary.json"))) return true;
  }
  if (IsArchiveName(name)) return true;
  for (std::string_view end : {".tmp",
                               ".spool",
                               ".nsys-rep",
                               ".qdrep",
                               ".hlo_proto.pb",
                               ".op_stats_v2.pb",
                               ".op_stats.pb",
                               ".SSTABLE",
                               ".smart_suggestion.pb",
                               ".dcn_collective_stats.pb",
                               ".trace.json",
                               ".trace.json.gz",
                               ".trace",
                               ".tracetable",
                               ".overview_page.pb",
                               ".input_pipeline.pb",
                               ".tensorflow_stats.pb",
                               ".kernel_stats.pb",
                               ".memory_profile.json.gz",
                               ".ncu-rep",
                               ".pftrace",
                               ".perfetto-trace"}) {
    if (name.ends_with(end)) return true;
  }
  // `trace.json`, `rank0_trace.json.gz`, `trace_rank0.json`.
  const bool is_json = name.ends_with(".json") || name.ends_with(".json.gz");
  if (is_json && LowerCase(name).find("trace") != std::string::npos) return true;
  // `host.xplane.pb.gz`, `HOST.XPLANE.PB`, `host.xplane.pb (1)`.
  return LowerCase(name).find("xplane") != std::string::npos;
}

class Walk {
 public:
  Walk(const std::string& logdir, const ScanLimits& limits) : limits_(limits) { scan_.logdir = logdir; }

  LogdirScan Take() {
    ScopedFd root(open(scan_.logdir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK));
    if (!root.valid()) {
      scan_.error = errno;
      if (scan_.error == ENOENT) Siblings();
      return std::move(scan_);
    }
    FindAncestors(root.get());
    ScannedDirectory top;
    scan_.directories.push_back(std::move(top));
    Directory(root.Release(), 0);
    return std::move(scan_);
  }

 private:
  struct Identity {
    dev_t device;
    ino_t inode;
    bool operator==(const Identity&) const = default;
  };

  // Records the directories above the logdir: a link to one of them leads back to the logdir, and to all other content
  // there.
  void FindAncestors(int logdir) {
    ScopedFd at(fcntl(logdir, F_DUPFD_CLOEXEC, 0));
    struct stat info = {};
    while (at.valid() && fstat(at.get(), &info) == 0) {
      const Identity self{info.st_dev, info.st_ino};
      if (!ancestors_.empty() && ancestors_.back() == self) break;
      ancestors_.push_back(self);
      at = ScopedFd(openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
  }

  // Reports the link that closes the loop: this directory, or the nearest link above it.
  void Loop(int index) {
    int link = index;
    while (link > 0 && !scan_.directories[link].is_link) link = scan_.directories[link].parent;
    const std::string& path = scan_.directories[link > 0 ? link : index].path;
    const bool known = std::find(scan_.loops.begin(), scan_.loops.end(), path) != scan_.loops.end();
    if (!known && scan_.loops.size() < kMaxLoops) scan_.loops.push_back(path);
  }

  void Siblings() {
    const size_t slash = scan_.logdir.rfind('/');
    const ScopedDirectory listing(opendir(slash == 0 ? "/" : scan_.logdir.substr(0, slash).c_str()));
    if (listing == nullptr) return;
    while (const dirent* entry = readdir(listing.get())) {
      if (scan_.siblings.size() >= kMaxSiblings) break;
      if (entry->d_type == DT_DIR && entry->d_name[0] != '.') scan_.siblings.emplace_back(entry->d_name);
    }
    std::sort(scan_.siblings.begin(), scan_.siblings.end());
  }

  // Depth first. Keeps one descriptor open per level, so that ScanLimits::depth bounds their number.
  void Directory(int fd, int index) {
    struct stat info = {};
    if (fstat(fd, &info) != 0) {
      scan_.directories[index].error = errno;
      close(fd);
      return;
    }
    const Identity self{info.st_dev, info.st_ino};
    const auto leads_above = [&] {
      return scan_.directories[index].is_link &&
             std::find(ancestors_.begin(), ancestors_.end(), self) != ancestors_.end();
    };
    if (std::find(above_.begin(), above_.end(), self) != above_.end() || leads_above()) {
      Loop(index);
      const int parent = scan_.directories[index].parent;
      scan_.directories.pop_back();
      scan_.directories[parent].children.pop_back();
      close(fd);
      return;
    }
    Describe(fd, info, &scan_.directories[index]);
    const ScopedDirectory listing(fdopendir(fd));
    if (listing == nullptr) {
      scan_.directories[index].error = errno;
      close(fd);
      return;
    }
    above_.push_back(self);
    std::vector<std::pair<std::string, bool>> inner;  // name, is a link
    while (true) {
      errno = 0;
      const dirent* entry = readdir(listing.get());
      if (entry == nullptr) {
        if (errno != 0) scan_.directories[index].error = errno;
        break;
      }
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (++scan_.entries > limits_.entries) {
        scan_.entries_cut = true;
        break;
      }
      ++scan_.directories[index].entries;
      Entry(dirfd(listing.get()), *entry, index, &inner);
    }
    Descend(dirfd(listing.get()), index, std::move(inner));
    above_.pop_back();
  }

  static void Describe(int fd, const struct stat& info, ScannedDirectory* directory) {
    directory->mtime_ns = NanosecondsOf(info.st_mtim);
    directory->device = info.st_dev;
    directory->inode = info.st_ino;
    directory->writable = faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0;
    directory->read_only = !directory->writable && errno == EROFS;
    directory->owned = geteuid() == 0 || info.st_uid == geteuid();
    if (directory->path.starts_with(".tbprof/staging/")) directory->locked = IsLocked(fd, directory->mtime_ns);
  }

  // `inner`: names of directories, and whether they are links.
  void Descend(int fd, int index, std::vector<std::pair<std::string, bool>> inner) {
    std::sort(inner.begin(), inner.end());
    for (const auto& [name, is_link] : inner) {
      if (scan_.entries_cut) break;
      if (scan_.directories[index].depth + 1 > limits_.depth) {
        scan_.depth_cut = true;
        break;
      }
      const bool linked = is_link || scan_.directories[index].is_link || scan_.directories[index].through_link;
      if (linked && ++linked_ > limits_.linked_directories) {
        scan_.links_cut = true;
        continue;
      }
      ScannedDirectory child;
      const ScannedDirectory& parent = scan_.directories[index];
      child.path = parent.path.empty() ? name : StrCat(parent.path, "/", name);
      child.parent = index;
      child.depth = parent.depth + 1;
      child.is_link = is_link;
      child.through_link = parent.through_link || parent.is_link;
      const int number = static_cast<int>(scan_.directories.size());
      const int child_fd = openat(fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
      if (child_fd < 0) child.error = errno;
      scan_.directories.push_back(std::move(child));
      scan_.directories[index].children.push_back(number);
      if (child_fd >= 0) Directory(child_fd, number);
    }
  }

  // tbprof locks a spool or staging directory directly after it creates it. This check takes the lock for a moment, so
  // it leaves out new ones: an entry that changed less than 2 s ago counts as locked.
  static bool IsLocked(int fd, int64_t mtime_ns) {
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    if (std::abs(now.tv_sec - mtime_ns / 1'000'000'000) < 2) return true;
    if (flock(fd, LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
    flock(fd, LOCK_UN);
    return false;
  }

  void ReadEvents(int at, ScannedEvents* events) {
    const ScopedFd fd = Open(at, events);
    if (!fd.valid()) return;
    EventFileLimits limits = limits_.events;
    if (scan_.event_bytes_read > limits_.event_bytes) limits.whole = limits.part = 256 << 10;
    events->facts = ReadEventFile(fd.get(), events->size, limits);
    scan_.event_bytes_read += events->facts.bytes_read;
    events->error = events->facts.error;
    if (events->facts.end == EventFileFacts::End::kCorrupt) {
      events->content = ContentOf(fd.get(), events);
      events->damage = FindDamage(fd.get(), events->size);
    }
  }

  void Entry(int at, const dirent& entry, int index, std::vector<std::pair<std::string, bool>>* inner) {
    const std::string name = entry.d_name;
    unsigned char type = entry.d_type;
    const bool is_profile = IsProfileName(name);
    const bool is_events = name.find("tfevents") != std::string::npos;
    struct stat info = {};
    int error = 0;
    bool is_link = type == DT_LNK;
    const bool interesting = is_profile || is_events || IsDescriptive(name);
    if (type == DT_UNKNOWN || type == DT_LNK || (interesting && type != DT_DIR)) {
      if (type == DT_UNKNOWN) {
        if (fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) is_link = S_ISLNK(info.st_mode);
      }
      if (fstatat(at, name.c_str(), &info, 0) != 0) error = errno;
      type = error != 0 ? DT_UNKNOWN : S_ISDIR(info.st_mode) ? DT_DIR : S_ISREG(info.st_mode) ? DT_REG : DT_FIFO;
    }
    if (type == DT_DIR) inner->emplace_back(name, is_link);
    if (is_link && error == ENOENT && scan_.dangling.size() < kMaxDangling) {
      const std::string& path = scan_.directories[index].path;
      scan_.dangling.push_back(path.empty() ? name : StrCat(path, "/", name));
    }
    if (!interesting && type == DT_REG) Unnamed(at, name, is_link, index);
    if (!interesting || (type == DT_DIR && !is_profile)) return;
    ScannedFile file;
    file.name = name;
    file.size = static_cast<uint64_t>(info.st_size);
    file.mtime_ns = NanosecondsOf(info.st_mtim);
    file.device = info.st_dev;
    file.inode = info.st_ino;
    file.regular = type == DT_REG;
    file.is_link = is_link;
    file.error = error;
    ScannedDirectory& directory = scan_.directories[index];
    if (is_profile) {
      ScannedProfile profile;
      static_cast<ScannedFile&>(profile) = file;
      // Reads only files that TensorBoard would open; riegeli files are recognised by their names only.
      if (profile.regular && (name.ends_with(".xplane.pb") || name == "xplane.pb")) {
        ScopedFd fd = Open(at, &profile);
        if (fd.valid()) {
          Skim(fd.get(), &profile);
        }
      }
      directory.profiles.push_back(std::move(profile));
    } else if (is_events) {
      ScannedEvents events;
      static_cast<ScannedFile&>(events) = file;
      if (events.regular) ReadEvents(at, &events);
      directory.events.push_back(std::move(events));
    } else if (directory.others.size() < kMaxOthers) {
      const bool is_text = name == ".cached_tools.json" || name.ends_with("summary.json");
      const bool is_spool = directory.path == ".tbprof" && name.ends_with(".spool");
      if (file.regular && (is_text || is_spool)) {
        ScopedFd fd = Open(at, &file);
        if (fd.valid() && is_text && file.size <= kMaxTextBytes && text_bytes_ <= kMaxAllTextBytes) {
          file.text = ReadText(fd.get(), file.size);
          text_bytes_ += file.text.size();
        }
        if (fd.valid() && is_spool) file.locked = IsLocked(fd.get(), file.mtime_ns);
      } else if (file.regular && (name.ends_with(".tmp") || LowerCase(name).find("xplane") != std::string::npos ||
                                  IsArchiveName(name))) {
        ScopedFd fd = Open(at, &file);
        if (fd.valid()) file.content = ContentOf(fd.get(), &file);
        if (fd.valid() && CompressionOf(file.content) != nullptr && !IsArchiveName(name)) {
          file.damage = FindCut(file.content, fd.get(), file.size, &limits_.unpacked_bytes);
          if (file.content == FileContent::kGzip) file.unpacked_size = GzipHolds(fd.get(), file.size);
        }
      }
      directory.others.push_back(std::move(file));
    }
  }

  static void Skim(int fd, ScannedProfile* profile) {
    profile->facts = SkimXspace(fd, profile->size);
    profile->skimmed = true;
    XspaceFacts& facts = profile->facts;
    if (facts.parsed && HoldsNulBlock(fd, profile->size)) {
      // NULs may also be data, for instance a constant in a program.
      facts.cause = FindEventFault(fd, profile->size);
      facts.parsed = facts.cause.empty();
    }
    if (facts.error != 0 || profile->size == 0) return;
    FileWindow window(fd, profile->size);
    const std::string_view head = window.Read(0, kContentBytes);
    if (!facts.parsed) {
      profile->content = ContentByMagic(head);
      profile->damage = FindDamage(fd, profile->size);
    } else if (head.starts_with("\r\n")) {
      // CR reads as the plane field with another wire type: the outer structure may seem complete, but holds nothing.
      if (FindDamage(fd, profile->size) != FileDamage::kCrLf) return;
      profile->damage = FileDamage::kCrLf;
      facts.cause = "CR LF";
      facts.parsed = false;
    }
  }

  // Reads a file that TensorBoard ignores because of its name, to find content that it would show under another name.
  void Unnamed(int at, const std::string& name, bool is_link, int index) {
    ScannedDirectory& directory = scan_.directories[index];
    if (directory.path == ".tbprof" || directory.path.starts_with(".tbprof/")) return;
    const auto count = unnamed_of_directory_.find(index);
    if (count != unnamed_of_directory_.end() && count->second == SIZE_MAX) return;
    if (unnamed_ >= limits_.unnamed || unnamed_of_directory_[index] >= limits_.unnamed_of_directory) {
      scan_.unnamed_cut = true;
      return;
    }
    ++unnamed_;
    if (++unnamed_of_directory_[index] == 1 && IsKernels(at)) unnamed_of_directory_[index] = SIZE_MAX;
    if (unnamed_of_directory_[index] == SIZE_MAX) return;
    ScannedFile file;
    file.name = name;
    file.is_link = is_link;
    ScopedFd fd = Open(at, &file);
    if (!fd.valid()) return;
    file.content = ContentOf(fd.get(), &file);
    if (file.content != FileContent::kProfile && file.content != FileContent::kEvents &&
        file.content != FileContent::kChromeTrace) {
      return;
    }
    if (directory.others.size() < kMaxOthers) directory.others.push_back(std::move(file));
  }

  // True for /proc, /sys and similar: reading their files has side effects, and none of them is a log.
  static bool IsKernels(int at) {
    struct statfs system;
    if (fstatfs(at, &system) != 0) return true;
    constexpr int64_t kTypes[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,        DEBUGFS_MAGIC,       TRACEFS_MAGIC,
                                  SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,
                                  PSTOREFS_MAGIC,   EFIVARFS_MAGIC};
    return std::find(std::begin(kTypes), std::end(kTypes), static_cast<int64_t>(system.f_type)) != std::end(kTypes);
  }

  static FileContent ContentOf(int fd, ScannedFile* file) {
    FileWindow window(fd, std::min<uint64_t>(file->size, kContentBytes));
    const std::string_view bytes = window.Read(0, kContentBytes);
    if (LooksLikeEventFile(bytes.substr(0, 32))) return FileContent::kEvents;
    const FileContent known = ContentByMagic(bytes);
    if (known != FileContent::kOther) return known;
    // A profile begins with the tag of one of these fields: planes, errors, warnings, host names.
    if (bytes.empty() || std::string_view("\x0a\x12\x1a\x22").find(bytes[0]) == std::string_view::npos) {
      return FileContent::kOther;
    }
    const XspaceFacts facts = SkimXspace(fd, file->size);
    if (!facts.parsed || facts.cut || !facts.has_known_plane) return FileContent::kOther;
    if (!facts.hostnames.empty()) file->host = facts.hostnames[0];
    return FileContent::kProfile;
  }

  // O_NONBLOCK: does not wait for the other end of a pipe. Calls fstat, because the name may be another file by now.
  static ScopedFd Open(int at, ScannedFile* file) {
    ScopedFd fd(openat(at, file->name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat info = {};
    if (!fd.valid() || fstat(fd.get(), &info) != 0) {
      file->error = errno;
      return ScopedFd();
    }
    file->regular = S_ISREG(info.st_mode);
    if (!file->regular) return ScopedFd();
    file->size = static_cast<uint64_t>(info.st_size);
    file->mtime_ns = NanosecondsOf(info.st_mtim);
    file->device = info.st_dev;
    file->inode = info.st_ino;
    return fd;
  }

  static std::string ReadText(int fd, uint64_t size) {
    FileWindow file(fd, size);
    std::string text;
    while (text.size() < size) {
      const std::string_view piece = file.Read(text.size(), static_cast<size_t>(size) - text.size());
      if (piece.empty()) break;
      text += piece;
    }
    return text;
  }

  ScanLimits limits_;
  LogdirScan scan_;
  uint64_t text_bytes_ = 0;
  size_t unnamed_ = 0;
  size_t linked_ = 0;
  std::vector<Identity> ancestors_;
  std::map<int, size_t> unnamed_of_directory_;
  std::vector<Identity> above_;
};

}  // namespace

LogdirScan ScanLogdir(const std::string& logdir, const ScanLimits& limits) { return Walk(logdir, limits).Take(); }

}  // namespace tbprof
