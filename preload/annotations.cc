// SPDX-License-Identifier: Apache-2.0
#include "preload/annotations.h"

#include <string.h>

#include "preload/record.h"
#include "wire/chunk.h"

namespace tbprof {
namespace {

// Numbers of the names that were told, by open addressing. Pages that nobody uses are never there. A fork child has its
// parent's, whose names hold for it, too.
constexpr uint32_t kNamePlaces = 1u << 16;
constexpr uint32_t kMostNames = kNamePlaces / 4 * 3;
constexpr uint32_t kMaxProbes = 64;
uint64_t g_told[kNamePlaces];
uint32_t g_told_count;

uint64_t g_domains[kMaxDomains];  // hashes of their names
bool g_domain_told[kMaxDomains];

uint64_t Mix(uint64_t hash, uint64_t word) {
  const unsigned __int128 product = static_cast<unsigned __int128>(hash ^ word) * 0x9e3779b97f4a7c15ull;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Never 0. Two texts of one hash are as likely as 10^5 names in 2^64.
uint64_t Hash(const char* text, size_t length) {
  uint64_t hash = 0x2545f4914f6cdd1dull + length;
  size_t at = 0;
  for (; at + 8 <= length; at += 8) {
    uint64_t word;
    __builtin_memcpy(&word, text + at, 8);
    hash = Mix(hash, word);
  }
  uint64_t rest = 0;
  for (size_t i = 0; at + i < length; ++i) rest |= static_cast<uint64_t>(static_cast<uint8_t>(text[at + i])) << (8 * i);
  hash = Mix(hash ^ 0x632be59bd9b4e019ull, rest);
  return hash == 0 ? 1 : hash;
}

// A text as it is told: the beginning of what the program gave.
struct Name {
  const char* text;
  size_t length;
  uint64_t hash;
  explicit Name(const char* given)
      : text(given == nullptr ? "" : given), length(strnlen(text, kMaxAnnotationName)), hash(Hash(text, length)) {}
};

bool Tell(ThreadState* thread, AnnotationNameKey key, uint64_t number, const char* text, size_t length) {
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

__attribute__((noinline)) uint64_t TellName(ThreadState* thread, uint64_t hash, const char* text, size_t length) {
  if (__atomic_load_n(&g_told_count, __ATOMIC_RELAXED) >= kMostNames) return 0;
  // Told before it counts as told: two threads may both tell a name, a lost one is told again.
  if (!Tell(thread, AnnotationNameKey::kName, hash, text, length)) return 0;
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe) {
    uint64_t* place = &g_told[(hash + probe) % kNamePlaces];
    uint64_t known = 0;
    if (__atomic_compare_exchange_n(place, &known, hash, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
      __atomic_fetch_add(&g_told_count, 1, __ATOMIC_RELAXED);
      return hash;
    }
    if (known == hash) return hash;
  }
  return 0;
}

// The counter of the ranges that a thread has open in a domain; null where they are not counted.
uint16_t* LevelOf(ThreadState* thread, uint16_t domain) {
  if (domain == kTorchDomain) return &thread->torch_level;
  if (domain == kTensorFlowDomain) return &thread->tensorflow_level;
  return domain < kCountedDomains ? &thread->annotation_levels[domain] : nullptr;
}

uint64_t NumberOf(ThreadState* thread, const Name& name) {
  for (uint32_t probe = 0; probe < kMaxProbes; ++probe) {
    const uint64_t known = __atomic_load_n(&g_told[(name.hash + probe) % kNamePlaces], __ATOMIC_RELAXED);
    if (__builtin_expect(known == name.hash, 1)) return name.hash;
    if (known == 0) return TellName(thread, name.hash, name.text, name.length);
  }
  return 0;
}

}  // namespace

uint64_t NameNumber(ThreadState* thread, const char* text) { return NumberOf(thread, Name(text)); }

uint64_t KeptNameNumber(ThreadState* thread, const char* text) {
  const Name name(text);
  if (thread != nullptr && NumberOf(thread, name) == 0) {
    Tell(thread, AnnotationNameKey::kName, name.hash, name.text, name.length);
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
    // Once more, where there was no thread or no room.
    if (thread != nullptr && !__atomic_load_n(&g_domain_told[i], __ATOMIC_RELAXED) &&
        Tell(thread, AnnotationNameKey::kDomain, i, name.text, name.length)) {
      __atomic_store_n(&g_domain_told[i], true, __ATOMIC_RELAXED);
    }
    return i;
  }
  return kMaxDomains;
}

void NameCategory(ThreadState* thread, uint16_t domain, uint32_t category, const char* text) {
  if (text == nullptr) return;
  Tell(thread, AnnotationNameKey::kCategory, uint64_t{domain} << 32 | category, text,
       strnlen(text, kMaxAnnotationName));
}

void Annotate(ThreadState* thread, AnnotationAction action, uint16_t domain, uint64_t name, uint32_t category,
              const AnnotationPayload* payload) {
  Reservation reservation;
  const uint32_t slots = payload == nullptr ? 1 : 1 + SlotsFor(sizeof(*payload));
  uint16_t level = kNoLevel;
  if (uint16_t* counter = LevelOf(thread, domain); counter != nullptr) {
    // Counted whether or not the record finds room: what follows a lost one is told from what it would have closed.
    if (action == AnnotationAction::kPush) level = (*counter)++;
    if (action == AnnotationAction::kPop) level = --*counter;
  }
  if (!BeginRecord(g_attachment.segment, &thread->writer, slots, &reservation)) return;
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

}  // namespace tbprof
