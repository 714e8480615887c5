// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/deadline.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "absl/time/clock.h"

namespace tbprof {
namespace {

TEST(DeadlineTest, WorkThatEnds_StatusIsReturned) {
  EXPECT_TRUE(WithinDeadline(absl::Seconds(60), [] { return absl::OkStatus(); }).ok());
  const absl::Status status =
      WithinDeadline(absl::Seconds(60), [] { return absl::PermissionDeniedError("/here: Permission denied"); });
  EXPECT_EQ(status, absl::PermissionDeniedError("/here: Permission denied"));
}

TEST(DeadlineTest, WorkThatHangs_DeadlineIsExceeded) {
  const absl::Status status = WithinDeadline(absl::Milliseconds(50), [] {
    for (;;) pause();
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

// A thread that runs or waits for a CPU does not wait for the directory.
TEST(DeadlineTest, WorkThatIsRunnable_IsWaitedFor) {
  const absl::Status status = WithinDeadline(absl::Milliseconds(50), [] {
    const absl::Time end = absl::Now() + absl::Milliseconds(600);
    while (absl::Now() < end) {
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(DeadlineTest, WorkThatDies_IsAnError) {
  const absl::Status status = WithinDeadline(absl::Seconds(60), [] {
    raise(SIGKILL);
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsInternal(status)) << status;
}

// The machine was suspended, or the clock was set.
TEST(PatienceTest, TimeWhileSuspended_DoesNotCount) {
  Patience patience;
  EXPECT_EQ(patience.Look(), absl::ZeroDuration());
  absl::SleepFor(absl::Milliseconds(700));
  const absl::Duration passed = patience.Look();
  EXPECT_EQ(passed, absl::Milliseconds(250));
  patience.Restart();
  EXPECT_EQ(patience.Look(), absl::ZeroDuration());
}

}  // namespace
}  // namespace tbprof
