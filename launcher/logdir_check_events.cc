// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "launcher/logdir_check.h"
#include "launcher/text.h"
#include "writer/summary_format.h"
#include "writer/utf8.h"

namespace tbprof {
namespace {

// Writers keep what they have for up to 120 s (the default of TensorFlow and of PyTorch's SummaryWriter): a file that
// was touched within this time has a living writer.
constexpr int64_t kAliveNs = int64_t{300} * 1'000'000'000;
constexpr double kFutureSeconds = 300;
constexpr size_t kMaxRunTags = 20'000;

double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string Quoted(std::string_view tag) { return StrCat("`", PrintableUtf8(tag.substr(0, 80)), "`"); }

class EventsChecker {
 public:
  EventsChecker(const LogdirScan& scan, int64_t now_ns, LogdirReport* report)
      : scan_(scan), now_ns_(now_ns), report_(report) {}

  void Check() {
    for (const ScannedDirectory& directory : scan_.directories) {
      if (!directory.events.empty()) Directory(directory);
    }
    if (live_ > 0) {
      Add(FindingLevel::kNote, "events-live", "",
          StrCat(
              Counted(live_, "events file"), " changed in the last ", kAliveNs / 60'000'000'000,
              " min: what the writer has not flushed yet (TensorFlow's and PyTorch's do so every 120 s) is not shown"),
          "");
    }
    if (partly_ > 0) {
      Add(FindingLevel::kNote, "events-partly-read", "",
          StrCat(Counted(partly_, "large events file"), partly_ == 1 ? " was" : " were",
                 " read at the beginning and the end alone: ", HumanBytes(static_cast<double>(skipped_)),
                 " were left out"),
          "");
    }
  }

 private:
  void Add(FindingLevel level, std::string_view id, std::string_view where, std::string what, std::string fix) {
    report_->findings.push_back({level, id, where.empty() ? "." : std::string(where), std::move(what), std::move(fix)});
  }

  std::string Word(std::string_view path) const {
    return ShellWord(path.empty() ? scan_.logdir : StrCat(scan_.logdir == "/" ? "" : scan_.logdir, "/", path));
  }

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
    for (const ScannedEvents* file : files) {
      ++run.files;
      ++report_->events_files;
      const EventFileFacts& facts = file->facts;
      run.listed = run.listed || facts.has_time;
      any_values = any_values || facts.HasValues();
      any_graph = any_graph || facts.graphs > 0;
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
      Add(FindingLevel::kWarning, "events-no-summary", directory.path,
          StrCat("holds ", any_graph ? "a graph, but " : "", "no summary: there is no curve to show"),
          "call add_scalar (tf.summary.scalar) with a step, then flush()");
    }
    Steps(directory, tags);
    Writers(directory, files);
    report_->events_runs.push_back(std::move(run));
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

  // True: something was said that explains why there are no values.
  bool File(const ScannedDirectory& directory, const ScannedEvents& file) {
    const std::string path = directory.path.empty() ? file.name : StrCat(directory.path, "/", file.name);
    const EventFileFacts& facts = file.facts;
    const bool alive = now_ns_ - file.mtime_ns < kAliveNs;
    const std::string age = Age(file.mtime_ns, now_ns_);
    if (file.error != 0) {
      Add(FindingLevel::kProblem, "events-unreadable", path, StrCat("cannot be read: ", strerror(file.error)),
          file.error == EACCES ? StrCat("chmod a+r ", Word(path)) : "");
      return true;
    }
    if (!file.regular) {
      Add(FindingLevel::kWarning, "events-unreadable", path, "has the name of an events file, but is no file", "");
      return true;
    }
    if (facts.bytes_skipped > 0) {
      ++partly_;
      skipped_ += facts.bytes_skipped;
    }
    const uint64_t rest = file.size - std::min(file.size, facts.end_offset);
    const bool nothing = facts.records == facts.versions;
    bool said = false;
    if (facts.end == EventFileFacts::End::kCorrupt) {
      said = true;
      Add(FindingLevel::kProblem, "events-corrupt", path,
          StrCat("is corrupt at byte ", facts.end_offset, " (", facts.cause, "): the ",
                 HumanBytes(static_cast<double>(rest)), " from there on are not shown",
                 facts.records == 0 ? ", so nothing of it is" : ""),
          "two programs may have written to it: give each writer a directory of its own, and write again");
    } else if (facts.end == EventFileFacts::End::kTruncated) {
      said = nothing;
      if (alive) {
        Add(FindingLevel::kNote, "events-truncated", path,
            StrCat("ends in the middle of a record; changed ", age, " ago, so it is being written"), "");
      } else {
        Add(FindingLevel::kWarning, "events-truncated", path,
            StrCat("ends in the middle of a record, unchanged for ", age, ": its last ",
                   HumanBytes(static_cast<double>(rest)), " are lost, the ", Counted(facts.records, "record"),
                   " before are shown"),
            "end the writer by close(); was it killed, or the disk full?");
      }
    }
    if (nothing && !said && !IsMarker(file)) {
      said = true;
      const std::string_view what = file.size == 0 ? "is empty" : "holds nothing but its header";
      if (alive) {
        Add(FindingLevel::kNote, "events-empty", path,
            StrCat(what, ", made ", age, " ago: nothing was flushed yet (writers do so every 120 s)"),
            "wait, or call flush() in the program");
      } else {
        Add(FindingLevel::kWarning, "events-empty", path,
            StrCat(what, ", unchanged for ", age, ": its writer wrote no summary, or ended before the first flush"),
            "call flush() or close() on the writer");
      }
    }
    if (alive && facts.HasValues() && facts.end == EventFileFacts::End::kClean) ++live_;
    if (facts.has_time && facts.last_wall > Seconds(now_ns_) + kFutureSeconds) {
      Add(FindingLevel::kWarning, "events-future", path,
          StrCat("has times in the future: by ",
                 Age(now_ns_, static_cast<int64_t>(std::clamp(facts.last_wall, -9e9, 9e9) * 1e9)), " at most"),
          "set the clock of the machine that wrote it");
    }
    if (facts.bad_times > 0) {
      Add(FindingLevel::kWarning, "events-bad-time", path,
          StrCat(Counted(facts.bad_times, "record"), " without a valid time; TensorBoard drops them"),
          "leave walltime to the writer");
    }
    if (facts.tags_cut) {
      Add(FindingLevel::kNote, "events-many-tags", path,
          StrCat("has over ", facts.tags.size(), " tags; the others were not looked at"),
          "use fewer tags: a step belongs into `step`, not into the tag");
    }
    return said;
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
      Add(FindingLevel::kWarning, "events-one-step", directory.path,
          StrCat("tag ", Quoted(stuck->first), ": all ", stuck->second.points, " values are at step ", step,
                 ", of which TensorBoard keeps the last alone", others(one_step)),
          step == 0 ? "give a step that grows: add_scalar(tag, value, global_step)"
                    : "let the step grow from call to call");
    }
    if (jump != nullptr) {
      Add(FindingLevel::kWarning, "events-steps-back", directory.path,
          StrCat("tag ", Quoted(jump->first), ": steps go back from ", jump->second.back_from, " to ",
                 jump->second.back_to, "; TensorBoard drops what it had from there on", others(back)),
          "give each training a directory of its own, or go on from the last step");
    }
  }

  // Files whose values overlap in time.
  void Writers(const ScannedDirectory& directory, const std::vector<const ScannedEvents*>& files) {
    std::vector<const ScannedEvents*> valued;
    for (const ScannedEvents* file : files) {
      if (file->facts.HasValues()) valued.push_back(file);
    }
    std::sort(valued.begin(), valued.end(), [](const ScannedEvents* a, const ScannedEvents* b) {
      return a->facts.first_value < b->facts.first_value;
    });
    const ScannedEvents* longest = nullptr;  // of those before, the one that goes on longest
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
      Add(FindingLevel::kWarning, "events-several-writers", directory.path,
          StrCat(who, " at the same time, both with tag ", Quoted(shared), ": its curve is mixed from both"),
          "give each process a directory of its own, e.g. LOGDIR/rank0, LOGDIR/rank1");
    } else {
      Add(FindingLevel::kNote, "events-several-writers", directory.path,
          StrCat(who,
                 " at the same time, with tags of their own; while they write, TensorBoard without its fast loader "
                 "reads the last file alone"),
          "give each writer a directory of its own");
    }
  }

  const LogdirScan& scan_;
  int64_t now_ns_;
  LogdirReport* report_;
  size_t live_ = 0;
  size_t partly_ = 0;
  uint64_t skipped_ = 0;
};

}  // namespace

void CheckEvents(const LogdirScan& scan, int64_t now_ns, LogdirReport* report) {
  EventsChecker(scan, now_ns, report).Check();
}

}  // namespace tbprof
