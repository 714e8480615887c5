// SPDX-License-Identifier: Apache-2.0
// Threads, locks, sleeps: the profile has the program's calls, and the program behaves the same as without tbprof.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::string Hex(uint64_t value) {
  char text[32];
  snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

TEST(Threads, Names_StartsAndJoins_AreRecorded) {
  const Pair pair = RunBoth(Program("threads"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<std::string> lines = profile.LineNames();
  for (const char* name : {"worker-0", "worker-1", "worker-2", "named-by-main"}) {
    EXPECT_THAT(lines, Contains(HasSubstr(name)));
  }
  // Invalid bytes are escaped, so that the file stays valid UTF-8.
  EXPECT_THAT(lines, Contains(HasSubstr("bad-\\xff\\xc3(\\x80")));
  // The name that was refused is not shown.
  EXPECT_THAT(lines, Not(Contains(HasSubstr("a name of"))));
  EXPECT_THAT(profile.Named("thread start"), SizeIs(7));
  EXPECT_THAT(profile.Named("pthread_create", "main"), SizeIs(6));
  const std::vector<Event> joins = profile.Named("pthread_join", "main");
  ASSERT_THAT(joins, SizeIs(6));
  const Event& last = *std::max_element(joins.begin(), joins.end(),
                                        [](const Event& a, const Event& b) { return a.start_ps < b.start_ps; });
  EXPECT_GE(last.milliseconds(), 30);
  EXPECT_EQ(last.Stat("call_site"), SiteAt("main", "threads.c", "slow join"));
  EXPECT_EQ(last.Stat("thread"), Hex(pair.profiled.Fact("joined")));
  // Each thread's start is linked with its creation, which is earlier.
  for (const Event& create : profile.Named("pthread_create", "main")) {
    ASSERT_TRUE(create.Has("flow")) << create;
    const int64_t flow = create.Number("flow");
    EXPECT_EQ(flow & 3, 2);
    int ends = 0;
    for (const Event& start : profile.Named("thread start")) {
      if (start.Number("flow") != (flow & ~3) + 1) continue;
      ++ends;
      EXPECT_GE(start.start_ps, create.start_ps);
    }
    EXPECT_EQ(ends, 1) << create;
  }
}

TEST(Threads, NamesSetWithoutPthread_AreRecorded) {
  RunOptions options;
  options.tbprof = {"--run=whole"};
  const auto running = StartUnderTbprof({Program("thread_names")}, options);
  const auto target = static_cast<pid_t>(running->WaitForNumber("named"));
  ASSERT_GT(target, 0);
  // The launcher reads names once a second; a capture reads them at once.
  RunTbprof({"capture", "--duration=10ms", std::to_string(running->pid())});
  kill(target, SIGUSR2);
  const RunResult result = running->Wait();
  // The capture has a profile of its own.
  const std::vector<std::string> files = FilesBelow(result.logdir + "/plugins/profile/whole", ".xplane.pb");
  ASSERT_THAT(files, SizeIs(1));
  const std::vector<std::string> lines = Profile::Parse(files[0])->LineNames();
  EXPECT_THAT(lines, Contains(HasSubstr("prctl-name-that/")));
  EXPECT_THAT(lines, Contains(HasSubstr("by-syscall/")));
  EXPECT_THAT(lines, Contains(HasSubstr("through-proc/")));
}

TEST(Mutex, WaitThatBlocked_IsTheOnlyEvent) {
  const Pair pair = RunBoth(Program("mutex"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const std::vector<Event> waits = pair.profiled.profile->Named("pthread_mutex_lock", "shop::Customer::WaitForLock");
  ASSERT_THAT(waits, SizeIs(1)) << "call sites carry demangled names without or with parameters";
  EXPECT_EQ(waits[0].Stat("object"), Hex(pair.profiled.Fact("mutex")));
  EXPECT_GE(waits[0].duration_ps, static_cast<int64_t>(pair.profiled.Fact("held_us")) * 1'000'000);
  EXPECT_FALSE(waits[0].Has("error"));
  const std::vector<Event> timed = pair.profiled.profile->Named("pthread_mutex_timedlock");
  ASSERT_THAT(timed, SizeIs(1));
  EXPECT_EQ(timed[0].Stat("error"), "ETIMEDOUT");
  EXPECT_EQ(timed[0].Stat("object"), Hex(pair.profiled.Fact("mutex")));
}

TEST(Mutex, CallSite_IsFunctionFileAndLine) {
  const RunResult result = RunUnderTbprof({Program("mutex")});
  ASSERT_NE(result.profile, nullptr);
  const std::string place = "(mutex.cc:" + std::to_string(LineOf("mutex.cc", "lock")) + ")";
  for (const Event& wait : result.profile->Named("pthread_mutex_lock")) {
    EXPECT_THAT(wait.Stat("call_site"), HasSubstr("shop::Customer::WaitForLock"));
    EXPECT_THAT(wait.Stat("call_site"), HasSubstr(place));
  }
}

TEST(ReadWriteLock, BothSides_Wait) {
  const Pair pair = RunBoth(Program("rwlock"));
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::string lock = Hex(pair.profiled.Fact("lock"));
  const std::vector<Event> reads = profile.Named("pthread_rwlock_rdlock", "Read");
  ASSERT_THAT(reads, SizeIs(1));
  EXPECT_GE(reads[0].milliseconds(), 20);
  EXPECT_EQ(reads[0].Stat("object"), lock);
  EXPECT_EQ(reads[0].Stat("call_site"), SiteAt("Read", "rwlock.c", "rdlock"));
  const std::vector<Event> writes = profile.Named("pthread_rwlock_wrlock", "Write");
  ASSERT_THAT(writes, SizeIs(1));
  EXPECT_GE(writes[0].milliseconds(), 20);
  EXPECT_EQ(writes[0].Stat("object"), lock);
  EXPECT_EQ(writes[0].Stat("call_site"), SiteAt("Write", "rwlock.c", "wrlock"));
}

TEST(Condition, WaitsAndTimeouts_AreRecorded) {
  const Pair pair = RunBoth(Program("condition"));
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::string condition = Hex(pair.profiled.Fact("condition"));
  const std::vector<Event> waits = profile.Named("pthread_cond_wait", "Wait");
  ASSERT_FALSE(waits.empty());
  EXPECT_GE(waits[0].milliseconds(), 20);
  EXPECT_EQ(waits[0].Stat("object"), condition);
  EXPECT_EQ(waits[0].Stat("call_site"), SiteAt("Wait", "condition.c", "wait"));
  for (const char* name : {"pthread_cond_timedwait", "pthread_cond_clockwait"}) {
    const std::vector<Event> timed = profile.Named(name, "main");
    ASSERT_THAT(timed, SizeIs(1)) << name;
    EXPECT_EQ(timed[0].Stat("error"), "ETIMEDOUT");
    EXPECT_EQ(timed[0].Stat("object"), condition);
    EXPECT_GE(timed[0].milliseconds(), 10);
  }
}

#if defined(__x86_64__)
TEST(Condition, OldSymbolVersion_CallsTheOldCode) {
  const Pair pair = RunBoth(Program("old_condition"));
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 0);
  EXPECT_THAT(pair.profiled.profile->Named("pthread_cond_wait", "Wait"), Not(SizeIs(0)));
  const std::vector<Event> timed = pair.profiled.profile->Named("pthread_cond_timedwait", "main");
  ASSERT_THAT(timed, SizeIs(1));
  EXPECT_EQ(timed[0].Stat("error"), "ETIMEDOUT");
}
#endif

TEST(Barrier, BarrierAndSemaphore_Wait) {
  const Pair pair = RunBoth(Program("barrier"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> barriers = profile.Named("pthread_barrier_wait", "AtBarrier");
  ASSERT_THAT(barriers, SizeIs(1));
  EXPECT_GE(barriers[0].milliseconds(), 20);
  EXPECT_EQ(barriers[0].Stat("object"), Hex(pair.profiled.Fact("barrier")));
  EXPECT_EQ(barriers[0].Stat("call_site"), SiteAt("AtBarrier", "barrier.c", "barrier"));
  const std::vector<Event> semaphores = profile.Named("sem_wait");
  ASSERT_THAT(semaphores, SizeIs(1)) << "a semaphore that is free is no event";
  EXPECT_GE(semaphores[0].milliseconds(), 20);
  EXPECT_EQ(semaphores[0].Stat("object"), Hex(pair.profiled.Fact("semaphore")));
  const std::vector<Event> timed = profile.Named("sem_timedwait", "main");
  ASSERT_THAT(timed, SizeIs(1));
  EXPECT_EQ(timed[0].Stat("error"), "ETIMEDOUT");
}

TEST(Sleep, EachWay_IsRecorded) {
  const Pair pair = RunBoth(Program("sleeps"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<std::pair<const char*, double>> expected = {
      {"sleep", 1000}, {"usleep", 10}, {"clock_nanosleep", 10}, {"sigtimedwait", 10}, {"sigwait", 0}};
  for (const auto& [name, milliseconds] : expected) {
    const std::vector<Event> events = profile.Named(name, "main");
    ASSERT_THAT(events, SizeIs(1)) << name;
    EXPECT_GE(events[0].milliseconds(), milliseconds) << name;
  }
  EXPECT_EQ(profile.Named("sleep")[0].Stat("call_site"), SiteAt("main", "sleeps.c", "sleep"));
  EXPECT_EQ(profile.Named("sigtimedwait", "main")[0].Stat("error"), "EAGAIN");
  const std::vector<Event> nanosleeps = profile.Named("nanosleep", "main");
  ASSERT_THAT(nanosleeps, SizeIs(2));
  EXPECT_GE(nanosleeps[0].milliseconds(), 10);
  EXPECT_EQ(nanosleeps[1].Stat("error"), "EINVAL");
}

}  // namespace
}  // namespace tbprof::integration
