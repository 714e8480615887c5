// SPDX-License-Identifier: Apache-2.0
// The facts of the stub driver (stub_driver.py). Its names are no names of CUDA.
#ifndef TBPROF_TESTS_WHEELS_STUB_DRIVER_H_
#define TBPROF_TESTS_WHEELS_STUB_DRIVER_H_

#include <stdint.h>

struct StubQuery {
  char name[80];
  int version;
  uint64_t flags;
};
struct StubSymbol {
  const char* name;
  void* address;
  int arguments;
  int is_special;  // has a body; all others only note that they were called
};
struct StubCall {
  int symbol;
  uint64_t words[14];
};

int stub_query_count(void);
const struct StubQuery* stub_queries(void);
// The symbol that this driver has for a name, a version and flags; negative: none.
int stub_symbol_of(const char* name, int version, uint64_t flags);
int stub_refuses(const char* name, int version);
const struct StubSymbol* stub_symbol(int number);
struct StubCall* stub_call(void);

#endif  // TBPROF_TESTS_WHEELS_STUB_DRIVER_H_
