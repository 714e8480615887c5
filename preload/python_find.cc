// SPDX-License-Identifier: Apache-2.0
// Finds the CPython of a process and decides whether its stacks can be read. Rules: RULES.md.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <link.h>
#include <string.h>

#include "preload/hooks.h"
#include "preload/modules.h"
#include "preload/python.h"
#include "preload/python_state.h"
#include "preload/record.h"

namespace tbprof {

const PythonInterpreter* g_python;

namespace {

PythonInterpreter g_interpreter;
uint32_t g_found;  // 1: an interpreter was found, and it is decided whether its stacks are recorded

// A second is this many times the shortest wait that carries a stack: 100 us (Session::Variable).
constexpr uint64_t kShortestWaitsOfSecond = 10'000;

struct Text {
  char bytes[96];
  size_t length = 0;

  Text& operator<<(const char* part) {
    for (; *part != '\0' && length < sizeof(bytes); ++part) bytes[length++] = *part;
    return *this;
  }
  Text& operator<<(uint32_t number) {
    if (number >= 10) *this << number / 10;
    const char digit[] = {static_cast<char>('0' + number % 10), '\0'};
    return *this << digit;
  }
};

void Report(ThreadState* thread, const char* sign_and_version, uint32_t minor, const char* reason) {
  Text text;
  text << sign_and_version;
  if (minor != 0) text << minor;
  if (reason[0] != '\0') text << " " << reason;
  RecordProcessInfo(thread, ProcessInfoKey::kPython, text.bytes, text.length);
}

// The exports of an object; 0 or null: it does not export the name.
class Exports {
 public:
  Exports(uint64_t base, const ElfW(Dyn) * dynamic) : base_(base), tables_(base, dynamic) {}
  uint64_t Find(const char* name) const {
    const ElfW(Sym)* const symbol = tables_.Find(name);
    return symbol == nullptr ? 0 : base_ + symbol->st_value;
  }
  template <typename Function>
  bool Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(Find(name));
    return *function != nullptr;
  }

 private:
  uint64_t base_;
  DynamicTables tables_;
};

// Returns why the stacks cannot be read; null: they can be read. Fills in the layout. `minor` is 0 if it is not known.
const char* DecideVersion(const Exports& exports, uint32_t* minor, PythonLayout* layout) {
  const uint64_t version = exports.Find("Py_Version");
  *minor = 0;
  if (version != 0) {
    uint64_t number;
    memcpy(&number, reinterpret_cast<const void*>(version), sizeof(number));
    if (number >> 24 != 3) return "is not supported";
    *minor = number >> 16 & 0xff;
    if ((number & 0xf0) != 0xf0) return "is a pre-release";
  } else if (exports.Find("PyModule_AddObjectRef") != 0) {
    *minor = 10;
  } else if (exports.Find("PyFrame_GetBack") != 0) {
    *minor = 9;
  } else if (exports.Find("PyCode_NewWithPosOnlyArgs") != 0) {
    *minor = 8;
  } else {
    return "is older than 3.8";
  }
  const PythonLayout* row = nullptr;
  for (const PythonLayout& each : kPythonLayouts) {
    if (each.minor == *minor) row = &each;
  }
  if (row == nullptr) return "is not supported";
  memcpy(layout, row, sizeof(*layout));
  const uint64_t runtime = exports.Find("_PyRuntime");
  if (runtime == 0) return "does not export _PyRuntime";
  for (const PythonLayout& where : kPythonDebugOffsets) {
    if (where.minor != *minor) continue;
    bool free_threaded = false;
    if (!ApplyPythonDebugOffsets(reinterpret_cast<const uint8_t*>(runtime), kPythonDebugBytes, where, layout,
                                 &free_threaded)) {
      return "has no valid table of offsets";
    }
    if (free_threaded) return "is free-threaded, which is not supported";
  }
  return nullptr;
}

// An object that was loaded when the program started. A null pointer stands for an object that was loaded later.
struct EarlyObject {
  const dl_phdr_info* info;
  size_t info_bytes;
};

const char* DecideFunctions(const Exports& exports, const EarlyObject* early, PythonInterpreter* python) {
  if (!exports.Find("PyGILState_GetThisThreadState", &python->own_state)) return "has no thread states";
  python->state_offset = 0;
  if (python->layout.minor >= kFirstThreadLocalMinor) {
    if (early != nullptr) {
      python->state_offset = FindOwnPythonState(*early->info, early->info_bytes, python->own_state);
    }
    if (python->state_offset == 0) return "was loaded by dlopen, which is not supported from 3.15 on";
  }
  if (!exports.Find("_Py_IsFinalizing", &python->is_finalizing) &&
      !exports.Find("Py_IsFinalizing", &python->is_finalizing)) {
    return "does not export Py_IsFinalizing";
  }
  python->runtime = reinterpret_cast<const uint8_t*>(exports.Find("_PyRuntime"));
  python->code_type = exports.Find("PyCode_Type");
  return python->code_type == 0 ? "does not export PyCode_Type" : nullptr;
}

const char* BaseName(const char* path) {
  const char* name = path;
  for (const char* at = path; *at != '\0'; ++at) {
    if (*at == '/') name = at + 1;
  }
  return name;
}

// Returns whether the object is an interpreter. For the first interpreter, decides whether its stacks are recorded and
// reports the decision.
bool Look(ThreadState* thread, uint64_t base, const ElfW(Dyn) * dynamic, const char* path, const EarlyObject* early) {
  const Exports exports(base, dynamic);
  const bool is_pypy = strncmp(BaseName(path), "libpypy", strlen("libpypy")) == 0;
  if (!is_pypy && exports.Find("PyGILState_GetThisThreadState") == 0) return false;
  if (__atomic_exchange_n(&g_found, 1, __ATOMIC_RELAXED) != 0) return true;
  if (is_pypy) {
    Report(thread, "-PyPy", 0, "is not supported");
    return true;
  }
  uint32_t minor;
  const char* reason = DecideVersion(exports, &minor, &g_interpreter.layout);
  if (reason == nullptr) reason = DecideFunctions(exports, early, &g_interpreter);
  if (reason != nullptr) {
    Report(thread, minor == 0 ? "-3" : "-3.", minor, reason);
    return true;
  }
  g_interpreter.row = -1;
  for (const PythonLayout& row : kPythonLayouts) {
    if (memcmp(&row, &g_interpreter.layout, sizeof(row)) == 0)
      g_interpreter.row = static_cast<int>(&row - kPythonLayouts);
  }
  const uint64_t second = (g_control->python_wait_ticks | 1) * kShortestWaitsOfSecond;
  g_interpreter.second_shift = static_cast<uint32_t>(63 - __builtin_clzll(second));
  Report(thread, "+3.", minor, "");
  __atomic_store_n(&g_python, &g_interpreter, __ATOMIC_RELEASE);
  if (__atomic_load_n(&g_allocator_way, __ATOMIC_RELAXED) == AllocatorWay::kExactQuick) {
    __atomic_store_n(&g_allocator_way, AllocatorWay::kExact, __ATOMIC_RELAXED);
  }
  return true;
}

int LookAtObject(dl_phdr_info* info, size_t bytes, void* thread) {
  const ElfW(Dyn)* const dynamic = DynamicOf(*info);
  if (dynamic == nullptr) return 0;
  const EarlyObject early = {info, bytes};
  const char* const path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  return Look(static_cast<ThreadState*>(thread), info->dlpi_addr, dynamic, path, &early) ? 1 : 0;
}

}  // namespace

void FindPythonAtStart(ThreadState* thread) {
  if (g_control->python_wait_ticks != 0) dl_iterate_phdr(LookAtObject, thread);
}

void LookForPython(ThreadState* thread, const link_map* library) {
  if (g_control->python_wait_ticks == 0 || __atomic_load_n(&g_found, __ATOMIC_RELAXED) != 0) return;
  Look(thread, library->l_addr, library->l_ld, library->l_name, nullptr);
}

__attribute__((noinline)) void DisablePython(ThreadState* thread, const char* reason) {
  if (__atomic_exchange_n(&g_python, nullptr, __ATOMIC_RELAXED) == nullptr) return;
  Report(thread, "-3.", g_interpreter.layout.minor, reason);
}

}  // namespace tbprof
