// SPDX-License-Identifier: Apache-2.0
// allocations N: exactly N calls of each allocator function, with as many frees; N = 0 shows what libc itself adds.
#include <errno.h>
#include <malloc.h>

#include "facts.h"

static void* volatile keep;
static volatile size_t huge = (size_t)1 << 62, wide = (size_t)1 << 40;

int main(int argc, char** argv) {
  const long n = argc > 1 ? atol(argv[1]) : 0;
  for (long i = 0; i < n; ++i) {
    free(keep = malloc(100));
    free(keep = calloc(10, 10));
    keep = malloc(10);
    keep = realloc(keep, 1000);
    free(keep);
    void* block = NULL;
    if (posix_memalign(&block, 64, 100) == 0) free(keep = block);
    free(keep = aligned_alloc(64, 128));
    free(keep = memalign(64, 100));
    free(keep = reallocarray(NULL, 10, 10));
    free(NULL);
  }
  if (n > 0) {
    errno = 0;
    keep = malloc(huge);
    printf("too much: %d %s\n", keep == NULL, strerrorname_np(errno));
    errno = 0;
    keep = calloc(wide, wide);
    printf("overflow: %d %s\n", keep == NULL, strerrorname_np(errno));
    static char* volatile kept;
    kept = malloc(100);
    strcpy(kept, "kept");
    errno = 0;
    keep = realloc(kept, huge);
    printf("failed realloc: %d %s %s\n", keep == NULL, strerrorname_np(errno), kept);
    free(kept);
    void* block = malloc(0);
    printf("of nothing: %d\n", block != NULL);
    block = realloc(block, 10);
    keep = realloc(block, 0);
    printf("to nothing: %d\n", keep == NULL);
    errno = 55;
    free(keep = malloc(1 << 20));
    printf("errno after free: %d\n", errno);
  }
  return 0;
}
