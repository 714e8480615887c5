// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "launcher/base/text.h"
#include "launcher/check/logdir_check_parts.h"
#include "launcher/check/logdir_paths.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Writers buffer records for up to 120 s (the default of TensorFlow and of PyTorch's SummaryWriter): a file that
// changed within this time counts as having an active writer.
constexpr int64_t kAliveNs = int64_t{300} * 1'000'000'000;
constexpr double kFutureSeconds = 300;
constexpr size_t kMaxRunTags = 20'000;

double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string Quoted(std::string_view tag) { return StrCat("`", PrintableUtf8(tag.substr(0, 40)), "`"); }

class EventsChecker {
 public:
  explicit EventsChecker(CheckState* state)
      : state_(*state), scan_(state->scan), now_ns_(state->now_ns), report_(&state->report) {}

  void Check() {
    for (const ScannedDirectory& directory : scan_.directories) {
      for (const ScannedEvents& file : directory.events) {
        if (file.facts.HasValues()) with_values_.insert(directory.path);
      }
    }
    for (const ScannedDirectory& directory : scan_.directories) {
      if (!directory.events.empty()) Directory(directory);
      Misnamed(directory);
      NamedAsFile(directory);
    }
    if (live_ > 0) {
      state_.Note("events-live", "",
                  StrCat(Counted(live_, "events file"), " changed in the last ", kAliveNs / 60'000'000'000,
                         " min: what is not flushed is not shown"));
    }
    if (partly_ > 0) {
      state_.Note("events-partly-read", "",
                  StrCat(HumanBytes(static_cast<double>(skipped_)), " in the middle of ",
                         Counted(partly_, "large events file"), " were not read: unknown"));
    }
  }

 private:
  void Directory(const ScannedDirectory& directory) {
    // TensorBoard reads the files of a directory one after the other, by name.
    std::vector<const ScannedEvents*> files;
    for (const ScannedEvents& file : directory.events) files.push_back(&file);
    std::sort(files.begin(), files.end(),
              [](const ScannedEvents* a, const ScannedEvents* b) { return a->name < b->name; });
    EventsRun run;
    run.name = directory.path.empty() ? "." : directory.path;
    std::map<std::string, TagFacts> tags;
    bool any_values = false, any_graph = false, quiet = false;
    uint64_t graph_traces = 0, run_traces = 0;
    for (const ScannedEvents* file : files) {
      ++run.files;
      ++report_->events_files;
      const EventFileFacts& facts = file->facts;
      run.listed = run.listed || facts.has_time;
      any_values = any_values || facts.HasValues();
      any_graph = any_graph || facts.graphs > 0;
      graph_traces += facts.graph_traces;
      run_traces += facts.run_traces;
      quiet = File(directory, *file) || quiet;
      for (const auto& [name, tag] : facts.tags) Merge(name, tag, &tags);
    }
    run.tags = tags.size();
    for (const auto& [name, tag] : tags) {
      run.values += tag.points;
      run.lowest_step = run.has_steps ? std::min(run.lowest_step, tag.lowest_step) : tag.lowest_step;
      run.highest_step = run.has_steps ? std::max(run.highest_step, tag.highest_step) : tag.highest_step;
      run.has_steps = true;
    }
    if (!any_values && !quiet && run.listed && !OnlyMarkers(files)) {
      state_.Warn("events-no-summary", directory.path,
                  StrCat(any_graph ? "holds a graph, but no summary" : "holds no summary", ": no curve is shown"),
                  "call add_scalar, then flush");
    }
    Traces(directory, graph_traces, run_traces);
    Steps(directory, tags);
    Writers(directory, files);
    report_->events_runs.push_back(std::move(run));
  }

  // TensorFlow 2.13 and newer write a profile only if trace_on gets profiler_outdir; trace_export ignores its own
  // argument.
  void Traces(const ScannedDirectory& directory, uint64_t graph_traces, uint64_t run_traces) {
    if (graph_traces + run_traces == 0) return;
    const std::string place = JoinPath(directory.path, "plugins/profile/");
    bool elsewhere = false;
    for (const ProfileRun& run : report_->profile_runs) {
      if (!run.shown || run.hosts.empty()) continue;
      if (run.path.starts_with(place)) return;
      elsewhere = true;
    }
    if (run_traces > 0 && elsewhere) {
      state_.Note("trace-without-profile", directory.path, "unknown which run has the profile of its trace_export");
    } else if (run_traces > 0) {
      state_.Warn("trace-without-profile", directory.path, "trace_export wrote its graph, but no profile is here",
                  "trace_on(profiler_outdir=…)");
    } else {
      state_.Note("trace-graph-only", directory.path, "trace_export wrote a graph: the profiler was off",
                  "trace_on(profiler=True, …)");
    }
  }

  // Reports events files under names that TensorBoard does not look for. Beside another events file, TensorBoard would
  // read the renamed file as part of the same run and drop repeated steps: then the file gets its own directory.
  void Misnamed(const ScannedDirectory& directory) {
    std::vector<const ScannedFile*> files;
    for (const ScannedFile& file : directory.others) {
      if (file.content == FileContent::kEvents && !IsOwnPlace(directory.path)) files.push_back(&file);
    }
    const bool apart = files.size() > 1 || !directory.events.empty();
    for (const ScannedFile* file : files) {
      const std::string path = JoinPath(directory.path, file->name);
      const std::string here = state_.Absolute(directory.path);
      const std::string name =
          StrCat("events.out.tfevents.", file->mtime_ns / 1'000'000'000, ".", PlainName(file->name));
      Remedy remedy(&state_.remedies);
      std::string target = here;
      if (apart) {
        target = state_.remedies.Free(here, StrCat(PlainName(file->name), "_events"));
        remedy.MakeDirectory(target);
      }
      const std::string to = state_.remedies.Free(target, name.substr(0, 200));
      if (file->is_link) {
        remedy.Link(state_.Absolute(path), to);
      } else {
        remedy.Move(state_.Absolute(path), to);
      }
      state_.Problem("events-misnamed", path, "an events file, not shown: its name lacks `tfevents`",
                     remedy.Advice("rename it"), remedy.command());
    }
  }

  static bool IsMarker(const ScannedEvents& file) { return file.name.ends_with(".profile-empty"); }
  static bool OnlyMarkers(const std::vector<const ScannedEvents*>& files) {
    return std::all_of(files.begin(), files.end(), [](const ScannedEvents* file) { return IsMarker(*file); });
  }

  static void Merge(const std::string& name, const TagFacts& tag, std::map<std::string, TagFacts>* tags) {
    const auto found = tags->find(name);
    if (found == tags->end()) {
      if (tags->size() < kMaxRunTags) tags->emplace(name, tag);
      return;
    }
    TagFacts& all = found->second;
    if (!all.goes_back && tag.first_step < all.last_step) {
      all.goes_back = true;
      all.back_from = all.last_step;
      all.back_to = tag.first_step;
    } else if (!all.goes_back && tag.goes_back) {
      all.goes_back = true;
      all.back_from = tag.back_from;
      all.back_to = tag.back_to;
    }
    all.points += tag.points;
    all.last_step = tag.last_step;
    all.last_wall = tag.last_wall;
    all.lowest_step = std::min(all.lowest_step, tag.lowest_step);
    all.highest_step = std::max(all.highest_step, tag.highest_step);
  }

  bool HoldsValuesBelow(const ScannedDirectory& directory) const {
    const std::string below = directory.path.empty() ? std::string() : StrCat(directory.path, "/");
    const auto first = directory.path.empty() ? with_values_.upper_bound("") : with_values_.lower_bound(below);
    return first != with_values_.end() && first->starts_with(below);
  }

  // Size of the part of the file that TensorBoard does not read.
  static std::string Rest(const ScannedEvents& file) {
    return HumanBytes(static_cast<double>(file.size - std::min(file.size, file.facts.end_offset)));
  }

  void Corrupt(const ScannedDirectory& directory, const ScannedEvents& file, bool alive) {
    const std::string path = JoinPath(directory.path, file.name);
    const EventFileFacts& facts = file.facts;
    if (const Compression* compression = CompressionOf(file.content); compression != nullptr) {
      const std::string plain =
          file.name.substr(0, file.name.size() - std::min(file.name.size(), compression->suffix.size()));
      if (std::any_of(directory.events.begin(), directory.events.end(),
                      [&](const ScannedEvents& other) { return other.name == plain; })) {
        state_.Note("events-corrupt", path, "is compressed: the file beside it is read");
      } else {
        state_.Problem("events-corrupt", path,
                       StrCat("is compressed (", compression->name, "): nothing of it is shown"),
                       StrCat("unpack it: ", compression->name));
      }
      return;
    }
    if (const FileText text = TextOf(file.content); !text.what.empty()) {
      state_.Problem("events-corrupt", path, std::string(text.what), std::string(text.fix));
      return;
    }
    const std::string shown = facts.records == 0 ? "nothing of it is shown" : StrCat(Rest(file), " not shown");
    // A file that is being written may end with NULs, because some file systems reserve space.
    switch (alive ? FileDamage::kNone : file.damage) {
      case FileDamage::kCrLf:
        state_.Problem("events-corrupt", path, StrCat("each LF became CR LF: ", shown), "copy again in binary mode");
        return;
      case FileDamage::kReplacedBytes:
        state_.Problem("events-corrupt", path, StrCat("bytes replaced as text: ", shown), "copy again in binary mode");
        return;
      case FileDamage::kNuls:
      case FileDamage::kNulPart:
        state_.Problem("events-corrupt", path, StrCat("holds NULs, corrupt at byte ", facts.end_offset, ": ", shown),
                       "copy it again");
        return;
      case FileDamage::kNone:
      case FileDamage::kCutOff:
        break;
    }
    state_.Problem("events-corrupt", path, StrCat("corrupt at byte ", facts.end_offset, ": ", shown),
                   facts.records == 0 ? "copy it again, as binary" : "use one writer a directory");
  }

  // TensorBoard's Python loader opens such a directory as a file, and then lists no run.
  void NamedAsFile(const ScannedDirectory& directory) {
    if (directory.path.empty() || directory.name().find("tfevents") == std::string_view::npos) return;
    if (IsOwnPlace(directory.path)) return;
    std::string name(directory.name());
    name.replace(name.find("tfevents"), 8, "tf_events");
    const std::string from = state_.Absolute(directory.path);
    Remedy remedy(&state_.remedies);
    remedy.Move(from, state_.remedies.Free(ParentOf(from), PlainName(name)));
    state_.Warn("events-directory", directory.path, "`tfevents` in its name: --load_fast=false fails",
                remedy.Advice("rename it when no program writes"), remedy.command());
  }

  // True: a finding explains why there are no values.
  bool File(const ScannedDirectory& directory, const ScannedEvents& file) {
    const std::string path = directory.path.empty() ? file.name : StrCat(directory.path, "/", file.name);
    const EventFileFacts& facts = file.facts;
    const bool alive = file.mtime_ns > now_ns_ - kAliveNs;
    const std::string age = Age(file.mtime_ns, now_ns_);
    if (LeadsNowhere(file)) {
      state_.Problem("events-unreadable", path, "a link that leads nowhere", "link it anew, or copy the file");
      return true;
    }
    if (file.error != 0) {
      Remedy remedy(&state_.remedies);
      AllowReading(state_.Absolute(path), file.error, &remedy);
      state_.Problem("events-unreadable", path, StrCat("cannot be read: ", strerror(file.error)),
                     remedy.possible() ? "allow it" : "ask its owner", remedy.command());
      return true;
    }
    if (!file.regular) {
      state_.Warn("events-unreadable", path, "has the name of an events file, but is no file", "rename it");
      return true;
    }
    if (facts.bytes_skipped > 0) {
      ++partly_;
      skipped_ += facts.bytes_skipped;
    }
    const bool nothing = facts.records == facts.versions;
    bool reported = false;
    if (facts.end == EventFileFacts::End::kCorrupt) {
      reported = true;
      Corrupt(directory, file, alive);
    } else if (facts.end == EventFileFacts::End::kTruncated) {
      reported = nothing;
      if (alive) {
        state_.Note("events-truncated", path, "ends in the middle of a record: it is being written");
      } else {
        state_.Warn("events-truncated", path,
                    StrCat("ends in the middle of a record: its last ", Rest(file), " are lost"), "close the writer");
      }
    }
    if (nothing && !reported && !IsMarker(file)) {
      reported = true;
      const std::string_view what = file.size == 0 ? "is empty" : "holds only its header";
      if (alive) {
        state_.Note("events-empty", path, StrCat(what, ", ", age, " old: nothing was flushed yet"),
                    "wait, or call flush()");
      } else if (file.size > 0 && HoldsValuesBelow(directory)) {
        // add_scalars and add_hparams make one writer per curve, each in its own directory.
        state_.Note("events-empty", path, "holds only its header: its values are in the runs below");
      } else {
        state_.Warn("events-empty", path, StrCat(what, ", ", age, " old: nothing was flushed"), "flush or close it");
      }
    }
    if (alive && facts.HasValues() && facts.end == EventFileFacts::End::kClean) ++live_;
    if (facts.has_time && facts.last_wall > Seconds(now_ns_) + kFutureSeconds) {
      state_.Warn("events-future", path,
                  StrCat("has times in the future, by up to ",
                         Age(now_ns_, static_cast<int64_t>(std::clamp(facts.last_wall, -9e9, 9e9) * 1e9))),
                  "set the writer's clock");
    }
    if (facts.bad_times > 0) {
      state_.Warn("events-bad-time", path,
                  StrCat(Counted(facts.bad_times, "record"), " without a valid time: TensorBoard drops them"),
                  "let the writer set it");
    }
    if (facts.tags_cut) {
      state_.Note("events-many-tags", path, StrCat("has over ", facts.tags.size(), " tags: the others were not read"),
                  "put the step into `step`");
    }
    return reported;
  }

  void Steps(const ScannedDirectory& directory, const std::map<std::string, TagFacts>& tags) {
    size_t one_step = 0, back = 0;
    const std::pair<const std::string, TagFacts>* stuck = nullptr;
    const std::pair<const std::string, TagFacts>* jump = nullptr;
    for (const auto& tag : tags) {
      if (tag.second.points > 1 && tag.second.lowest_step == tag.second.highest_step) {
        ++one_step;
        if (stuck == nullptr || tag.second.points > stuck->second.points) stuck = &tag;
      } else if (tag.second.goes_back) {
        ++back;
        if (jump == nullptr) jump = &tag;
      }
    }
    const auto others = [](size_t count) {
      return count > 1 ? StrCat(", and ", Counted(count - 1, "more tag"), " likewise") : std::string();
    };
    if (stuck != nullptr) {
      const int64_t step = stuck->second.lowest_step;
      state_.Warn("events-one-step", directory.path,
                  StrCat("all ", stuck->second.points, " values are at step ", step,
                         ", one is shown: ", Quoted(stuck->first), others(one_step)),
                  "let the step grow");
    }
    if (jump != nullptr) {
      state_.Warn("events-steps-back", directory.path,
                  StrCat("steps go back from ", jump->second.back_from, " to ", jump->second.back_to,
                         ", the earlier values are dropped: ", Quoted(jump->first), others(back)),
                  "one directory a training");
    }
  }

  // Finds files whose values overlap in time.
  void Writers(const ScannedDirectory& directory, const std::vector<const ScannedEvents*>& files) {
    std::vector<const ScannedEvents*> valued;
    for (const ScannedEvents* file : files) {
      if (file->facts.HasValues()) valued.push_back(file);
    }
    std::sort(valued.begin(), valued.end(), [](const ScannedEvents* a, const ScannedEvents* b) {
      return a->facts.first_value < b->facts.first_value;
    });
    const ScannedEvents* longest = nullptr;  // the earlier file whose last value is the latest
    const ScannedEvents* first = nullptr;
    std::string shared;
    std::vector<std::string> writers;
    for (const ScannedEvents* file : valued) {
      std::string writer = EventFileWriter(file->name);
      if (writer.empty()) writer = file->name;
      if (std::find(writers.begin(), writers.end(), writer) == writers.end()) writers.push_back(writer);
      if (longest != nullptr && file->facts.first_value < longest->facts.last_value && shared.empty()) {
        for (const auto& [name, tag] : file->facts.tags) {
          if (longest->facts.tags.count(name) == 0) continue;
          shared = name;
          break;
        }
        if (first == nullptr || !shared.empty()) {
          first = longest;
        }
      }
      if (longest == nullptr || file->facts.last_value > longest->facts.last_value) longest = file;
    }
    if (first == nullptr) return;
    const std::string who = writers.size() > 1
                                ? StrCat(Counted(writers.size(), "writer"), " (", PrintableUtf8(writers[0]), ", ",
                                         PrintableUtf8(writers[1]), writers.size() > 2 ? ", …)" : ")")
                                : StrCat("several writers of one process (", PrintableUtf8(writers[0]), ")");
    if (!shared.empty()) {
      state_.Warn("events-several-writers", directory.path,
                  StrCat("mixed at the same time: ", Quoted(shared), ", ", who), "one directory a process");
    } else {
      state_.Note("events-several-writers", directory.path, StrCat("written at the same time: ", who),
                  "one directory a writer");
    }
  }

  CheckState& state_;
  const LogdirScan& scan_;
  int64_t now_ns_;
  LogdirReport* report_;
  std::set<std::string> with_values_;  // paths of directories
  size_t live_ = 0;
  size_t partly_ = 0;
  uint64_t skipped_ = 0;
};

}  // namespace

void CheckEvents(CheckState* state) { EventsChecker(state).Check(); }

}  // namespace tbprof
