// SPDX-License-Identifier: Apache-2.0
//
// What a program, or a library in it, marks of its own work: ranges and marks with names. Names are recorded once and
// numbers from then on; whose ranges belong together is found by the converter.
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

// Whether anything is, or may still be, recorded in this process.
bool MayAnnotate();

// Domains beyond these share the last number.
inline constexpr uint16_t kMaxDomains = 255;

// The number of a name, recorded if it is new. 0: it could not be recorded, or there are too many names.
// `thread` of the next two: null where there is none, then nothing is recorded.
uint64_t NameNumber(ThreadState* thread, const char* text);

// The same for a name that the program keeps the number of: never 0, and recorded however many there are.
uint64_t KeptNameNumber(ThreadState* thread, const char* text);

// The number of the domain of that name, which is recorded.
uint16_t DomainNumber(ThreadState* thread, const char* text);

void NameCategory(ThreadState* thread, uint16_t domain, uint32_t category, const char* text);

// Has its time taken inside. `payload`: null, or what is to be recorded besides.
void Annotate(ThreadState* thread, AnnotationAction action, uint16_t domain, uint64_t name, uint32_t category,
              const AnnotationPayload* payload = nullptr);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_ANNOTATIONS_H_
