// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/event_size.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/writer/string_sink.h"
#include "writer/outputs/xplane.h"

namespace tbprof {
namespace {

constexpr int64_t kSecond = 1'000'000'000'000;

// The bytes that each event of a kind takes in a file with many of them.
class EventSize : public testing::Test {
 protected:
  EventSize() {
    timeline_.host = "node";
    timeline_.duration_ps = 10 * kSecond;
    timeline_.processes.emplace_back().is_command = true;
    timeline_.threads.emplace_back().is_main = true;
    timeline_.threads[0].line_id = 1;
    place_ = timeline_.strings.Intern("Wait (queue.cc:7)");
    path_ = timeline_.strings.Intern("/bin/true");
    shapes_ = timeline_.strings.Intern("[[32, 64], []]");
    timeline_.python.functions.push_back({place_, path_, place_, 7});
    timeline_.python.stacks = {{}, {0, 0, 8}, {1, 0, 9}};
  }

  static size_t Written(const Timeline& timeline) {
    StringSink sink;
    EXPECT_TRUE(WriteXplane(timeline, sink).ok());
    return sink.bytes().size();
  }

  void Expect(const EventType& type, Event event, const std::string& what) {
    constexpr int kCount = 1000;
    timeline_.types = {type};
    std::vector<Event>& events = timeline_.threads[0].events;
    events.clear();
    event.start_ps = 5 * kSecond;
    events.push_back(event);
    const size_t one = Written(timeline_);
    for (int i = 0; i < kCount; ++i) {
      event.start_ps += 1'000'000 + event.duration_ps;
      events.push_back(event);
    }
    const double taken = static_cast<double>(Written(timeline_) - one) / kCount;
    const auto told =
        static_cast<double>(EventBytes(type, event, event.call_site != 0, static_cast<uint64_t>(timeline_.duration_ps),
                                       static_cast<uint64_t>(event.duration_ps)));
    EXPECT_LE(taken, told) << what;
    EXPECT_GE(taken, told - 3) << what << ": the budget is used";
  }

  Timeline timeline_;
  StringId place_ = 0, path_ = 0, shapes_ = 0;
};

TEST_F(EventSize, EachKindOfEvent_EqualsTheBytesInTheFile) {
  const EventType lock{"pthread_mutex_lock", EventFamily::kLock, ObjectKind::kAddress, ValueKind::kNone};
  Expect(lock, {}, "an instant");
  Expect(lock, {.duration_ps = 90}, "short");
  Expect(lock, {.duration_ps = 1'500'000'000}, "long");
  Expect(lock, {.duration_ps = 90, .object = 0x7f0000001234}, "object");
  Expect(lock, {.duration_ps = 90, .object = 0x7f0000001234, .call_site = place_}, "object and place");
  Expect(lock, {.duration_ps = 90, .flags = Event::kFailed, .error = ETIMEDOUT}, "failed");
  Expect(lock, {.duration_ps = 90, .flags = Event::kClippedAtEnd | Event::kOpen}, "open");
  Expect(lock, {.duration_ps = 90, .python = 2}, "Python stack");
  const EventType read{"read", EventFamily::kIo, ObjectKind::kDescriptor, ValueKind::kBytes};
  Expect(read, {.duration_ps = 2'000'000, .object = 3, .value = 4096}, "read");
  Expect(read, {.duration_ps = 2'000'000, .object = 1000, .value = 1 << 30, .call_site = place_}, "much read");
  Expect(read, {.duration_ps = 2'000'000, .object = 3, .value = -1, .flags = Event::kFailed, .error = EAGAIN}, "none");
  const EventType poll{"poll", EventFamily::kIo, ObjectKind::kNone, ValueKind::kResult};
  Expect(poll, {.duration_ps = 2'000'000, .value = -1}, "negative");
  const EventType wait{"waitpid", EventFamily::kProcess, ObjectKind::kProcessId, ValueKind::kProcessId};
  Expect(wait, {.duration_ps = 2'000'000, .object = 70'000, .value = 70'000}, "process");
  Expect(wait, {.duration_ps = 2'000'000, .object = 70'000, .value = -1, .flags = Event::kFailed, .error = EINTR},
         "none");
  const EventType exec{"execve", EventFamily::kProcess, ObjectKind::kNone, ValueKind::kNone};
  Expect(exec, {.detail = path_}, "text");
  const EventType operation{"aten::mm", EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kSequence,
                            RangeOrigin::kTorchOperation};
  Expect(operation, {.duration_ps = 90'000'000, .value = 12'345, .detail = path_}, "operation");
  Expect(operation, {.duration_ps = 90'000'000, .value = 12'345, .call_site = shapes_, .detail = path_}, "shapes");
  const EventType create{"pthread_create", EventFamily::kThread, ObjectKind::kThread, ValueKind::kFlowOut};
  Expect(create, {.duration_ps = 20'000'000, .object = 0x7f0000001234, .value = 1}, "arrow");
  const EventType launch{"cudaLaunchKernel", EventFamily::kGpu, ObjectKind::kStream, ValueKind::kCorrelation};
  Expect(launch, {.duration_ps = 2'000'000, .object = 7, .value = 123'456}, "launch");
}

}  // namespace
}  // namespace tbprof
