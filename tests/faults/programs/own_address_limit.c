// SPDX-License-Identifier: Apache-2.0
// own_address_limit: limits its own address space, by each call that can, and prints what it reads back and how much
// memory it then gets: in this process, in a fork child, after a failed exec, as a user without privileges, and in the
// next program. Memory is printed in units of 16 MiB, and is not near the border of one.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)

static int failed_writes;
static void Print(const char* what, const char* name, long a, long b) {
  char text[200];
  const int length = snprintf(text, sizeof(text), "%s %s: %ld %ld\n", what, name, a, b);
  failed_writes += write(1, text, (size_t)length) != length;
}

static long InMib(rlim_t bytes) { return bytes == RLIM_INFINITY ? -1 : (long)(bytes / MIB); }

static void ShowLimit(const char* what) {
  struct rlimit limit = {0, 0};
  getrlimit(RLIMIT_AS, &limit);
  Print(what, "getrlimit", InMib(limit.rlim_cur), InMib(limit.rlim_max));
  struct rlimit64 wide = {0, 0};
  getrlimit64(RLIMIT_AS, &wide);
  Print(what, "getrlimit64", InMib(wide.rlim_cur), InMib(wide.rlim_max));
  prlimit(getpid(), RLIMIT_AS, NULL, &limit);
  Print(what, "prlimit", InMib(limit.rlim_cur), InMib(limit.rlim_max));
}

static void ShowMemory(const char* what) {
  enum { kBlock = 256 << 10, kMost = 8192 };
  static void* blocks[kMost];
  int count = 0;
  while (count < kMost) {
    void* block = mmap(NULL, kBlock, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) break;
    blocks[count++] = block;
  }
  const int error = errno;
  for (int i = 0; i < count; ++i) munmap(blocks[i], kBlock);
  Print(what, "16 MiB, errno", (count + 32) / 64, count == kMost ? 0 : error);
}

static void Show(const char* what) {
  ShowLimit(what);
  ShowMemory(what);
}

static void Set(const char* what, rlim_t soft, rlim_t hard) {
  const struct rlimit limit = {soft, hard};
  errno = 0;
  const int result = setrlimit(RLIMIT_AS, &limit);
  Print(what, "setrlimit", result, errno);
  Show(what);
}

static void NextProgram(const char* name, char* argument) {
  char* const words[] = {(char*)name, argument, NULL};
  execv("/nowhere/at/all", words);
  ShowMemory("after a failed exec");
  execv("/proc/self/exe", words);
}

static void WithoutPrivileges(void) {
  if (setgid(65534) != 0 || setuid(65534) != 0) return;
  Set("user", 256 * MIB, 512 * MIB);
  Set("user, more", 320 * MIB, 512 * MIB);
  Set("user, same", 320 * MIB, 320 * MIB);
  Set("user, too much", 320 * MIB, 336 * MIB);
  Set("user, wrong", 320 * MIB, 160 * MIB);
  Set("user, less", 256 * MIB, 256 * MIB);
}

static void InChild(void (*body)(void)) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Print("child", "status", status, 0);
}

static void Forked(void) { Show("fork child"); }
static void Executed(void) {
  char again[] = "again";
  NextProgram("own_address_limit", again);
}

// As subprocess.run: a vfork child tries one file after the other.
static void Searches(void) {
  if (setgid(65534) != 0 || setuid(65534) != 0) return;
  char again[] = "again";
  char* const words[] = {again, again, NULL};
  const pid_t child = vfork();
  if (child == 0) {
    for (int i = 0; i < 3; ++i) execv("/nowhere/at/all", words);
    execv("/proc/self/exe", words);
    _exit(1);
  }
  waitpid(child, NULL, 0);
  ShowMemory("after a search");
}

int main(int argc, char** argv) {
  (void)argv;
  if (argc > 1) {
    // The next program gets a smaller segment, so only its limits are as without tbprof.
    ShowLimit("next program");
    return 0;
  }
  Set("own", 256 * MIB, RLIM_INFINITY);
  InChild(Forked);
  InChild(Executed);
  struct rlimit old = {0, 0};
  const struct rlimit wanted = {320 * MIB, 1024 * MIB};
  Print("own", "prlimit sets", prlimit(0, RLIMIT_AS, &wanted, &old), 0);
  Print("own", "prlimit returns", InMib(old.rlim_cur), InMib(old.rlim_max));
  Show("own, by prlimit");
  struct rlimit both = {256 * MIB, 1024 * MIB};
  Print("own", "prlimit into itself", prlimit(0, RLIMIT_AS, &both, &both), 0);
  Print("own", "prlimit returns", InMib(both.rlim_cur), InMib(both.rlim_max));
  Show("own, by prlimit into itself");
  InChild(Executed);
  InChild(Searches);
  InChild(WithoutPrivileges);
  const struct rlimit64 wide = {256 * MIB, 256 * MIB};
  Print("own", "setrlimit64", setrlimit64(RLIMIT_AS, &wide), 0);
  Show("own, by setrlimit64");
  InChild(WithoutPrivileges);
  errno = 0;
  const int result = setrlimit(RLIMIT_AS, (const struct rlimit*)8);
  Print("own", "no address", result, errno);
  Set("own, without a limit", RLIM_INFINITY, RLIM_INFINITY);
  const pid_t child = vfork();
  if (child == 0) {
    const struct rlimit large = {512 * MIB, 512 * MIB}, small = {128 * MIB, 256 * MIB};
    setrlimit(RLIMIT_AS, &small);
    setrlimit(RLIMIT_AS, &large);
    char* const words[] = {argv[0], (char*)"again", NULL};
    execv("/proc/self/exe", words);
    _exit(1);
  }
  waitpid(child, NULL, 0);
  Show("own, after vfork");
  return failed_writes == 0 ? 5 : 1;
}
