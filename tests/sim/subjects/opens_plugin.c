// SPDX-License-Identifier: Apache-2.0
//
// Opens libraries that are linked with the driver: opens_plugin DIRECTORY_OF_PLUGIN... [deep] [now]
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  int flags = RTLD_LAZY, result = 0;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "deep") == 0) flags |= RTLD_DEEPBIND;
    if (strcmp(argv[i], "now") == 0) flags = (flags & ~RTLD_LAZY) | RTLD_NOW;
  }
  for (int i = 1; i < argc; ++i) {
    if (strchr(argv[i], '/') == NULL) continue;
    void* plugin = dlopen(argv[i], flags);
    if (plugin == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 2;
    }
    int (*run)(int) = (int (*)(int))dlsym(plugin, "PluginRuns");
    result |= run == NULL || run(4) != 0;
  }
  return result;
}
