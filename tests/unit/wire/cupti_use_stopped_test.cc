// SPDX-License-Identifier: Apache-2.0
//
// The first call since tbprof held CUPTI is known, even if a call of the program begins between any two instructions of
// tbprof's own thread, or the other way round. One side is a child that is single-stepped.
#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include <functional>
#include <new>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/single_step.h"
#include "wire/cupti_use.h"

namespace tbprof {
namespace {

constexpr CuptiCall kEarlier = CuptiCall::k_cuptiSubscribe, kNow = CuptiCall::k_cuptiFinalize;
constexpr int kMostSteps = 100'000;

class CuptiUseStopped : public testing::Test {
 protected:
  void SetUp() override {
    void* const shared = mmap(nullptr, sizeof(CuptiUse), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    use_ = new (shared) CuptiUse{};
    alarm(120);
  }
  void TearDown() override {
    alarm(0);
    munmap(use_, sizeof(CuptiUse));
  }

  // Begins with no earlier call, or with one that is over.
  void Reset(bool called) {
    new (use_) CuptiUse{};
    use_->quiet_ns = 0;
    if (!called) return;
    use_->BeginCall(kEarlier, use_);
    use_->EndCall(1);
  }

  static uint64_t ProgramCounter(pid_t child) {
    user_regs_struct registers{};
    iovec place{&registers, sizeof(registers)};
    ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &place);
#if defined(__x86_64__)
    return registers.rip;
#else
    return registers.pc;
#endif
  }

  // The numbers of steps after which each instruction of `part` is reached for the first time. Later turns of loops are
  // left out: nothing else happens in them.
  static std::vector<int> FirstSteps(const std::function<void()>& part) {
    const pid_t child = StartStopped(part);
    std::vector<int> first;
    std::set<uint64_t> seen;
    for (int step = 0; step < kMostSteps; ++step) {
      if (seen.insert(ProgramCounter(child)).second) first.push_back(step);
      if (!StepOnce(child)) break;
    }
    EndStopped(child);
    return first;
  }

  // Stops `part` once before each of its instructions, calls `between`, and lets `part` run to its end.
  void ExpectFirstCallIsKnown(const std::function<void()>& part, const std::function<void()>& between) {
    for (const bool called : {false, true}) {
      Reset(called);
      const std::vector<int> steps = FirstSteps(part);
      EXPECT_GT(steps.size(), 20u);
      int held = 0;
      for (const int after : steps) {
        Reset(called);
        const pid_t child = StartStopped(part);
        for (int step = 0; step < after; ++step) ASSERT_TRUE(StepOnce(child)) << step;
        between();
        ptrace(PTRACE_CONT, child, nullptr, nullptr);
        ASSERT_TRUE(AwaitStop(child, SIGSTOP));
        EndStopped(child);
        const CuptiCall first = called && !use_->IsHeld() ? kEarlier : kNow;
        ASSERT_EQ(use_->GetFirstCall().call, first) << after << (use_->IsHeld() ? ": held" : ": not held");
        held += use_->IsHeld();
      }
      EXPECT_GT(held, 0);
      EXPECT_LT(held, static_cast<int>(steps.size()));
    }
  }

  CuptiUse* use_ = nullptr;
};

TEST_F(CuptiUseStopped, TryHold_CallBeginsAtAnyInstruction_FirstCallIsKnown) {
  ExpectFirstCallIsKnown([&] { use_->TryHold(2); }, [&] { use_->BeginCall(kNow, use_); });
}

TEST_F(CuptiUseStopped, BeginCall_TbprofTriesToHoldAtAnyInstruction_FirstCallIsKnown) {
  ExpectFirstCallIsKnown([&] { use_->BeginCall(kNow, use_); }, [&] { use_->TryHold(2); });
}

}  // namespace
}  // namespace tbprof
