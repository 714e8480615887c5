// SPDX-License-Identifier: Apache-2.0
//
// The states of a context, which determine the threads that may use its events. A change of state is one
// compare-and-swap, or a store by the thread that owns the state. kContextTransitions lists all permitted changes; any
// other does not compile.
//
// Process: target, threads of the program and tbprof's own.
#ifndef TBPROF_CUPTI_CONTEXT_STATE_H_
#define TBPROF_CUPTI_CONTEXT_STATE_H_

#include <stdint.h>

namespace tbprof::cupti {

enum ContextState : uint32_t {
  kFree,
  kStarting,   // used only by the thread that registers the context
  kLive,       // used by all threads
  kClosing,    // used by none until tbprof's own thread takes it, or until the closing thread stops waiting for that
  kReleasing,  // used only by tbprof's own thread, for the last time
  kPausing,    // used by none: the pause is requested
  kPaused,     // used by none: the pause is granted, while the program drops a reference that may be the last
  kDraining,   // used by none: waits until the threads have returned all works
  kDead,       // used by none, for good
};
inline constexpr uint32_t kContextStates = kDead + 1;

struct ContextTransition {
  ContextState from, to;
};
inline constexpr ContextTransition kContextTransitions[] = {
    {kFree, kStarting},       // a thread of the program uses a new handle
    {kStarting, kFree},       // another thread registered the same handle first
    {kStarting, kLive},       // the driver created a stream in the context
    {kStarting, kDead},       // the driver created no stream in the context
    {kLive, kClosing},        // the program ends the context
    {kClosing, kReleasing},   // tbprof's own thread has taken it
    {kClosing, kDead},        // tbprof's own thread has not taken it in time
    {kReleasing, kFree},      // all events are destroyed
    {kReleasing, kDraining},  // some events are in flight
    {kLive, kPausing},        // the program drops a reference
    {kPausing, kPaused},      // tbprof's own thread has granted the pause
    {kPausing, kDead},        // tbprof's own thread has not granted it in time
    {kPaused, kLive},         // there are other references
    {kPaused, kDraining},     // it was the last reference
    {kDraining, kFree},       // the threads have returned all works
};

constexpr bool IsTransition(ContextState from, ContextState to) {
  for (const ContextTransition& one : kContextTransitions) {
    if (one.from == from && one.to == to) return true;
  }
  return false;
}

// False: the context was not in state `from`.
template <ContextState from, ContextState to>
bool ChangeState(uint32_t* state) {
  static_assert(IsTransition(from, to));
  uint32_t expected = from;
  return __atomic_compare_exchange_n(state, &expected, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

// For the thread that owns the state: no other thread may change it.
template <ContextState from, ContextState to>
void StoreState(uint32_t* state) {
  static_assert(IsTransition(from, to));
  __atomic_store_n(state, to, __ATOMIC_RELEASE);
}

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_CONTEXT_STATE_H_
