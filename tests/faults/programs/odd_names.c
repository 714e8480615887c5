// SPDX-License-Identifier: Apache-2.0
// odd_names ARGUMENT...: threads whose names are no UTF-8, of control characters and of markup; one record each.
#include <pthread.h>
#include <sys/prctl.h>

#include "facts.h"

static const char* const names[] = {"\xff\xfe\xc3(", "new\nline", "\x1b[31mred", "{\"a\":\"b", "<b>&amp;",
                                    "\xe2\x82",      ""};

static void* Thread(void* name) {
  prctl(PR_SET_NAME, name);
  usleep(1000);
  return NULL;
}

int main(int argc, char** argv) {
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, Thread, (void*)names[i]);
    pthread_join(thread, NULL);
  }
  size_t bytes = 0;
  for (int i = 0; i < argc; ++i) bytes += strlen(argv[i]);
  printf("%d arguments, %zu bytes\n", argc, bytes > 4096 ? bytes : 0);
  return 0;
}
