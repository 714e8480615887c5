// SPDX-License-Identifier: Apache-2.0
//
// What may be done with a context's events, and by whom. A change of state is one compare-and-swap; those that may
// happen are in one list, and any other does not compile.
//
// Process: target, threads of the program and tbprof's own.
#ifndef TBPROF_CUPTI_CONTEXT_STATE_H_
#define TBPROF_CUPTI_CONTEXT_STATE_H_

#include <stdint.h>

namespace tbprof::cupti {

enum ContextState : uint32_t {
  kFree,
  kStarting,   // by the thread that registers it
  kLive,       // by all
  kClosing,    // by none, until tbprof's own thread has taken it, or the closing thread when that does not come
  kReleasing,  // by tbprof's own thread, for the last time
  kPausing,    // by none: requested, and
  kPaused,     // granted, while a reference to it is dropped that may be the last
  kDraining,   // by none: its works are counted back in from the threads that have them
  kDead,       // by none, for good
};
inline constexpr uint32_t kContextStates = kDead + 1;

struct ContextTransition {
  ContextState from, to;
};
inline constexpr ContextTransition kContextTransitions[] = {
    {kFree, kStarting},       // a thread of the program comes with a new handle
    {kStarting, kFree},       // another thread was first
    {kStarting, kLive},       //
    {kStarting, kDead},       // the driver gives no stream in it
    {kLive, kClosing},        // the program ends it
    {kClosing, kReleasing},   // tbprof's own thread has come
    {kClosing, kDead},        // it has not
    {kReleasing, kFree},      // all events are destroyed
    {kReleasing, kDraining},  // some are in flight
    {kLive, kPausing},        // the program drops a reference
    {kPausing, kPaused},      // tbprof's own thread has come
    {kPausing, kDead},        // it has not
    {kPaused, kLive},         // there are other references
    {kPaused, kDraining},     // it was the last
    {kDraining, kFree},       // all events are back
};

constexpr bool IsTransition(ContextState from, ContextState to) {
  for (const ContextTransition& one : kContextTransitions) {
    if (one.from == from && one.to == to) return true;
  }
  return false;
}

// False: it was in another state.
template <ContextState from, ContextState to>
bool ChangeState(uint32_t* state) {
  static_assert(IsTransition(from, to));
  uint32_t expected = from;
  return __atomic_compare_exchange_n(state, &expected, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

// By the one who has it.
template <ContextState from, ContextState to>
void StoreState(uint32_t* state) {
  static_assert(IsTransition(from, to));
  __atomic_store_n(state, to, __ATOMIC_RELEASE);
}

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_CONTEXT_STATE_H_
