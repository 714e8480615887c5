// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/preflight.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>

#include "launcher/base/text.h"
#include "launcher/target/target_process.h"
#include "writer/base/scoped.h"
#include "writer/base/secrets.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

constexpr int kMaxInterpreters = 5;    // the kernel's own limit
constexpr size_t kShebangBytes = 256;  // BINPRM_BUF_SIZE
constexpr size_t kMaxNamesSearched = 50000;

std::string Quoted(std::string_view text) { return StrCat("`", PrintableUtf8(text), "`"); }

// The errno that execve would return for this file, without a check of its format; 0: none.
int ExecError(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EACCES;
  return faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

std::vector<std::string_view> PathElements(const Environment& environment) {
  return Split(Lookup(environment, "PATH").value_or("/bin:/usr/bin"), ':');
}

std::string NearestCommand(const std::string& name, const Environment& environment) {
  std::set<std::string> names;
  for (std::string_view element : PathElements(environment)) {
    if (element.empty()) continue;
    const ScopedDirectory directory(opendir(std::string(element).c_str()));
    if (directory == nullptr) continue;
    while (const dirent* entry = readdir(directory.get())) {
      if (names.size() == kMaxNamesSearched) break;
      // Names whose length differs by more than 2 are not similar.
      const size_t size = strlen(entry->d_name);
      if (size + 2 >= name.size() && size <= name.size() + 2) names.insert(entry->d_name);
    }
  }
  return NearestName(name, {names.begin(), names.end()});
}

std::string NotFound(const std::vector<std::string>& command, const Environment& environment) {
  const std::string& name = command[0];
  if (name.empty()) return "cannot run the command: its name is empty";
  // The name may be a variable or a whole command line by mistake, and then contain a password.
  const std::string shown = PrintableUtf8(MaskSecrets({name})[0]);
  const std::string missing = StrCat("cannot find `", shown, "`");
  const size_t equals = name.find('=');
  if (equals != std::string::npos && equals > 0 && name.find('/') > equals) {
    return StrCat(missing, ": variables go before tbprof, or: tbprof run -- env ", shown, " COMMAND");
  }
  if (command.size() == 1 && name.find(' ') != std::string::npos) {
    return StrCat(missing, ": the command is one quoted word; leave the quotes out, or: tbprof run -- sh -c '", shown,
                  "'");
  }
  if (name.find('/') != std::string::npos) return StrCat(missing, ": no such file");
  if (access(name.c_str(), F_OK) == 0) {
    return StrCat(missing, " in PATH; the file here is ./", PrintableUtf8(name));
  }
  const std::string near = NearestCommand(name, environment);
  return StrCat(missing, " in PATH", near.empty() ? "" : StrCat("; did you mean ", Quoted(near), "?"));
}

struct Shebang {
  std::string interpreter;
  std::string argument;
};

std::optional<Shebang> ReadShebang(const std::string& path) {
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  char buffer[kShebangBytes];
  const ssize_t size = file.valid() ? pread(file.get(), buffer, sizeof(buffer), 0) : -1;
  if (size < 2 || buffer[0] != '#' || buffer[1] != '!') return std::nullopt;
  std::string_view line(buffer + 2, static_cast<size_t>(size) - 2);
  line = line.substr(0, std::min(line.find('\n'), line.find('\0')));
  line = Strip(line);
  const size_t end = line.find_first_of(" \t");
  Shebang shebang{std::string(line.substr(0, end)), ""};
  if (end != std::string_view::npos) shebang.argument = std::string(Strip(line.substr(end)));
  return shebang;
}

std::string NotExecutable(const std::string& path, int error) {
  const std::string refused = StrCat("cannot run ", Quoted(path), ": ");
  struct stat status;
  if (error != EACCES || stat(path.c_str(), &status) != 0) return StrCat(refused, strerror(error));
  if (S_ISDIR(status.st_mode)) return StrCat(refused, "it is a directory");
  if (!S_ISREG(status.st_mode)) return StrCat(refused, "it is no regular file");
  if ((status.st_mode & 0111) == 0) {
    if (path.ends_with(".py")) return StrCat(refused, "it is not executable; python3 ", PrintableUtf8(path), "?");
    return StrCat(refused, "it is not executable", ReadShebang(path) ? "; chmod +x " + PrintableUtf8(path) + "?" : "");
  }
  struct statvfs mount;
  if (statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0) {
    return StrCat(refused, "its file system is mounted noexec");
  }
  return StrCat(refused, strerror(error));
}

// The command that `env` runs; empty: none, or not known.
struct EnvCall {
  std::vector<std::string> command;
  bool drops_preload = false;
};
EnvCall ParseEnv(const std::vector<std::string>& words, int depth = 0) {
  EnvCall call;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-" || word == "-i" || word == "--ignore-environment") {
      call.drops_preload = true;
    } else if (word == "-u" || word == "--unset" || word == "-C" || word == "--chdir") {
      ++i;
      call.drops_preload = call.drops_preload || (i < words.size() && words[i] == "LD_PRELOAD");
    } else if (word.starts_with("-S") || word.starts_with("--split-string")) {
      // A #! line passes all arguments as one word: `-S FOO=1 python3 -u`.
      const size_t attached = word.starts_with("-S") ? 2 : std::string_view("--split-string=").size();
      const size_t next = word.size() > attached ? i + 1 : i + 2;
      if (next > words.size() || depth == 3) break;
      std::vector<std::string> split = {"env"};
      for (std::string_view part : Split(next == i + 1 ? std::string_view(word).substr(attached) : words[i + 1], ' ')) {
        if (!part.empty()) split.emplace_back(part);
      }
      split.insert(split.end(), words.begin() + static_cast<ptrdiff_t>(next), words.end());
      EnvCall inner = ParseEnv(split, depth + 1);
      inner.drops_preload = inner.drops_preload || call.drops_preload;
      return inner;
    } else if (word.starts_with("LD_PRELOAD=")) {
      call.drops_preload = true;
    } else if (word != "--" && (word.empty() || word[0] != '-') && word.find('=') == std::string::npos) {
      call.command.assign(words.begin() + static_cast<ptrdiff_t>(i), words.end());
      break;
    }
  }
  return call;
}

bool IsGlibcLoader(std::string_view name) {
  return name.starts_with("ld-linux") || name.starts_with("ld64.so") || name.starts_with("ld.so");
}

// The reason why the loader would run this program in secure mode, which drops LD_PRELOAD; empty: it would not.
std::string SecureReason(const std::string& path) {
  struct stat status;
  struct statvfs mount;
  if (stat(path.c_str(), &status) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return "";
  if (statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0) return "";
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) return "setuid";
  if ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status.st_gid != getgid()) return "setgid";
  // For root, file capabilities add nothing, and the loader stays in its normal mode (cap_bprm_creds_from_file).
  if (getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) return "given file capabilities";
  return "";
}

class Check {
 public:
  Check(const Environment& environment, Preflight* result) : environment_(environment), result_(*result) {}

  void Run(const std::vector<std::string>& command) {
    const ResolvedCommand resolved = ResolveCommand(command[0], environment_);
    if (resolved.error != 0) {
      result_.exit_status = ExecFailureStatus(resolved.error);
      result_.error = result_.exit_status == kExitNotFound
                          ? NotFound(command, environment_)
                          : NotExecutable(resolved.path.empty() ? command[0] : resolved.path, resolved.error);
      return;
    }
    result_.path = resolved.path;
    FollowFiles(command, resolved.path);
    const std::string advice = WrapperAdvice(command);
    if (!advice.empty()) result_.reasons = {advice};
  }

 private:
  // Examines each file that exec opens on the way to the program.
  void FollowFiles(std::vector<std::string> words, std::string path) {
    for (int depth = 0; depth <= kMaxInterpreters; ++depth) {
      result_.program = path;
      const ElfFacts facts = ReadElf(path);
      if (facts.is_elf) {
        Look(path, facts);
        if (BaseName(path) != "env" || result_.exit_status != 0) return;
        const EnvCall call = ParseEnv(words);
        if (call.drops_preload) {
          Limit(Preload::kChildrenOnly,
                "`env` takes LD_PRELOAD away from the command; put tbprof behind it: env … tbprof run -- COMMAND");
        }
        // If the inner command is not found, env itself reports the error.
        const ResolvedCommand inner =
            call.command.empty() ? ResolvedCommand{"", ENOENT} : ResolveCommand(call.command[0], environment_);
        if (inner.error != 0) return;
        words = call.command;
        path = inner.path;
        continue;
      }
      const std::optional<Shebang> shebang = ReadShebang(path);
      if (!shebang) {
        if (access(path.c_str(), R_OK) != 0) {
          result_.notes.push_back(StrCat(Quoted(path), " can't be read, so nothing is known of it"));
          return;
        }
        // execvp passes a file to the shell if the kernel does not know its format.
        words.insert(words.begin(), "/bin/sh");
        path = "/bin/sh";
        continue;
      }
      const int error = shebang->interpreter.empty() ? ENOEXEC : ExecError(shebang->interpreter);
      if (error == ENOEXEC) return;
      if (error != 0) {
        result_.exit_status = ExecFailureStatus(error);
        result_.error =
            StrCat("cannot run ", Quoted(path), ": its first line names the interpreter ", Quoted(shebang->interpreter),
                   ": ", strerror(error), shebang->interpreter.ends_with("\r") ? " (the line ends in CR LF)" : "");
        return;
      }
      std::vector<std::string> interpreted = {shebang->interpreter};
      if (!shebang->argument.empty()) interpreted.push_back(shebang->argument);
      interpreted.push_back(path);
      words = interpreted;
      path = shebang->interpreter;
    }
  }

  void Look(const std::string& path, const ElfFacts& facts) {
    const std::string name = Quoted(BaseName(path));
    if (!facts.native) {
      Limit(Preload::kNo, StrCat(name, facts.elf_class == 32 ? " is a 32-bit program" : " is built for another machine",
                                 ": it runs without being recorded; tbprof records ", sizeof(void*) * 8,
                                 "-bit programs of its own kind"));
      return;
    }
    if (facts.malformed) {
      Limit(Preload::kNo, StrCat(name, " is no whole ELF file: it is started without being recorded"));
      return;
    }
    if (!facts.interpreter.empty() && access(facts.interpreter.c_str(), F_OK) != 0) {
      result_.exit_status = kExitNotFound;
      result_.error = StrCat("cannot run ", Quoted(path), ": its loader ", Quoted(facts.interpreter),
                             " does not exist here; the program was built for another system");
      return;
    }
    const bool is_loader = IsGlibcLoader(facts.soname) && facts.interpreter.empty();
    if (facts.interpreter.empty() && !is_loader) {
      Limit(Preload::kChildrenOnly,
            StrCat(name, facts.is_go ? " is a Go program linked statically" : " is linked statically",
                   ": it runs without being recorded, programs it starts are; ",
                   facts.is_go ? "Go's own profiler is pprof" : "link it dynamically to record it"));
      return;
    }
    if (!is_loader && !IsGlibcLoader(BaseName(facts.interpreter))) {
      const bool musl = BaseName(facts.interpreter).starts_with("ld-musl");
      Limit(Preload::kNo,
            StrCat(name, musl ? " is linked with musl" : StrCat(" is loaded by ", Quoted(facts.interpreter)),
                   ": it runs without being recorded; build it for glibc to record it"));
      return;
    }
    if (!facts.sanitizer.empty()) {
      Limit(Preload::kNo, StrCat(name, " is built with ", facts.sanitizer,
                                 ", which takes over the same calls: it runs without being recorded; profile a build "
                                 "without it"));
      result_.sanitizer = facts.sanitizer;
      return;
    }
    if (const std::string secure = SecureReason(path); !secure.empty()) {
      const bool changes_user = secure.starts_with("set");
      Limit(Preload::kChildrenOnly, StrCat(name, " is ", secure,
                                           ": the loader drops LD_PRELOAD, it runs without being recorded; run tbprof "
                                           "as ",
                                           changes_user ? "the user it changes to" : "root"));
      return;
    }
    if (facts.is_go) {
      result_.is_go = true;
      result_.reasons.push_back(
          StrCat(name, " is a Go program: only its C parts are recorded, Go's own profiler is pprof"));
    }
    if (facts.defines_malloc) {
      result_.own_allocator = true;
      result_.reasons.push_back(
          StrCat(name, " carries an allocator of its own: its allocations are not recorded, all else is"));
    }
    for (const std::string& needed : facts.needed) {
      for (std::string_view allocator : {"libjemalloc.so", "libtcmalloc", "libmimalloc.so"}) {
        if (needed.starts_with(allocator)) result_.notes.push_back(StrCat("the allocator is ", Quoted(needed)));
      }
    }
  }

  void Limit(Preload preload, std::string reason) {
    result_.preload = std::max(result_.preload, preload);
    result_.reasons.push_back(std::move(reason));
  }

  const Environment& environment_;
  Preflight& result_;
};

// These programs run a command with another root directory, in which the library's path does not exist: the loader
// would print an error on the program's stderr.
constexpr std::string_view kForeignRoot[] = {"apptainer", "singularity", "enroot", "flatpak"};

}  // namespace

ResolvedCommand ResolveCommand(const std::string& name, const Environment& environment) {
  if (name.empty()) return {"", ENOENT};
  if (name.find('/') != std::string::npos) return {name, ExecError(name)};
  if (name.size() > NAME_MAX) return {"", ENAMETOOLONG};
  ResolvedCommand refused{"", ENOENT};
  for (std::string_view element : PathElements(environment)) {
    if (element.size() >= PATH_MAX) continue;
    const std::string path = element.empty() ? name : StrCat(element, "/", name);
    const int error = ExecError(path);
    switch (error) {
      case EACCES:
        if (refused.error != EACCES) refused = {path, EACCES};
        break;
      case ENOENT:
      case ESTALE:
      case ENOTDIR:
      case ENODEV:
      case ETIMEDOUT:
        break;
      default:
        return {path, error};
    }
  }
  return refused;
}

ProgramFile ExamineFile(const std::string& path, const Environment& environment) {
  std::string at = ResolveCommand(path, environment).path;
  for (int depth = 0; depth <= kMaxInterpreters && !at.empty(); ++depth) {
    const ElfFacts facts = ReadElf(at);
    if (!facts.is_elf) {
      const std::optional<Shebang> shebang = ReadShebang(at);
      if (!shebang) return {};
      at = shebang->interpreter;
      continue;
    }
    ProgramFile file;
    file.own_allocator = facts.defines_malloc;
    const bool is_loader = IsGlibcLoader(facts.soname) && facts.interpreter.empty();
    if (!facts.native) {
      file.not_loaded = facts.elf_class == 32 ? "32-bit program" : "program for another machine";
    } else if (facts.interpreter.empty() && !is_loader) {
      file.not_loaded = "static program";
    } else if (!is_loader && !IsGlibcLoader(BaseName(facts.interpreter))) {
      file.not_loaded = BaseName(facts.interpreter).starts_with("ld-musl") ? "linked with musl" : "not a glibc program";
    } else if (const std::string secure = SecureReason(at); !secure.empty()) {
      file.not_loaded = StrCat(secure, ": the loader drops LD_PRELOAD");
    }
    return file;
  }
  return {};
}

Preflight CheckCommand(const std::vector<std::string>& command, const Environment& environment) {
  Preflight result;
  if (command.empty()) {
    result.exit_status = kExitUsage;
    result.error = "no command to run";
    return result;
  }
  Check(environment, &result).Run(command);
  const std::string_view name = BaseName(command[0]);
  if (result.exit_status == 0 && !WrapperAdvice(command).empty() &&
      std::find(std::begin(kForeignRoot), std::end(kForeignRoot), name) != std::end(kForeignRoot)) {
    result.preload = Preload::kNo;
  }
  return result;
}

}  // namespace tbprof
