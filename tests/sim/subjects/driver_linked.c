// SPDX-License-Identifier: Apache-2.0
//
// A driver-API program linked to libcuda.so.1.
#include <stdlib.h>

#define CALL(name) name
#include "vector_add.h"

int main(int argc, char** argv) { return VectorAdd(argc > 1 ? atoi(argv[1]) : 5); }
