// SPDX-License-Identifier: Apache-2.0
// The collector that NVTX loads. Every image that contains NVTX's header loads, at its first NVTX call, the library
// that NVTX_INJECTION64_PATH names (this one) and calls InitializeInjectionNvtx2: from any thread, perhaps inside a
// constructor, once per image. The image never calls functions that are null after that. Rules: RULES.md.
#include <string.h>
#include <wchar.h>

#include "preload/annotations.h"
#include "preload/gpu.h"
#include "preload/hooks.h"
#include "preload/record.h"
#include "preload/triggers.h"

namespace tbprof {
namespace {

// From NVTX's header. The layout has not changed since version 2.
enum MessageType : int32_t { kAscii = 1, kWide = 2, kRegistered = 3 };
enum NvtxPayload : int32_t { kUint64 = 1, kInt64 = 2, kDouble = 3, kUint32 = 4, kInt32 = 5, kFloat = 6 };
struct EventAttributes {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  uint64_t payload;
  int32_t message_type;
  const void* message;
};
static_assert(sizeof(EventAttributes) == 48);

// The value that NVTX returns without a collector. A real depth, which the program did not get before, could change its
// behavior.
constexpr int kNoPushPopTracking = -2;
constexpr size_t kMaxWide = 40;

uint64_t g_range_count;
// Bit in the number of a range that opens a window.
constexpr uint64_t kWaitedFor = uint64_t{1} << 63;

bool IsArmed() {
  return __builtin_expect((__atomic_load_n(&g_control->control, __ATOMIC_RELAXED) & kFamilyAnnotation) != 0, 0);
}

// A name in wide characters, converted to UTF-8 and cut to the room on a hook's stack.
struct Narrow {
  char text[4 * kMaxWide + 1];
  explicit Narrow(const wchar_t* wide) {
    char* to = text;
    for (size_t i = 0; wide != nullptr && i < kMaxWide && wide[i] != 0; ++i) {
      const auto code = static_cast<uint32_t>(wide[i]);
      if (code < 0x80) {
        *to++ = static_cast<char>(code);
      } else if (code < 0x800) {
        *to++ = static_cast<char>(0xC0 | code >> 6);
        *to++ = static_cast<char>(0x80 | (code & 0x3F));
      } else if (code < 0x10000) {
        *to++ = static_cast<char>(0xE0 | code >> 12);
        *to++ = static_cast<char>(0x80 | (code >> 6 & 0x3F));
        *to++ = static_cast<char>(0x80 | (code & 0x3F));
      } else {
        *to++ = static_cast<char>(0xF0 | (code >> 18 & 7));
        *to++ = static_cast<char>(0x80 | (code >> 12 & 0x3F));
        *to++ = static_cast<char>(0x80 | (code >> 6 & 0x3F));
        *to++ = static_cast<char>(0x80 | (code & 0x3F));
      }
    }
    *to = '\0';
  }
};

// Not inlined: callers without wide names must not have the buffer on their stack.
__attribute__((noinline)) uint64_t NumberOfWide(ThreadState* thread, const wchar_t* text) {
  return NameNumber(thread, Narrow(text).text);
}

uint64_t Handle(const void* handle) { return reinterpret_cast<uint64_t>(handle); }
void* Handle(uint64_t number) { return reinterpret_cast<void*>(number); }
uint16_t DomainOf(const void* handle) {
  return Handle(handle) <= kMaxDomains ? static_cast<uint16_t>(Handle(handle)) : kMaxDomains;
}

// The content of an annotation as the program passed it.
struct Content {
  uint64_t name = 0;
  uint32_t category = 0;
  AnnotationPayload payload{};

  Content(ThreadState* thread, const char* text) : name(NameNumber(thread, text)) {}
  Content(ThreadState* thread, const wchar_t* text) : name(NumberOfWide(thread, text)) {}
  Content(ThreadState* thread, const EventAttributes* attributes) {
    if (attributes == nullptr || attributes->size < sizeof(EventAttributes)) {
      name = NameNumber(thread, "");
      return;
    }
    category = attributes->category;
    switch (attributes->message_type) {
      case kAscii:
        name = NameNumber(thread, static_cast<const char*>(attributes->message));
        break;
      case kWide:
        name = NumberOfWide(thread, static_cast<const wchar_t*>(attributes->message));
        break;
      case kRegistered:
        name = Handle(attributes->message);
        break;
      default:
        name = NameNumber(thread, "");
    }
    uint64_t bits = attributes->payload;
    switch (attributes->payload_type) {
      case kUint32:
        bits = static_cast<uint32_t>(bits);
        [[fallthrough]];
      case kUint64:
        payload.type = PayloadType::kUnsigned;
        break;
      case kInt32:
        bits = static_cast<uint64_t>(int64_t{static_cast<int32_t>(bits)});
        [[fallthrough]];
      case kInt64:
        payload.type = PayloadType::kSigned;
        break;
      case kFloat: {
        float narrow;
        __builtin_memcpy(&narrow, &bits, sizeof(narrow));
        const double wide = narrow;
        __builtin_memcpy(&bits, &wide, sizeof(bits));
        payload.type = PayloadType::kDouble;
        break;
      }
      case kDouble:
        payload.type = PayloadType::kDouble;
        break;
      default:
        return;
    }
    payload.bits = bits;
  }
};

template <typename Text>
void Record(AnnotationAction action, const void* domain, Text text) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return CountMissedWait();
  const Content content(thread, text);
  Annotate(thread, action, DomainOf(domain), content.name, content.category,
           content.payload.type != PayloadType{} ? &content.payload : nullptr);
}

template <typename Text>
uint64_t StartRange(const void* domain, Text text) {
  // The range gets its own number even if nothing is recorded now: recording may have begun when the range ends.
  uint64_t range = __atomic_add_fetch(&g_range_count, 1, __ATOMIC_RELAXED);
  if (!IsArmed()) return range;
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) {
    CountMissedWait();
    return range;
  }
  Content content(thread, text);
  content.payload.name = content.name;
  if (__builtin_expect(IsWaitedFor(content.name), 0)) {
    range |= kWaitedFor;
    BeginWaitedFor();
  }
  Annotate(thread, AnnotationAction::kStart, DomainOf(domain), range, content.category, &content.payload);
  return range;
}

void EndRange(const void* domain, uint64_t range) {
  if (!IsArmed()) return;
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return CountMissedWait();
  Annotate(thread, AnnotationAction::kEnd, DomainOf(domain), range, 0);
  if (__builtin_expect((range & kWaitedFor) != 0, 0)) EndWaitedFor();
}

template <typename Text>
int Push(const void* domain, Text text) {
  if (IsArmed()) Record(AnnotationAction::kPush, domain, text);
  return kNoPushPopTracking;
}

int Pop(const void* domain) {
  if (!IsArmed()) return kNoPushPopTracking;
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) {
    CountMissedWait();
  } else {
    Annotate(thread, AnnotationAction::kPop, DomainOf(domain), 0, 0);
  }
  return kNoPushPopTracking;
}

template <typename Text>
void Mark(const void* domain, Text text) {
  if (IsArmed()) Record(AnnotationAction::kMark, domain, text);
}

// The handle is the name's number, which is never 0.
void* RegisterString(const char* text) { return Handle(KeptNameNumber(CurrentThread(), text)); }

// Null: the domain's owner assumes that no tool is attached. XLA gives its kernels' names either to NVTX or to its own
// profiler, which the program may be using.
void* CreateDomain(const char* text) {
  if (text != nullptr && strcmp(text, "TSL") == 0 && (g_control->gpu_options & kGpuXlaAnnotations) == 0) return nullptr;
  return Handle(uint64_t{DomainNumber(CurrentThread(), text)});
}

void NameCategoryOf(const void* domain, uint32_t category, const char* text) {
  ThreadState* const thread = CurrentThread();
  if (thread != nullptr) NameCategory(thread, DomainOf(domain), category, text);
}

void NameThread(uint32_t tid, const char* text) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr || text == nullptr) return;
  RecordThreadName(thread, text, strnlen(text, kMaxAnnotationName), static_cast<int>(tid));
}

// ---- the functions of NVTX's tables

void MarkEx(const EventAttributes* attributes) { Mark(nullptr, attributes); }
void MarkA(const char* text) { Mark(nullptr, text); }
void MarkW(const wchar_t* text) { Mark(nullptr, text); }
uint64_t RangeStartEx(const EventAttributes* attributes) { return StartRange(nullptr, attributes); }
uint64_t RangeStartA(const char* text) { return StartRange(nullptr, text); }
uint64_t RangeStartW(const wchar_t* text) { return StartRange(nullptr, text); }
void RangeEnd(uint64_t range) { EndRange(nullptr, range); }
int RangePushEx(const EventAttributes* attributes) { return Push(nullptr, attributes); }
int RangePushA(const char* text) { return Push(nullptr, text); }
int RangePushW(const wchar_t* text) { return Push(nullptr, text); }
int RangePop() { return Pop(nullptr); }
void NameCategoryA(uint32_t category, const char* text) { NameCategoryOf(nullptr, category, text); }
void NameCategoryW(uint32_t category, const wchar_t* text) { NameCategoryOf(nullptr, category, Narrow(text).text); }
void NameOsThreadA(uint32_t tid, const char* text) { NameThread(tid, text); }
void NameOsThreadW(uint32_t tid, const wchar_t* text) { NameThread(tid, Narrow(text).text); }

void DomainMarkEx(void* domain, const EventAttributes* attributes) { Mark(domain, attributes); }
uint64_t DomainRangeStartEx(void* domain, const EventAttributes* attributes) { return StartRange(domain, attributes); }
void DomainRangeEnd(void* domain, uint64_t range) { EndRange(domain, range); }
int DomainRangePushEx(void* domain, const EventAttributes* attributes) { return Push(domain, attributes); }
int DomainRangePop(void* domain) { return Pop(domain); }
void DomainNameCategoryA(void* domain, uint32_t category, const char* text) { NameCategoryOf(domain, category, text); }
void DomainNameCategoryW(void* domain, uint32_t category, const wchar_t* text) {
  NameCategoryOf(domain, category, Narrow(text).text);
}
void* DomainRegisterStringA(void*, const char* text) { return RegisterString(text); }
void* DomainRegisterStringW(void*, const wchar_t* text) { return RegisterString(Narrow(text).text); }
void* DomainCreateA(const char* text) { return CreateDomain(text); }
void* DomainCreateW(const wchar_t* text) { return CreateDomain(Narrow(text).text); }

// For the driver and the runtime interface: a stream has the same handle in both.
void NameStreamA(void* stream, const char* text) { NameGpuStream(stream, text); }
void NameStreamW(void* stream, const wchar_t* text) { NameGpuStream(stream, Narrow(text).text); }

using Function = void (*)();
struct Slot {
  uint32_t number;
  Function function;
};
#define TBPROF_SLOT(number, name) \
  { number, reinterpret_cast<Function>(&name) }
const Slot kCore[] = {
    TBPROF_SLOT(1, MarkEx),         TBPROF_SLOT(2, MarkA),          TBPROF_SLOT(3, MarkW),
    TBPROF_SLOT(4, RangeStartEx),   TBPROF_SLOT(5, RangeStartA),    TBPROF_SLOT(6, RangeStartW),
    TBPROF_SLOT(7, RangeEnd),       TBPROF_SLOT(8, RangePushEx),    TBPROF_SLOT(9, RangePushA),
    TBPROF_SLOT(10, RangePushW),    TBPROF_SLOT(11, RangePop),      TBPROF_SLOT(12, NameCategoryA),
    TBPROF_SLOT(13, NameCategoryW), TBPROF_SLOT(14, NameOsThreadA), TBPROF_SLOT(15, NameOsThreadW),
};
const Slot kCoreOfDomains[] = {
    TBPROF_SLOT(1, DomainMarkEx),        TBPROF_SLOT(2, DomainRangeStartEx),     TBPROF_SLOT(3, DomainRangeEnd),
    TBPROF_SLOT(4, DomainRangePushEx),   TBPROF_SLOT(5, DomainRangePop),         TBPROF_SLOT(8, DomainNameCategoryA),
    TBPROF_SLOT(9, DomainNameCategoryW), TBPROF_SLOT(10, DomainRegisterStringA), TBPROF_SLOT(11, DomainRegisterStringW),
    TBPROF_SLOT(12, DomainCreateA),      TBPROF_SLOT(13, DomainCreateW),
};
const Slot kCudaDriver[] = {TBPROF_SLOT(5, NameStreamA), TBPROF_SLOT(6, NameStreamW)};
const Slot kCudaRuntime[] = {TBPROF_SLOT(3, NameStreamA), TBPROF_SLOT(4, NameStreamW)};
#undef TBPROF_SLOT

constexpr uint32_t kCallbacks = 1, kVersionInfo = 3;
constexpr uint32_t kModuleCore = 1, kModuleCudaDriver = 2, kModuleCudaRuntime = 4, kModuleCoreOfDomains = 5;
struct CallbackTable {
  size_t size;
  int (*functions)(uint32_t module, Function*** table, unsigned* count);
};
struct VersionTable {
  size_t size;
  uint32_t version, reserved;
  void (*set_collector_version)(uint32_t version);
};

template <size_t count>
void Fill(const CallbackTable* callbacks, uint32_t module, const Slot (&slots)[count]) {
  Function** table = nullptr;
  unsigned size = 0;
  if (callbacks->functions(module, &table, &size) == 0 || table == nullptr) return;
  for (const Slot& slot : slots) {
    if (slot.number < size && table[slot.number] != nullptr) *table[slot.number] = slot.function;
  }
}

}  // namespace

TBPROF_HIDDEN int Hook_InitializeInjectionNvtx2(const void* (*export_table)(uint32_t number)) asm(
    "tbprof_InitializeInjectionNvtx2");
TBPROF_EXPORT_AS(InitializeInjectionNvtx2, "tbprof_export_", "TBPROF_PRIVATE")

void* NvtxInjection() { return reinterpret_cast<void*>(&Hook_InitializeInjectionNvtx2); }

// Returns 1 in all cases: after 0, NVTX would close this library again. If this process never records, no callback is
// set.
int Hook_InitializeInjectionNvtx2(const void* (*export_table)(uint32_t number)) {
  if (export_table == nullptr || !MayAnnotate()) return 1;
  const auto* callbacks = static_cast<const CallbackTable*>(export_table(kCallbacks));
  if (callbacks == nullptr || callbacks->size < sizeof(CallbackTable) || callbacks->functions == nullptr) return 1;
  Fill(callbacks, kModuleCore, kCore);
  Fill(callbacks, kModuleCoreOfDomains, kCoreOfDomains);
  Fill(callbacks, kModuleCudaDriver, kCudaDriver);
  Fill(callbacks, kModuleCudaRuntime, kCudaRuntime);
  const auto* version = static_cast<const VersionTable*>(export_table(kVersionInfo));
  if (version != nullptr && version->size >= sizeof(VersionTable) && version->set_collector_version != nullptr) {
    constexpr uint32_t kOurs = 3;
    version->set_collector_version(kOurs);
  }
  return 1;
}

}  // namespace tbprof
