// SPDX-License-Identifier: Apache-2.0
// The least that a library in front of the allocator can cost: a pointer is loaded and followed.
#include <stddef.h>

extern void* __libc_malloc(size_t size);
extern void __libc_free(void* block);

static void* (*volatile g_malloc)(size_t) = __libc_malloc;
static void (*volatile g_free)(void*) = __libc_free;

void* malloc(size_t size) { return g_malloc(size); }
void free(void* block) { g_free(block); }
