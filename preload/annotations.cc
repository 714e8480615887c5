// SPDX-License-Identifier: Apache-2.0
#include "preload/annotations.h"

#include <string.h>

#include "preload/record.h"
#include "preload/triggers.h"
#include "wire/chunk.h"

namespace tbprof {
namespace {

// Hash table (open addressing) of the numbers of recorded names. Unused pages are never mapped. A fork child inherits
// its parent's table, and the parent's records of the names are valid for the child, too.
constexpr uint32_t kNamePlaces = 1u << 16;
constexpr uint32_t kMostNames = kNamePlaces / 4 * 3;
constexpr uint32_t kMaxProbes = 64;
uint64_t g_recorded_names[kNamePlaces];
uint32_t g_recorded_name_count;

uint64_t g_domains[kMaxDomains];  // hashes of the domains' names
bool g_domain_recorded[kMaxDomains];

// A text as it is recorded: cut to the maximum length of a name.
struct Name {
  const char* text;
  size_t length;
  uint64_t hash;
  explicit Name(const char* given)
      : text(given == nullptr ? "" : given),
        length(strnlen(text, kMaxAnnotationName)),
        hash(NameNumberOf(text, length)) {}
};

bool RecordText(ThreadState* thread, AnnotationNameKey key, uint64_t number, const char* text, size_t length) {
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1 + SlotsFor(length), &reservation)) return false;
  auto* record = reinterpret_cast<AnnotationNameRecord*>(reservation.slots);
  record->number = number;
  record->text_length = length;
  memcpy(record + 1, text, length);
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kAnnotationName, 0,
               static_cast<uint16_t>(key));
  return true;
}

__attribute__((noinline)) uint64_t RecordNewName(ThreadState* thread, uint64_t hash, const char* text, size_t length) {
  if (__atomic_load_n(&g_recorded_name_count, __ATOMIC_RELAXED) >= kMostNames) return 0;
  // The name is recorded before it enters the table: two threads may both record a name, and a name whose record was
  // dropped is recorded again.
  if (!RecordText(thread, AnnotationNameKey::kName, hash, text, length)) return 0;
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe) {
    uint64_t* place = &g_recorded_names[(hash + probe) % kNamePlaces];
    uint64_t known = 0;
    if (__atomic_compare_exchange_n(place, &known, hash, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      __atomic_fetch_add(&g_recorded_name_count, 1, __ATOMIC_RELAXED);
      return hash;
    }
    if (known == hash) return hash;
  }
  return 0;
}

// Counter of the open ranges of a thread in a domain; null if the domain's ranges are not counted.
uint16_t* LevelOf(ThreadState* thread, uint16_t domain) {
  if (domain == kTorchDomain) return &thread->torch_level;
  if (domain == kTensorFlowDomain) return &thread->tensorflow_level;
  return domain < kCountedDomains ? &thread->annotation_levels[domain] : nullptr;
}

uint64_t NumberOf(ThreadState* thread, const Name& name) {
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe) {
    const uint64_t known = __atomic_load_n(&g_recorded_names[(name.hash + probe) % kNamePlaces], __ATOMIC_RELAXED);
    if (__builtin_expect(known == name.hash, 1)) return name.hash;
    if (known == 0) return RecordNewName(thread, name.hash, name.text, name.length);
  }
  return 0;
}

}  // namespace

uint64_t NameNumber(ThreadState* thread, const char* text) {
  const Name name(text);
  const uint64_t number = NumberOf(thread, name);
  // A window that waits for this name must open even if there is no room to record the name.
  return __builtin_expect(number == 0, 0) && IsWaitedFor(name.hash) ? name.hash : number;
}

uint64_t KeptNameNumber(ThreadState* thread, const char* text) {
  const Name name(text);
  if (thread != nullptr && NumberOf(thread, name) == 0) {
    RecordText(thread, AnnotationNameKey::kName, name.hash, name.text, name.length);
  }
  return name.hash;
}

uint16_t DomainNumber(ThreadState* thread, const char* text) {
  const Name name(text);
  for (uint16_t i = 1; i < kMaxDomains; ++i) {
    uint64_t known = 0;
    if (!__atomic_compare_exchange_n(&g_domains[i], &known, name.hash, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
        known != name.hash) {
      continue;
    }
    // Recorded again if an earlier attempt had no thread or no room.
    if (thread != nullptr && !__atomic_load_n(&g_domain_recorded[i], __ATOMIC_RELAXED) &&
        RecordText(thread, AnnotationNameKey::kDomain, i, name.text, name.length)) {
      __atomic_store_n(&g_domain_recorded[i], true, __ATOMIC_RELAXED);
    }
    return i;
  }
  return kMaxDomains;
}

void NameCategory(ThreadState* thread, uint16_t domain, uint32_t category, const char* text) {
  if (text == nullptr) return;
  RecordText(thread, AnnotationNameKey::kCategory, uint64_t{domain} << 32 | category, text,
             strnlen(text, kMaxAnnotationName));
}

namespace {

inline __attribute__((always_inline)) void Record(ThreadState* thread, AnnotationAction action, uint16_t domain,
                                                  uint64_t name, uint32_t category, const AnnotationPayload* payload) {
  Reservation reservation;
  const uint32_t slots = payload == nullptr ? 1 : 1 + SlotsFor(sizeof(*payload));
  uint16_t level = kNoLevel;
  if (uint16_t* counter = LevelOf(thread, domain); counter != nullptr) {
    // The level changes even if the record is dropped, so that later pushes and pops are not matched with the wrong
    // range.
    if (action == AnnotationAction::kPush) level = (*counter)++;
    if (action == AnnotationAction::kPop) level = --*counter;
  }
  // A range is counted once, when it begins.
  const bool ends = action == AnnotationAction::kPop || action == AnnotationAction::kEnd;
  const uint32_t counted_as = domain == kTorchDomain ? kCountedTorch : kCountedAnnotation;
  if (!ends) CountMade(thread, counted_as);
  if (!BeginRecord(g_attachment.segment, &thread->writer, slots, &reservation)) {
    if (!ends) CountNoRoom(thread, counted_as);
    return;
  }
  auto* record = reinterpret_cast<AnnotationRecord*>(reservation.slots);
  record->ticks = Ticks();
  record->name = name;
  record->category = category;
  record->level = level;
  record->reserved = 0;
  if (payload != nullptr) __builtin_memcpy(record + 1, payload, sizeof(*payload));
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kAnnotation,
               static_cast<uint8_t>(action), domain);
}

// The border is reported before a push is recorded and after a pop is recorded, so that both records lie inside the
// range.
__attribute__((noinline)) void RecordAtBorder(ThreadState* thread, AnnotationAction action, uint16_t domain,
                                              uint64_t name, uint32_t category, const AnnotationPayload* payload) {
  if (action == AnnotationAction::kPush) {
    if (thread->waited_for_depth == 0) {
      thread->waited_for_domain = domain;
      thread->waited_for_depth = 1;
      BeginWaitedFor();
    } else if (domain == thread->waited_for_domain) {
      ++thread->waited_for_depth;
    }
  }
  Record(thread, action, domain, name, category, payload);
  if (action == AnnotationAction::kPop && domain == thread->waited_for_domain && thread->waited_for_depth != 0 &&
      --thread->waited_for_depth == 0) {
    EndWaitedFor();
  }
}

}  // namespace

void Annotate(ThreadState* thread, AnnotationAction action, uint16_t domain, uint64_t name, uint32_t category,
              const AnnotationPayload* payload) {
  const bool begins = action == AnnotationAction::kPush && IsWaitedFor(name) && domain <= kMaxDomains;
  if (__builtin_expect(begins || thread->waited_for_depth != 0, 0)) {
    return RecordAtBorder(thread, action, domain, name, category, payload);
  }
  Record(thread, action, domain, name, category, payload);
}

}  // namespace tbprof
