// SPDX-License-Identifier: Apache-2.0
// Each hooked function failing, and succeeding with errno set before: results and errno afterwards.
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "facts.h"

// errno is set to 77 before: what a call that succeeds must leave, and a failing one replace.
#define SHOW(call)                                       \
  do {                                                   \
    errno = 77;                                          \
    const long long shown = (long long)(call);           \
    const int error = errno;                             \
    printf("%s = %lld errno %d\n", #call, shown, error); \
  } while (0)
// For what gives an address or a descriptor: whether it succeeded.
#define SHOW_IF(call, condition)                      \
  do {                                                \
    errno = 77;                                       \
    const int shown = (call)condition;                \
    const int error = errno;                          \
    printf("%s: %d errno %d\n", #call, shown, error); \
  } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static void* Nothing(void* argument) { return argument; }

int main(void) {
  setvbuf(stdout, NULL, _IOFBF, 1 << 16);
  char data[8] = "1234567";
  const struct timespec past = {1, 0}, invalid = {0, -1}, little = {0, 1000};
  struct iovec part = {data, 4};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  struct mmsghdr messages = {.msg_hdr = message};
  struct epoll_event event;
  struct pollfd entry = {-1, POLLIN, 0};
  fd_set set;
  sigset_t none;
  sigemptyset(&none);
  volatile size_t huge = (size_t)1 << 62;
  volatile int minus_one = -1;
  struct pollfd* volatile nowhere = (struct pollfd*)8;
  void* volatile block;
  void* aligned = NULL;
  int status = 0, pipes[2], pair[2];
  if (pipe(pipes) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
  const int full[2] = {pair[0], pair[1]};

  SHOW(read(-1, data, 4));
  SHOW(write(-1, data, 4));
  SHOW(write(pipes[1], data, 4));
  SHOW(read(pipes[0], data, 4));
  SHOW(pread(-1, data, 4, 0));
  SHOW(pread(pipes[0], data, 4, 0));
  SHOW(pwrite(-1, data, 4, 0));
  SHOW(readv(-1, &part, 1));
  SHOW(writev(-1, &part, 1));
  SHOW(writev(pipes[1], &part, minus_one));
  SHOW(preadv(-1, &part, 1, 0));
  SHOW(pwritev(-1, &part, 1, 0));
  SHOW(fsync(-1));
  SHOW(fsync(pipes[0]));
  SHOW(fdatasync(-1));
  SHOW(open("/no/such/file", O_RDONLY));
  SHOW(open("/", O_WRONLY));
  SHOW(openat(-1, "relative", O_RDONLY));
  SHOW_IF(open("/dev/null", O_RDONLY), >= 0);
  SHOW(poll(&entry, 1, 0));
  SHOW(poll(nowhere, 1, 0));
  SHOW(ppoll(&entry, 1, &invalid, NULL));
  SHOW(ppoll(&entry, 1, &little, &none));
  FD_ZERO(&set);
  SHOW(select(-1, &set, NULL, NULL, NULL));
  SHOW(pselect(0, NULL, NULL, NULL, &invalid, NULL));
  SHOW(epoll_wait(-1, &event, 1, 0));
  SHOW(epoll_pwait(-1, &event, 1, 0, NULL));
  SHOW(accept(-1, NULL, NULL));
  SHOW(accept4(pipes[0], NULL, NULL, 0));
  SHOW(connect(-1, NULL, 0));
  SHOW(send(-1, data, 4, 0));
  SHOW(send(pipes[1], data, 4, 0));
  SHOW(sendto(-1, data, 4, 0, NULL, 0));
  SHOW(sendmsg(-1, &message, 0));
  SHOW(sendmmsg(-1, &messages, 1, 0));
  SHOW(sendfile(-1, -1, NULL, 1));
  SHOW(recv(-1, data, 4, 0));
  SHOW(recv(full[1], data, 4, MSG_DONTWAIT));
  SHOW(send(full[0], data, 4, 0));
  SHOW(recv(full[1], data, 4, 0));
  SHOW(recvfrom(-1, data, 4, 0, NULL, NULL));
  SHOW(recvmsg(-1, &message, 0));
  SHOW(recvmmsg(-1, &messages, 1, 0, NULL));

  SHOW(usleep(10));
  SHOW(sleep(0));
  SHOW(nanosleep(&invalid, NULL));
  SHOW(nanosleep(&little, NULL));
  SHOW(clock_nanosleep(CLOCK_MONOTONIC, 0, &invalid, NULL));
  SHOW(clock_nanosleep(-1, 0, &little, NULL));
  SHOW(clock_nanosleep(CLOCK_MONOTONIC, 0, &little, NULL));
  SHOW(sigtimedwait(&none, NULL, &little));
  SHOW(sigtimedwait(&none, NULL, &invalid));

  SHOW(pthread_mutex_lock(&checked));
  SHOW(pthread_mutex_lock(&checked));
  SHOW(pthread_mutex_timedlock(&checked, &past));
  SHOW(pthread_mutex_clocklock(&checked, -1, &past));
  SHOW(pthread_mutex_unlock(&checked));
  SHOW(pthread_mutex_lock(&mutex));
  SHOW(pthread_mutex_timedlock(&mutex, &past));
  SHOW(pthread_mutex_timedlock(&mutex, &invalid));
  SHOW(pthread_cond_timedwait(&condition, &mutex, &past));
  SHOW(pthread_cond_timedwait(&condition, &mutex, &invalid));
  SHOW(pthread_cond_clockwait(&condition, &mutex, -1, &past));
  SHOW(pthread_mutex_unlock(&mutex));
  SHOW(pthread_rwlock_wrlock(&rwlock));
  SHOW(pthread_rwlock_rdlock(&rwlock));
  SHOW(pthread_rwlock_wrlock(&rwlock));
  SHOW(pthread_rwlock_timedrdlock(&rwlock, &past));
  SHOW(pthread_rwlock_timedwrlock(&rwlock, &invalid));
  SHOW(pthread_rwlock_unlock(&rwlock));
  SHOW(pthread_rwlock_timedwrlock(&rwlock, &invalid));
  SHOW(pthread_rwlock_clockrdlock(&rwlock, -1, &past));
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  SHOW(sem_timedwait(&semaphore, &past));
  SHOW(sem_timedwait(&semaphore, &invalid));
  SHOW(sem_clockwait(&semaphore, -1, &past));
  SHOW(sem_post(&semaphore));
  SHOW(sem_wait(&semaphore));
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  cpu_set_t no_cpu;
  CPU_ZERO(&no_cpu);
  pthread_attr_setaffinity_np(&attributes, sizeof(no_cpu), &no_cpu);
  SHOW(pthread_create(&thread, &attributes, Nothing, NULL));
  SHOW(pthread_create(&thread, NULL, Nothing, NULL));
  SHOW(pthread_join(thread, NULL));
  SHOW(pthread_join(pthread_self(), NULL));
  SHOW(pthread_timedjoin_np(pthread_self(), NULL, &past));
  SHOW(pthread_setname_np(pthread_self(), "this name is too long"));
  SHOW(pthread_setname_np(pthread_self(), "short"));

  SHOW(wait(&status));
  SHOW(waitpid(-1, &status, 0));
  SHOW(waitpid(1, &status, WNOHANG));
  SHOW(wait3(&status, 0, NULL));
  SHOW(wait4(-1, &status, 0, NULL));
  SHOW(waitid(P_ALL, 0, NULL, 0));
  char* none_at_all[] = {NULL};
  char* word[] = {"word", NULL};
  SHOW(execve("/no/such/program", word, none_at_all));
  SHOW(execv("/", word));
  SHOW(execvp("no-such-program-anywhere", word));
  SHOW(execvpe("no-such-program-anywhere", word, none_at_all));
  SHOW(execl("/no/such/program", "word", (char*)NULL));
  SHOW(execlp("no-such-program-anywhere", "word", (char*)NULL));
  SHOW(execle("/no/such/program", "word", (char*)NULL, none_at_all));
  SHOW(fexecve(-1, word, none_at_all));
  SHOW(execveat(-1, "relative", word, none_at_all, 0));
  pid_t pid;
  SHOW(posix_spawn(&pid, "/no/such/program", NULL, NULL, word, none_at_all));
  SHOW(posix_spawnp(&pid, "no-such-program-anywhere", NULL, NULL, word, none_at_all));
  SHOW(system("exit 3"));
  SHOW(system(NULL));
  fflush(stdout);
  errno = 77;
  pid = fork();
  if (pid == 0) {
    printf("child of fork: errno %d\n", errno);
    exit(0);
  }
  const int after_fork = errno;
  SHOW(waitpid(pid, &status, 0) == pid);

  printf("fork: errno %d\n", after_fork);
  SHOW_IF(block = malloc(huge), == NULL);
  SHOW_IF(block = malloc(100), != NULL);
  SHOW((free(block), 0));
  SHOW_IF(block = malloc(16 << 20), != NULL);
  SHOW((free(block), 0));
  SHOW_IF(block = calloc(huge, 16), == NULL);
  SHOW_IF(block = realloc(NULL, huge), == NULL);
  SHOW_IF(block = reallocarray(NULL, huge, 16), == NULL);
  SHOW_IF(block = aligned_alloc(64, huge), == NULL);
  SHOW_IF(block = memalign(3, 10), != NULL);
  SHOW_IF(block = valloc(huge), == NULL);
  SHOW(posix_memalign(&aligned, 3, 10));
  SHOW(posix_memalign(&aligned, 64, huge));
  SHOW(posix_memalign(&aligned, 64, 100));
  return 0;
}
