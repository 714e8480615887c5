// SPDX-License-Identifier: Apache-2.0
// execs_itself COUNT: a chain of images in one process; each makes a record of its own. Ends with status 17.
#include "facts.h"

int main(int argc, char** argv) {
  const int left = argc > 1 ? atoi(argv[1]) : 0;
  usleep(1000);  // here: in each
  if (left == 0) {
    printf("end\n");
    return 17;
  }
  char text[16];
  snprintf(text, sizeof(text), "%d", left - 1);
  execl("/proc/self/exe", "execs_itself", text, (char*)NULL);
  return 1;
}
