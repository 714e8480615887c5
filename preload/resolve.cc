// SPDX-License-Identifier: Apache-2.0
// Finds the real functions. Until then, the allocator's stubs replace them. Rules: RULES.md.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dlfcn.h>
#include <errno.h>

#include "preload/resolve.h"

#include "preload/bootstrap.h"
#include "preload/hooks.h"
#include "preload/late_names.h"
#include "preload/modules.h"
#include "preload/state.h"

namespace tbprof {
namespace {

uint32_t g_arena_used;

// While dlsym runs on this thread, the allocator's stubs serve from the arena instead of resolving again.
__thread bool t_resolving __attribute__((tls_model("initial-exec")));

bool Resolved() {
  if (t_resolving) return false;
  ResolveRealFunctions();
  return true;
}

void* StubMalloc(size_t size) { return Resolved() ? g_real.malloc(size) : ArenaAllocate(size, 16); }
void* StubCalloc(size_t count, size_t size) {
  if (Resolved()) return g_real.calloc(count, size);
  size_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? nullptr : ArenaAllocate(bytes, 16);
}
void* StubRealloc(void* block, size_t size) {
  if (Resolved()) return g_real.realloc(block, size);
  auto* fresh = static_cast<unsigned char*>(ArenaAllocate(size, 16));
  if (fresh == nullptr || block == nullptr) return fresh;
  const size_t old = InArena(block) ? ArenaSize(block) : 0;
  for (size_t i = 0; i < old && i < size; ++i) fresh[i] = static_cast<unsigned char*>(block)[i];
  return fresh;
}
void* StubReallocArray(void* block, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return StubRealloc(block, bytes);
}
void* StubAligned(size_t alignment, size_t size) {
  return Resolved() ? g_real.aligned_alloc(alignment, size) : ArenaAllocate(size, alignment);
}
void* StubMemalign(size_t alignment, size_t size) {
  return Resolved() ? g_real.memalign(alignment, size) : ArenaAllocate(size, alignment);
}
int StubPosixMemalign(void** block, size_t alignment, size_t size) {
  if (Resolved()) return g_real.posix_memalign(block, alignment, size);
  *block = ArenaAllocate(size, alignment);
  return *block == nullptr ? ENOMEM : 0;
}
void* StubValloc(size_t size) { return Resolved() ? g_real.valloc(size) : ArenaAllocate(size, 4096); }
void* StubPvalloc(size_t size) {
  return Resolved() ? g_real.pvalloc(size) : ArenaAllocate((size + 4095) & ~size_t{4095}, 4096);
}
void StubFree(void* block) {
  if (Resolved()) g_real.free(block);
}

template <typename Function>
void Find(Function* function, const char* name) {
  auto found = reinterpret_cast<Function>(RealDlsym(RTLD_NEXT, name));
  if (found != nullptr) __atomic_store_n(function, found, __ATOMIC_RELEASE);
}
template <typename Function>
void FindVersion(Function* function, const char* name, const char* version) {
  auto found = reinterpret_cast<Function>(dlvsym(RTLD_NEXT, name, version));
  if (found != nullptr) __atomic_store_n(function, found, __ATOMIC_RELEASE);
}

size_t UnknownSize(void*) { return 0; }
constexpr uint32_t kBlocksToCompare = 64;

}  // namespace

extern "C" __attribute__((visibility("hidden"))) void* (*tbprof_real_dlsym)(void*, const char*);
extern "C" __attribute__((visibility("hidden"))) decltype(RealFunctions::syscall) tbprof_real_syscall;

void* (*FindRealDlsym())(void* handle, const char* name) {
  using Dlsym = void* (*)(void*, const char*);
  // The architecture's first version: every glibc has it, also 2.34 and later, which have a newer one as well.
#if defined(__x86_64__)
  static constexpr char kVersion[] = "GLIBC_2.2.5";
#else
  static constexpr char kVersion[] = "GLIBC_2.17";
#endif
  const bool outer = t_resolving;
  t_resolving = true;
  void* const found = dlvsym(RTLD_NEXT, "dlsym", kVersion);
  t_resolving = outer;
  const auto real = reinterpret_cast<Dlsym>(found);
  __atomic_store_n(&tbprof_real_dlsym, real, __ATOMIC_RELEASE);
  return real;
}

void* RealDlsym(void* handle, const char* name) {
  auto* real = __atomic_load_n(&tbprof_real_dlsym, __ATOMIC_ACQUIRE);
  if (real == nullptr) real = FindRealDlsym();
  return real == nullptr ? nullptr : real(handle, name);
}

namespace {

// If `library` is mapped: the address of `name` in it or in its dependencies. The caller keeps the library loaded.
void* SymbolIn(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* const found = RealDlsym(handle, name);
  dlclose(handle);
  return found;
}

}  // namespace

void* FindLateSymbol(const char* name, const char* libraries) {
  const int saved = errno;
  void* found = RealDlsym(RTLD_NEXT, name);
  while (found == nullptr && *libraries != '\0') {
    found = SymbolIn(libraries, name);
    while (*libraries++ != '\0') {
    }
  }
  // Clears the loader's error, which is not the program's.
  dlerror();
  errno = saved;
  return found;
}

namespace {

// A cache of the targets of references, by the call's return address. Open addressing; a target that does not fit is
// looked up at each call.
struct Known {
  const void* caller;  // set last, cleared first; kClaimed: another thread is setting the other members
  const char* name;
  void* function;
};
constexpr uint32_t kMostKnown = 512, kMostTried = 8;
const void* const kClaimed = reinterpret_cast<const void*>(1);
Known g_known[kMostKnown];

Known* PlaceOf(const void* caller, const char* name, uint32_t attempt) {
  const uint64_t key = reinterpret_cast<uint64_t>(caller) + 31 * reinterpret_cast<uint64_t>(name);
  return &g_known[((key * 0x9e3779b97f4a7c15 >> 32) + attempt) % kMostKnown];
}

void* Recall(const void* caller, const char* name) {
  for (uint32_t i = 0; i < kMostTried; ++i) {
    const Known* const known = PlaceOf(caller, name, i);
    const void* const before = __atomic_load_n(&known->caller, __ATOMIC_ACQUIRE);
    if (before == nullptr) return nullptr;
    if (before != caller || __atomic_load_n(&known->name, __ATOMIC_RELAXED) != name) continue;
    void* const function = __atomic_load_n(&known->function, __ATOMIC_RELAXED);
    // Another thread may have cleared and reused the entry meanwhile.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&known->caller, __ATOMIC_RELAXED) == caller) return function;
  }
  return nullptr;
}

void Remember(const void* caller, const char* name, void* function) {
  for (uint32_t i = 0; i < kMostTried; ++i) {
    Known* const known = PlaceOf(caller, name, i);
    const void* free = nullptr;
    if (!__atomic_compare_exchange_n(&known->caller, &free, kClaimed, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      continue;
    }
    // A thread that reads the other members also sees that the entry was claimed.
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&known->name, name, __ATOMIC_RELAXED);
    __atomic_store_n(&known->function, function, __ATOMIC_RELAXED);
    __atomic_store_n(&known->caller, caller, __ATOMIC_RELEASE);
    return;
  }
}

}  // namespace

namespace {

// The definitions of a name in objects other than this library.
struct Definitions {
  const char* name;
  const char* libraries;
  uint32_t count;
  const void* function;  // in the last object that was visited
  bool is_plain;         // it is a function in one of `libraries`
};

bool IsOneOf(const char* libraries, const char* soname) {
  for (; *libraries != '\0'; ++libraries) {
    if (SameText(libraries, soname)) return true;
    while (*libraries != '\0') ++libraries;
  }
  return false;
}

int CountDefinition(dl_phdr_info* info, size_t, void* data) {
  auto* const all = static_cast<Definitions*>(data);
  const ElfW(Dyn)* const dynamic = DynamicOf(*info);
  if (dynamic == nullptr || dynamic == _DYNAMIC) return 0;
  const DynamicTables tables(info->dlpi_addr, dynamic);
  const ElfW(Sym)* const symbol = tables.Find(all->name);
  if (symbol == nullptr) return 0;
  all->function = reinterpret_cast<const void*>(info->dlpi_addr + symbol->st_value);
  all->is_plain =
      ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && tables.soname != nullptr && IsOneOf(all->libraries, tables.soname);
  return ++all->count > 1;
}

// The only definition in the process, if it is in one of `libraries`. Null: there is none, or there are several and the
// loader must decide which one is meant. Takes no loader lock: a constructor that dlopen runs may wait for this thread.
void* OnlyDefinition(const char* name, const char* libraries) {
  Definitions all{name, libraries, 0, nullptr, false};
  VisitObjects(CountDefinition, &all);
  return all.count == 1 && all.is_plain ? const_cast<void*>(all.function) : nullptr;
}

}  // namespace

// The loader's list has the objects in the order in which they were loaded.
bool CameBefore(const link_map* first, const link_map* second) {
  constexpr int kMostObjects = 4096;
  for (int i = 0; i < kMostObjects && second != nullptr; ++i, second = second->l_prev) {
    if (second == first) return true;
  }
  return false;
}

void* FindOwn(const char* name, const void* caller) {
  const link_map* const object = ObjectAt(caller);
  // The program itself has no name; its dependencies are in the global scope.
  if (object == nullptr || object->l_name == nullptr || object->l_name[0] == '\0') return nullptr;
  return SymbolIn(object->l_name, name);
}

void ForgetCallers() {
  for (Known& known : g_known) {
    const void* caller = __atomic_load_n(&known.caller, __ATOMIC_ACQUIRE);
    if (caller == nullptr || caller == kClaimed) continue;
    __atomic_compare_exchange_n(&known.caller, &caller, nullptr, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
}

void* FindForCaller(void* hook, void* const* looked_up, const char* name, const char* libraries, const void* caller,
                    bool* is_everyones) {
  void* found = Recall(caller, name);
  if (found != nullptr) return found;
  const link_map* const object = ObjectAt(caller);
  found = OnlyDefinition(name, libraries);
  if (found != nullptr) {
    // Valid for this caller only: a definition that is loaded later may be another caller's.
    if (object != nullptr) Remember(caller, name, found);
    return found;
  }
  const int saved = errno;
  void* const global = RealDlsym(RTLD_NEXT, name);
  void* own = FindOwn(name, caller);
  if (own == hook) own = nullptr;
  if (own == nullptr || global == nullptr || own == global) {
    found = global != nullptr ? global : own;
  } else {
    found = CameBefore(ObjectAt(global), object) ? global : own;
  }
  if (is_everyones != nullptr) *is_everyones = found != nullptr && found == global && (own == nullptr || own == global);
  if (found == nullptr) found = __atomic_load_n(looked_up, __ATOMIC_ACQUIRE);
  if (found == nullptr) found = FindLateSymbol(name, libraries);
  dlerror();
  errno = saved;
  if (found != nullptr && object != nullptr) Remember(caller, name, found);
  return found;
}

AllocatorWay g_allocator_way = AllocatorWay::kCareful;
uint32_t g_blocks_to_compare = kAlwaysAsk;

alignas(16) unsigned char g_arena[kArenaBytes];

RealFunctions g_real = {
    .malloc = StubMalloc,
    .calloc = StubCalloc,
    .realloc = StubRealloc,
    .reallocarray = StubReallocArray,
    .posix_memalign = StubPosixMemalign,
    .aligned_alloc = StubAligned,
    .memalign = StubMemalign,
    .valloc = StubValloc,
    .pvalloc = StubPvalloc,
    .free = StubFree,
};

void* ArenaAllocate(size_t size, size_t alignment) {
  if (alignment < 16) alignment = 16;
  if (size > kArenaBytes || alignment > kArenaBytes / 2) return nullptr;
  // Includes room for the size in front of the block and for the alignment.
  const uint32_t take = static_cast<uint32_t>((size + 16 + alignment + 15) & ~size_t{15});
  const uint32_t at = __atomic_fetch_add(&g_arena_used, take, __ATOMIC_RELAXED);
  if (at + static_cast<uint64_t>(take) > kArenaBytes) {
    __atomic_fetch_sub(&g_arena_used, take, __ATOMIC_RELAXED);
    return nullptr;
  }
  const uintptr_t base = reinterpret_cast<uintptr_t>(g_arena) + at + 16;
  const uintptr_t block = (base + alignment - 1) & ~(alignment - 1);
  reinterpret_cast<size_t*>(block)[-1] = size;
  return reinterpret_cast<void*>(block);
}

size_t ArenaSize(const void* block) { return static_cast<const size_t*>(block)[-1]; }

void ResolveRealFunctions() {
  if (t_resolving) return;
  const int saved = errno;
  t_resolving = true;
  // The allocator is last in the table. Each hook loads the pointer, so another thread sees either the stub or the real
  // function.
#define TBPROF_TIMED(family, name, object, result, type, parameters, arguments, expression) Find(&g_real.name, #name);
#define TBPROF_CUSTOM(family, name, object, result, type, parameters, arguments) Find(&g_real.name, #name);
#if defined(__x86_64__)
#define TBPROF_VERSIONED(family, name, object, result, type, parameters, arguments) \
  FindVersion(&g_real.name, #name, TBPROF_VERSION_##name);                          \
  FindVersion(&g_real.name##_old, #name, TBPROF_VERSION_OLD);
#endif
#define TBPROF_LATE(...)
#include "preload/hooks.def"
  Find(&tbprof_real_syscall, "syscall");
  Find(&g_real.malloc_usable_size, "malloc_usable_size");
  // If an interposed allocator lacks malloc_usable_size, libc's function would read in front of its blocks, where a
  // guard page may be.
  if (ObjectAt(reinterpret_cast<void*>(g_real.malloc)) !=
      ObjectAt(reinterpret_cast<void*>(g_real.malloc_usable_size))) {
    g_real.malloc_usable_size = UnknownSize;
  }
  // Constructors of other libraries run before this library's, and nearly all of them allocate before they look up a
  // name.
  if (FindVisitor()) HideLateNames();
  t_resolving = false;
  errno = saved;
}

void CompareBlockSizes() {
#if defined(__x86_64__)
  // On other architectures memory tagging may give the word in front of a block another tag than the block's.
  const link_map* const glibc = Glibc();
  if (glibc != nullptr && glibc == ObjectAt(reinterpret_cast<void*>(g_real.malloc))) {
    __atomic_store_n(&g_blocks_to_compare, kBlocksToCompare, __ATOMIC_RELAXED);
  }
#endif
}

bool KnowsBlockSizes() { return g_real.malloc_usable_size != UnknownSize; }

}  // namespace tbprof
