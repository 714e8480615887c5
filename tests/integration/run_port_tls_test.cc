// SPDX-License-Identifier: Apache-2.0
// TLS on addresses other than loopback: `tbprof capture --tls-ca`, the port, and invalid files.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;

// An IPv4 address of this machine that is not loopback; empty: none.
std::string OwnAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string found;
  for (const ifaddrs* at = all; at != nullptr && found.empty(); at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    const in_addr address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr;
    char text[INET_ADDRSTRLEN];
    if (ntohl(address.s_addr) >> 24 != 127) found = inet_ntop(AF_INET, &address, text, sizeof(text));
  }
  freeifaddrs(all);
  return found;
}

class PortTls : public testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/bin/openssl", X_OK) != 0) GTEST_SKIP() << "there is no openssl to make certificates with";
    address_ = OwnAddress();
    Make("own", address_.empty() ? "192.0.2.1" : address_);
    Make("other", "192.0.2.7");
  }
  // <name>.pem and <name>.key, self-signed for that address.
  void Make(const std::string& name, const std::string& address) {
    const RunResult made =
        RunBare({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                 "-nodes", "-days", "2", "-subj", "/CN=tbprof", "-addext", "subjectAltName=IP:" + address, "-keyout",
                 File(name + ".key"), "-out", File(name + ".pem")});
    ASSERT_EQ(made.code(), 0) << made.err;
    chmod(File(name + ".key").c_str(), 0600);
  }
  std::string File(const std::string& name) const { return directory_ / name; }
  RunResult RunWith(const std::string& cert, const std::string& key) {
    RunOptions options;
    options.tbprof = {"--window=none", "--port=0", "--tls-cert=" + cert, "--tls-key=" + key};
    return RunUnderTbprof({"/bin/sh", "-c", "echo ran"}, options);
  }

  TemporaryDirectory directory_;
  std::string address_;
};

TEST_F(PortTls, WrongFiles_StopBeforeTheCommand) {
  EXPECT_EQ(RunWith(File("own.pem"), File("own.key")).out, "ran\n");
  const auto expect = [&](const std::string& cert, const std::string& key, const char* text) {
    const RunResult result = RunWith(cert, key);
    EXPECT_EQ(result.code(), 125) << text;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.AllPrinted(), HasSubstr(text));
    EXPECT_EQ(Lines(result.AllPrinted()).size(), 1u) << result.AllPrinted();
  };
  expect(File("own.pem"), File("other.key"), "not the key of the certificate");
  expect(File("none.pem"), File("own.key"), "No such file");
  expect(File("own.key"), File("own.key"), "no certificate in PEM");
  WriteFile(File("no.key"), ReadFile(File("own.pem")), 0600);
  expect(File("own.pem"), File("no.key"), "no private key in PEM");
  expect("/dev/null", File("own.key"), "not a file of at most 1 MiB");
  WriteFile(File("readable.key"), ReadFile(File("own.key")), 0644);
  expect(File("own.pem"), File("readable.key"), "other users can read this key");
  const RunResult encrypted = RunBare(
      {"/usr/bin/openssl", "ec", "-aes128", "-passout", "pass:x", "-in", File("own.key"), "-out", File("locked.key")});
  ASSERT_EQ(encrypted.code(), 0) << encrypted.err;
  chmod(File("locked.key").c_str(), 0600);
  expect(File("own.pem"), File("locked.key"), "without a password");
  RunOptions options;
  options.tbprof = {"--port=0", "--tls-cert=" + File("own.pem")};
  EXPECT_THAT(RunUnderTbprof({"/bin/true"}, options).AllPrinted(), HasSubstr("belong together"));
}

TEST_F(PortTls, BeyondLoopback_NeedsTls) {
  if (address_.empty()) GTEST_SKIP() << "needs an address besides loopback";
  RunOptions options;
  options.tbprof = {"--window=none", "--port=0", "--listen=127.0.0.1," + address_, "--tls-cert=" + File("own.pem"),
                    "--tls-key=" + File("own.key")};
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  ASSERT_TRUE(running->WaitForError("speaks TLS")) << running->Err();
  ASSERT_TRUE(running->WaitForFact("warm "));
  const std::string text = running->Err();
  const size_t begin = text.find("127.0.0.1:") + 10;
  const std::string port = text.substr(begin, text.find_first_of(" \n", begin) - begin);
  const auto capture = [&](const std::string& host, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"capture", host + ":" + port, "--duration=200ms", "--retries=0", "--logdir=logs"};
    words.insert(words.end(), more.begin(), more.end());
    return RunTbprof(words);
  };
  // The files are not needed any more.
  ASSERT_EQ(rename(File("own.key").c_str(), File("moved.key").c_str()), 0);
  const RunResult good = capture(address_, {"--tls-ca=" + File("own.pem")});
  EXPECT_EQ(good.code(), 0) << good.AllPrinted();
  const RunResult distrusted = capture(address_, {"--tls-ca=" + File("other.pem")});
  EXPECT_NE(distrusted.code(), 0);
  EXPECT_THAT(distrusted.AllPrinted(), HasSubstr("TLS: self"));
  const RunResult plain = capture(address_, {});
  EXPECT_NE(plain.code(), 0) << plain.AllPrinted();
  // The stock clients of this machine have no TLS.
  EXPECT_EQ(capture("127.0.0.1", {}).code(), 0);
  EXPECT_EQ(capture("127.0.0.1", {"--tls-ca=" + File("own.pem")}).code(), 0) << "loopback is plain";
  EXPECT_EQ(capture("127.0.0.1", {"--tls-ca=/no/such/file"}).code(), 125);
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_TRUE(result.Printed("asked for by a client by TLS")) << result.AllPrinted();
}

TEST_F(PortTls, CertificateOfAnotherAddress_IsRefused) {
  if (address_.empty()) GTEST_SKIP() << "needs an address besides loopback";
  RunOptions options;
  options.tbprof = {"--window=none", "--port=0", "--listen=" + address_, "--tls-cert=" + File("other.pem"),
                    "--tls-key=" + File("other.key")};
  const auto running = StartUnderTbprof({Program("waits_for_signals"), "60"}, options);
  ASSERT_TRUE(running->WaitForError("speaks TLS")) << running->Err();
  const std::string text = running->Err();
  const size_t begin = text.find(address_ + ":");
  const RunResult capture =
      RunTbprof({"capture", text.substr(begin, text.find_first_of(" \n", begin) - begin), "--duration=200ms",
                 "--retries=0", "--logdir=logs", "--tls-ca=" + File("other.pem")});
  EXPECT_NE(capture.code(), 0);
  EXPECT_THAT(capture.AllPrinted(), HasSubstr("IP address mismatch"));
  ASSERT_TRUE(running->WaitForFact("warm "));
  WriteFile(running->path() + "/stop", "");
  running->Wait();
}

}  // namespace
}  // namespace tbprof::integration
