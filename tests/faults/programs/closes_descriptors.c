// SPDX-License-Identifier: Apache-2.0
// closes_descriptors DIRECTORY: as a daemon starts. Closes all it did not open, with a limit of 16, fills every number
// up to there with a file of its own, and works; no byte but its own may be in the files.
#include <sys/resource.h>
#include <sys/stat.h>

#include "facts.h"

int main(int argc, char** argv) {
  if (argc < 2 || chdir(argv[1]) != 0) return 2;
  syscall(SYS_close_range, 3, ~0u, 0);
  struct rlimit limit = {16, 16};
  setrlimit(RLIMIT_NOFILE, &limit);
  int files[16], count = 0;
  for (;;) {
    char name[32];
    snprintf(name, sizeof(name), "file%d", count);
    const int fd = open(name, O_RDWR | O_CREAT, 0644);
    if (fd < 0) break;
    files[count++] = fd;
  }
  printf("%d files, from %d to %d\n", count, files[0], files[count - 1]);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < count; ++i) {
      if (write(files[i], "mine\n", 5) != 5) return 1;
      free(malloc(10000));
    }
  }
  // Over a number that another file may have had.
  for (int i = 1; i < count; ++i) dup2(files[0], files[i]);
  usleep(1000);
  if (write(files[count - 1], "last\n", 5) != 5) return 1;
  for (int i = 0; i < count; ++i) {
    char name[32];
    snprintf(name, sizeof(name), "file%d", i);
    struct stat status;
    stat(name, &status);
    printf("%s: %ld bytes\n", name, (long)status.st_size);
  }
  return 0;
}
