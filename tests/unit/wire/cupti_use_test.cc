// SPDX-License-Identifier: Apache-2.0
#include "wire/cupti_use.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tbprof {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint32_t kKernel = 10, kRuntime = 5, kDriver = 4;

class CuptiUseTest : public testing::Test {
 protected:
  template <typename Change>
  void Call(Change change) {
    use_.BeginCall();
    change();
    use_.EndCall(now_);
  }
  void Flush() {
    use_.BeginCall();
    const uint64_t begun = use_.BeginFlush();
    use_.EndFlush(begun);
    use_.EndCall(now_);
  }
  // Tries to hold CUPTI a second after the latest call, and releases it again.
  CuptiShare Later() {
    now_ += kSecond;
    const CuptiShare share = use_.TryHold(now_);
    if (share != CuptiShare::kNone) use_.Release();
    return share;
  }

  CuptiUse use_{};
  uint64_t now_ = 100 * kSecond;
  int handle_ = 0;
};

TEST_F(CuptiUseTest, Share_NoCallYet_IsAllAtOnce) {
  EXPECT_EQ(use_.TryHold(now_), CuptiShare::kAll);
  EXPECT_TRUE(use_.IsHeld());
  EXPECT_EQ(use_.TryHold(now_), CuptiShare::kNone) << "it is held";
}

TEST_F(CuptiUseTest, Share_CallInFlight_IsNone) {
  use_.BeginCall();
  EXPECT_EQ(use_.TryHold(now_), CuptiShare::kNone);
  EXPECT_TRUE(use_.HasCall());
  use_.EndCall(now_);
  EXPECT_EQ(use_.TryHold(now_ + kSecond - 1), CuptiShare::kNone);
  EXPECT_EQ(use_.TryHold(now_ + kSecond), CuptiShare::kAll);
}

TEST_F(CuptiUseTest, Share_XlasOrder_IsAllAfterFinalize) {
  Call([&] { use_.AddSubscriber(&handle_, false); });
  Call([&] { use_.SetCallback(1, 307, true); });
  Call([&] { use_.SetBufferCallbacks(&handle_, &handle_, &handle_); });
  Call([&] { use_.EnableKind(kKernel); });
  EXPECT_EQ(Later(), CuptiShare::kNone);
  Call([&] { use_.RemoveSubscriber(&handle_); });
  EXPECT_EQ(Later(), CuptiShare::kNone) << "its kinds are on";
  Call([&] { use_.DisableKind(kKernel); });
  EXPECT_EQ(Later(), CuptiShare::kNone) << "its records are not flushed";
  Flush();
  Call([&] { use_.Finalize(); });
  EXPECT_EQ(Later(), CuptiShare::kAll);
  void *requested, *completed;
  EXPECT_FALSE(use_.GetBufferCallbacks(&handle_, &requested, &completed));
}

TEST_F(CuptiUseTest, Share_SubscriberThatDoesNothing_IsActivities) {
  Call([&] { use_.AddSubscriber(&handle_, false); });
  Call([&] { use_.SetCallback(3, 1, true); });  // callbacks for contexts, which Kineto keeps on
  Call([&] { use_.EnableKind(kKernel); });
  Call([&] { use_.DisableKind(kKernel); });
  Flush();
  EXPECT_EQ(Later(), CuptiShare::kActivities);
  Call([&] { use_.SetCallback(2, CuptiUse::kEveryCallback, true); });
  EXPECT_EQ(Later(), CuptiShare::kNone) << "it is called in each call of the runtime";
  Call([&] { use_.SetCallback(2, CuptiUse::kEveryCallback, false); });
  EXPECT_EQ(Later(), CuptiShare::kActivities);
}

TEST_F(CuptiUseTest, Share_SubscriberOfTheSecondVersion_IsNoneUntilItUnsubscribes) {
  Call([&] { use_.AddSubscriber(&handle_, true); });
  EXPECT_EQ(Later(), CuptiShare::kNone);
  Call([&] { use_.RemoveSubscriber(&handle_); });
  EXPECT_EQ(Later(), CuptiShare::kAll);
}

TEST_F(CuptiUseTest, Share_FlushWhileAKindIsOn_IsNone) {
  Call([&] { use_.EnableKind(kKernel); });
  Flush();
  Call([&] { use_.DisableKind(kKernel); });
  EXPECT_EQ(Later(), CuptiShare::kNone) << "what came between the two is still in CUPTI";
  Flush();
  EXPECT_EQ(Later(), CuptiShare::kAll);
}

TEST_F(CuptiUseTest, Share_KindEnabledDuringAFlush_IsNone) {
  Call([&] { use_.EnableKind(kKernel); });
  Call([&] { use_.DisableKind(kKernel); });
  const uint64_t begun = use_.BeginFlush();
  Call([&] { use_.EnableKind(kKernel); });
  Call([&] { use_.DisableKind(kKernel); });
  use_.EndFlush(begun);
  EXPECT_EQ(Later(), CuptiShare::kNone);
}

TEST_F(CuptiUseTest, Share_SingleCalls_AreAKind) {
  Call([&] { use_.SetCallRecorded(CuptiUse::kRuntimeCalls, 17, false); });
  EXPECT_EQ(Later(), CuptiShare::kAll) << "one that is left out";
  Call([&] { use_.SetCallRecorded(CuptiUse::kRuntimeCalls, 17, true); });
  EXPECT_EQ(Later(), CuptiShare::kNone);
  Call([&] { use_.DisableKind(kRuntime); });
  Flush();
  EXPECT_EQ(Later(), CuptiShare::kAll);
  Call([&] { use_.SetCallRecorded(CuptiUse::kDriverCalls, 5, true); });
  Call([&] { use_.SetCallRecorded(CuptiUse::kDriverCalls, 5, false); });
  Call([&] { use_.DisableKind(kDriver); });
  Flush();
  EXPECT_EQ(Later(), CuptiShare::kAll);
}

TEST_F(CuptiUseTest, Share_KindOfAContext_IsNoneUntilFinalize) {
  Call([&] { use_.EnableKindOfContext(); });
  Flush();
  EXPECT_EQ(Later(), CuptiShare::kNone);
  Call([&] { use_.Finalize(); });
  EXPECT_EQ(Later(), CuptiShare::kAll);
}

TEST_F(CuptiUseTest, Share_NumbersBeyondTheTables_AreAKind) {
  Call([&] { use_.EnableKind(UINT32_MAX); });
  EXPECT_TRUE(use_.HasKind());
  Call([&] { use_.DisableKind(UINT32_MAX); });
  EXPECT_FALSE(use_.HasKind());
  Call([&] { use_.SetCallRecorded(CuptiUse::kDriverCalls, UINT32_MAX, true); });
  EXPECT_TRUE(use_.HasKind());
}

TEST_F(CuptiUseTest, Share_MoreSubscribersThanPlaces_IsNoneUntilFinalize) {
  int handles[CuptiUse::kMostSubscribers + 1];
  for (int& handle : handles) Call([&] { use_.AddSubscriber(&handle, false); });
  for (int& handle : handles) Call([&] { use_.RemoveSubscriber(&handle); });
  EXPECT_EQ(Later(), CuptiShare::kNone);
  Call([&] { use_.Finalize(); });
  EXPECT_EQ(Later(), CuptiShare::kAll);
}

TEST_F(CuptiUseTest, Left_EachCause_IsNamed) {
  const auto left = [&] { return use_.Left(now_ += kSecond); };
  EXPECT_EQ(left(), CuptiLeft::kNothing);

  use_.BeginCall();
  EXPECT_EQ(left(), CuptiLeft::kCall);
  use_.EndCall(now_);
  EXPECT_EQ(use_.Left(now_ + kSecond - 1), CuptiLeft::kQuietTime);
  EXPECT_EQ(use_.Left(now_ - 1), CuptiLeft::kQuietTime) << "the call ended since the clock was read";
  EXPECT_EQ(left(), CuptiLeft::kNothing);

  Call([&] { use_.AddSubscriber(&handle_, false); });
  EXPECT_EQ(left(), CuptiLeft::kNothing) << "tbprof records beside it";
  Call([&] { use_.SetCallback(2, CuptiUse::kEveryCallback, true); });
  EXPECT_EQ(left(), CuptiLeft::kCallbacks);
  Call([&] { use_.EnableKind(kKernel); });
  EXPECT_EQ(left(), CuptiLeft::kKinds);
  Call([&] { use_.RemoveSubscriber(&handle_); });
  Call([&] { use_.DisableKind(kKernel); });
  EXPECT_EQ(left(), CuptiLeft::kUnflushed);
  Flush();
  EXPECT_EQ(left(), CuptiLeft::kNothing);

  Call([&] { use_.EnableKindOfContext(); });
  EXPECT_EQ(left(), CuptiLeft::kContextKinds);
  int handles[CuptiUse::kMostSubscribers + 1];
  for (int& handle : handles) Call([&] { use_.AddSubscriber(&handle, false); });
  EXPECT_EQ(left(), CuptiLeft::kTooManySubscribers);
  Call([&] { use_.Finalize(); });
  Call([&] { use_.AddSubscriber(&handle_, true); });
  EXPECT_EQ(left(), CuptiLeft::kSubscriberV2);
  Call([&] { use_.RemoveSubscriber(&handle_); });
  EXPECT_EQ(left(), CuptiLeft::kNothing);
}

TEST_F(CuptiUseTest, FirstCall_AfterEachHold_IsTheNextOne) {
  const auto call = [&](CuptiCall which, uint64_t caller) {
    use_.BeginCall(which, reinterpret_cast<const void*>(caller));
    use_.EndCall(now_);
  };
  EXPECT_EQ(use_.GetFirstCall().call, CuptiCall::kNone);
  call(CuptiCall::k_cuptiSubscribe, 0x7fff12345678);
  call(CuptiCall::k_cuptiActivityEnable, 0x1000);
  EXPECT_EQ(use_.GetFirstCall().call, CuptiCall::k_cuptiSubscribe);
  EXPECT_EQ(use_.GetFirstCall().caller, 0x7fff12345678u);
  EXPECT_STREQ(CuptiCallName(use_.GetFirstCall().call), "cuptiSubscribe");

  EXPECT_EQ(use_.TryHold(now_), CuptiShare::kNone);
  EXPECT_EQ(use_.GetFirstCall().call, CuptiCall::k_cuptiSubscribe) << "CUPTI is not held";
  EXPECT_EQ(use_.TryHold(now_ + kSecond), CuptiShare::kAll);
  EXPECT_EQ(use_.GetFirstCall().call, CuptiCall::kNone);
  use_.BeginCall(CuptiCall::k_cuptiEnableAllDomains, reinterpret_cast<const void*>(0x2000));
  use_.Release();
  use_.EndCall(now_);
  EXPECT_EQ(use_.GetFirstCall().call, CuptiCall::k_cuptiEnableAllDomains);
  EXPECT_EQ(use_.GetFirstCall().caller, 0x2000u);
}

TEST_F(CuptiUseTest, BufferCallbacks_OfAnotherCopyOfCupti_AreNone) {
  int other = 0;
  Call([&] { use_.SetBufferCallbacks(&handle_, &other, &handle_); });
  void *requested, *completed;
  EXPECT_TRUE(use_.GetBufferCallbacks(&handle_, &requested, &completed));
  EXPECT_EQ(requested, &handle_);
  EXPECT_EQ(completed, &other);
  EXPECT_FALSE(use_.GetBufferCallbacks(&other, &requested, &completed));
}

// A call never overlaps with tbprof's hold of CUPTI: the call waits until CUPTI is released.
TEST_F(CuptiUseTest, TryHold_CallsOfManyThreads_NeverOverlap) {
  use_.quiet_ns = 0;
  std::atomic<bool> over{false};
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0}, calls{0};
  std::vector<std::thread> program;
  program.reserve(2);
  for (int i = 0; i < 2; ++i) {
    program.emplace_back([&] {
      for (int n = 0; n < 20'000; ++n) {
        use_.BeginCall();
        while (use_.IsHeld()) std::this_thread::yield();
        ++inside;
        ++calls;
        --inside;
        use_.EndCall(1);
        if (n % 64 == 0) std::this_thread::yield();
      }
    });
  }
  int holds = 0;
  std::thread own([&] {
    while (!over) {
      if (use_.TryHold(2) == CuptiShare::kNone) {
        std::this_thread::yield();
        continue;
      }
      ++holds;
      overlaps += inside.load();
      use_.Release();
    }
  });
  for (std::thread& thread : program) thread.join();
  over = true;
  own.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(calls, 40'000);
  EXPECT_FALSE(use_.HasCall());
}

}  // namespace
}  // namespace tbprof
