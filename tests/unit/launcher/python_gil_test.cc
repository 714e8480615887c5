// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_gil.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace tbprof {
namespace {

constexpr uint64_t kRuntime = 0x10000, kFirst = 0x20000, kSecond = 0x30000;  // two interpreters
constexpr uint64_t kState = 0x50000, kOther = 0x51000;

// An interpreter of one version. Its memory is zero except for the values that a test puts there.
class FakeInterpreter {
 public:
  explicit FakeInterpreter(const PythonLayout& layout) : layout_(layout) {}
  bool one_collector() const { return layout_.runtime_gc != kNoPythonMember; }
  void SetCollecting(uint64_t interpreter, int32_t value) {
    Put(one_collector() ? kRuntime + layout_.runtime_gc + layout_.gc_collecting
                        : interpreter + layout_.interpreter_gc + layout_.gc_collecting,
        value);
  }
  void SetHolder(uint64_t interpreter, uint64_t state, int32_t locked = 1) {
    const uint64_t gil = layout_.runtime_gil_holder != kNoPythonMember ? kRuntime + layout_.runtime_gil_holder
                                                                       : interpreter + layout_.interpreter_gil_holder;
    Put(gil, state);
    Put(gil + 8, locked);
  }
  PythonGil Gil() {
    return PythonGil(layout_, kRuntime, [this](void* out, std::span<const iovec> ranges) -> int64_t {
      int64_t copied = 0;
      for (const iovec& range : ranges) {
        const auto address = reinterpret_cast<uint64_t>(range.iov_base);
        if (address < kRuntime || address + range.iov_len > kRuntime + bytes_.size()) return copied;
        std::memcpy(static_cast<uint8_t*>(out) + copied, &bytes_[address - kRuntime], range.iov_len);
        copied += static_cast<int64_t>(range.iov_len);
      }
      return copied;
    });
  }

 private:
  template <typename T>
  void Put(uint64_t address, T value) {
    std::memcpy(&bytes_[address - kRuntime], &value, sizeof(value));
  }
  PythonLayout layout_;
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(0x40000);
};

TEST(PythonGil, ThreadThatHoldsTheGil_CollectsInItsInterpreter) {
  for (const PythonLayout& layout : kPythonLayouts) {
    SCOPED_TRACE(layout.minor);
    FakeInterpreter python(layout);
    PythonGil gil = python.Gil();
    python.SetHolder(kFirst, kState);
    gil.Read({kFirst, kSecond});
    EXPECT_FALSE(gil.IsCollecting(kFirst, kState));
    python.SetCollecting(kFirst, 1);
    gil.Read({kFirst, kSecond});
    EXPECT_TRUE(gil.IsCollecting(kFirst, kState));
    EXPECT_FALSE(gil.IsCollecting(kFirst, kOther));
    EXPECT_EQ(gil.IsCollecting(kSecond, kState), python.one_collector());
    // The collecting thread has released the GIL.
    python.SetHolder(kFirst, kOther);
    gil.Read({kFirst, kSecond});
    EXPECT_FALSE(gil.IsCollecting(kFirst, kState));
    python.SetCollecting(kFirst, 0);
    gil.Read({kFirst, kSecond});
    EXPECT_FALSE(gil.IsCollecting(kFirst, kOther));
  }
}

TEST(PythonGil, MemoryThatCannotBeRead_CollectsNothing) {
  for (const PythonLayout& layout : kPythonLayouts) {
    FakeInterpreter python(layout);
    PythonGil gil = python.Gil();
    python.SetHolder(kFirst, kState);
    python.SetCollecting(kFirst, 1);
    gil.Read({kFirst});
    EXPECT_TRUE(gil.IsCollecting(kFirst, kState));
    if (layout.interpreter_gc == kNoPythonMember) continue;
    gil.Read({kFirst, 0x900000});
    EXPECT_FALSE(gil.IsCollecting(kFirst, kState));
  }
}

TEST(PythonGil, LockedGil_IsHeldByItsLastHolder) {
  for (const PythonLayout& layout : kPythonLayouts) {
    SCOPED_TRACE(layout.minor);
    FakeInterpreter python(layout);
    PythonGil gil = python.Gil();
    EXPECT_FALSE(gil.IsHeldBy(kState));
    python.SetHolder(kFirst, kState);
    EXPECT_FALSE(gil.IsHeldBy(kState));  // not read yet
    EXPECT_FALSE(gil.IsStillHeldBy(kState));
    gil.Read({kFirst, kSecond});
    EXPECT_TRUE(gil.IsHeldBy(kState));
    EXPECT_TRUE(gil.IsStillHeldBy(kState));
    EXPECT_FALSE(gil.IsHeldBy(kOther));
    python.SetHolder(kFirst, kOther);
    EXPECT_TRUE(gil.IsHeldBy(kState));
    EXPECT_FALSE(gil.IsStillHeldBy(kState));
    // Released, and not yet initialised.
    for (const int32_t locked : {0, -1}) {
      python.SetHolder(kFirst, kState, locked);
      EXPECT_FALSE(gil.IsStillHeldBy(kState));
      gil.Read({kFirst, kSecond});
      EXPECT_FALSE(gil.IsHeldBy(kState));
    }
  }
}

TEST(PythonGil, InterpretersWithTheirOwnGil_HaveAHolderEach) {
  for (const PythonLayout& layout : kPythonLayouts) {
    if (layout.interpreter_gil_holder == kNoPythonMember) continue;
    FakeInterpreter python(layout);
    PythonGil gil = python.Gil();
    python.SetHolder(kFirst, kState);
    python.SetHolder(kSecond, kOther);
    gil.Read({kFirst, kSecond});
    EXPECT_TRUE(gil.IsHeldBy(kState));
    EXPECT_TRUE(gil.IsHeldBy(kOther));
    python.SetHolder(kFirst, kOther, 0);
    EXPECT_TRUE(gil.IsStillHeldBy(kOther));
    EXPECT_FALSE(gil.IsStillHeldBy(kState));
  }
}

}  // namespace
}  // namespace tbprof
