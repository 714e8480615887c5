// SPDX-License-Identifier: Apache-2.0
//
// Tracks the program's use of CUPTI by its calls, and decides who may use CUPTI now.
//
//   use.BeginCall(CuptiCall::k_cuptiActivityEnable, caller);  // a program's thread, before it calls CUPTI
//   if (use.IsHeld()) suspend();          // returns when tbprof's own thread has released CUPTI
//   result = real(kind);
//   if (result == 0) use.EnableKind(kind);
//   use.EndCall(now_ns);
//
//   use.TryHold(now_ns)                   // tbprof's own thread; not kNone: tbprof holds CUPTI until Release
//
// tbprof holds CUPTI only while no call of the program is in flight. After such a call, it takes CUPTI again only when
// the program has nothing left in use: no enabled kind, no API callback, no unflushed record, and no call for
// `quiet_ns`.
//
// Process: target. Any thread, signal handlers too; no lock, no wait, no system call.
#ifndef TBPROF_WIRE_CUPTI_USE_H_
#define TBPROF_WIRE_CUPTI_USE_H_

#include <stdint.h>

#include "wire/cupti_calls.h"
#include "wire/records.h"

namespace tbprof {

// How far tbprof may use CUPTI.
enum class CuptiShare : uint32_t {
  kNone,        // the program uses CUPTI
  kActivities,  // the program keeps a subscriber that does nothing: activities are recorded without one
  kAll,
};

class CuptiUse {
 public:
  static constexpr uint32_t kKinds = 256;
  static constexpr uint32_t kCalls = 4096;
  static constexpr uint32_t kMostSubscribers = 8;
  static constexpr uint64_t kQuietNs = 1'000'000'000;
  enum CallDomain : uint32_t { kDriverCalls, kRuntimeCalls };

  // ---- calls of the program

  // `caller`: the call's return address. Returns whether this is the first call since tbprof held CUPTI.
  bool BeginCall(CuptiCall call = CuptiCall::kNone, const void* caller = nullptr) {
    __atomic_fetch_add(&state_, kOneCall + kOneChange, __ATOMIC_ACQ_REL);
    // Read after the call was counted: TryHold has cleared the last first call before that, or fails.
    uint64_t none = __atomic_load_n(&first_call_, __ATOMIC_RELAXED);
    if (__builtin_expect(none != 0, 1)) return false;
    const uint64_t first =
        uint64_t{static_cast<uint8_t>(call)} << kCallShift | (reinterpret_cast<uint64_t>(caller) & kCallerMask);
    return __atomic_compare_exchange_n(&first_call_, &none, first, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  }
  // `now_ns`: of CLOCK_MONOTONIC.
  void EndCall(uint64_t now_ns) {
    __atomic_store_n(&last_call_ns_, now_ns, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&state_, kOneCall, __ATOMIC_ACQ_REL);
  }

  // `second_version`: cuptiSubscribe_v2 instead of cuptiSubscribe. Its subscriber may enable its own kinds, by calls
  // that CUPTI does not allow to be mixed with the calls that are counted here.
  void AddSubscriber(void* subscriber, bool second_version) {
    if (second_version) __atomic_fetch_or(&flags_, kSecondVersion, __ATOMIC_RELAXED);
    for (void*& place : subscribers_) {
      void* none = nullptr;
      if (__atomic_compare_exchange_n(&place, &none, subscriber, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    }
    __atomic_fetch_or(&flags_, kTooMany, __ATOMIC_RELAXED);
  }
  void RemoveSubscriber(void* subscriber) {
    for (void*& place : subscribers_) {
      void* same = subscriber;
      if (__atomic_compare_exchange_n(&place, &same, nullptr, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
    }
    if (!HasSubscriber()) {
      __atomic_fetch_and(&flags_, ~kSecondVersion, __ATOMIC_RELAXED);
      __atomic_store_n(&domains_, 0, __ATOMIC_RELAXED);
    }
  }

  // `domain`: CUpti_CallbackDomain. `callback`: kEveryCallback, or one callback.
  static constexpr uint32_t kEveryCallback = UINT32_MAX;
  void SetCallback(uint32_t domain, uint32_t callback, bool on) {
    // The callbacks for a context's creation and end do not count: tbprof never causes them, and PyTorch's Kineto keeps
    // them on for the whole process.
    constexpr uint32_t kResource = 3, kContextCreated = 1, kContextDestroyStarting = 2;
    if (domain == kResource && (callback == kContextCreated || callback == kContextDestroyStarting)) return;
    const uint32_t bit = domain < 32 ? 1u << domain : 1u;
    if (on) {
      __atomic_fetch_or(&domains_, bit, __ATOMIC_RELAXED);
    } else if (callback == kEveryCallback) {
      // If there are two subscribers, the other one may still have it.
      if (CountSubscribers() <= 1) __atomic_fetch_and(&domains_, ~bit, __ATOMIC_RELAXED);
    }
  }
  void SetAllCallbacks(bool on) {
    for (uint32_t domain = 0; domain < 32; ++domain) SetCallback(domain, kEveryCallback, on);
  }

  void EnableKind(uint32_t kind) {
    SetBit(kinds_, kind < kKinds ? kind : 0, true);
    Unflushed();
  }
  void DisableKind(uint32_t kind) {
    bool was_on = SetBit(kinds_, kind < kKinds ? kind : 0, false);
    // "Activity kind CUPTI_ACTIVITY_KIND_DRIVER overrides the settings done by this API" (cupti_activity.h).
    if (kind == kDriverKind) was_on |= ClearCalls(kDriverCalls);
    if (kind == kRuntimeKind) was_on |= ClearCalls(kRuntimeCalls);
    if (was_on) Unflushed();
  }
  // Kinds of a single context: which of them are still enabled is not tracked, so they count until cuptiFinalize.
  void EnableKindOfContext() {
    __atomic_fetch_or(&flags_, kContexts, __ATOMIC_RELAXED);
    Unflushed();
  }
  void SetCallRecorded(CallDomain domain, uint32_t callback, bool on) {
    if (SetBit(calls_[domain], callback < kCalls ? callback : 0, on) || on) Unflushed();
  }

  // Call this before a flush and pass the result to EndFlush.
  uint64_t BeginFlush() const { return HasKind() ? UINT64_MAX : __atomic_load_n(&kinds_changed_, __ATOMIC_ACQUIRE); }
  void EndFlush(uint64_t begun) {
    if (begun == __atomic_load_n(&kinds_changed_, __ATOMIC_ACQUIRE)) {
      __atomic_store_n(&flushed_, begun, __ATOMIC_RELAXED);
    }
  }

  // cuptiFinalize: "It destroys and cleans up all the resources associated with CUPTI" (its reference).
  void Finalize() {
    for (uint64_t& word : kinds_) __atomic_store_n(&word, 0, __ATOMIC_RELAXED);
    ClearCalls(kDriverCalls);
    ClearCalls(kRuntimeCalls);
    for (void*& place : subscribers_) __atomic_store_n(&place, nullptr, __ATOMIC_RELAXED);
    __atomic_store_n(&domains_, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&flags_, 0, __ATOMIC_RELAXED);
    SetBufferCallbacks(nullptr, nullptr, nullptr);
    __atomic_store_n(&flushed_, __atomic_load_n(&kinds_changed_, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  }

  // `registrar`: the cuptiActivityRegisterCallbacks that received them; a process may have two copies of CUPTI.
  void SetBufferCallbacks(void* requested, void* completed, void* registrar) {
    __atomic_store_n(&registrar_, registrar, __ATOMIC_RELAXED);
    __atomic_store_n(&requested_, requested, __ATOMIC_RELAXED);
    __atomic_store_n(&completed_, completed, __ATOMIC_RELEASE);
  }
  // False: the program has registered no callbacks with this copy of CUPTI.
  bool GetBufferCallbacks(const void* registrar, void** requested, void** completed) const {
    *completed = __atomic_load_n(&completed_, __ATOMIC_ACQUIRE);
    *requested = __atomic_load_n(&requested_, __ATOMIC_RELAXED);
    return *completed != nullptr && __atomic_load_n(&registrar_, __ATOMIC_RELAXED) == registrar;
  }

  // The error that the driver returns to a second copy of CUPTI while the first is loaded, whichever copy subscribes.
  static constexpr int kRefused = 39;
  // SetOwn: the functions of tbprof's copy of CUPTI. NoteResult: a call of the program to `real` had this result.
  void SetOwn(void* subscribe, void* registrar) {
    __atomic_store_n(&own_subscribe_, subscribe, __ATOMIC_RELAXED);
    __atomic_store_n(&own_registrar_, registrar, __ATOMIC_RELAXED);
  }
  void NoteResult(const void* real, int result) {
    const void* const own = __atomic_load_n(&own_subscribe_, __ATOMIC_RELAXED);
    if (result != kRefused || own == nullptr || real == own) return;
    if (real != __atomic_load_n(&own_registrar_, __ATOMIC_RELAXED)) {
      __atomic_fetch_or(&flags_, kOtherCopy, __ATOMIC_RELAXED);
    }
  }

  void SetClock() { __atomic_store_n(&clock_changed_, 1, __ATOMIC_RELAXED); }
  bool HasClock() const { return __atomic_load_n(&clock_changed_, __ATOMIC_RELAXED) != 0; }

  // ---- tbprof's own thread

  bool IsHeld() const { return (__atomic_load_n(&state_, __ATOMIC_ACQUIRE) & kHeld) != 0; }
  bool HasCall() const { return (__atomic_load_n(&state_, __ATOMIC_ACQUIRE) & kCallsMask) != 0; }

  // The reason why tbprof may not use CUPTI; of several, the one that lasts longest by itself. A subscriber of
  // cuptiSubscribe alone is no reason.
  CuptiLeft Left(uint64_t now_ns) const {
    const uint64_t last = __atomic_load_n(&last_call_ns_, __ATOMIC_RELAXED);
    const uint32_t flags = __atomic_load_n(&flags_, __ATOMIC_RELAXED);
    if ((flags & kSecondVersion) != 0) return CuptiLeft::kSubscriberV2;
    if ((flags & kTooMany) != 0) return CuptiLeft::kTooManySubscribers;
    if ((flags & kContexts) != 0) return CuptiLeft::kContextKinds;
    if (HasKind()) return CuptiLeft::kKinds;
    if (HasCallbacks()) return CuptiLeft::kCallbacks;
    if (__atomic_load_n(&flushed_, __ATOMIC_RELAXED) != __atomic_load_n(&kinds_changed_, __ATOMIC_RELAXED)) {
      return CuptiLeft::kUnflushed;
    }
    if (HasCall()) return CuptiLeft::kCall;
    // A call may have ended after `now_ns` was read.
    const bool quiet = last == 0 || (now_ns >= last && now_ns - last >= __atomic_load_n(&quiet_ns, __ATOMIC_RELAXED));
    if (quiet) return CuptiLeft::kNothing;
    return (flags & kOtherCopy) != 0 ? CuptiLeft::kOtherCopy : CuptiLeft::kQuietTime;
  }

  // The program's first call since tbprof held CUPTI. kNone: there was no call, or it has just begun.
  struct FirstCall {
    CuptiCall call;
    uint64_t caller;
  };
  FirstCall GetFirstCall() const {
    const uint64_t first = __atomic_load_n(&first_call_, __ATOMIC_ACQUIRE);
    return {static_cast<CuptiCall>(first >> kCallShift), first & kCallerMask};
  }

  // Tries to take CUPTI for tbprof. kNone: tbprof may not use CUPTI now.
  CuptiShare TryHold(uint64_t now_ns) {
    uint64_t seen = __atomic_load_n(&state_, __ATOMIC_ACQUIRE);
    if ((seen & (kHeld | kCallsMask)) != 0) return CuptiShare::kNone;
    if (Left(now_ns) != CuptiLeft::kNothing) return CuptiShare::kNone;
    const CuptiShare share = HasSubscriber() ? CuptiShare::kActivities : CuptiShare::kAll;
    // Cleared before CUPTI is held: the next call, which then waits until CUPTI is released, becomes the first one.
    const uint64_t first = __atomic_exchange_n(&first_call_, 0, __ATOMIC_RELAXED);
    // Fails after a call that began meanwhile, even if it has ended: it has changed the state.
    if (__atomic_compare_exchange_n(&state_, &seen, seen | kHeld, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      return share;
    }
    if (first != 0) __atomic_store_n(&first_call_, first, __ATOMIC_RELAXED);
    return CuptiShare::kNone;
  }
  // Call this when CUPTI is as the program left it. Threads that wait on wait_word may continue.
  void Release() { __atomic_fetch_and(&state_, ~kHeld, __ATOMIC_ACQ_REL); }

  // The word of a futex: its value changes when CUPTI is released, and with each call.
  uint32_t* wait_word() { return reinterpret_cast<uint32_t*>(&state_); }
  static bool IsHeldIn(uint32_t word) { return (word & kHeld) != 0; }

  // ---- why it is not tbprof's

  bool HasSubscriber() const { return CountSubscribers() != 0; }
  bool HasCallbacks() const { return __atomic_load_n(&domains_, __ATOMIC_RELAXED) != 0; }
  bool HasKind() const {
    uint64_t all = 0;
    for (const uint64_t& word : kinds_) all |= __atomic_load_n(&word, __ATOMIC_RELAXED);
    for (const auto& calls : calls_) {
      for (const uint64_t& word : calls) all |= __atomic_load_n(&word, __ATOMIC_RELAXED);
    }
    return all != 0;
  }

  uint64_t quiet_ns = kQuietNs;

 private:
  static constexpr uint32_t kDriverKind = 4, kRuntimeKind = 5;
  static constexpr uint64_t kOneCall = 1, kCallsMask = (uint64_t{1} << 31) - 1, kHeld = uint64_t{1} << 31;
  static constexpr uint64_t kOneChange = uint64_t{1} << 32;
  enum Flag : uint32_t { kSecondVersion = 1, kTooMany = 2, kContexts = 4, kOtherCopy = 8 };
  // User-space addresses have at most 56 bits.
  static constexpr uint32_t kCallShift = 56;
  static constexpr uint64_t kCallerMask = (uint64_t{1} << kCallShift) - 1;

  // Returns whether the bit was set.
  static bool SetBit(uint64_t* words, uint32_t bit, bool on) {
    const uint64_t mask = uint64_t{1} << (bit % 64);
    const uint64_t before = on ? __atomic_fetch_or(&words[bit / 64], mask, __ATOMIC_RELAXED)
                               : __atomic_fetch_and(&words[bit / 64], ~mask, __ATOMIC_RELAXED);
    return (before & mask) != 0;
  }
  bool ClearCalls(CallDomain domain) {
    uint64_t any = 0;
    for (uint64_t& word : calls_[domain]) any |= __atomic_exchange_n(&word, 0, __ATOMIC_RELAXED);
    return any != 0;
  }
  void Unflushed() { __atomic_fetch_add(&kinds_changed_, 1, __ATOMIC_ACQ_REL); }
  uint32_t CountSubscribers() const {
    uint32_t count = 0;
    for (void* const& place : subscribers_) count += __atomic_load_n(&place, __ATOMIC_RELAXED) != nullptr;
    return count;
  }

  // The lowest 31 bits: calls in flight. Then kHeld. Above: the number of calls so far.
  uint64_t state_;
  uint64_t last_call_ns_;  // 0: none yet
  uint64_t first_call_;    // its CuptiCall in the highest 8 bits, and its return address
  uint64_t kinds_changed_;
  uint64_t flushed_;  // kinds_changed_ at the latest flush without an enabled kind
  uint32_t flags_;
  uint32_t domains_;
  uint32_t clock_changed_;
  void* subscribers_[kMostSubscribers];
  void *requested_, *completed_, *registrar_;
  void *own_subscribe_, *own_registrar_;
  uint64_t kinds_[kKinds / 64];
  uint64_t calls_[2][kCalls / 64];
};

}  // namespace tbprof

#endif  // TBPROF_WIRE_CUPTI_USE_H_
