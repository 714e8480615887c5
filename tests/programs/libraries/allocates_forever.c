/* SPDX-License-Identifier: Apache-2.0
 *
 * A library for ctypes. allocate_forever: does nothing but allocate small blocks and free them, without the
 * interpreter's lock. As the process ends, the interpreter already has, the library leaves such threads time to go on.
 */
#include <stdlib.h>
#include <time.h>

__attribute__((visibility("default"))) int allocate_forever(void) {
  for (;;) {
    void* volatile block = malloc(64);
    free(block);
  }
}

__attribute__((destructor)) static void linger(void) {
  const struct timespec while_threads_run = {0, 30 * 1000 * 1000};
  nanosleep(&while_threads_run, NULL);
}
