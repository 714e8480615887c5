// SPDX-License-Identifier: Apache-2.0
//
// Builds the commands that `tbprof check` recommends. No command removes, replaces or hides a file: `mkdir -p`, `mv -n`
// and `ln -s` to unused names, `rmdir` of empty directories, programs that unpack beside the original. A command is
// withheld if the caller may not run it, or if another user may change a directory that it touches: that user could put
// a link in its way before it is run. No command goes through a symbolic link below the log directory, because the link
// may come with a cloned repository: paths that are only read or shown are named without links.
//
//   Remedies remedies;
//   remedies.AddLink("/logs/run/h.xplane.pb");    // each symbolic link of the log directory
//   Remedy remedy(&remedies);
//   const std::string to = remedies.Free(directory, "h", ".xplane.pb");
//   remedy.Move(from, to);
//   remedy.command();   // mv -nT -- FROM TO
//
// Paths are absolute. Checks on the file system which names are unused and what the caller may change.
// Process: launcher, for `tbprof check`.
#ifndef TBPROF_LAUNCHER_CHECK_LOGDIR_REMEDY_H_
#define TBPROF_LAUNCHER_CHECK_LOGDIR_REMEDY_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/check/path_trust.h"

namespace tbprof {

// Quotes the bytes as one word for any POSIX shell, on one line. Empty if that is impossible: the bytes end with a
// newline.
std::string ShellWord(std::string_view bytes);

// State of all commands of one report: no two of them create the same name.
class Remedies {
 public:
  // Reserves `<directory>/<stem><suffix>`, or `<stem>_2<suffix>`… if that name exists or is reserved.
  std::string Free(std::string_view directory, std::string_view stem, std::string_view suffix = "");

  // Commands do not go through links below this directory.
  void SetLogdir(const std::string& logdir) { logdir_ = logdir; }
  // The first component below the log directory that is a link, the last component included; empty: none.
  std::string LinkIn(const std::string& path) const;
  // The first link for which a command was withheld.
  const std::string& link_met() const { return link_met_; }
  void Meet(const std::string& link) {
    if (link_met_.empty()) link_met_ = link;
  }

  void AddLink(const std::string& path);
  // True: moving `from` would break a link: one that leads to it or below it, or a relative one in it that leads out of
  // it.
  bool BreaksLink(const std::string& from) const;

  PathTrust& trust() { return trust_; }

 private:
  struct KnownLink {
    std::string path, target;  // links resolved, except the last name of `path`
    bool relative;
  };

  PathTrust trust_;
  std::vector<KnownLink> links_;
  std::set<std::string> planned_;
  std::string logdir_, link_met_;
};

// True: the caller may add and remove names in the directory; if the directory does not exist: may create it.
bool MayChange(const std::string& directory);

class Remedy;
// Adds the command that makes the file readable, if the caller owns the file and only its mode bits prevent reading.
void AllowReading(const std::string& file, int error, Remedy* remedy);

class Remedy {
 public:
  explicit Remedy(Remedies* remedies) : remedies_(*remedies) {}

  void MakeDirectory(const std::string& path);  // and its parents
  // `to`: an unused name. Not possible if the move would break a link.
  void Move(const std::string& from, const std::string& to);
  void Link(const std::string& named, const std::string& path);  // makes the symbolic link `path`, an unused name
  void RemoveEmpty(const std::string& directory);
  // Removes the directory, and the directories above it that become empty.
  void RemoveEmptyLevels(const std::string& directory);
  void View(const std::string& named);  // tensorboard --logdir
  // Makes the remedy impossible if the path is a link or goes through a link.
  void KeepOffLinks(const std::string& path);
  // Adds another command, which touches `directory`. Empty: not possible.
  void Run(const std::string& directory, std::string command);
  // For steps that need rights which the caller lacks.
  void Forbid() { possible_ = false; }

  bool possible() const { return possible_ && !shared_ && !command_.empty(); }
  // Empty if any step is not possible.
  std::string command() const { return possible() ? command_ : std::string(); }
  // `what` if the remedy is possible, else the reason why it is not.
  std::string Advice(std::string_view what) const;

 private:
  void Add(const std::string& directory, std::string step);
  std::string Place(const std::string& path);

  Remedies& remedies_;
  bool possible_ = true;
  bool shared_ = false;  // other users may change a directory that the command touches
  bool breaks_link_ = false;
  bool through_link_ = false;
  std::string command_;
  std::string made_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_CHECK_LOGDIR_REMEDY_H_
