// SPDX-License-Identifier: Apache-2.0
// A server that blocks in accept and a client; all calls that send and receive.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "facts.h"

static int listener;
static volatile int tid;

static void* Serve(void* argument) {
  __atomic_store_n(&tid, ThreadId(), __ATOMIC_RELEASE);
  const int fd = accept(listener, NULL, NULL);  // here: accept
  printf("accept: %d\n", fd >= 0);
  Report("accepted", (uint64_t)fd);
  char data[64];
  printf("recv: %zd\n", recv(fd, data, 5, MSG_WAITALL));
  printf("send: %zd\n", send(fd, "seven b", 7, 0));
  struct iovec part = {data, 6};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  printf("recvmsg: %zd\n", recvmsg(fd, &message, MSG_WAITALL));
  close(fd);
  return argument;
}

int main(void) {
  listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  if (bind(listener, (struct sockaddr*)&address, size) != 0 || listen(listener, 1) != 0) return 1;
  getsockname(listener, (struct sockaddr*)&address, &size);
  Report("listener", (uint64_t)listener);
  pthread_t thread;
  pthread_create(&thread, NULL, Serve, NULL);
  WaitUntilAsleep(WaitForValue(&tid));
  SleepUnseen(20);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int connected = connect(fd, (struct sockaddr*)&address, size);  // here: connect
  Report("client", (uint64_t)fd);
  char data[64];
  const ssize_t sent = sendto(fd, "fives", 5, 0, NULL, 0);
  const ssize_t got = recvfrom(fd, data, 7, MSG_WAITALL, NULL, NULL);
  struct iovec part = {data, 6};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  const ssize_t sent_message = sendmsg(fd, &message, 0);
  pthread_join(thread, NULL);
  printf("connect: %d, sendto: %zd, recvfrom: %zd, sendmsg: %zd\n", connected, sent, got, sent_message);
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) return 1;
  struct mmsghdr several[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
  printf("sendmmsg: %d\n", sendmmsg(pair[0], several, 2, 0));
  printf("recvmmsg: %d\n", recvmmsg(pair[1], several, 2, MSG_DONTWAIT, NULL));
  errno = 0;
  const ssize_t nothing = recv(pair[1], data, sizeof(data), MSG_DONTWAIT);
  printf("nothing there: %zd %s\n", nothing, strerrorname_np(errno));
  // A port that was just closed, and refuses.
  close(listener);
  const int refused = socket(AF_INET, SOCK_STREAM, 0);
  errno = 0;
  const int result = connect(refused, (struct sockaddr*)&address, size);
  printf("refused: %d %s\n", result, strerrorname_np(errno));
  const int file = open("/proc/self/exe", O_RDONLY);
  int pipes[2];
  if (pipe(pipes) != 0) return 1;
  printf("sendfile: %zd\n", sendfile(pipes[1], file, NULL, 4000));
  return 0;
}
