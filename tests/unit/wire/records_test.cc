// SPDX-License-Identifier: Apache-2.0
#include "wire/records.h"
#include "wire/compact_span.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace tbprof {
namespace {

struct Call {
  uint64_t start, ticks, object, call_site;
  int64_t result;
  int32_t error;
};

bool Fits(const Call& call) {
  return FitsCompactSpan(call.start, call.ticks, call.object, call.call_site, call.result, call.error);
}

SpanRecord ThereAndBack(const Call& call) {
  CompactSpanRecord record{};
  record.tag.flags = PackSpan(&record, call.start, call.ticks, call.object, call.call_site, call.result, call.error);
  SpanRecord span;
  UnpackSpan(record, &span);
  return span;
}

constexpr uint64_t kMostStart = (uint64_t{1} << 56) - 1;
constexpr uint64_t kMostTicks = (uint64_t{1} << 32) - 1;
constexpr uint64_t kMostAddress = (uint64_t{1} << 48) - 1;
constexpr Call kUsual = {0x1234'5678'9abc, 0x8765'4321, 0x7f01'0203'0405, 0x5555'0607'0809, 0, 0};

TEST(CompactSpan, ValuesThatFit_AreReadBack) {
  const Call calls[] = {
      kUsual,
      {0, 0, 0, 0, 0, 0},
      {kMostStart, kMostTicks, kMostAddress, kMostAddress, 255, 0},
      {kMostStart, kMostTicks, kMostAddress, kMostAddress, -1, 255},
      {1, kMostTicks, 0, 0, 1, 0},
      {1, 1, kMostAddress, 0, -1, EINTR},
      {1, 0x1'0000, 0, kMostAddress, ETIMEDOUT, ETIMEDOUT},
      {0, 0, 0, 0, 255, 255},
  };
  for (const Call& call : calls) {
    ASSERT_TRUE(Fits(call));
    const SpanRecord span = ThereAndBack(call);
    EXPECT_EQ(span.start, call.start);
    EXPECT_EQ(span.ticks, call.ticks);
    EXPECT_EQ(span.object, call.object);
    EXPECT_EQ(span.call_site, call.call_site);
    EXPECT_EQ(span.result, call.result);
    EXPECT_EQ(span.error, call.error);
    EXPECT_EQ((span.tag.flags & kRecordFailed) != 0, call.error != 0);
  }
}

TEST(CompactSpan, ValuesThatDoNotFit_AreRefused) {
  const auto with = [](auto field, auto value) {
    Call call = kUsual;
    call.*field = value;
    return call;
  };
  EXPECT_TRUE(Fits(kUsual));
  EXPECT_FALSE(Fits(with(&Call::start, kMostStart + 1)));
  EXPECT_FALSE(Fits(with(&Call::ticks, kMostTicks + 1)));
  EXPECT_FALSE(Fits(with(&Call::object, kMostAddress + 1)));
  EXPECT_FALSE(Fits(with(&Call::object, std::numeric_limits<uint64_t>::max())));
  EXPECT_FALSE(Fits(with(&Call::call_site, kMostAddress + 1)));
  EXPECT_FALSE(Fits(with(&Call::result, 256)));
  EXPECT_FALSE(Fits(with(&Call::result, -1))) << "not failed, and less than 0";
  EXPECT_FALSE(Fits(with(&Call::result, std::numeric_limits<int64_t>::min())));
  Call failed = with(&Call::error, 256);
  failed.result = -1;
  EXPECT_FALSE(Fits(failed));
  failed.error = -5;
  EXPECT_FALSE(Fits(failed));
  failed.error = EIO;
  EXPECT_TRUE(Fits(failed));
  failed.result = 7;
  EXPECT_FALSE(Fits(failed)) << "failed, with a result of its own";
}

}  // namespace
}  // namespace tbprof
