// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/modes.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tbprof::sim::mode {
namespace {

struct Mode {
  const char* variable;
  const char* name;
  int64_t value;
};

enum Index {
#define SIM_MODE(variable, name, default_value, meaning) k_##name,
#include "tests/sim/modes.def"
  kCount
};

Mode modes[] = {
#define SIM_MODE(variable, name, default_value, meaning) {"CUDASIM_" #variable, #name, default_value},
#include "tests/sim/modes.def"
};

void Read(const char* variable) {
  const char* text = getenv(variable);
  while (text != nullptr && *text != '\0') {
    const size_t length = strcspn(text, ",");
    const size_t name_length = strcspn(text, ",=");
    bool known = length == 0;
    for (Mode& mode : modes) {
      if (strcmp(mode.variable, variable) != 0 || strlen(mode.name) != name_length ||
          strncmp(mode.name, text, name_length) != 0) {
        continue;
      }
      mode.value = name_length < length ? strtoll(text + name_length + 1, nullptr, 0) : 1;
      known = true;
    }
    if (!known) {
      fprintf(stderr, "simulator: %s has no mode '%.*s'\n", variable, static_cast<int>(name_length), text);
      abort();
    }
    text += length;
    if (*text == ',') ++text;
  }
}

// Read once, before the first question: the program may change its environment.
int64_t Value(Index index) {
  static const bool ready = [] {
    Read("CUDASIM_CUDA");
    Read("CUDASIM_CUPTI");
    return true;
  }();
  return ready ? modes[index].value : 0;
}

}  // namespace

#define SIM_MODE(variable, name, default_value, meaning) \
  int64_t name() { return Value(k_##name); }
#include "tests/sim/modes.def"

int64_t Number(const char* variable, int64_t default_value) {
  const char* text = getenv(variable);
  if (text == nullptr || *text == '\0') return default_value;
  char* end = nullptr;
  const int64_t value = strtoll(text, &end, 0);
  return *end == '\0' ? value : default_value;
}

}  // namespace tbprof::sim::mode
