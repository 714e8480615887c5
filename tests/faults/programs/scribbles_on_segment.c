// SPDX-License-Identifier: Apache-2.0
// scribbles_on_segment MODE SEED: a hostile target. Finds the memory that it shares with tbprof among its mappings, and
// writes into it what was never agreed on; ends by a plain system call, for what the library reads is spoiled, too.
//   random: all of it, three times over          headers: the first page, operations and slots
//   chunks: records with random tags and lengths  times: records whose times are negative, or of next century
//   race: lengths, states and marks that change all the time while the launcher reads
//   ones: every bit set                           resize: tries to make it smaller, unmaps it
#include <pthread.h>
#include <sys/mman.h>

#include "facts.h"

enum { kPage = 4096, kChunk = 65536 };
static unsigned char* base;
static size_t size;
static uint64_t state;

static uint64_t Next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static int FindSegment(char* link, size_t link_size) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  int found = 0;
  while (!found && fgets(line, sizeof(line), maps) != NULL) {
    unsigned long start, end;
    if (strstr(line, "/memfd:tbprof") == NULL || sscanf(line, "%lx-%lx", &start, &end) != 2) continue;
    base = (unsigned char*)start;
    size = end - start;
    snprintf(link, link_size, "/proc/self/map_files/%lx-%lx", start, end);
    found = 1;
  }
  fclose(maps);
  return found;
}

static void Fill(size_t from, size_t to, int ones) {
  for (size_t at = from; at + 8 <= to; at += 8) {
    const uint64_t value = ones ? ~0ull : Next();
    memcpy(base + at, &value, 8);
  }
}

static void Pause(void) { SleepUnseen(5); }

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* mode = argv[1];
  state = (uint64_t)atol(argv[2]) * 0x9e3779b97f4a7c15ull + 1;
  char link[128];
  int ends[2];
  if (pipe(ends) != 0) return 1;
  char byte = 'x';
  for (int i = 0; i < 3000; ++i) {
    if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) return 1;
  }
  if (!FindSegment(link, sizeof(link))) {
    printf("no segment\n");
    return 0;
  }
  Report("found", 1);
  // The chunks are the last part; what is before them is found by its size alone.
  const size_t chunks = 285519872 - 17084416, first = size > chunks ? size - chunks : size / 16;
  const size_t some = first + 64 * kChunk < size ? first + 64 * kChunk : size;
  if (strcmp(mode, "random") == 0) {
    for (int i = 0; i < 3; ++i) {
      Fill(0, 300000, 0);
      Fill(first > 100000 ? first - 100000 : 0, some, 0);
      Pause();
    }
  } else if (strcmp(mode, "headers") == 0) {
    for (int i = 0; i < 10; ++i) {
      Fill(i % 2 == 0 ? 0 : kPage, 600000, 0);
      Pause();
    }
  } else if (strcmp(mode, "chunks") == 0) {
    for (int i = 0; i < 10; ++i) {
      Fill(first, some, 0);
      Pause();
    }
  } else if (strcmp(mode, "ones") == 0) {
    Fill(0, some, 1);
    Pause();
  } else if (strcmp(mode, "times") == 0) {
    // Tags stay: the second word of a record is a time.
    for (int round = 0; round < 200; ++round) {
      for (int i = 0; i < 20; ++i) {
        if (syscall(SYS_write, ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) return 1;
      }
      for (size_t at = first; at + 32 <= first + 4 * kChunk; at += 32) {
        const uint64_t value = at / 32 % 3 == 0 ? 1ull << 63 : at / 32 % 3 == 1 ? Next() : ~0ull;
        if (*(volatile uint64_t*)(base + at) != 0) memcpy(base + at + 8, &value, 8);
      }
    }
  } else if (strcmp(mode, "race") == 0) {
    const double end = Milliseconds() + 200;
    while (Milliseconds() < end) {
      for (int i = 0; i < 1000; ++i) {
        const uint64_t value = Next();
        const size_t where = i % 4 == 0   ? Next() % kPage
                             : i % 4 == 1 ? 12288 + Next() % 262144
                             : i % 4 == 2 ? first - 32768 + Next() % 32768
                                          : first + Next() % (8 * kChunk);
        memcpy(base + (where & ~7ull), &value, 8);
      }
    }
  } else if (strcmp(mode, "resize") == 0) {
    const long fd = syscall(SYS_openat, AT_FDCWD, link, O_RDWR, 0);
    Report("shrunk", fd >= 0 && syscall(SYS_ftruncate, fd, 4096) == 0);
    Report("grown", fd >= 0 && syscall(SYS_ftruncate, fd, 1L << 40) == 0);
    syscall(SYS_munmap, base, size);
  }
  syscall(SYS_exit_group, 11);
  return 1;
}
