// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/torch_build.h"

#include <fcntl.h>
#include <string.h>

#include "preload/modules.h"
#include "wire/raw.h"

namespace tbprof {
namespace {

constexpr TorchBuild kBuilds[] = {
    {"1.13.0a0", "feaefbc559e74298c67a4aca95dd5e2c49a4c739", TorchStrings::kNew, 200, 248, 88, 72},  // Debian 12
    {"1.13.0", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"1.13.1", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"2.0.0", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"2.0.1", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"2.1.0", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"2.1.1", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"2.1.2", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"2.2.0", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"2.2.1", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"2.2.2", nullptr, TorchStrings::kOld, 176, 224, 88, 72},
    {"2.3.0", nullptr, TorchStrings::kOld, 176, 224, 88, 64},
    {"2.3.1", nullptr, TorchStrings::kOld, 176, 224, 88, 64},
    {"2.4.0", nullptr, TorchStrings::kOld, 176, 280, 88, 64},
    {"2.4.1", nullptr, TorchStrings::kOld, 176, 280, 88, 64},
    {"2.5.0", nullptr, TorchStrings::kOld, 176, 280, 88, 64},
    {"2.5.1", nullptr, TorchStrings::kOld, 176, 280, 88, 64},
    {"2.6.0", nullptr, TorchStrings::kOld, 176, 280, 88, 64},
    {"2.7.0", nullptr, TorchStrings::kNew, 200, 304, 88, 64},
    {"2.7.1", nullptr, TorchStrings::kNew, 200, 304, 88, 64},
    {"2.8.0", nullptr, TorchStrings::kNew, 200, 304, 88, 64},
    {"2.9.0", nullptr, TorchStrings::kNew, 200, 304, 88, 64},
    {"2.9.1", nullptr, TorchStrings::kNew, 200, 304, 88, 64},
    {"2.10.0", nullptr, TorchStrings::kNew, 200, 304, 88, 64},
    {"2.11.0", nullptr, TorchStrings::kNew, 200, 304, 88, 64},
    {"2.12.0", nullptr, TorchStrings::kNew, 200, 304, 88, 64},
    {"2.12.1", nullptr, TorchStrings::kNew, 200, 304, 88, 64},
    {"2.13.0", nullptr, TorchStrings::kNew, 200, 304, 88, 56},
    {"2.14.0", nullptr, TorchStrings::kNew, 200, 304, 88, 56},
    {"2.14.1", nullptr, TorchStrings::kNew, 200, 304, 88, 56},
    {"2.15.0", nullptr, TorchStrings::kNew, 200, 304, 88, 56},
};

const char* BaseName(const char* path) {
  const char* const slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

// Reads `__version__` from version.py beside the directory of `library`. Returns its length; 0: there is none.
__attribute__((noinline)) size_t VersionBeside(const char* library, char* version, size_t room) {
  constexpr char kFile[] = "version.py";
  constexpr char kKey[] = "__version__ = '";
  static char text[4096];  // protected by the observer's lock
  // .../torch/lib/libtorch_cpu.so
  const char* const base = BaseName(library);
  size_t directory = static_cast<size_t>(base - library);
  if (directory < 5 || strncmp(base - 4, "lib/", 4) != 0) return 0;
  directory -= 4;
  if (directory + sizeof(kFile) > sizeof(text)) return 0;
  memcpy(text, library, directory);
  memcpy(text + directory, kFile, sizeof(kFile));
  const long file = raw::Call(SYS_openat, AT_FDCWD, raw::Pointer(text), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  size_t length = 0;
  bool inside = false;
  size_t matched = 0;
  for (int part = 0; part < 16; ++part) {
    const long got = raw::Call(SYS_read, file, raw::Pointer(text), sizeof(text));
    if (got <= 0) break;
    for (long i = 0; i < got; ++i) {
      const char c = text[i];
      if (inside) {
        if (c == '\'' || c == '\n' || length + 1 >= room) {
          raw::Close(static_cast<int>(file));
          version[length] = '\0';
          return length;
        }
        version[length++] = c;
        continue;
      }
      matched = c == kKey[matched] ? matched + 1 : c == kKey[0] ? 1 : 0;
      inside = matched == sizeof(kKey) - 1;
    }
  }
  raw::Close(static_cast<int>(file));
  return 0;
}

__attribute__((noinline)) bool SameBuildId(const link_map* object, const char* digits) {
  uint8_t id[32];
  const size_t length = BuildIdOf(object, id, sizeof(id));
  if (length == 0 || strlen(digits) != 2 * length) return false;
  for (size_t i = 0; i < length; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    if (digits[2 * i] != kDigits[id[i] >> 4] || digits[2 * i + 1] != kDigits[id[i] & 15]) return false;
  }
  return true;
}

}  // namespace

bool IsNamed(const link_map* object, const char* name) {
  return object != nullptr && object->l_name != nullptr && strncmp(BaseName(object->l_name), name, strlen(name)) == 0;
}

const link_map* LibraryOnStack(const ThreadState* thread, const void* frame, const char* name) {
  constexpr uint64_t kMostWords = 256;
  const auto* word = static_cast<const uint64_t*>(frame);
  uint64_t words = thread->stack_top - reinterpret_cast<uint64_t>(frame);
  if (reinterpret_cast<uint64_t>(frame) < thread->stack_low || reinterpret_cast<uint64_t>(frame) >= thread->stack_top) {
    return nullptr;
  }
  words = words / 8 < kMostWords ? words / 8 : kMostWords;
  for (uint64_t i = 0; i < words; ++i) {
    constexpr uint64_t kLowest = 1 << 16;
    if (word[i] < kLowest) continue;
    const link_map* const object = ObjectAt(reinterpret_cast<const void*>(word[i]));
    if (IsNamed(object, name)) return object;
  }
  return nullptr;
}

const TorchBuild* FindTorchBuild(const link_map* object, char* version, size_t room) {
  const size_t length = VersionBeside(object->l_name, version, room);
  const char* const plus = length == 0 ? nullptr : strchr(version, '+');
  const size_t compared = plus == nullptr ? length : static_cast<size_t>(plus - version);
  // The mangled name of a function that returns a std::string shows which of the two it is.
  const TorchStrings strings =
      SymbolOf(object, "_ZN2at11show_configB5cxx11Ev") != nullptr ? TorchStrings::kNew : TorchStrings::kOld;
  for (const TorchBuild& build : kBuilds) {
    if (build.strings != strings) continue;
    if (build.build_id != nullptr
            ? SameBuildId(object, build.build_id)
            : strlen(build.version) == compared && strncmp(build.version, version, compared) == 0) {
      if (build.build_id != nullptr && strlen(build.version) < room)
        memcpy(version, build.version, strlen(build.version) + 1);
      return &build;
    }
  }
  return nullptr;
}

}  // namespace tbprof
