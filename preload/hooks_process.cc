// SPDX-License-Identifier: Apache-2.0
// Hooks on fork, exec and spawn. Rules: RULES.md.
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "preload/address_limit.h"
#include "preload/gpu.h"
#include "preload/hooks.h"
#include "preload/page_probe.h"
#include "preload/record.h"
#include "preload/seccomp.h"
#include "preload/torch_turns.h"
#include "wire/raw.h"
#include "wire/rendezvous.h"

extern "C" char** environ;

namespace tbprof {
namespace {

// Reads memory at addresses that the program passes to exec. An invalid address makes exec return EFAULT, and must not
// crash the program here.
class NamedMemory {
 public:
  bool Readable(const void* address) {
    const uint64_t page = reinterpret_cast<uint64_t>(address) / kPage;
    if (page == known_[0] || page == known_[1]) return true;
    const uint64_t word = reinterpret_cast<uint64_t>(address) & ~uint64_t{7};
    if (word == 0 || IsFaultingWord(reinterpret_cast<const void*>(word))) return false;
    known_[1] = known_[0];
    known_[0] = page;
    return true;
  }
  // Length of a text, at most `limit`. False: the text is not readable up to its end.
  bool Length(const char* text, size_t limit, size_t* length) {
    for (*length = 0; *length < limit; ++*length) {
      if (!Readable(text + *length)) return false;
      if (text[*length] == '\0') return true;
    }
    return true;
  }

 private:
  uint64_t known_[2] = {UINT64_MAX, UINT64_MAX};
};

constexpr size_t kMaxPath = 4096;
constexpr size_t kMaxPreload = 64 * 1024;
constexpr size_t kMaxVariables = 65536;

// *carries: whether a program that is started with this environment also loads this library. False: the environment is
// not readable, so the kernel will reject the exec.
bool CarriesUs(NamedMemory* memory, char* const* environment, bool* carries) {
  *carries = false;
  if (environment == nullptr) return true;
  bool preload = false, session = false;
  for (size_t count = 0; count < kMaxVariables; ++count, ++environment) {
    if (!memory->Readable(environment)) return false;
    const char* entry = *environment;
    if (entry == nullptr) break;
    static constexpr const char* kNames[] = {kPreloadVariable, kSessionVariable};
    for (const char* name : kNames) {
      size_t i = 0;
      for (; name[i] != '\0'; ++i) {
        if (!memory->Readable(entry + i)) return false;
        if (entry[i] != name[i]) break;
      }
      if (name[i] != '\0' || !memory->Readable(entry + i)) continue;
      if (entry[i] != '=') continue;
      if (name == kNames[1]) {
        session = true;
        continue;
      }
      const char* value = entry + i + 1;
      size_t length;
      if (!memory->Length(value, kMaxPreload, &length)) return false;
      for (size_t at = 0; at < length; ++at) {
        size_t j = 0;
        while (kPreloadFileName[j] != '\0' && at + j < length && value[at + j] == kPreloadFileName[j]) ++j;
        if (kPreloadFileName[j] == '\0') preload = true;
      }
    }
  }
  *carries = preload && session;
  return true;
}

// An exec in progress. `pid` != 0: the exec of a vfork child, which runs in this process's memory as this thread.
struct ExecScope {
  ThreadState* thread;  // null: not recorded
  int32_t pid;
  bool address_limit;  // passed on to the next program
};

// The record is committed before the real call, which does not return on success.
ExecScope NoteExec(uint16_t operation, const char* path, char* const* environment) {
  if (!Armed(kFamilyProcess)) return {};
  ThreadState* thread = CurrentThread();
  if (thread == nullptr) return {};
  NamedMemory memory;
  size_t length = 0;
  bool carries = true;
  if (!g_has_filter) {
    if (path != nullptr && !memory.Length(path, kMaxPath, &length)) return {};
    if (!CarriesUs(&memory, environment, &carries)) return {};
  }
  const int32_t pid = raw::GetPid();
  const bool vforked = g_attachment.segment.process_slots[thread->writer.thread->process_slot].pid != pid;
  const int flags = (carries ? 0 : kRecordEnvironmentLost) | (vforked ? kRecordSpawned : 0);
  RecordExec(thread, operation, path, length, static_cast<uint8_t>(flags), vforked ? pid : 0);
  return {thread, vforked ? pid : 0, false};
}

// Call this before an exec.
ExecScope BeginExec(uint16_t operation, const char* path, char* const* environment) {
  NotifyGpuOfEnd();
  ExecScope exec = NoteExec(operation, path, environment);
  // Programs that search PATH themselves try one file after the other. libc's own search is one call.
  const bool is_one_file =
      operation == kOp_execve || operation == kOp_execv || operation == kOp_execl || operation == kOp_execle;
  exec.address_limit = PassOnAddressLimit(is_one_file ? path : nullptr);
  return exec;
}

// Call this after an exec that returned: it failed.
int Failed(const ExecScope& exec, uint16_t operation, int result, const void* site) {
  if (exec.address_limit) KeepAddressLimit();
  if (exec.thread == nullptr) return result;
  const int error = errno;
  if (exec.pid != 0) {
    // No span: the child's calls are on the parent's line, and the parent's vfork has not returned.
    RecordExec(exec.thread, operation, "", 0, kRecordFailed | kRecordSpawned, exec.pid);
  } else {
    constexpr uint8_t kCounted = CountedKindOf(kFamilyProcess);
    CountMade(exec.thread, kCounted);
    WaitScope wait{exec.thread, Ticks(), 0, reinterpret_cast<uint64_t>(site), operation, kCounted, nullptr};
    RecordSpan(exec.thread, wait, 0, result, error);
  }
  errno = error;
  return result;
}

// Records a program that libc has started. The kernel has read path and environment, so they are readable.
void NoteSpawn(uint16_t operation, const char* path, char* const* environment, int32_t pid) {
  ThreadState* thread = CurrentThread();
  if (thread == nullptr) return;
  NamedMemory memory;
  bool carries;
  size_t length = 0;
  if (!memory.Length(path, kMaxPath, &length) || !CarriesUs(&memory, environment, &carries)) return;
  const int flags = (carries ? 0 : kRecordEnvironmentLost) | kRecordSpawned;
  RecordExec(thread, operation, path, length, static_cast<uint8_t>(flags), pid);
}

int CountArguments(va_list arguments) {
  int count = 1;  // the first argument is a named parameter
  while (va_arg(arguments, const char*) != nullptr) ++count;
  return count;
}

}  // namespace

bool g_has_filter;

void PrepareForSeccomp(bool strict) {
  __atomic_store_n(&g_has_filter, true, __ATOMIC_RELAXED);
  if (strict) StopRecording("seccomp's strict mode");
}

pid_t Hook_fork() {
  TBPROF_RESOLVED(fork);
  if (!g_attachment.attached) return g_real.fork();
  WaitScope wait{};
  if (Armed(kFamilyProcess)) BeginWait(&wait, kOp_fork, 0, __builtin_return_address(0));
  NoteLiveBytesBeforeFork();
  const bool torch_is_free = BeginTorchFork();
  const pid_t pid = g_real.fork();
  EndTorchFork(pid == 0, torch_is_free);
  // tbprof does not change errno here, and reading errno would fetch a page of libc that a child may not need.
  if (pid == 0) {
    // Registers the child now, so that it is seen even if it records nothing else, and so that the launcher keeps the
    // segment of a child that outlives its parent until a window opens.
    EnterForkChild();
    return 0;
  }
  t_thread.has_live_at_fork = false;
  const int error = pid < 0 ? errno : 0;
  EndWait(&wait, pid, error);
  if (error != 0) errno = error;
  return pid;
}

// A fork child that has not registered, such as one after vfork, uses no GPU.
#define TBPROF_END(name)         \
  void Hook_##name(int status) { \
    TBPROF_RESOLVED(name);       \
    NotifyGpuOfEnd();            \
    g_real.name(status);         \
    __builtin_unreachable();     \
  }
TBPROF_END(_exit)
TBPROF_END(_Exit)
TBPROF_END(quick_exit)

#define TBPROF_EXEC(name, parameters, arguments, path, environment)                      \
  int Hook_##name parameters {                                                           \
    TBPROF_RESOLVED(name);                                                               \
    const ExecScope exec = BeginExec(kOp_##name, path, environment);                     \
    return Failed(exec, kOp_##name, g_real.name arguments, __builtin_return_address(0)); \
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

// The variadic functions call their array forms, with the array on the stack as in libc.
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
    const ExecScope exec = BeginExec(kOp_##name, path, environment);                                         \
    return Failed(exec, kOp_##name, TBPROF_CALL_##array_name, __builtin_return_address(0));                  \
  }
#define TBPROF_CALL_execv g_real.execv(path, values)
#define TBPROF_CALL_execvp g_real.execvp(path, values)
#define TBPROF_CALL_execve g_real.execve(path, values, environment)
TBPROF_EXEC_LIST(execl, execv, false)
TBPROF_EXEC_LIST(execlp, execvp, false)
TBPROF_EXEC_LIST(execle, execve, true)

#define TBPROF_SPAWN(function, name, operation)                                                             \
  int function(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,                     \
               const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) {     \
    TBPROF_RESOLVED(name);                                                                                  \
    if (!Armed(kFamilyProcess)) return g_real.name(pid, path, actions, attributes, arguments, environment); \
    WaitScope wait;                                                                                         \
    BeginWait(&wait, operation, CountedKindOf(kFamilyProcess), 0, __builtin_return_address(0));             \
    const int result = g_real.name(pid, path, actions, attributes, arguments, environment);                 \
    EndWait(&wait, result, result);                                                                         \
    if (result == 0) {                                                                                      \
      const int error = errno;                                                                              \
      NoteSpawn(operation, path, environment, pid == nullptr ? 0 : *pid);                                   \
      errno = error;                                                                                        \
    }                                                                                                       \
    return result;                                                                                          \
  }
TBPROF_SPAWN(Hook_posix_spawn, posix_spawn, kOp_posix_spawn)
TBPROF_SPAWN(Hook_posix_spawnp, posix_spawnp, kOp_posix_spawnp)
#if defined(__x86_64__)
#define TBPROF_SPAWN_OLD(function, label)                                                             \
  TBPROF_EXPORT int function(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions, \
                             const posix_spawnattr_t* attributes, char* const* arguments,             \
                             char* const* environment) __asm__(label);
TBPROF_SPAWN_OLD(OldSpawn, "tbprof_spawn_old")
TBPROF_SPAWN_OLD(OldSpawnPath, "tbprof_spawnp_old")
TBPROF_SPAWN(OldSpawn, posix_spawn_old, kOp_posix_spawn)
TBPROF_SPAWN(OldSpawnPath, posix_spawnp_old, kOp_posix_spawnp)
__asm__(".symver tbprof_posix_spawn, posix_spawn@@@GLIBC_2.15");
__asm__(".symver tbprof_posix_spawnp, posix_spawnp@@@GLIBC_2.15");
__asm__(".symver tbprof_spawn_old, posix_spawn@GLIBC_2.2.5, remove");
__asm__(".symver tbprof_spawnp_old, posix_spawnp@GLIBC_2.2.5, remove");
#endif

// PR_TSC_SIGSEGV makes a read of the CPU's counter fault, in this thread and in all threads and children that it makes.
// The next timestamp would kill the process, so recording stops for the process.
int Hook_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
  TBPROF_RESOLVED(prctl);
  if (__builtin_expect(option == PR_SET_TSC && a == PR_TSC_SIGSEGV, 0)) StopRecording("PR_SET_TSC");
  if (__builtin_expect(option == PR_SET_SECCOMP, 0) && (a == SECCOMP_MODE_STRICT || b != 0)) {
    PrepareForSeccomp(a == SECCOMP_MODE_STRICT);
  }
  if (option != PR_SET_NAME) return g_real.prctl(option, a, b, c, d);
  const int result = g_real.prctl(option, a, b, c, d);
  // The kernel has read the name, so it is readable up to its end or up to the length that the kernel keeps.
  if (result == 0 && Armed(kFamilyThread)) NoteOwnName(reinterpret_cast<const char*>(a));
  return result;
}

// libc's system starts the shell by a name inside libc, which no hook sees.
int Hook_system(const char* command) {
  TBPROF_RESOLVED(system);
  if (!Armed(kFamilyProcess)) return g_real.system(command);
  WaitScope wait;
  BeginWait(&wait, kOp_system, 0, __builtin_return_address(0));
  const int result = g_real.system(command);
  const int error = errno;
  EndWait(&wait, result, 0);
  if (command != nullptr && result >= 0) NoteSpawn(kOp_system, "/bin/sh", environ, 0);
  errno = error;
  return result;
}

}  // namespace tbprof
