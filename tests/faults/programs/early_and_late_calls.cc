// SPDX-License-Identifier: Apache-2.0
// Hooked functions before every constructor (the loader's preinit_array, an IFUNC resolver), in the first constructor,
// in destructors, at exit and in the destructors of thread keys.
#include <pthread.h>

#include "facts.h"

static int calls;

static void Calls() {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  void* volatile block = malloc(100);
  free(block);
  block = calloc(10, 10);
  block = realloc(block, 200000);
  free(block);
  usleep(100);
  calls += 1;
}

static void BeforeConstructors(int, char**, char**) { Calls(); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**, char**) = BeforeConstructors;
__attribute__((constructor(101))) static void First() { Calls(); }
__attribute__((destructor(101))) static void Last() {
  Calls();
  char line[64];
  const int length = snprintf(line, sizeof(line), "%d times\n", calls);
  if (write(1, line, static_cast<size_t>(length)) != length) abort();
}
struct Static {
  Static() { Calls(); }
  ~Static() { Calls(); }
} object;

static int Chosen() { return 42; }
static int resolved;
extern "C" int (*Resolve())() {
  // Before this program's own relocations are done: what needs none of them.
  resolved = 1;
  return Chosen;
}
int Function() __attribute__((ifunc("Resolve")));

static void AtKeyEnd(void*) { Calls(); }
static void* Thread(void*) {
  pthread_key_t key;
  pthread_key_create(&key, AtKeyEnd);
  pthread_setspecific(key, &key);
  Calls();
  return nullptr;
}

int main() {
  atexit([] { Calls(); });
  pthread_t thread;
  pthread_create(&thread, nullptr, Thread, nullptr);
  pthread_join(thread, nullptr);
  printf("%d %d\n", Function(), resolved);
  return 0;
}
