// SPDX-License-Identifier: Apache-2.0
//
// Checks files that are neither profiles nor events files.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "launcher/base/text.h"
#include "launcher/check/file_content.h"
#include "launcher/check/logdir_check_parts.h"
#include "launcher/check/logdir_paths.h"

namespace tbprof {
namespace {

constexpr size_t kMaxName = 200;

enum class TraceFormat { kNone, kPyTorch, kChrome, kPerfetto, kNsightSystems, kNsightCompute };

struct TraceText {
  std::string_view what, fix;
};

TraceText TextOf(TraceFormat format) {
  switch (format) {
    case TraceFormat::kPyTorch:
      return {"PyTorch's trace: for torch-tb-profiler, not xprof", "open at ui.perfetto.dev"};
    case TraceFormat::kChrome:
      return {"a Chrome trace, which TensorBoard does not read", "open at ui.perfetto.dev"};
    case TraceFormat::kPerfetto:
      return {"a Perfetto trace, which TensorBoard does not read", "open at ui.perfetto.dev"};
    case TraceFormat::kNsightSystems:
      return {"a trace of Nsight Systems, not read by TensorBoard", "open in Nsight Systems"};
    case TraceFormat::kNsightCompute:
      return {"a report of Nsight Compute, not read by TensorBoard", "open in Nsight Compute"};
    case TraceFormat::kNone:
      break;
  }
  return {};
}

bool IsAnyOf(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return name.ends_with(end); });
}

class Files {
 public:
  explicit Files(CheckState* state) : state_(*state) {}

  void Check() {
    for (const ScannedDirectory& directory : state_.scan.directories) {
      if (IsOwnPlace(directory.path)) {
        OwnPlace(directory);
        continue;
      }
      TraceFormat last = TraceFormat::kNone;
      for (const ScannedFile& file : directory.others) {
        const std::string path = JoinPath(directory.path, file.name);
        if (state_.named.count(path) != 0) continue;
        if (const TraceFormat format = FormatOf(directory, file); format != TraceFormat::kNone) {
          if (format != last) Trace(path, format);
          last = format;
        } else if (IsArchiveName(file.name)) {
          Archive(directory, file);
        } else if (CompressionOf(file.content) != nullptr && LowerCase(file.name).find("xplane") != std::string::npos) {
          Compressed(directory, file);
        } else if (file.name.ends_with(".tmp") && !directory.profiles.empty() &&
                   file.content != FileContent::kProfile && IsPlaceOfRuns(ParentOf(directory.path))) {
          state_.Note("leftover", path, "an unfinished file: TensorBoard does not look at it");
        }
      }
    }
  }

 private:
  static bool IsPlaceOfRuns(std::string_view path) { return EndsWithPath(path, "plugins/profile"); }

  // ---- traces of other formats

  static TraceFormat FormatOf(const ScannedDirectory& directory, const ScannedFile& file) {
    const std::string_view name = file.name;
    if (IsAnyOf(name, {".nsys-rep", ".qdrep"})) return TraceFormat::kNsightSystems;
    if (name.ends_with(".ncu-rep")) return TraceFormat::kNsightCompute;
    if (IsAnyOf(name, {".pftrace", ".perfetto-trace"})) return TraceFormat::kPerfetto;
    if (IsAnyOf(name, {".pt.trace.json", ".pt.trace.json.gz"})) return TraceFormat::kPyTorch;
    if (file.content == FileContent::kChromeTrace) return TraceFormat::kChrome;
    if (!IsAnyOf(name, {".json", ".json.gz"}) || LowerCase(name).find("trace") == std::string::npos) {
      return TraceFormat::kNone;
    }
    // TensorFlow and JAX write `<host>.trace.json.gz` and perfetto_trace.json.gz beside each profile. If the profile is
    // missing, another finding reports the run.
    const bool theirs = IsAnyOf(name, {".trace.json.gz", "perfetto_trace.json.gz"});
    if (theirs && (!directory.profiles.empty() || IsPlaceOfRuns(ParentOf(directory.path)))) return TraceFormat::kNone;
    if (name.starts_with("trace.json") && !directory.profiles.empty()) return TraceFormat::kNone;
    return TraceFormat::kChrome;
  }

  void Trace(const std::string& path, TraceFormat format) {
    const TraceText text = TextOf(format);
    state_.Warn("foreign-trace", path, std::string(text.what), std::string(text.fix));
  }

  // ---- packed files

  bool HoldsName(const ScannedDirectory& directory, std::string_view name) const {
    const auto named = [&](const ScannedFile& file) { return file.name == name; };
    return std::any_of(directory.profiles.begin(), directory.profiles.end(), named) ||
           std::any_of(directory.others.begin(), directory.others.end(), named) ||
           std::any_of(directory.children.begin(), directory.children.end(),
                       [&](int child) { return state_.At(child).name() == name; });
  }

  void Archive(const ScannedDirectory& directory, const ScannedFile& file) {
    const std::string stem = ArchiveStem(file.name);
    if (file.error != 0 || stem.empty() || HoldsName(directory, stem)) return;  // unpacked already
    const std::string path = JoinPath(directory.path, file.name);
    const bool shows = std::any_of(state_.report.profile_runs.begin(), state_.report.profile_runs.end(),
                                   [](const ProfileRun& run) { return run.shown && !run.hosts.empty(); });
    const bool aside = shows || state_.IsRun(IndexOf(directory));
    // Offers no command: if root unpacks an archive, the archive chooses owners, setuid programs and devices.
    state_.Add(aside ? FindingLevel::kNote : FindingLevel::kWarning, "archive", path, "an archive: not looked into",
               "unpack it, not as root, into a new directory");
  }

  int IndexOf(const ScannedDirectory& directory) const {
    return static_cast<int>(&directory - state_.scan.directories.data());
  }

  // The unpacking programs copy mode and owner of the compressed file to the new file.
  static bool IsPlainFileOfOurs(const std::string& path) {
    struct stat info;
    return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & (S_ISUID | S_ISGID | S_ISVTX)) == 0;
  }

  // True: the profile of that name cannot be shown, and was not unpacked from this file.
  static bool IsBetterThan(const ScannedFile& file, const ScannedDirectory& directory, std::string_view plain) {
    return std::any_of(directory.profiles.begin(), directory.profiles.end(), [&](const ScannedProfile& profile) {
      const bool broken = profile.skimmed && (!profile.facts.parsed || profile.size == 0);
      return profile.name == plain && broken && file.content == FileContent::kGzip &&
             file.damage == FileDamage::kNone && file.unpacked_size != static_cast<uint32_t>(profile.size);
    });
  }

  // True if the unpacked file cannot hide another profile: the run shows nothing, and no other file is unpacked into
  // it.
  bool MayUnpackInto(const ScannedDirectory& directory) {
    if (!state_.IsRun(IndexOf(directory))) return true;
    return directory.profiles.empty() && directory.children.empty() && CountProfiles(directory) == 0 &&
           unpacked_.insert(directory.path).second;
  }

  void Compressed(const ScannedDirectory& directory, const ScannedFile& file) {
    const Compression& compression = *CompressionOf(file.content);
    const std::string path = JoinPath(directory.path, file.name);
    const bool has_suffix = LowerCase(file.name).ends_with(compression.suffix);
    const std::string plain = file.name.substr(0, file.name.size() - (has_suffix ? compression.suffix.size() : 0));
    const bool is_run = state_.IsRun(IndexOf(directory));
    const bool better = is_run && IsBetterThan(file, directory, plain);
    if (has_suffix && HoldsName(directory, plain) && !better) return;  // unpacked already
    const std::string what = StrCat("is compressed (", compression.name, ")");
    if (file.damage == FileDamage::kCutOff) {
      state_.Problem("profile-name", path, StrCat(what, ", and cut off or damaged"), "copy it again");
      return;
    }
    Remedy remedy(&state_.remedies);
    const std::string here = state_.Absolute(directory.path), whole = JoinPath(here, file.name);
    std::string into = here, from = whole;
    const bool aside = !MayUnpackInto(directory);
    if (aside) {
      // In a run with other profiles, a profile that xprof cannot read would hide the tools of all of them.
      const std::string stem = StrCat(PlainName(BaseName(here)), "_", HostFor(plain, "profile"));
      into = state_.remedies.Free(ParentOf(here), stem.size() < kMaxName ? stem : PlainName(BaseName(here)));
      from = JoinPath(into, file.name);
      remedy.MakeDirectory(into);
      remedy.Move(whole, from);
    }
    const std::string word = ShellWord(from);
    // The unpacking programs follow no links and overwrite no files.
    const bool possible = has_suffix && !word.empty() && IsPlainFileOfOurs(whole) && MayChange(here) &&
                          state_.remedies.Free(into, plain) == JoinPath(into, plain);
    if (possible) {
      remedy.Run(into, StrCat(compression.command, " ", word));
    } else {
      remedy.Forbid();
    }
    const std::string_view where = aside ? "unpack it in another run" : "unpack it";
    const std::string by_hand =
        MayChange(here) ? StrCat(aside ? "unpack it apart: " : "unpack it: ", compression.name) : remedy.Advice("");
    state_.Problem("profile-name", path,
                   StrCat(what, better ? ", the one beside it is broken" : ": only `*.xplane.pb` is read"),
                   remedy.possible() ? std::string(where) : by_hand, remedy.command());
  }

  // ---- files of tbprof

  void OwnPlace(const ScannedDirectory& directory) {
    for (const ScannedFile& file : directory.others) {
      if (file.name.ends_with(".spool")) Spool(JoinPath(directory.path, file.name), file);
    }
    if (ParentOf(directory.path) == ".tbprof/staging") Staging(directory);
  }

  void Spool(const std::string& path, const ScannedFile& file) {
    if (file.locked) {
      state_.Note("spool", path, "is being recorded or converted by a tbprof");
      return;
    }
    const std::string logdir = ShellWord(StrCat("--logdir=", state_.scan.logdir));
    const std::string spool = ShellWord(state_.Absolute(path));
    Remedy remedy(&state_.remedies);
    remedy.KeepOffLinks(state_.Absolute(path));
    remedy.Run(state_.scan.logdir,
               logdir.empty() || spool.empty() ? std::string() : StrCat("tbprof recover ", logdir, " ", spool));
    state_.Warn("spool", path, "raw records: kept by --keep-spool, or not converted, and then no profile shows them",
                remedy.possible() ? "convert them" : "tbprof recover", remedy.command());
  }

  void Staging(const ScannedDirectory& directory) {
    if (directory.locked) {
      state_.Note("staging", directory.path, "a profile is being written by a tbprof");
      return;
    }
    const std::string logdir = ShellWord(StrCat("--logdir=", state_.scan.logdir));
    Remedy remedy(&state_.remedies);
    remedy.KeepOffLinks(state_.Absolute(directory.path));
    remedy.Run(state_.scan.logdir, logdir.empty() ? std::string() : StrCat("tbprof recover ", logdir));
    state_.Warn("staging", directory.path, "a profile half written: its tbprof was killed",
                remedy.possible() ? "recover it" : "tbprof recover", remedy.command());
  }

  CheckState& state_;
  std::set<std::string> unpacked_;  // runs into which one file is unpacked
};

}  // namespace

void CheckFiles(CheckState* state) { Files(state).Check(); }

}  // namespace tbprof
