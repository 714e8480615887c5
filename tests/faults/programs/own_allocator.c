// SPDX-License-Identifier: Apache-2.0
// A program that carries its allocator, as those do that link jemalloc statically.
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Alignas(16) char arena[1 << 20];
static size_t used;

void* malloc(size_t size) {
  const size_t take = (size + 31) & ~(size_t)15;
  if (used + take > sizeof(arena)) return NULL;
  char* const block = arena + used;
  used += take;
  *(size_t*)block = size;
  return block + 16;
}
void free(void* block) { (void)block; }
void* calloc(size_t count, size_t size) { return malloc(count * size); }
void* realloc(void* block, size_t size) {
  void* const fresh = malloc(size);
  if (fresh != NULL && block != NULL) {
    const size_t old = *(size_t*)((char*)block - 16);
    memcpy(fresh, block, old < size ? old : size);
  }
  return fresh;
}

int main(void) {
  char* volatile text = malloc(100);
  strcpy(text, "from its own arena");
  usleep(2000);
  puts(text);
  return 0;
}
