// SPDX-License-Identifier: Apache-2.0
// fork, exec, spawn. Rules: RULES.md.
#include <stdarg.h>

#include "preload/hooks.h"
#include "preload/raw.h"
#include "preload/record.h"
#include "wire/rendezvous.h"

extern "C" char** environ;

namespace tbprof {
namespace {

// Whether a program started with this environment would load us too.
bool CarriesUs(char* const* environment) {
  if (environment == nullptr) return false;
  bool preload = false, session = false;
  for (; *environment != nullptr; ++environment) {
    const char* entry = *environment;
    static constexpr const char* kNames[] = {kPreloadVariable, kSessionVariable};
    for (const char* name : kNames) {
      size_t i = 0;
      while (name[i] != '\0' && entry[i] == name[i]) ++i;
      if (name[i] != '\0' || entry[i] != '=') continue;
      if (name == kNames[1]) {
        session = true;
        continue;
      }
      const char* value = entry + i + 1;
      for (; *value != '\0'; ++value) {
        size_t j = 0;
        while (kPreloadFileName[j] != '\0' && value[j] == kPreloadFileName[j]) ++j;
        if (kPreloadFileName[j] == '\0') preload = true;
      }
    }
  }
  return preload && session;
}

// A vfork child runs in our memory, as this thread, and must leave no trace in it.
bool IsVforkChild(const ThreadState* thread) {
  return g_attachment.segment.process_slots[thread->writer.thread->process_slot].pid != raw::GetPid();
}

// Before an exec. The record is committed when the real call is made: it never returns if all goes well.
ThreadState* NoteExec(uint16_t operation, const char* path, char* const* environment) {
  if (!Armed(kFamilyProcess)) return nullptr;
  ThreadState* thread = CurrentThread();
  if (thread == nullptr || IsVforkChild(thread)) return nullptr;
  RecordExec(thread, operation, path == nullptr ? "" : path, !CarriesUs(environment));
  return thread;
}

// An exec that came back.
int Failed(ThreadState* thread, uint16_t operation, int result, const void* site) {
  if (thread == nullptr) return result;
  const int error = errno;
  WaitScope wait{thread, Ticks(), 0, reinterpret_cast<uint64_t>(site), operation};
  RecordSpan(thread, wait, 0, result, error);
  errno = error;
  return result;
}

int CountArguments(va_list arguments) {
  int count = 1;  // the first is named
  while (va_arg(arguments, const char*) != nullptr) ++count;
  return count;
}

}  // namespace

pid_t Hook_fork() {
  TBPROF_RESOLVED(fork);
  WaitScope wait{};
  if (Armed(kFamilyProcess)) BeginWait(&wait, kOp_fork, 0, __builtin_return_address(0));
  const pid_t pid = g_real.fork();
  const int error = errno;
  if (pid == 0) {
    // Registers the child now, so that it is seen even if it records nothing else, and the launcher keeps the segment
    // of one that outlives its parent until a window opens.
    CurrentThread();
  } else {
    EndWait(&wait, pid, pid < 0 ? error : 0);
  }
  errno = error;
  return pid;
}

#define TBPROF_EXEC(name, parameters, arguments, path, environment)                        \
  int Hook_##name parameters {                                                             \
    TBPROF_RESOLVED(name);                                                                 \
    ThreadState* thread = NoteExec(kOp_##name, path, environment);                         \
    return Failed(thread, kOp_##name, g_real.name arguments, __builtin_return_address(0)); \
  }
TBPROF_EXEC(execve, (const char* path, char* const* arguments, char* const* environment),
            (path, arguments, environment), path, environment)
TBPROF_EXEC(execv, (const char* path, char* const* arguments), (path, arguments), path, environ)
TBPROF_EXEC(execvp, (const char* path, char* const* arguments), (path, arguments), path, environ)
TBPROF_EXEC(execvpe, (const char* path, char* const* arguments, char* const* environment),
            (path, arguments, environment), path, environment)
TBPROF_EXEC(fexecve, (int fd, char* const* arguments, char* const* environment), (fd, arguments, environment), "",
            environment)
TBPROF_EXEC(execveat, (int directory, const char* path, char* const* arguments, char* const* environment, int flags),
            (directory, path, arguments, environment, flags), path, environment)

// The variadic ones become their array forms, with the array on the stack as libc does it.
#define TBPROF_EXEC_LIST(name, array_name, has_environment)                                                  \
  int Hook_##name(const char* path, const char* argument, ...) {                                             \
    TBPROF_RESOLVED(array_name);                                                                             \
    va_list list;                                                                                            \
    va_start(list, argument);                                                                                \
    const int count = argument == nullptr ? 0 : CountArguments(list);                                        \
    va_end(list);                                                                                            \
    auto** values = static_cast<char**>(__builtin_alloca((static_cast<size_t>(count) + 1) * sizeof(char*))); \
    va_start(list, argument);                                                                                \
    values[0] = const_cast<char*>(argument);                                                                 \
    for (int i = 1; i <= count; ++i) values[i] = va_arg(list, char*);                                        \
    char* const* environment = has_environment ? va_arg(list, char* const*) : environ;                       \
    va_end(list);                                                                                            \
    ThreadState* thread = NoteExec(kOp_##name, path, environment);                                           \
    return Failed(thread, kOp_##name, TBPROF_CALL_##array_name, __builtin_return_address(0));                \
  }
#define TBPROF_CALL_execv g_real.execv(path, values)
#define TBPROF_CALL_execvp g_real.execvp(path, values)
#define TBPROF_CALL_execve g_real.execve(path, values, environment)
TBPROF_EXEC_LIST(execl, execv, false)
TBPROF_EXEC_LIST(execlp, execvp, false)
TBPROF_EXEC_LIST(execle, execve, true)

#define TBPROF_SPAWN(name)                                                                                  \
  int Hook_##name(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,                  \
                  const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) {  \
    TBPROF_RESOLVED(name);                                                                                  \
    if (!Armed(kFamilyProcess)) return g_real.name(pid, path, actions, attributes, arguments, environment); \
    WaitScope wait;                                                                                         \
    BeginWait(&wait, kOp_##name, 0, __builtin_return_address(0));                                           \
    const int result = g_real.name(pid, path, actions, attributes, arguments, environment);                 \
    EndWait(&wait, result, result);                                                                         \
    return result;                                                                                          \
  }
TBPROF_SPAWN(posix_spawn)
TBPROF_SPAWN(posix_spawnp)

}  // namespace tbprof
