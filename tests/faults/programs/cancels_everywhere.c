// SPDX-License-Identifier: Apache-2.0
// Every hooked call that may wait, with a cancel that is pending when it is made, and with one that arrives while it
// waits; deferred, and asynchronous where the call can be left anywhere. Prints for each how its thread ended and what
// was left behind. The list follows preload/hooks.def: cancel_test.cc compares.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "facts.h"

extern ssize_t __read_chk(int, void*, size_t, size_t);
extern ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
extern ssize_t __pread64_chk(int, void*, size_t, off_t, size_t);
extern int __open_2(const char*, int);
extern int __open64_2(const char*, int);
extern int __openat_2(int, const char*, int);
extern int __openat64_2(int, const char*, int);
extern int __poll_chk(struct pollfd*, nfds_t, int, size_t);
extern int __ppoll_chk(struct pollfd*, nfds_t, const struct timespec*, const sigset_t*, size_t);
extern ssize_t __recv_chk(int, void*, size_t, size_t, int);
extern ssize_t __recvfrom_chk(int, void*, size_t, size_t, int, struct sockaddr*, socklen_t*);

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // sigset
extern int __sigaction(int, const struct sigaction*, struct sigaction*);
extern sighandler_t bsd_signal(int, sighandler_t);

static int empty[2], full[2], file, sockets[2], full_sockets[2], listener, epoll;
static char fifo[200];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, held = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t held_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static pthread_t sleeper;
static struct timespec far_real, far_monotonic, long_time = {1000, 0};
static pid_t child;

#define CALLS(X)                                                                                  \
  X(pthread_join, pthread_join(sleeper, NULL))                                                    \
  X(pthread_timedjoin_np, pthread_timedjoin_np(sleeper, NULL, &far_real))                         \
  X(pthread_clockjoin_np, pthread_clockjoin_np(sleeper, NULL, CLOCK_MONOTONIC, &far_monotonic))   \
  X(pthread_cond_wait, ConditionWait())                                                           \
  X(pthread_cond_timedwait, ConditionTimedWait())                                                 \
  X(pthread_cond_clockwait, ConditionClockWait())                                                 \
  X(sem_wait, sem_wait(&semaphore))                                                               \
  X(sem_timedwait, sem_timedwait(&semaphore, &far_real))                                          \
  X(sem_clockwait, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &far_monotonic))                    \
  X(sleep, sleep(1000))                                                                           \
  X(usleep, usleep(900000000))                                                                    \
  X(nanosleep, nanosleep(&long_time, NULL))                                                       \
  X(clock_nanosleep, clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL))                       \
  X(pause, pause())                                                                               \
  X(sigsuspend, sigsuspend(&none))                                                                \
  X(sigwait, sigwait(&user, &number))                                                             \
  X(sigwaitinfo, sigwaitinfo(&user, NULL))                                                        \
  X(sigtimedwait, sigtimedwait(&user, NULL, &long_time))                                          \
  X(read, read(empty[0], data, 1))                                                                \
  X(__read_chk, __read_chk(empty[0], data, 1, sizeof(data)))                                      \
  X(write, write(full[1], data, sizeof(data)))                                                    \
  X(readv, readv(empty[0], &part, 1))                                                             \
  X(writev, writev(full[1], &part, 1))                                                            \
  X(open, open(fifo, O_RDONLY))                                                                   \
  X(open64, open64(fifo, O_RDONLY))                                                               \
  X(openat, openat(AT_FDCWD, fifo, O_RDONLY))                                                     \
  X(openat64, openat64(AT_FDCWD, fifo, O_RDONLY))                                                 \
  X(__open_2, __open_2(fifo, O_RDONLY))                                                           \
  X(__open64_2, __open64_2(fifo, O_RDONLY))                                                       \
  X(__openat_2, __openat_2(AT_FDCWD, fifo, O_RDONLY))                                             \
  X(__openat64_2, __openat64_2(AT_FDCWD, fifo, O_RDONLY))                                         \
  X(poll, poll(&entry, 1, -1))                                                                    \
  X(__poll_chk, __poll_chk(&entry, 1, -1, sizeof(entry)))                                         \
  X(ppoll, ppoll(&entry, 1, NULL, NULL))                                                          \
  X(__ppoll_chk, __ppoll_chk(&entry, 1, NULL, NULL, sizeof(entry)))                               \
  X(select, select(empty[0] + 1, &set, NULL, NULL, NULL))                                         \
  X(pselect, pselect(empty[0] + 1, &set, NULL, NULL, NULL, NULL))                                 \
  X(epoll_wait, epoll_wait(epoll, events, 1, -1))                                                 \
  X(epoll_pwait, epoll_pwait(epoll, events, 1, -1, NULL))                                         \
  X(epoll_pwait2, epoll_pwait2(epoll, events, 1, NULL, NULL))                                     \
  X(accept, accept(listener, NULL, NULL))                                                         \
  X(accept4, accept4(listener, NULL, NULL, SOCK_CLOEXEC))                                         \
  X(send, send(full_sockets[0], data, sizeof(data), 0))                                           \
  X(sendto, sendto(full_sockets[0], data, sizeof(data), 0, NULL, 0))                              \
  X(sendmsg, sendmsg(full_sockets[0], &message, 0))                                               \
  X(sendmmsg, sendmmsg(full_sockets[0], messages, 1, 0))                                          \
  X(recv, recv(sockets[0], data, 1, 0))                                                           \
  X(__recv_chk, __recv_chk(sockets[0], data, 1, sizeof(data), 0))                                 \
  X(recvfrom, recvfrom(sockets[0], data, 1, 0, NULL, NULL))                                       \
  X(__recvfrom_chk, __recvfrom_chk(sockets[0], data, 1, sizeof(data), 0, NULL, NULL))             \
  X(recvmsg, recvmsg(sockets[0], &message, 0))                                                    \
  X(recvmmsg, recvmmsg(sockets[0], messages, 1, 0, NULL))                                         \
  X(wait, wait(NULL))                                                                             \
  X(wait3, wait3(NULL, 0, NULL))                                                                  \
  X(wait4, wait4(child, NULL, 0, NULL))                                                           \
  X(waitpid, waitpid(child, NULL, 0))                                                             \
  X(waitid, waitid(P_PID, (id_t)child, NULL, WEXITED | WNOWAIT))                                  \
  /* Points of cancellation that a test cannot make wait: pending only. */                        \
  X(pread, pread(file, data, 1, 0))                                                               \
  X(pread64, pread64(file, data, 1, 0))                                                           \
  X(__pread_chk, __pread_chk(file, data, 1, 0, sizeof(data)))                                     \
  X(__pread64_chk, __pread64_chk(file, data, 1, 0, sizeof(data)))                                 \
  X(pwrite, pwrite(file, data, 1, 0))                                                             \
  X(pwrite64, pwrite64(file, data, 1, 0))                                                         \
  X(preadv, preadv(file, &part, 1, 0))                                                            \
  X(preadv64, preadv64(file, &part, 1, 0))                                                        \
  X(pwritev, pwritev(file, &part, 1, 0))                                                          \
  X(pwritev64, pwritev64(file, &part, 1, 0))                                                      \
  X(fsync, fsync(file))                                                                           \
  X(fdatasync, fdatasync(file))                                                                   \
  X(connect, connect(sockets[0], (struct sockaddr*)data, 2))                                      \
  X(sendfile, sendfile(file, file, NULL, 0))                                                      \
  X(sendfile64, sendfile64(file, file, NULL, 0))                                                  \
  X(system, system("exit 0"))                                                                     \
  /* No points of cancellation: a pending cancel must wait. */                                    \
  X(pthread_create, MakeThread())                                                                 \
  X(pthread_setname_np, pthread_setname_np(pthread_self(), "named"))                              \
  X(sigaction, sigaction(SIGWINCH, &action, NULL))                                                \
  X(__sigaction, __sigaction(SIGWINCH, &action, NULL))                                            \
  X(signal, signal(SIGWINCH, SIG_IGN) == SIG_ERR)                                                 \
  X(bsd_signal, bsd_signal(SIGWINCH, SIG_IGN) == SIG_ERR)                                         \
  X(ssignal, ssignal(SIGWINCH, SIG_IGN) == SIG_ERR)                                               \
  X(sysv_signal, sysv_signal(SIGWINCH, SIG_IGN) == SIG_ERR)                                       \
  X(__sysv_signal, __sysv_signal(SIGWINCH, SIG_IGN) == SIG_ERR)                                   \
  X(sigset, sigset(SIGWINCH, SIG_DFL) == SIG_ERR)                                                 \
  X(pthread_mutex_lock, (pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex)))               \
  X(pthread_mutex_timedlock, pthread_mutex_timedlock(&held, &past))                               \
  X(pthread_mutex_clocklock, pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &past))              \
  X(pthread_rwlock_timedrdlock, pthread_rwlock_timedrdlock(&held_rwlock, &past))                  \
  X(pthread_rwlock_timedwrlock, pthread_rwlock_timedwrlock(&held_rwlock, &past))                  \
  X(pthread_rwlock_clockrdlock, pthread_rwlock_clockrdlock(&held_rwlock, CLOCK_MONOTONIC, &past)) \
  X(pthread_rwlock_clockwrlock, pthread_rwlock_clockwrlock(&held_rwlock, CLOCK_MONOTONIC, &past)) \
  X(pthread_rwlock_rdlock, ReadLock())                                                            \
  X(pthread_rwlock_wrlock, WriteLock())                                                           \
  X(pthread_barrier_wait, pthread_barrier_wait(&barrier))                                         \
  X(syscall, syscall(SYS_gettid) == 0)                                                            \
  X(malloc, (free(malloc(300000)), 0))                                                            \
  X(calloc, (free(calloc(3, 100000)), 0))                                                         \
  X(realloc, (free(realloc(malloc(10), 300000)), 0))                                              \
  X(posix_spawn, Spawn(0))                                                                        \
  X(posix_spawnp, Spawn(1))                                                                       \
  X(fork, Fork())

enum Kind {
#define X(name, call) kCall_##name,
  CALLS(X)
#undef X
      kKinds
};
static const char* const names[] = {
#define X(name, call) #name,
    CALLS(X)
#undef X
};

static volatile int tid, go;
static char log_text[200];

static void Log(const char* text) { strncat(log_text, text, sizeof(log_text) - strlen(log_text) - 1); }
static void Unlock(void* unused) {
  (void)unused;
  Log(" unlock");
  pthread_mutex_unlock(&mutex);
}
static int ConditionWait(void) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(Unlock, NULL);
  pthread_cond_wait(&condition, &mutex);
  pthread_cleanup_pop(1);
  return 0;
}
static int ConditionTimedWait(void) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(Unlock, NULL);
  pthread_cond_timedwait(&condition, &mutex, &far_real);
  pthread_cleanup_pop(1);
  return 0;
}
static int ConditionClockWait(void) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(Unlock, NULL);
  pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &far_monotonic);
  pthread_cleanup_pop(1);
  return 0;
}
static void* Nothing(void* argument) { return argument; }
static int MakeThread(void) {
  pthread_t made;
  pthread_attr_t detached;
  pthread_attr_init(&detached);
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  const int result = pthread_create(&made, &detached, Nothing, NULL);
  pthread_attr_destroy(&detached);
  return result;
}
static int ReadLock(void) {
  static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  return pthread_rwlock_rdlock(&lock) + pthread_rwlock_unlock(&lock);
}
static int WriteLock(void) {
  static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  return pthread_rwlock_wrlock(&lock) + pthread_rwlock_unlock(&lock);
}
static void Reap(pid_t pid) {
  while (syscall(SYS_wait4, pid, NULL, 0, NULL) < 0 && errno == EINTR) {
  }
}
static int Spawn(int by_path) {
  extern char** environ;
  char* const arguments[] = {(char*)"true", NULL};
  pid_t pid = 0;
  const int result = (by_path ? posix_spawnp : posix_spawn)(&pid, "/bin/true", NULL, NULL, arguments, environ);
  if (result == 0) Reap(pid);
  return result;
}
static int Fork(void) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  Reap(pid);
  return 0;
}

static int Call(int kind) {
  char data[65536] = "";
  struct iovec part = {data, sizeof(data)};
  struct pollfd entry = {empty[0], POLLIN, 0};
  struct epoll_event events[1];
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  struct mmsghdr messages[1] = {{.msg_hdr = message}};
  const struct timespec past = {1, 0};
  fd_set set;
  sigset_t none, user;
  const struct sigaction action = {.sa_handler = SIG_IGN};
  int number;
  FD_ZERO(&set);
  FD_SET(empty[0], &set);
  sigemptyset(&none);
  sigemptyset(&user);
  sigaddset(&user, SIGUSR2);
  switch (kind) {
#define X(name, call) \
  case kCall_##name:  \
    return (int)(call);
    CALLS(X)
#undef X
    default:
      return 0;
  }
}

struct Way {
  int kind, pending, asynchronous;
};

static void* Calls(void* argument) {
  const struct Way* way = argument;
  if (way->pending) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
    WaitForValue(&go);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  } else {
    if (way->asynchronous) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  }
  Call(way->kind);
  Log(" came back");
  pthread_testcancel();
  return NULL;
}

static void* SleepsUntilTheEnd(void* argument) {
  for (;;) SleepUnseen(1000000);
  return argument;
}

static void Try(int kind, int pending, int asynchronous) {
  struct Way way = {kind, pending, asynchronous};
  pthread_t thread;
  void* value = NULL;
  tid = go = 0;
  log_text[0] = '\0';
  pthread_create(&thread, NULL, Calls, &way);
  WaitForValue(&tid);
  if (!pending) WaitUntilAsleep(tid);
  pthread_cancel(thread);
  __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
  pthread_join(thread, &value);
  printf("%s %s%s:%s, cancelled %d, lock free %d\n", names[kind], pending ? "pending" : "waiting",
         asynchronous ? " async" : "", log_text, value == PTHREAD_CANCELED, pthread_mutex_trylock(&mutex) == 0);
  fflush(stdout);
  pthread_mutex_unlock(&mutex);
}

static void Fill(int fd) {
  static char data[4096];
  fcntl(fd, F_SETFL, O_NONBLOCK);
  while (syscall(SYS_write, fd, data, sizeof(data)) > 0) {
  }
  fcntl(fd, F_SETFL, 0);
}

int main(void) {
  if (pipe(empty) != 0 || pipe(full) != 0) return 1;
  Fill(full[1]);
  snprintf(fifo, sizeof(fifo), "%s.fifo", getenv("TEST_FACTS"));
  if (mkfifo(fifo, 0600) != 0) return 1;
  file = syscall(SYS_openat, AT_FDCWD, "/tmp", O_TMPFILE | O_RDWR, 0600);
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, full_sockets) != 0)
    return 1;
  Fill(full_sockets[0]);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  if (listen(listener, 1) != 0) return 1;
  epoll = epoll_create1(0);
  sem_init(&semaphore, 0, 0);
  pthread_barrier_init(&barrier, NULL, 1);
  pthread_mutex_lock(&held);
  pthread_rwlock_wrlock(&held_rwlock);
  clock_gettime(CLOCK_REALTIME, &far_real);
  clock_gettime(CLOCK_MONOTONIC, &far_monotonic);
  far_real.tv_sec += 1000;
  far_monotonic.tv_sec += 1000;
  sigset_t user;
  sigemptyset(&user);
  sigaddset(&user, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &user, NULL);
  child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    for (;;) SleepUnseen(1000000);
  }
  pthread_create(&sleeper, NULL, SleepsUntilTheEnd, NULL);
  for (int kind = 0; kind < kKinds; ++kind) Try(kind, 1, 0);
  for (int kind = 0; kind <= kCall_waitid; ++kind) {
    Try(kind, 0, 0);
    // wait's siblings and libc's locks inside it may not be left anywhere; the conditions' cleanup prints what is held.
    Try(kind, 0, 1);
  }
  kill(child, SIGKILL);
  Reap(child);
  unlink(fifo);
  printf("end\n");
  return 0;
}
