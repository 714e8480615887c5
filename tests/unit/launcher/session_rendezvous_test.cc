// SPDX-License-Identifier: Apache-2.0
#include "launcher/session/rendezvous.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "wire/clock.h"
#include "wire/segment.h"

namespace tbprof {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr uint64_t kNonce = 0xabcdef;
constexpr uint64_t kBytes = LayoutFor(kMinChunks).bytes;

class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest() {
    char name[] = "/tmp/tbprof-test-rendezvous-XXXXXX";
    root_ = mkdtemp(name);
    chmod(root_.c_str(), 0755);
    fs::create_directory(root_ + "/logs");
    setenv("TMPDIR", root_.c_str(), 1);
    rendezvous_.emplace(
        kNonce, [this](Introduction one) { heard_.push_back(std::move(one)); }, &notes_);
    EXPECT_TRUE(rendezvous_->Open(root_ + "/logs", -1).ok());
  }
  ~RendezvousTest() override {
    rendezvous_.reset();
    unsetenv("TMPDIR");
    fs::remove_all(root_);
  }

  ScopedFd Connect() const {
    ScopedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, rendezvous_->socket_path().c_str());
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static void Send(const ScopedFd& to, const void* bytes, size_t size, int descriptor = -1) {
    iovec part{const_cast<void*>(bytes), size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(sizeof(int));
      memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
    }
    EXPECT_EQ(sendmsg(to.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  static ScopedFd Sealed(int seals) {
    ScopedFd fd(memfd_create("tbprof", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(fd.get(), kBytes), 0);
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
  }

  std::string root_;
  std::vector<std::string> notes_;
  std::vector<Introduction> heard_;
  std::optional<Rendezvous> rendezvous_;
};

TEST_F(RendezvousTest, Directory_IsPrivateAndGoesWithTheObject) {
  const std::string directory = rendezvous_->directory();
  EXPECT_THAT(directory, StartsWith(root_));
  struct stat facts;
  ASSERT_EQ(stat(directory.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  rendezvous_.reset();
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(RendezvousTest, SealedSegment_IsHandedOn) {
  const ScopedFd socket = Connect();
  const Hello hello{kHelloMagic, kAbiVersion, 42, kNonce, kBytes};
  const ScopedFd segment = Sealed(F_SEAL_SHRINK | F_SEAL_GROW);
  Send(socket, &hello, sizeof(hello), segment.get());
  rendezvous_->Receive();
  ASSERT_EQ(heard_.size(), 1u);
  EXPECT_EQ(heard_[0].pid, getpid());
  EXPECT_EQ(heard_[0].uid, geteuid());
  EXPECT_EQ(heard_[0].inner_pid, 42);
  EXPECT_EQ(heard_[0].segment_bytes, kBytes);
  EXPECT_TRUE(heard_[0].segment.valid());
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_EQ(rendezvous_->TimeoutMs(ReadMonotonic()), -1);
}

TEST_F(RendezvousTest, SegmentThatMayShrink_IsANote) {
  const ScopedFd socket = Connect();
  const Hello hello{kHelloMagic, kAbiVersion, getpid(), kNonce, kBytes};
  const ScopedFd segment = Sealed(F_SEAL_GROW);
  Send(socket, &hello, sizeof(hello), segment.get());
  rendezvous_->Receive();
  EXPECT_THAT(heard_, IsEmpty());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("no sealed segment")));
}

TEST_F(RendezvousTest, OtherNonce_IsIgnored) {
  const ScopedFd socket = Connect();
  const Hello hello{kHelloMagic, kAbiVersion, getpid(), kNonce + 1, kBytes};
  const ScopedFd segment = Sealed(F_SEAL_SHRINK | F_SEAL_GROW);
  Send(socket, &hello, sizeof(hello), segment.get());
  rendezvous_->Receive();
  EXPECT_THAT(heard_, IsEmpty());
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(RendezvousTest, OtherAbi_IsANote) {
  const ScopedFd socket = Connect();
  const Hello hello{kHelloMagic, kAbiVersion + 1, getpid(), kNonce, kBytes};
  Send(socket, &hello, sizeof(hello));
  rendezvous_->Receive();
  EXPECT_THAT(heard_, IsEmpty());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("has ABI")));
}

TEST_F(RendezvousTest, InertLibrary_IsHandedOnWithItsReason) {
  const ScopedFd socket = Connect();
  InertNotice notice{};
  notice.magic = kInertMagic;
  notice.pid = 42;
  notice.nonce = kNonce;
  notice.reason = 3;
  Send(socket, &notice, sizeof(notice));
  rendezvous_->Receive();
  ASSERT_EQ(heard_.size(), 1u);
  ASSERT_TRUE(heard_[0].notice.has_value());
  EXPECT_EQ(heard_[0].notice->reason, 3u);
  EXPECT_FALSE(heard_[0].segment.valid());
}

TEST_F(RendezvousTest, SilentCaller_IsLookedAtAgainSoon) {
  const ScopedFd socket = Connect();
  rendezvous_->Receive();
  EXPECT_GT(rendezvous_->TimeoutMs(ReadMonotonic()), 0);
}

}  // namespace
}  // namespace tbprof
