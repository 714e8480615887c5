// SPDX-License-Identifier: Apache-2.0
// greets_wrongly: sends a hello to the launcher as libraries of other versions would, and as no library would.
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "facts.h"

static void Print(const char* path, const void* bytes, size_t size) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr*)&address, sizeof(address)) == 0) send(fd, bytes, size, MSG_NOSIGNAL);
  close(fd);
}

int main(void) {
  const char* session = getenv("TBPROF_SESSION");
  char path[108];
  unsigned long long nonce = 0;
  if (session == NULL || sscanf(session, "%*[^;];%107[^;];%llx", path, &nonce) != 2) {
    printf("no session\n");
    return 5;
  }
  struct {
    char magic[8];
    uint32_t abi;
    int32_t pid;
    uint64_t nonce;
    uint64_t more[8];
  } hello = {{'T', 'B', 'P', 'H', 'E', 'L', 'O', '1'}, 4711, getpid(), nonce, {0}};
  Print(path, &hello, 32);
  Print(path, &hello, sizeof(hello));
  Print(path, &hello, 24);
  Print(path, &hello, 7);
  hello.abi = 0;
  hello.nonce ^= 1;
  Print(path, &hello, 32);
  for (int i = 0; i < 200; ++i) {
    unsigned char noise[256];
    for (size_t j = 0; j < sizeof(noise); ++j) noise[j] = (unsigned char)(i * 131 + (int)j * 17);
    Print(path, noise, (size_t)i + 1);
  }
  printf("no session\n");
  return 5;
}
