// SPDX-License-Identifier: Apache-2.0
// A file: open in all forms, positioned reads and writes, flushing.
#include <errno.h>
#include <sys/uio.h>

#include "facts.h"

int main(void) {
  char name[] = "tbprof-file";
  char data[1000];
  memset(data, 'x', sizeof(data));
  const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0640);  // here: open
  printf("open: %d\n", fd >= 0);
  Report("fd", (uint64_t)fd);
  printf("pwrite: %zd\n", pwrite(fd, data, 1000, 500));  // here: pwrite
  printf("pread: %zd\n", pread(fd, data, 700, 1000));
  struct iovec parts[2] = {{data, 10}, {data + 10, 20}};
  printf("pwritev: %zd\n", pwritev(fd, parts, 2, 0));
  printf("preadv: %zd\n", preadv(fd, parts, 2, 0));
  printf("fsync: %d\n", fsync(fd));  // here: fsync
  printf("fdatasync: %d\n", fdatasync(fd));
  errno = 0;
  int result = open("/no/such/file", O_RDONLY);
  printf("missing: %d %s\n", result, strerrorname_np(errno));
  const int directory = openat(AT_FDCWD, ".", O_RDONLY | O_DIRECTORY);
  const int again = openat(directory, name, O_RDONLY);
  printf("openat: %d\n", again >= 0);
  const int temporary = open(".", O_TMPFILE | O_RDWR, 0600);
  printf("temporary: %d\n", temporary >= 0);
  unlink(name);
  return 0;
}
