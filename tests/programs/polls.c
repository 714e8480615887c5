// SPDX-License-Identifier: Apache-2.0
// Every way to wait for descriptors: each for 10 ms without success.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "facts.h"

int main(void) {
  int ends[2];
  if (pipe(ends) != 0) return 1;
  struct pollfd entry = {ends[0], POLLIN, 0};
  const struct timespec limit = {0, 10000000};
  struct timeval microseconds = {0, 10000};
  sigset_t none;
  sigemptyset(&none);
  printf("poll: %d\n", poll(&entry, 1, 10));  // here: poll
  printf("ppoll: %d\n", ppoll(&entry, 1, &limit, &none));
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  printf("select: %d\n", select(ends[0] + 1, &set, NULL, NULL, &microseconds));
  FD_SET(ends[0], &set);
  printf("pselect: %d\n", pselect(ends[0] + 1, &set, NULL, NULL, &limit, &none));
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  Report("epoll", (uint64_t)epoll);
  struct epoll_event event = {.events = EPOLLIN, .data = {.fd = ends[0]}};
  epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
  printf("epoll_wait: %d\n", epoll_wait(epoll, &event, 1, 10));
  printf("epoll_pwait: %d\n", epoll_pwait(epoll, &event, 1, 10, &none));
  if (write(ends[1], "x", 1) != 1) return 1;
  printf("poll, ready: %d\n", poll(&entry, 1, 1000));
  errno = 0;
  const int result = epoll_wait(ends[0], &event, 1, 0);
  printf("no epoll: %d %s\n", result, strerrorname_np(errno));
  return 0;
}
