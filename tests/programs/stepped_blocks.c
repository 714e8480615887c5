// SPDX-License-Identifier: Apache-2.0
// stepped_blocks ROUNDS: in each round a block comes and goes one instruction at a time, and at one instruction of a
// preloaded library, another one each round, a signal handler lets blocks come and go, too.
// Facts: `pairs`, of all of it; `steps`, of the library in one round.
#include <signal.h>
#include <ucontext.h>

#include "facts.h"

#if defined(__x86_64__)
enum { kKept = 8 };
static uintptr_t begin, end;
static volatile uint64_t pairs, steps, act_at = UINT64_MAX;
static void* volatile kept[kKept];

// Blocks outlive the handler, so that what it does adds up to something at each instruction.
static void OnStep(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  const uintptr_t at = (uintptr_t)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  if (at < begin || at >= end) return;
  if (steps++ != act_at) return;
  for (uint64_t i = 0; i <= pairs % 3; ++i) {
    const uint64_t place = (pairs + i) % kKept;
    if (kept[place] != NULL) {
      free(kept[place]);
      kept[place] = NULL;
    } else {
      kept[place] = malloc(24 + 8 * place);
      ++pairs;
    }
  }
}

static void FindLibrary(void) {
  char line[512];
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
    unsigned long first, last;
    char permissions[8];
    if (strstr(line, "libtbprof_preload") == NULL || sscanf(line, "%lx-%lx %7s", &first, &last, permissions) != 3 ||
        permissions[2] != 'x') {
      continue;
    }
    if (begin == 0) begin = first;
    end = last;
  }
  if (maps != NULL) fclose(maps);
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 0;
  FindLibrary();
  struct sigaction action = {0};
  action.sa_sigaction = OnStep;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, NULL);
  // Only when it has compared some sizes the library takes its quickest way.
  for (long i = 0; i < rounds; ++i) {
    void* volatile block = malloc(40);
    free(block);
    ++pairs;
  }
  uint64_t of_a_round = 0;
  for (long i = 0; i < rounds; ++i) {
    steps = 0;
    asm volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
    void* volatile block = malloc(40);
    free(block);
    asm volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
    ++pairs;
    if (i == 0) of_a_round = steps;
    act_at = of_a_round == 0 ? 0 : (uint64_t)i % of_a_round;
  }
  for (int i = 0; i < kKept; ++i) {
    free(kept[i]);
    kept[i] = NULL;
  }
  Report("pairs", pairs);
  Report("steps", of_a_round);
  return 0;
}
#else
int main(void) { return 0; }
#endif
