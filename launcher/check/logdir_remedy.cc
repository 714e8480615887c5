// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/logdir_remedy.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/base/text.h"
#include "launcher/check/logdir_paths.h"
#include "writer/base/summary_format.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

bool Exists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

// True: a sticky directory in which the caller may not rename or remove the entry. Only the owners of the entry and of
// the directory may do so.
bool IsStickyForOthers(const std::string& directory, const std::string& entry) {
  struct stat above, self;
  if (geteuid() == 0 || stat(directory.c_str(), &above) != 0 || (above.st_mode & S_ISVTX) == 0) return false;
  if (above.st_uid == geteuid() || lstat(entry.c_str(), &self) != 0) return false;
  return self.st_uid != geteuid();
}

bool MayTake(const std::string& path) {
  const std::string directory = ParentOf(path).empty() ? "/" : ParentOf(path);
  return MayChange(directory) && !IsStickyForOthers(directory, path);
}

// The path with all links resolved except the last name; empty: the directory does not exist.
std::string RealPlace(const std::string& path) {
  char real[PATH_MAX];
  const std::string directory = ParentOf(path).empty() ? "/" : ParentOf(path);
  return realpath(directory.c_str(), real) != nullptr ? JoinPath(real, BaseName(path)) : std::string();
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

std::string ShellWord(std::string_view bytes) {
  if (bytes.ends_with('\n')) return "";  // $(…) would drop the newline
  if (PrintableUtf8(bytes) == bytes) return ShellQuoted(bytes);
  std::string word = "\"$(printf '";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%') {
      word += "%%";
    } else if (c == '\'' || c == '\\' || byte < 0x20 || byte >= 0x7F) {
      word += '\\';
      for (const int shift : {6, 3, 0}) word += static_cast<char>('0' + (byte >> shift & 7));
    } else {
      word += c;
    }
  }
  word += "')\"";
  return word;
}

std::string Remedies::Free(std::string_view directory, std::string_view stem, std::string_view suffix) {
  for (int number = 1;; ++number) {
    std::string path = JoinPath(directory, StrCat(stem, number > 1 ? StrCat("_", number) : std::string(), suffix));
    if (Exists(path) || planned_.count(path) != 0) continue;
    planned_.insert(path);
    return path;
  }
}

std::string Remedies::LinkIn(const std::string& path) const {
  if (logdir_.empty() || path == logdir_ || !IsWithin(path, logdir_)) return "";
  for (size_t end = logdir_.size(); end != std::string::npos;) {
    end = path.find('/', end + 1);
    std::string part = path.substr(0, end);
    struct stat info;
    if (lstat(part.c_str(), &info) != 0) return "";
    if (S_ISLNK(info.st_mode)) return part;
  }
  return "";
}

void Remedies::AddLink(const std::string& path) {
  char real[PATH_MAX], text[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), text, sizeof(text));
  if (length <= 0 || realpath(path.c_str(), real) == nullptr) return;
  links_.push_back({RealPlace(path), real, text[0] != '/'});
}

bool Remedies::BreaksLink(const std::string& from) const {
  const std::string real = RealPlace(from);
  for (const KnownLink& link : links_) {
    const bool within = IsWithin(link.path, real);
    if (IsWithin(link.target, real) ? !within : within && link.relative) return true;
  }
  return false;
}

bool MayChange(const std::string& directory) {
  std::string existing = directory.empty() ? "/" : directory;
  while (existing != "/" && !Exists(existing)) existing = ParentOf(existing).empty() ? "/" : ParentOf(existing);
  struct stat info;
  if (stat(existing.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return false;
  return faccessat(AT_FDCWD, existing.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

void AllowReading(const std::string& file, int error, Remedy* remedy) {
  struct stat info;
  const std::string word = ShellWord(file);
  // Excludes links: through a link the rights of another file would change.
  const bool own = lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
  if (error != EACCES || !own || word.empty() || (info.st_mode & S_IRUSR) != 0) return remedy->Forbid();
  remedy->Run(ParentOf(file), StrCat("chmod u+r -- ", word));
}

void Remedy::Add(const std::string& directory, std::string step) {
  if (!remedies_.trust().IsOurs(directory)) shared_ = true;
  if (step.empty()) {
    possible_ = false;
    return;
  }
  StrAppend(&command_, command_.empty() ? "" : " && ", step);
}

void Remedy::KeepOffLinks(const std::string& path) {
  const std::string link = remedies_.LinkIn(path);
  if (link.empty()) return;
  remedies_.Meet(link);
  through_link_ = true;
  possible_ = false;
}

// The path with its links resolved, if it has any.
std::string Remedy::Place(const std::string& path) {
  if (remedies_.LinkIn(path).empty()) return path;
  char real[PATH_MAX];
  if (realpath(path.c_str(), real) != nullptr) return real;
  KeepOffLinks(path);
  return path;
}

void Remedy::MakeDirectory(const std::string& path) {
  KeepOffLinks(path);
  if (path == made_ || IsDirectory(path)) return;
  made_ = path;
  const std::string word = ShellWord(path);
  if (word.empty() || !MayChange(path)) possible_ = false;
  Add(path, StrCat("mkdir -p -- ", word));
}

void Remedy::Move(const std::string& from, const std::string& to) {
  if (remedies_.BreaksLink(from)) {
    breaks_link_ = true;
    possible_ = false;
  }
  KeepOffLinks(ParentOf(from));
  KeepOffLinks(ParentOf(to));
  const std::string source = ShellWord(from), target = ShellWord(to);
  // Moving a directory to another parent requires write access to the directory itself.
  const bool itself = !IsDirectory(from) || ParentOf(from) == ParentOf(to) || MayChange(from);
  if (source.empty() || target.empty() || !itself || !MayTake(from) || !MayChange(ParentOf(to))) possible_ = false;
  if (!remedies_.trust().IsOurs(ParentOf(to))) shared_ = true;
  Add(ParentOf(from), StrCat("mv -nT -- ", source, " ", target));
}

void Remedy::Link(const std::string& named, const std::string& path) {
  KeepOffLinks(ParentOf(path));
  const std::string target = Place(named);
  const std::string to = ShellWord(target), at = ShellWord(path);
  if (to.empty() || at.empty() || !MayChange(ParentOf(path))) possible_ = false;
  // xprof writes files into the target directory, or beside the target file.
  struct stat info;
  const bool to_directory = stat(target.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  if (!remedies_.trust().IsOurs(to_directory ? target : ParentOf(target))) shared_ = true;
  Add(ParentOf(path), StrCat("ln -sT -- ", to, " ", at));
}

void Remedy::RemoveEmpty(const std::string& directory) {
  KeepOffLinks(directory);
  const std::string word = ShellWord(directory);
  if (word.empty() || !MayTake(directory)) possible_ = false;
  Add(ParentOf(directory), StrCat("rmdir -- ", word));
}

void Remedy::RemoveEmptyLevels(const std::string& directory) {
  const std::string word = ShellWord(directory);
  // Optional step: the files are moved already, so the remedy is possible without it.
  if (!word.empty() && MayTake(directory) && remedies_.LinkIn(directory).empty()) {
    Add(ParentOf(directory), StrCat("rmdir -p --ignore-fail-on-non-empty -- ", word));
  }
}

void Remedy::View(const std::string& named) {
  const std::string logdir = Place(named);
  const std::string word = ShellWord(logdir.empty() ? "/" : logdir);
  Add(logdir, word.empty() ? std::string() : StrCat("tensorboard --logdir ", word));
}

void Remedy::Run(const std::string& directory, std::string command) {
  KeepOffLinks(directory);
  Add(directory, std::move(command));
}

std::string Remedy::Advice(std::string_view what) const {
  if (possible_ && !command_.empty()) return std::string(what);
  if (through_link_) return "a link is on the way: do it by hand";
  return breaks_link_ ? "a link leads there: move it and the link by hand" : "you may not change it: ask its owner";
}

}  // namespace tbprof
