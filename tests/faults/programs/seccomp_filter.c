// SPDX-License-Identifier: Apache-2.0
// seccomp_filter self: a filter that kills at every call but those of the work, and the work.
// seccomp_filter kill|errno PROGRAM ARGUMENT...: runs it under a filter that kills at (or refuses) the calls that a
// profiler makes and a program does not.
// seccomp_filter asks: calls that set nothing.
// seccomp_filter strict|strict_syscall: strict mode, in which a process may only read, write and end; and the clock's
// counter faults.
// seccomp_filter perf PROGRAM ARGUMENT...: under one that refuses perf_event_open, as containers do.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "facts.h"

static void Install(struct sock_filter* filter, size_t length) {
  struct sock_fprog program = {(unsigned short)length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("seccomp");
    exit(77);
  }
}

#define LOAD BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

static void KillAllBut(const int* calls, size_t count) {
  struct sock_filter filter[200];
  size_t at = 0;
  filter[at++] = (struct sock_filter)LOAD;
  for (size_t i = 0; i < count; ++i) {
    filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  Install(filter, at);
}

static void Deny(const int* calls, size_t count, unsigned action) {
  struct sock_filter filter[200];
  size_t at = 0;
  filter[at++] = (struct sock_filter)LOAD;
  for (size_t i = 0; i < count; ++i) {
    filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
  }
  filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  Install(filter, at);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void* Locks(void* argument) {
  for (int i = 0; i < 50; ++i) {
    pthread_mutex_lock(&mutex);
    usleep(200);
    pthread_mutex_unlock(&mutex);
  }
  return argument;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (strcmp(argv[1], "asks") == 0) {
    // As libseccomp asks what the kernel can.
    const long strict = syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL);
    const long filter = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL);
    const int filter_too = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0);
    printf("%ld %ld %d\n", strict, filter, filter_too);
    for (int i = 0; i < 100; ++i) usleep(100);
    return 4;
  }
  if (strcmp(argv[1], "self") == 0) {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    printf("starts\n");
    fflush(stdout);
    // What libc and the program need; gettid, getpid: for a thread made under the filter.
    const int calls[] = {
        SYS_read,      SYS_write,          SYS_exit_group, SYS_exit,        SYS_clock_nanosleep, SYS_futex,
        SYS_brk,       SYS_mmap,           SYS_munmap,     SYS_mremap,      SYS_mprotect,        SYS_madvise,
        SYS_clone3,    SYS_clone,          SYS_rseq,       SYS_getpid,      SYS_set_robust_list, SYS_gettid,
        SYS_nanosleep, SYS_rt_sigprocmask, SYS_getrandom,  SYS_rt_sigaction};
    KillAllBut(calls, sizeof(calls) / sizeof(calls[0]));
    pthread_t thread;
    if (pthread_create(&thread, NULL, Locks, NULL) != 0) return 1;
    Locks(NULL);
    pthread_join(thread, NULL);
    char byte = 'x';
    for (int i = 0; i < 1000; ++i) {
      if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) return 1;
      void* volatile block = malloc((size_t)1 << (i % 23));
      free(block);
    }
    printf("alive\n");
    return 0;
  }
  if (strncmp(argv[1], "strict", 6) == 0) {
    int ends[2];
    void* volatile first = malloc(100);  // libc's own system calls
    free(first);
    if (pipe(ends) != 0 || write(1, "before\n", 7) != 7) return 1;
    const long set = strcmp(argv[1], "strict") == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0)
                                                    : syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
    if (set != 0) return 77;
    char byte = 'x';
    for (int i = 0; i < 1000; ++i) {
      if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) return 1;
      void* volatile block = malloc(100);
      free(block);
    }
    if (write(1, "inside\n", 7) != 7) return 1;
    syscall(SYS_exit, 5);
  }
  if (strcmp(argv[1], "perf") == 0) {
    const int refused[] = {SYS_perf_event_open};
    Deny(refused, 1, SECCOMP_RET_ERRNO | EPERM);
    execv(argv[2], argv + 2);
    return 126;
  }
  const int calls[] = {SYS_memfd_create, SYS_ptrace, SYS_process_vm_readv, SYS_socket, SYS_connect, SYS_sendmsg};
  const unsigned action = strcmp(argv[1], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
  Deny(calls, sizeof(calls) / sizeof(calls[0]), action);
  execv(argv[2], argv + 2);
  return 126;
}
