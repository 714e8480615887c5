// SPDX-License-Identifier: Apache-2.0
// Files, pipes, sockets, waiting for descriptors.
#include <gmock/gmock.h>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::SizeIs;

// The events of a call in `main` that moved this many bytes.
std::vector<Event> WithBytes(const Profile& profile, std::string_view name, int64_t bytes) {
  std::vector<Event> found;
  for (const Event& event : profile.Named(name)) {
    if (event.Number("bytes") == bytes) found.push_back(event);
  }
  return found;
}

void ExpectError(const Profile& profile, std::string_view name, const std::string& error) {
  int found = 0;
  for (const Event& event : profile.Named(name)) {
    if (event.Stat("error") != error) continue;
    ++found;
    EXPECT_FALSE(event.Has("bytes")) << event << ": a call that failed moved nothing";
  }
  EXPECT_EQ(found, 1) << name << " with " << error;
}

TEST(Pipe, ReadsAndWrites_HaveBytesAndDescriptor) {
  const Pair pair = RunBoth(Program("pipes"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> slow = profile.Named("read", "Read");
  ASSERT_THAT(slow, SizeIs(1));
  EXPECT_GE(slow[0].milliseconds(), 20);
  EXPECT_EQ(slow[0].Number("bytes"), 23);
  EXPECT_EQ(slow[0].Number("fd"), static_cast<int64_t>(pair.profiled.Fact("in")));
  EXPECT_EQ(slow[0].Stat("call_site"), SiteAt("Read", "pipes.c", "slow read"));
  const std::vector<Event> writes = WithBytes(profile, "write", 23);
  ASSERT_THAT(writes, SizeIs(1));
  EXPECT_EQ(writes[0].Number("fd"), static_cast<int64_t>(pair.profiled.Fact("out")));
  EXPECT_EQ(writes[0].Stat("call_site"), SiteAt("main", "pipes.c", "write"));
  EXPECT_THAT(WithBytes(profile, "writev", 8), SizeIs(1));
  EXPECT_THAT(WithBytes(profile, "readv", 8), SizeIs(1));
  EXPECT_THAT(WithBytes(profile, "read", 0), SizeIs(1)) << "the end of a file is no error";
  ExpectError(profile, "read", "EBADF");
}

TEST(File, PositionedCallsAndFlushing_AreRecorded) {
  const Pair pair = RunBoth(Program("files"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const auto fd = static_cast<int64_t>(pair.profiled.Fact("fd"));
  const std::vector<Event> opens = profile.Named("open", "main");
  ASSERT_FALSE(opens.empty());
  EXPECT_EQ(opens[0].Stat("call_site"), SiteAt("main", "files.c", "open"));
  EXPECT_EQ(opens[0].Number("result"), fd);
  ExpectError(profile, "open", "ENOENT");
  const std::pair<const char*, int64_t> moved[] = {{"pwrite", 1000}, {"pread", 500}, {"pwritev", 30}, {"preadv", 30}};
  for (const auto& [name, bytes] : moved) {
    const std::vector<Event> events = WithBytes(profile, name, bytes);
    ASSERT_THAT(events, SizeIs(1)) << name;
    EXPECT_EQ(events[0].Number("fd"), fd) << name;
  }
  for (const char* name : {"fsync", "fdatasync"}) {
    ASSERT_THAT(profile.Named(name), SizeIs(1)) << name;
    EXPECT_EQ(profile.Named(name)[0].Number("fd"), fd);
  }
  EXPECT_EQ(profile.Named("fsync")[0].Stat("call_site"), SiteAt("main", "files.c", "fsync"));
  EXPECT_THAT(profile.Named("openat"), SizeIs(2));
}

TEST(Poll, EachWay_IsAWait) {
  const Pair pair = RunBoth(Program("polls"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  for (const char* name : {"poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait"}) {
    const std::vector<Event> events = profile.Named(name, "main");
    ASSERT_FALSE(events.empty()) << name;
    EXPECT_GE(events[0].milliseconds(), 9.9) << name;
    EXPECT_EQ(events[0].Number("result"), 0) << name;
  }
  EXPECT_EQ(profile.Named("poll")[0].Stat("call_site"), SiteAt("main", "polls.c", "poll"));
  EXPECT_EQ(profile.Named("poll")[1].Number("result"), 1);
  EXPECT_EQ(profile.Named("epoll_wait")[0].Number("fd"), static_cast<int64_t>(pair.profiled.Fact("epoll")));
  ExpectError(profile, "epoll_wait", "EINVAL");
}

TEST(Socket, ConnectAcceptSendReceive_AreRecorded) {
  const Pair pair = RunBoth(Program("sockets"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> accepts = profile.Named("accept", "Serve");
  ASSERT_THAT(accepts, SizeIs(1));
  EXPECT_GE(accepts[0].milliseconds(), 20);
  EXPECT_EQ(accepts[0].Number("fd"), static_cast<int64_t>(pair.profiled.Fact("listener")));
  EXPECT_EQ(accepts[0].Number("result"), static_cast<int64_t>(pair.profiled.Fact("accepted")));
  EXPECT_EQ(accepts[0].Stat("call_site"), SiteAt("Serve", "sockets.c", "accept"));
  const std::vector<Event> connects = profile.Named("connect", "main");
  ASSERT_THAT(connects, SizeIs(2));
  EXPECT_EQ(connects[0].Number("fd"), static_cast<int64_t>(pair.profiled.Fact("client")));
  EXPECT_EQ(connects[0].Stat("call_site"), SiteAt("main", "sockets.c", "connect"));
  EXPECT_EQ(connects[1].Stat("error"), "ECONNREFUSED");
  const std::pair<const char*, int64_t> moved[] = {{"recv", 5},     {"send", 7},    {"recvmsg", 6},    {"sendto", 5},
                                                   {"recvfrom", 7}, {"sendmsg", 6}, {"sendfile", 4000}};
  for (const auto& [name, bytes] : moved) EXPECT_THAT(WithBytes(profile, name, bytes), SizeIs(1)) << name;
  for (const char* name : {"sendmmsg", "recvmmsg"}) {
    ASSERT_THAT(profile.Named(name), SizeIs(1)) << name;
    EXPECT_EQ(profile.Named(name)[0].Number("result"), 2);
  }
  ExpectError(profile, "recv", "EAGAIN");
}

}  // namespace
}  // namespace tbprof::integration
