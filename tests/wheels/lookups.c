// SPDX-License-Identifier: Apache-2.0
//
// Has a real libcudart do its look-ups on a stub driver (stub_driver.py), looks each of them up again, and calls what
// it gets: the call must arrive at the function that the driver has for that name, version and kind of default stream,
// with the arguments as they were given.
//
//   lookups LIBCUDART
//   LOOKUPS_HOOKS=1   also: exactly the functions of wire/cuda_calls.def come as hooks
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub_driver.h"

typedef int (*GetProcAddress)(const char*, void**, int, uint64_t, int*);
typedef uint64_t Word;
typedef Word (*Function)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);

static int g_mismatches, g_hooks, g_calls;

static void Report(const struct StubQuery* query, const char* what, const char* symbol) {
  ++g_mismatches;
  printf("%s at %d, flags %d: %s %s\n", query->name, query->version, (int)query->flags, what, symbol);
}

struct Row {
  const char *symbol, *name;
  int since, until;
};
static const struct Row kRows[] = {
#define TBPROF_CUDA_CALL(symbol, name, since, until, ...) {#symbol, #name, since, until},
#define TBPROF_CUDA_STREAM_CALL(symbol, name, since, until, suffix, ...) \
  {#symbol, #name, since, until}, {#symbol #suffix, #name, since, until},
#include "wire/cuda_calls.def"
    {"cuGetProcAddress", "cuGetProcAddress", 11030, 12000},
    {"cuGetProcAddress_v2", "cuGetProcAddress", 12000, 14000},
};

static int HasRow(const char* symbol, int version) {
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); ++i) {
    if (strcmp(kRows[i].symbol, symbol) == 0 && version >= kRows[i].since && version < kRows[i].until) return 1;
  }
  return 0;
}

struct Answer {
  struct StubQuery query;
  void* found;
};

static void Ask(GetProcAddress get, struct Answer* answer, int hooks) {
  const struct StubQuery* const query = &answer->query;
  static char untouched;
  answer->found = &untouched;
  int status = -1;
  const int result = get(query->name, &answer->found, query->version, query->flags, &status);
  const int expected = stub_symbol_of(query->name, query->version, query->flags);
  if (stub_refuses(query->name, query->version)) {
    if (result != 500 || answer->found != &untouched) Report(query, "is not refused", "");
    answer->found = NULL;
    return;
  }
  if (expected < 0) {
    if (answer->found != NULL) Report(query, "is there", "");
    return;
  }
  const struct StubSymbol* const symbol = stub_symbol(expected);
  if (result != 0 || answer->found == NULL) return Report(query, "is not there", symbol->name);
  const int is_hook = answer->found != symbol->address;
  g_hooks += is_hook;
  if (hooks >= 0 && is_hook != (hooks && HasRow(symbol->name, query->version))) {
    Report(query, is_hook ? "is a hook" : "is no hook", symbol->name);
  }
}

static void Call(const struct Answer* answer) {
  const struct StubQuery* const query = &answer->query;
  const int expected = stub_symbol_of(query->name, query->version, query->flags);
  if (expected < 0 || answer->found == NULL || stub_symbol(expected)->is_special) return;
  const struct StubSymbol* const symbol = stub_symbol(expected);
  ++g_calls;
  stub_call()->symbol = -1;
  const int result = (int)((Function)answer->found)(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14);
  const struct StubCall* const call = stub_call();
  if (call->symbol != expected) {
    return Report(query, "calls", call->symbol < 0 ? "nothing" : stub_symbol(call->symbol)->name);
  }
  if (result != expected + 1000) Report(query, "does not return the result of", symbol->name);
  for (int i = 0; i < symbol->arguments; ++i) {
    if ((uint8_t)call->words[i] != i + 1) return Report(query, "changes an argument of", symbol->name);
  }
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* const runtime = driver == NULL ? NULL : dlopen(argv[1], RTLD_NOW);
  if (runtime == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  int (*count_devices)(int*) = (int (*)(int*))dlsym(runtime, "cudaGetDeviceCount");
  int devices = 0;
  if (count_devices == NULL) return 2;
  count_devices(&devices);
  const int asked = stub_query_count();
  const GetProcAddress get = (GetProcAddress)dlsym(driver, "cuGetProcAddress_v2");
  const int hooks = getenv("LOOKUPS_HOOKS") == NULL ? -1 : atoi(getenv("LOOKUPS_HOOKS"));
  struct Answer* const answers = (struct Answer*)calloc(2 * (size_t)asked, sizeof(struct Answer));
  for (int i = 0; i < asked; ++i) {
    answers[i].query = answers[asked + i].query = stub_queries()[i];
    // A driver newer than all supported ones has other functions under these names (stub_driver.py).
    answers[asked + i].query.version = 14000 + 10 * (i % 2);
  }
  // All are looked up before one is called, as the runtime does it.
  for (int i = 0; i < 2 * asked; ++i) Ask(get, &answers[i], hooks);
  for (int i = 0; i < 2 * asked; ++i) Call(&answers[i]);
  printf("lookups=%d mismatches=%d\n", asked, g_mismatches);
  if (getenv("LOOKUPS_FACTS") != NULL) {
    FILE* const facts = fopen(getenv("LOOKUPS_FACTS"), "w");
    if (facts == NULL) return 2;
    fprintf(facts, "%d %d\n", g_hooks, g_calls);
    fclose(facts);
  }
  return g_mismatches != 0;
}
