// SPDX-License-Identifier: Apache-2.0
// default_signal shows|raises|child|sibling|timer|exec|restarts: what a program sees of SIGUSR1 that it leaves at its
// default.
//   shows: what sigaction and signal report, before and after it sets things itself
//   raises, timer: it sends the signal to itself
//   child, sibling: one of its processes sends it to another
//   exec: handles it, then execs a program that raises it
//   restarts: waits in read() until the test has written to the pipe `fifo`
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "facts.h"

static void Handle(int signal) { (void)signal; }

static const char* NameOf(sighandler_t handler) {
  if (handler == SIG_DFL) return "default";
  if (handler == SIG_IGN) return "ignored";
  if (handler == SIG_ERR) return "error";
  return handler == Handle ? "its own" : "somebody else's";
}

static void ShowAction(const char* when) {
  struct sigaction now;
  memset(&now, 0xee, sizeof(now));
  const int result = sigaction(SIGUSR1, NULL, &now);
  printf("%s: %d %s flags %x restorer %d blocks USR2 %d HUP %d\n", when, result, NameOf(now.sa_handler), now.sa_flags,
         now.sa_restorer != NULL, sigismember(&now.sa_mask, SIGUSR2), sigismember(&now.sa_mask, SIGHUP));
}

static int Shows(void) {
  ShowAction("at first");
  struct sigaction action = {.sa_handler = Handle, .sa_flags = SA_NODEFER}, old;
  sigaddset(&action.sa_mask, SIGHUP);
  memset(&old, 0xee, sizeof(old));
  int result = sigaction(SIGUSR1, &action, &old);
  printf("sigaction %d was %s flags %x\n", result, NameOf(old.sa_handler), old.sa_flags);
  ShowAction("handled");
  struct sigaction restored = old;
  result = sigaction(SIGUSR1, &restored, &old);
  printf("restored %d\n", result);
  printf("was %s flags %x\n", NameOf(old.sa_handler), old.sa_flags);
  ShowAction("as at first");
  action.sa_handler = SIG_DFL;
  sigaddset(&action.sa_mask, SIGUSR2);
  printf("default %d\n", sigaction(SIGUSR1, &action, NULL));
  ShowAction("default with flags");
  printf("signal: %s\n", NameOf(signal(SIGUSR1, Handle)));
  printf("signal: %s\n", NameOf(signal(SIGUSR1, SIG_DFL)));
  ShowAction("after signal");
  printf("signal: %s\n", NameOf(signal(SIGUSR1, SIG_DFL)));
  printf("signal: %s\n", NameOf(signal(SIGUSR1, SIG_IGN)));
  ShowAction("ignored");
  printf("sysv_signal: %s\n", NameOf(sysv_signal(SIGUSR1, SIG_DFL)));
  printf("sysv_signal: %s\n", NameOf(sysv_signal(SIGUSR1, SIG_DFL)));
  ShowAction("after sysv_signal");
  printf("ssignal: %s\n", NameOf(ssignal(SIGUSR1, SIG_DFL)));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  printf("sigset: %s\n", NameOf(sigset(SIGUSR1, SIG_DFL)));
  printf("sigset: %s\n", NameOf(sigset(SIGUSR1, Handle)));
  printf("sigset: %s\n", NameOf(sigset(SIGUSR1, SIG_DFL)));
#pragma GCC diagnostic pop
  ShowAction("after sigset");
  errno = 0;
  result = sigaction(12345, &action, &old);
  printf("nonsense: %d %d\n", result, errno);
  errno = 0;
  const sighandler_t before = signal(12345, Handle);
  printf("nonsense: %s %d\n", NameOf(before), errno);
  struct sigaction other;
  result = sigaction(SIGUSR2, NULL, &other);
  printf("another signal: %d %s\n", result, NameOf(other.sa_handler));
  sigset_t mask;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  printf("blocked %d\n", sigismember(&mask, SIGUSR1));
  return 7;
}

static pid_t Sleeper(void) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 600; ++i) SleepUnseen(50);
    _exit(9);
  }
  return pid;
}

static int HowItEnded(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  printf("ended by signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return 8;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "shows") == 0) return Shows();
  if (strcmp(what, "raises") == 0) {
    raise(SIGUSR1);
    printf("still here\n");
    return 1;
  }
  if (strcmp(what, "timer") == 0) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    const struct itimerspec soon = {.it_value = {0, 1000000}};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &soon, NULL);
    for (int i = 0; i < 600; ++i) SleepUnseen(50);
    return 1;
  }
  if (strcmp(what, "child") == 0) {
    const pid_t child = Sleeper();
    kill(child, SIGUSR1);
    return HowItEnded(child);
  }
  if (strcmp(what, "sibling") == 0) {
    const pid_t victim = Sleeper();
    const pid_t sender = fork();
    if (sender == 0) {
      kill(victim, SIGUSR1);
      for (int i = 0; i < 600; ++i) SleepUnseen(50);
      _exit(0);
    }
    HowItEnded(victim);
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    return 8;
  }
  if (strcmp(what, "exec") == 0) {
    signal(SIGUSR1, Handle);
    execl("/proc/self/exe", argv[0], "raises", (char*)NULL);
  }
  if (strcmp(what, "restarts") == 0) {
    const int fd = open("fifo", O_RDONLY);
    char byte = '?';
    Report("pid", (uint64_t)getpid());
    const ssize_t size = read(fd, &byte, 1);
    printf("read %zd %c\n", size, byte);
    return 0;
  }
  return 2;
}
