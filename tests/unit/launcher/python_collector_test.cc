// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/python_collector.h"

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
  void SetHolder(uint64_t interpreter, uint64_t state) {
    Put(layout_.runtime_gil_holder != kNoPythonMember ? kRuntime + layout_.runtime_gil_holder
                                                      : interpreter + layout_.interpreter_gil_holder,
        state);
  }
  PythonCollector Collector() {
    return PythonCollector(layout_, kRuntime, [this](void* out, std::span<const iovec> ranges) -> int64_t {
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

TEST(PythonCollector, ThreadThatHoldsTheGil_CollectsInItsInterpreter) {
  for (const PythonLayout& layout : kPythonLayouts) {
    SCOPED_TRACE(layout.minor);
    FakeInterpreter python(layout);
    PythonCollector collector = python.Collector();
    python.SetHolder(kFirst, kState);
    collector.Read({kFirst, kSecond});
    EXPECT_FALSE(collector.IsCollecting(kFirst, kState));
    python.SetCollecting(kFirst, 1);
    collector.Read({kFirst, kSecond});
    EXPECT_TRUE(collector.IsCollecting(kFirst, kState));
    EXPECT_FALSE(collector.IsCollecting(kFirst, kOther));
    EXPECT_EQ(collector.IsCollecting(kSecond, kState), python.one_collector());
    // The collecting thread has released the GIL.
    python.SetHolder(kFirst, kOther);
    collector.Read({kFirst, kSecond});
    EXPECT_FALSE(collector.IsCollecting(kFirst, kState));
    python.SetCollecting(kFirst, 0);
    collector.Read({kFirst, kSecond});
    EXPECT_FALSE(collector.IsCollecting(kFirst, kOther));
  }
}

TEST(PythonCollector, MemoryThatCannotBeRead_CollectsNothing) {
  for (const PythonLayout& layout : kPythonLayouts) {
    FakeInterpreter python(layout);
    PythonCollector collector = python.Collector();
    python.SetHolder(kFirst, kState);
    python.SetCollecting(kFirst, 1);
    collector.Read({kFirst});
    EXPECT_TRUE(collector.IsCollecting(kFirst, kState));
    if (layout.interpreter_gc == kNoPythonMember) continue;
    collector.Read({kFirst, 0x900000});
    EXPECT_FALSE(collector.IsCollecting(kFirst, kState));
  }
}

}  // namespace
}  // namespace tbprof
