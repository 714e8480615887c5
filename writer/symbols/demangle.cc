// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/demangle.h"

#include <cxxabi.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "writer/base/utf8.h"
#include "writer/symbols/rust_names.h"

// Exists only in libstdc++.a, next to __cxa_demangle. It returns the text in pieces, so that the caller can stop.
extern "C" __attribute__((weak)) int __gcclibcxx_demangle_callback(const char*, void (*)(const char*, size_t, void*),
                                                                   void*);

namespace tbprof {
namespace {

struct DemangledText {
  char bytes[4 * kMaxNameLength];
  size_t size = 0;
  jmp_buf too_long;
};

void AppendDemangled(const char* piece, size_t size, void* argument) {
  auto* text = static_cast<DemangledText*>(argument);
  if (size > sizeof(text->bytes) - text->size) longjmp(text->too_long, 1);
  memcpy(text->bytes + text->size, piece, size);
  text->size += size;
}

// 200 bytes of mangled name can stand for gigabytes of text. The demangler is C and holds no resource when it calls
// back.
__attribute__((noinline)) bool DemangleInto(const char* name, DemangledText* text) {
  return setjmp(text->too_long) == 0 && __gcclibcxx_demangle_callback(name, AppendDemangled, text) == 0;
}

}  // namespace

std::string Demangle(std::string name) {
  // GNU ld appends the version: memcpy@@GLIBC_2.14.
  if (const size_t version = name.find('@'); version != std::string::npos && version > 0) {
    name.resize(version);
  }
  if (name.starts_with("_Z") && __gcclibcxx_demangle_callback != nullptr) {
    auto text = std::make_unique<DemangledText>();
    if (DemangleInto(name.c_str(), text.get())) name.assign(text->bytes, text->size);
  } else if (name.starts_with("_Z")) {
    int status = 0;
    char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
    if (text != nullptr && status == 0) name.assign(text, strnlen(text, 4 * kMaxNameLength));
    free(text);
  }
  if (auto rust = name.starts_with("_R") ? RustName(name) : OldRustName(name)) name = *std::move(rust);
  return PrintableUtf8(std::move(name));
}

}  // namespace tbprof
