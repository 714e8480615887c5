// SPDX-License-Identifier: Apache-2.0
//
// Records the annotations that a program or its libraries make: named ranges and marks. Each name is recorded once and
// then referred to by its number. The converter pairs the beginnings and ends of ranges.
//
//   ThreadState* thread = CurrentThread();
//   Annotate(thread, AnnotationAction::kPush, domain, NameNumber(thread, text), category);
//
// Process: target, any thread, any signal handler; does not allocate, lock or wait. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_ANNOTATIONS_H_
#define TBPROF_PRELOAD_ANNOTATIONS_H_

#include <stddef.h>
#include <stdint.h>

#include "preload/state.h"
#include "wire/name_number.h"
#include "wire/records.h"

namespace tbprof {

// Whether this process records, or may still start to record (the constructor has not finished).
bool MayAnnotate();

// All further domains share the last number.
inline constexpr uint16_t kMaxDomains = 255;

// Returns the number of a name and records the name if it is new. 0: the name could not be recorded, or there are too
// many names.
uint64_t NameNumber(ThreadState* thread, const char* text);

// Like NameNumber, for a name whose number the program keeps: never 0, and the name is recorded even if there are too
// many. Null `thread`: nothing is recorded.
uint64_t KeptNameNumber(ThreadState* thread, const char* text);

// Returns the number of the domain with that name and records the name. Null `thread`: nothing is recorded.
uint16_t DomainNumber(ThreadState* thread, const char* text);

void NameCategory(ThreadState* thread, uint16_t domain, uint32_t category, const char* text);

// Records an annotation with the current time. `payload`: additional content, or null.
void Annotate(ThreadState* thread, AnnotationAction action, uint16_t domain, uint64_t name, uint32_t category,
              const AnnotationPayload* payload = nullptr);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_ANNOTATIONS_H_
