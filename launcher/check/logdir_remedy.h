// SPDX-License-Identifier: Apache-2.0
//
// The commands that `tbprof check` recommends. None removes a file, replaces one, or hides one: `mkdir -p`, `mv -n` and
// `ln -s` to names that are free, `rmdir` of directories that hold nothing, programs that unpack beside the original. A
// command that the caller may not run is not given, nor one that touches a directory which another user may change:
// that user could put a link in its way before it is run. None goes through a symbolic link below the log directory,
// which may come with a cloned repository: what would be read or shown through it is named by its place without links.
//
//   Remedies remedies;
//   remedies.AddLink("/logs/run/h.xplane.pb");    // each symbolic link of the log directory
//   Remedy remedy(&remedies);
//   const std::string to = remedies.Free(directory, "h", ".xplane.pb");
//   remedy.Move(from, to);
//   remedy.command();   // mv -nT -- FROM TO
//
// Paths are absolute. Finds on the file system which names are free and what the caller may change.
// Process: launcher, for `tbprof check`.
#ifndef TBPROF_LAUNCHER_CHECK_LOGDIR_REMEDY_H_
#define TBPROF_LAUNCHER_CHECK_LOGDIR_REMEDY_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/check/path_trust.h"

namespace tbprof {

// A shell's word, for any POSIX shell, on one line. Empty where there is none: bytes that end with a line's end.
std::string ShellWord(std::string_view bytes);

// What the commands of one report have planned: no two of them make the same name.
class Remedies {
 public:
  // `<directory>/<stem><suffix>`, or `<stem>_2<suffix>`… where that exists or is planned already.
  std::string Free(std::string_view directory, std::string_view stem, std::string_view suffix = "");

  // Links below it are not gone through.
  void SetLogdir(const std::string& logdir) { logdir_ = logdir; }
  // The first of the path's components below the log directory that is a link, itself included; empty: none.
  std::string LinkIn(const std::string& path) const;
  // The first for which a command was not given.
  const std::string& link_met() const { return link_met_; }
  void Meet(const std::string& link) {
    if (link_met_.empty()) link_met_ = link;
  }

  void AddLink(const std::string& path);
  // A move of it would break a link: one that leads to it or below it, or a relative one in it that leads out of it.
  bool BreaksLink(const std::string& from) const;

  PathTrust& trust() { return trust_; }

 private:
  struct KnownLink {
    std::string path, target;  // without links, but for the last name of `path`
    bool relative;
  };

  PathTrust trust_;
  std::vector<KnownLink> links_;
  std::set<std::string> planned_;
  std::string logdir_, link_met_;
};

// The caller may add and take away names there; of a directory that does not exist: may make it.
bool MayChange(const std::string& directory);

class Remedy;
// A file of the caller that its own bits keep from being read.
void AllowReading(const std::string& file, int error, Remedy* remedy);

class Remedy {
 public:
  explicit Remedy(Remedies* remedies) : remedies_(*remedies) {}

  void MakeDirectory(const std::string& path);  // with its parents
  // `to` is free. Not possible where it would break a link.
  void Move(const std::string& from, const std::string& to);
  void Link(const std::string& named, const std::string& path);  // a symbolic link, `path` is free
  void RemoveEmpty(const std::string& directory);
  // The directory, and those above it that are empty then.
  void RemoveEmptyLevels(const std::string& directory);
  void View(const std::string& named);  // tensorboard --logdir
  // Not possible where a link is on the way to it, or it is one.
  void KeepOffLinks(const std::string& path);
  // Another one, which touches `directory`. Empty: not possible.
  void Run(const std::string& directory, std::string command);
  // Steps that need rights which the caller lacks.
  void Forbid() { possible_ = false; }

  bool possible() const { return possible_ && !shared_ && !command_.empty(); }
  // Empty where a step is not possible.
  std::string command() const { return possible() ? command_ : std::string(); }
  // `what` where it is possible, else that it is not.
  std::string Advice(std::string_view what) const;

 private:
  void Add(const std::string& directory, std::string step);
  std::string Place(const std::string& path);

  Remedies& remedies_;
  bool possible_ = true;
  bool shared_ = false;  // others may change what it touches
  bool breaks_link_ = false;
  bool through_link_ = false;
  std::string command_;
  std::string made_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_LOGDIR_REMEDY_H_
