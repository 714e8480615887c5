// SPDX-License-Identifier: Apache-2.0
// sleeps_once MILLISECONDS: one call, one record.
#include "facts.h"

int main(int argc, char** argv) {
  usleep(argc > 1 ? (unsigned)atol(argv[1]) * 1000 : 1000);
  return 0;
}
