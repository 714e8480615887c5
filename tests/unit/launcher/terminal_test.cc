// SPDX-License-Identifier: Apache-2.0
//
// Lines of tbprof in a file that the program writes to, too.
#include "launcher/cli/terminal.h"

#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace tbprof {
namespace {

class TerminalTest : public testing::Test {
 protected:
  TerminalTest() : path_(testing::TempDir() + "/tbprof_terminal_XXXXXX"), fd_(mkstemp(path_.data())) {}
  ~TerminalTest() override {
    close(fd_);
    unlink(path_.c_str());
  }
  void Program(const std::string& text) {
    ASSERT_EQ(write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string Content() const {
    std::ostringstream content;
    content << std::ifstream(path_).rdbuf();
    return content.str();
  }

  std::string path_;
  int fd_;
};

TEST_F(TerminalTest, LineBehindAProgressBar_BeginsALineOfItsOwn) {
  Terminal terminal(fd_, /*quiet=*/false, /*color=*/false, 80);
  terminal.Print("first");
  Program("[Stage 0:>   (0 + 2) / 2]\r");
  terminal.Print("verdict");
  Program("40 %");
  terminal.Print("view");
  EXPECT_EQ(Content(), "tbprof: first\n[Stage 0:>   (0 + 2) / 2]\r\ntbprof: verdict\n40 %\ntbprof: view\n");
}

TEST_F(TerminalTest, LineBehindAWholeLine_HasNoEmptyOneBefore) {
  Terminal terminal(fd_, /*quiet=*/false, /*color=*/false, 80);
  Program("loss 0.5\n");
  terminal.Print("verdict");
  terminal.Print("view");
  EXPECT_EQ(Content(), "loss 0.5\ntbprof: verdict\ntbprof: view\n");
}

}  // namespace
}  // namespace tbprof
