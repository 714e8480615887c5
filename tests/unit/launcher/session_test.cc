// SPDX-License-Identifier: Apache-2.0
//
// The sockets of a session: which callers it accepts, with which files, and how many. The callers here are no targets.
#include "launcher/session/session.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "wire/rendezvous.h"
#include "wire/segment.h"
#include "writer/base/scoped.h"
#include "writer/convert/session_facts.h"
#include "writer/spool/spool.h"
#include "writer/spool/spool_facts.h"

namespace tbprof {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint64_t kBytes = LayoutFor(kMinChunks).bytes;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

size_t OpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    char name[] = "/tmp/tbprof-test-session-XXXXXX";
    root_ = mkdtemp(name);
    chmod(root_.c_str(), 0755);
    logdir_ = root_ + "/logs";
    fs::create_directory(logdir_);
    // The session's own directory also lies below root_.
    setenv("TMPDIR", root_.c_str(), 1);
    config_.command = {"true"};
    config_.logdir = logdir_;
    config_.run = "run";
    config_.host = "node";
  }
  ~SessionTest() override {
    session_.reset();
    unsetenv("TMPDIR");
    fs::remove_all(root_);
  }

  void Start() {
    auto session = Session::Create(config_);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    const std::string variable = session_->Variable();
    ASSERT_TRUE(ParseSessionVariable(variable.c_str() + variable.find('=') + 1, &variable_));
  }

  // A socket connected to the session; the abstract name is what a process in another root directory uses.
  ScopedFd Connect(bool abstract = false) const {
    ScopedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path + (abstract ? 1 : 0), variable_.socket_path);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + strlen(variable_.socket_path) + 1);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return ScopedFd();
    return fd;
  }

  Hello GoodHello() const { return {kHelloMagic, kAbiVersion, getpid(), variable_.nonce, kBytes}; }

  static bool Send(int socket, const void* bytes, size_t size, const std::vector<int>& descriptors) {
    iovec part{const_cast<void*>(bytes), size};
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }

  // Writes the beginning of a target's segment into any kind of file.
  bool FillIn(int fd) const {
    if (ftruncate(fd, static_cast<off_t>(kBytes)) != 0) return false;
    SegmentHeader header{};
    Segment segment{};
    segment.header = &header;
    segment.chunk_count = kMinChunks;
    InitialiseSegment(segment, kBytes);
    header.nonce = variable_.nonce;
    header.clock_kind = variable_.clock_kind;
    return pwrite(fd, &header, sizeof(header), 0) == sizeof(header);
  }

  ScopedFd MakeSegment(int seals = kSeals) const {
    ScopedFd fd(memfd_create("tbprof", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_TRUE(FillIn(fd.get()));
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
  }

  // Sends a hello with that descriptor and lets the session handle it. True: the session accepted it.
  bool IsTaken(int segment_fd, bool abstract = false) {
    const uint32_t before = session_->segments_seen();
    const ScopedFd socket = Connect(abstract);
    const Hello hello = GoodHello();
    EXPECT_TRUE(Send(socket.get(), &hello, sizeof(hello), {segment_fd}));
    session_->Handle();
    return session_->segments_seen() == before + 1;
  }

  std::string root_, logdir_;
  SessionConfig config_;
  std::unique_ptr<Session> session_;
  SessionVariable variable_;
};

TEST_F(SessionTest, SocketDirectory_IsPrivate) {
  Start();
  const std::string directory = fs::path(variable_.socket_path).parent_path();
  struct stat facts;
  ASSERT_EQ(lstat(directory.c_str(), &facts), 0);
  EXPECT_TRUE(S_ISDIR(facts.st_mode));
  EXPECT_EQ(facts.st_mode & 07777, 0700u);
  EXPECT_EQ(facts.st_uid, geteuid());
  EXPECT_EQ(fs::path(directory).parent_path(), root_);
  session_.reset();
  EXPECT_NE(lstat(directory.c_str(), &facts), 0);
}

TEST_F(SessionTest, Spool_IsPrivateAndInTheLogdir) {
  const mode_t umask_before = umask(0);
  Start();
  umask(umask_before);
  struct stat facts;
  ASSERT_EQ(lstat(session_->spool_path().c_str(), &facts), 0);
  EXPECT_TRUE(S_ISREG(facts.st_mode));
  EXPECT_EQ(facts.st_mode & 07777, 0600u);
  EXPECT_EQ(fs::path(session_->spool_path()).parent_path(), logdir_ + "/.tbprof");
}

TEST_F(SessionTest, SpoolDirectory_Link_IsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make another user's link";
  const std::string victim = root_ + "/victim";
  fs::create_directory(victim);
  const std::string link = logdir_ + "/.tbprof";
  for (const mode_t mode : {01777, 0777, 0755}) {
    for (const uid_t owner : {uid_t{65534}, geteuid()}) {
      chmod(logdir_.c_str(), mode);
      fs::remove(link);
      ASSERT_EQ(symlink(victim.c_str(), link.c_str()), 0);
      ASSERT_EQ(lchown(link.c_str(), owner, owner), 0);
      Start();
      EXPECT_TRUE(fs::is_empty(victim)) << mode << " " << owner;
      EXPECT_TRUE(session_->spool_path().starts_with(logdir_ + "/.tbprof-")) << session_->spool_path();
      session_->RemoveSpool();
      EXPECT_FALSE(fs::exists(fs::path(session_->spool_path()).parent_path()));
      session_.reset();
    }
  }
}

TEST_F(SessionTest, SpoolDirectory_OfAnotherUser_IsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make another user's directory";
  const std::string prepared = logdir_ + "/.tbprof";
  fs::create_directory(prepared);
  ASSERT_EQ(chown(prepared.c_str(), 65534, 65534), 0);
  Start();
  EXPECT_TRUE(fs::is_empty(prepared));
  EXPECT_TRUE(session_->spool_path().starts_with(prepared + "-")) << session_->spool_path();
}

TEST_F(SessionTest, SealedSegment_EachMessage_IsMapped) {
  Start();
  const ScopedFd first = MakeSegment();
  EXPECT_TRUE(IsTaken(first.get()));
  const ScopedFd second = MakeSegment();
  EXPECT_TRUE(IsTaken(second.get(), true));
  EXPECT_THAT(session_->TakeNotes(), IsEmpty());
}

TEST_F(SessionTest, SegmentThatMayShrink_IsNotMapped) {
  Start();
  for (const int seals : {0, F_SEAL_GROW, F_SEAL_SHRINK}) {
    const ScopedFd unsealed = MakeSegment(seals);
    EXPECT_FALSE(IsTaken(unsealed.get())) << seals;
  }
  // For other files the kernel reports either an error or that they have no seals.
  for (const char* directory : {"/tmp", "/dev/shm", "."}) {
    const ScopedFd file(open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.valid() || !FillIn(file.get())) continue;
    EXPECT_FALSE(IsTaken(file.get())) << directory;
  }
  const ScopedFd huge(memfd_create("tbprof", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (huge.valid() && fcntl(huge.get(), F_ADD_SEALS, kSeals) == 0) {
    EXPECT_FALSE(IsTaken(huge.get()));
  }
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const ScopedFd reading(ends[0]), writing(ends[1]);
  EXPECT_FALSE(IsTaken(reading.get()));
  const std::vector<std::string> notes = session_->TakeNotes();
  EXPECT_GE(notes.size(), 5u);
  EXPECT_THAT(notes, Each(HasSubstr("is no sealed segment")));
}

TEST_F(SessionTest, SegmentOfOtherSizeOrHeader_IsNotMapped) {
  Start();
  ScopedFd empty(memfd_create("tbprof", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(fcntl(empty.get(), F_ADD_SEALS, kSeals), 0);
  EXPECT_FALSE(IsTaken(empty.get()));
  ScopedFd vast(memfd_create("tbprof", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(vast.get(), off_t{1} << 45), 0);
  ASSERT_EQ(fcntl(vast.get(), F_ADD_SEALS, kSeals), 0);
  EXPECT_FALSE(IsTaken(vast.get()));
  EXPECT_THAT(session_->TakeNotes(), Each(HasSubstr("is no sealed segment")));
  ScopedFd longer(memfd_create("tbprof", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(FillIn(longer.get()));
  ASSERT_EQ(ftruncate(longer.get(), static_cast<off_t>(kBytes + kPage)), 0);
  ASSERT_EQ(fcntl(longer.get(), F_ADD_SEALS, kSeals), 0);
  EXPECT_FALSE(IsTaken(longer.get()));
  EXPECT_THAT(session_->TakeNotes(), Each(HasSubstr("header")));
  // This seal also forbids the launcher to write: it must free chunks, so it cannot use the segment.
  const ScopedFd read_only = MakeSegment(kSeals | F_SEAL_FUTURE_WRITE);
  EXPECT_FALSE(IsTaken(read_only.get()));
  EXPECT_THAT(session_->TakeNotes(), Each(HasSubstr("cannot map")));
}

TEST_F(SessionTest, HelloWithoutTheNonce_IsIgnored) {
  Start();
  const size_t before = OpenDescriptors();
  const ScopedFd segment = MakeSegment();
  Hello wrong_nonce = GoodHello();
  wrong_nonce.nonce ^= 1;
  Hello wrong_magic = GoodHello();
  wrong_magic.magic ^= 1;
  std::string longer(sizeof(Hello) + 100, '\0');
  const Hello good = GoodHello();
  memcpy(longer.data(), &good, sizeof(good));
  const std::string vast(100'000, 'x');
  for (const auto& [bytes, size] : {std::pair<const void*, size_t>{&wrong_nonce, sizeof(Hello)},
                                    {&wrong_magic, sizeof(Hello)},
                                    {&good, sizeof(Hello) - 1},
                                    {vast.data(), vast.size()},
                                    {"", 0}}) {
    const ScopedFd socket = Connect();
    EXPECT_TRUE(Send(socket.get(), bytes, size, {segment.get()}));
    session_->Handle();
  }
  EXPECT_EQ(session_->segments_seen(), 0u);
  // More descriptors than expected are closed, not kept.
  {
    const ScopedFd socket = Connect();
    EXPECT_TRUE(Send(socket.get(), &wrong_nonce, sizeof(Hello), std::vector<int>(16, segment.get())));
    session_->Handle();
  }
  EXPECT_EQ(OpenDescriptors(), before + 1);
  EXPECT_TRUE(IsTaken(segment.get()));
}

// A target must be able to connect while many callers send nothing, and these must not use up the launcher's
// descriptors.
TEST_F(SessionTest, SilentCallers_DoNotBlockATarget) {
  Start();
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  // This process holds both ends of each connection.
  if (limit.rlim_max < 8192) GTEST_SKIP() << "needs 8192 descriptors";
  const rlimit wide{8192, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &wide), 0);
  const size_t before = OpenDescriptors();
  std::vector<ScopedFd> silent;
  for (int i = 0; i < 2000; ++i) {
    silent.push_back(Connect(i % 2 == 0));
    EXPECT_TRUE(silent.back().valid());
    if (i % 100 == 99) session_->Handle();
  }
  session_->Handle();
  // A caller that sends is served, even if it connected early and sends late.
  const ScopedFd late = Connect();
  session_->Handle();
  const ScopedFd segment = MakeSegment();
  const Hello hello = GoodHello();
  EXPECT_TRUE(Send(late.get(), &hello, sizeof(hello), {segment.get()}));
  session_->Handle();
  EXPECT_EQ(session_->segments_seen(), 1u);
  EXPECT_LT(OpenDescriptors() - before - silent.size(), 500u);
  EXPECT_GT(session_->TimeoutMs(), 0);
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(SessionTest, NoDescriptorLeft_OldestCallerIsClosed) {
  Start();
  std::vector<ScopedFd> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(Connect());
  const ScopedFd segment = MakeSegment();
  const ScopedFd late = Connect();
  const Hello hello = GoodHello();
  ASSERT_TRUE(Send(late.get(), &hello, sizeof(hello), {segment.get()}));
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  // Room for twenty more.
  const ScopedFd next(dup(segment.get()));
  const rlimit narrow{static_cast<rlim_t>(next.get()) + 20, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &narrow), 0);
  for (int i = 0; i < 3; ++i) session_->Handle();
  // No connection is pending: the launcher's poll can sleep.
  pollfd door{session_->listen_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&door, 1, 0), 0);
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(SessionTest, NoDescriptorAndNoCaller_DoesNotSpin) {
  Start();
  const ScopedFd segment = MakeSegment();
  const ScopedFd caller = Connect();
  const Hello hello = GoodHello();
  ASSERT_TRUE(Send(caller.get(), &hello, sizeof(hello), {segment.get()}));
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const ScopedFd next(dup(segment.get()));
  const rlimit none{static_cast<rlim_t>(next.get()) + 1, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  session_->Handle();
  const bool listens = session_->listens();
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_FALSE(listens);
  absl::SleepFor(absl::Nanoseconds(ListenerPause::kLengthNs));
  EXPECT_TRUE(session_->listens());
  session_->Handle();
  EXPECT_EQ(session_->segments_seen(), 1u);
}

TEST_F(SessionTest, AnotherUserWithoutTheNonce_IsIgnored) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Start();
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const ScopedFd reading(ready[0]);
  ScopedFd writing(ready[1]);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    // Other users cannot use the path, but can use the abstract name.
    if (Connect(false).valid()) _exit(2);
    std::vector<ScopedFd> silent;
    for (int i = 0; i < 200; ++i) {
      silent.push_back(Connect(true));
      if (!silent.back().valid()) _exit(3);
    }
    Hello hello = GoodHello();
    hello.nonce ^= 0x5555;
    if (!Send(silent[0].get(), &hello, sizeof(hello), {})) _exit(4);
    if (write(writing.get(), "x", 1) != 1) _exit(5);
    pause();
  }
  writing.Reset();
  char byte;
  const bool is_ready = read(reading.get(), &byte, 1) == 1;
  const size_t before = OpenDescriptors();
  session_->Handle();
  EXPECT_LT(OpenDescriptors() - before, 100u);
  const ScopedFd segment = MakeSegment();
  EXPECT_TRUE(IsTaken(segment.get()));
  EXPECT_EQ(session_->segments_seen(), 1u);
  int status = 0;
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(is_ready) << WEXITSTATUS(status);
}

// The command may send a notice and end before the session handles it: the notice belongs to the window that its end
// closes.
TEST_F(SessionTest, NoticeBeforeAWindowClosed_BelongsToThatWindow) {
  Start();
  session_->OpenWindow(0);
  const ScopedFd caller = Connect();
  const InertNotice notice{
      kInertMagic, kAbiVersion, getpid(), variable_.nonce, static_cast<uint32_t>(InertReason::kFileLimit), 0};
  ASSERT_TRUE(Send(caller.get(), &notice, sizeof(notice), {}));
  session_->CloseWindow(0);
  ASSERT_TRUE(session_->Close({}, 10000));
  auto reader = SpoolReader::Open(session_->spool_path());
  ASSERT_TRUE(reader.ok());
  SpoolFacts facts;
  ASSERT_TRUE(ReadSpoolFacts(
                  reader->get(), 0, [](uint64_t) {}, &facts)
                  .ok());
  ASSERT_THAT(facts.inert, SizeIs(1));
  EXPECT_GE(facts.inert[0].fact.ticks, facts.open_ticks);
  EXPECT_LE(facts.inert[0].fact.ticks, facts.close_ticks);
}

// A target may overwrite a segment's process slots: they must not cost the launcher descriptors or memory.
TEST_F(SessionTest, ThousandClaimedProcesses_AreTheDescriptorsOfOne) {
  // The one process that exists has a pidfd, and the sampler's descriptors: a few for each of its threads.
  constexpr size_t kMostOfAProcess = 20;
  Start();
  const ScopedFd fd = MakeSegment();
  const ScopedMapping mapping(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), kBytes);
  ASSERT_TRUE(mapping.valid());
  const Segment segment = SegmentAt(mapping.data(), kMinChunks);
  ASSERT_TRUE(IsTaken(fd.get()));
  const size_t before = OpenDescriptors();
  uint32_t serial = 1;
  for (int round = 0; round < 5; ++round) {
    for (uint32_t i = 0; i < kProcessSlots; ++i) {
      ProcessSlot& slot = segment.process_slots[i];
      slot.serial = ++serial;
      // This process, which has the segment mapped, and a process that does not exist.
      slot.pid = i % 2 == 0 ? getpid() : -static_cast<int32_t>(i);
      __atomic_store_n(&slot.state, static_cast<uint32_t>(SlotState::kLive), __ATOMIC_RELEASE);
    }
    __atomic_store_n(&segment.header->process_high, UINT32_MAX, __ATOMIC_RELEASE);
    EXPECT_TRUE(session_->Flush());
    EXPECT_LE(OpenDescriptors(), before + kMostOfAProcess);
    EXPECT_LE(session_->live_processes(), 1u);
  }
}

// Every option of wire/settings.def that the target needs is in the session variable and in the session record, except
// for the families, which windows change.
TEST_F(SessionTest, Options_OfTheTarget_AreInVariableAndRecord) {
  int options = 0;
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) \
  if (#name != std::string_view("families")) {                                \
    config_.name = high;                                                      \
    ++options;                                                                \
  }
#include "wire/settings.def"
  Start();
  ASSERT_TRUE(session_->Flush());
  auto reader = SpoolReader::Open(session_->spool_path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  Frame frame;
  ASSERT_TRUE((*reader)->Next(&frame));
  ASSERT_EQ(frame.type, FrameType::kSession);
  const absl::StatusOr<SessionFacts> record = ParseSession(frame.payload);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_GT(options, 0);
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) \
  if (#name != std::string_view("families")) {                                \
    EXPECT_EQ(variable_.name, config_.name) << #name;                         \
    EXPECT_EQ(record->name, config_.name) << #name;                           \
  }
#include "wire/settings.def"
  EXPECT_EQ(record->families, config_.families);
  EXPECT_EQ(record->host, "node");
  EXPECT_EQ(record->command, config_.command);
}

}  // namespace
}  // namespace tbprof
