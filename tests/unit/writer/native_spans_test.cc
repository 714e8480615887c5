// SPDX-License-Identifier: Apache-2.0
//
// Spans from samples of CPU time. A stack is written as the functions in it, the outermost first: "abc". Functions from
// `p` on are Python's interpreter.
#include "writer/convert/native_spans.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tbprof {
namespace {

using testing::ElementsAre;

constexpr int64_t kUs = 1'000'000, kMs = 1000 * kUs;

class NativeSpansTest : public testing::Test {
 public:
  // Samples stand for 10 ms of CPU time.
  NativeSpansTest& Point(int64_t at_ms, const std::string& functions) {
    timeline_.native.threads[0].points.push_back({at_ms * kMs, 10'000, StackOf(functions)});
    return *this;
  }
  NativeSpansTest& Call(int64_t from_ps, int64_t to_ps, uint16_t type = 0) {
    Event event;
    event.start_ps = from_ps;
    event.duration_ps = to_ps - from_ps;
    event.type = type;
    timeline_.threads[0].events.push_back(event);
    return *this;
  }

 protected:
  NativeSpansTest() {
    timeline_.threads.resize(1);
    timeline_.types = {{"sem_wait", EventFamily::kLock}, {"range", EventFamily::kAnnotation}};
    timeline_.native.stacks.resize(1);
    timeline_.native.threads.resize(1);
  }
  // `a 5+20 x2`: function, start and length in ms, samples.
  std::vector<std::string> Spans() {
    NativeSpans spans(timeline_.strings, &timeline_.native, 1000 * kMs, 1'000'000);
    spans.Add(0);
    const uint64_t bytes = spans.Finish();
    added_ = CutSpansAtWaits(&timeline_, 1'000'000);
    const std::vector<NativeSpan>& all = timeline_.native.threads[0].spans;
    EXPECT_EQ(bytes + added_, all.size() * kNativeSpanBytes);
    std::vector<std::string> out;
    for (const NativeSpan& span : all) {
      out.push_back(timeline_.strings.Get(timeline_.native.stacks[span.stack].function) + " " +
                    std::to_string(span.start_ps / kMs) + "+" + std::to_string(span.duration_ps / kMs) + " x" +
                    std::to_string(span.samples));
    }
    return out;
  }
  uint32_t StackOf(const std::string& functions) {
    if (functions.empty()) return 0;
    NativeStack stack;
    stack.parent = StackOf(functions.substr(0, functions.size() - 1));
    stack.function = timeline_.strings.Intern(functions.substr(functions.size() - 1));
    stack.module = timeline_.strings.Intern(functions.back() >= 'p' ? "libpython3.11.so.1.0" : "libwork.so");
    timeline_.native.stacks.push_back(stack);
    return static_cast<uint32_t>(timeline_.native.stacks.size() - 1);
  }

  Timeline timeline_;
  uint64_t added_ = 0;
};

TEST_F(NativeSpansTest, EqualPrefixes_AreOneSpanEach) {
  Point(100, "ab").Point(110, "ab").Point(120, "ac");
  EXPECT_THAT(Spans(), ElementsAre("a 95+30 x3", "b 95+20 x2", "c 115+10 x1"));
}

TEST_F(NativeSpansTest, OfTheInterpreter_TheOutermostFrameAndTheInnermostOfAllAreShown) {
  Point(100, "apqrb").Point(110, "apqrs");
  EXPECT_THAT(Spans(), ElementsAre("a 95+20 x2", "p 95+20 x2", "b 95+10 x1", "s 105+10 x1"));
}

TEST_F(NativeSpansTest, InterpreterBelowALibrary_IsShownAgain) {
  Point(100, "pqbrst");
  EXPECT_THAT(Spans(), ElementsAre("p 95+10 x1", "b 95+10 x1", "r 95+10 x1", "t 95+10 x1"));
}

TEST_F(NativeSpansTest, WaitsOfTheThread_AreNoPartOfASpan) {
  Point(100, "ab").Point(112, "ab").Point(122, "ac");
  Call(96 * kMs, 98 * kMs).Call(103 * kMs, 108 * kMs).Call(124 * kMs, 400 * kMs);
  EXPECT_THAT(Spans(), ElementsAre("a 98+5 x1", "b 98+5 x1", "a 108+16 x2", "b 108+9 x1", "c 117+7 x1"));
  EXPECT_EQ(added_, 2 * kNativeSpanBytes);
}

TEST_F(NativeSpansTest, ShortWaitsAndRangesAndCallsThatCompute_CutNothing) {
  Point(100, "a").Point(110, "a").Point(120, "a");
  Call(102 * kMs, 102 * kMs + 900 * kUs).Call(104 * kMs, 108 * kMs, 1).Call(115 * kMs, 121 * kMs);
  EXPECT_THAT(Spans(), ElementsAre("a 95+30 x3"));
}

TEST_F(NativeSpansTest, SampleAtTheEndOfTheWindow_HasASpan) {
  Point(1000, "a");
  Call(995 * kMs, 998 * kMs);
  EXPECT_THAT(Spans(), ElementsAre("a 998+2 x1"));
}

}  // namespace
}  // namespace tbprof
