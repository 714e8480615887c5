// SPDX-License-Identifier: Apache-2.0
//
// Examines the command before it starts: whether it exists, and whether the library can be loaded into it.
//
//   Preflight preflight = CheckCommand(options.command, CurrentEnvironment());
//   if (preflight.exit_status != 0) { terminal.Error(preflight.error); return preflight.exit_status; }
//   for (const std::string& reason : preflight.reasons) terminal.Warn(reason);
//
// Process: launcher. Reads files only. Untrusted: every offset in them.
#ifndef TBPROF_LAUNCHER_TARGET_PREFLIGHT_H_
#define TBPROF_LAUNCHER_TARGET_PREFLIGHT_H_

#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "writer/convert/diagnostics.h"

namespace tbprof {

enum class Preload {
  kYes,           // the library is loaded
  kChildrenOnly,  // the loader ignores the library here without a message; children of the command may load it
  kNo,            // the environment must stay untouched: the program would not start or would print an error
};

struct Preflight {
  int exit_status = 0;  // 126 or 127: the command cannot be started; `error` is the message
  std::string error;

  std::string path;     // the file execvp would execute
  std::string program;  // the ELF file that runs in the end: `path`, or the interpreter of a script
  Preload preload = Preload::kYes;
  bool can_preload() const { return preload == Preload::kYes; }

  // The program contains its own malloc (allocator linked statically): its allocations are not recorded.
  bool own_allocator = false;
  bool is_go = false;
  std::string sanitizer;  // `AddressSanitizer`, ...: empty if none

  std::vector<std::string> reasons;  // why the program is not or only partly recorded; one line each, with a remedy
  std::vector<std::string> notes;    // for information: no data is missing
};

Preflight CheckCommand(const std::vector<std::string>& command, const Environment& environment);

// For a program that was started in the target: why the library is not loaded into it. `path`: as passed to exec.
ProgramFile ExamineFile(const std::string& path, const Environment& environment);

// Parts of CheckCommand, for tests and `tbprof doctor`.

struct ResolvedCommand {
  std::string path;  // empty: not found
  int error = 0;     // errno as execvp would report it
};
// Searches as glibc's execvp does: a name with a slash is used as it is; an empty PATH element is the working
// directory; after EACCES the search continues, and returns EACCES if it finds no other file; an unset PATH is
// `/bin:/usr/bin`.
ResolvedCommand ResolveCommand(const std::string& name, const Environment& environment);

struct ElfFacts {
  bool is_elf = false;
  bool malformed = false;
  int elf_class = 0;    // 32 or 64
  int machine = 0;      // EM_...
  bool native = false;  // class, byte order and machine are tbprof's own
  bool has_dynamic = false;
  std::string interpreter;  // PT_INTERP; empty: static or static-pie
  std::string soname;
  std::vector<std::string> needed;
  bool is_go = false;
  bool defines_malloc = false;
  std::string sanitizer;
};
ElfFacts ReadElf(const std::string& path);

// The advice for a command such as `docker run ...`, which does its work elsewhere; empty for other commands.
std::string WrapperAdvice(const std::vector<std::string>& command);

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_TARGET_PREFLIGHT_H_
