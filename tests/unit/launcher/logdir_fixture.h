// SPDX-License-Identifier: Apache-2.0
//
// A log directory that a test fills and checks.
#ifndef TBPROF_TESTS_UNIT_LAUNCHER_LOGDIR_FIXTURE_H_
#define TBPROF_TESTS_UNIT_LAUNCHER_LOGDIR_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/base/text.h"
#include "launcher/check/logdir_check.h"
#include "tests/unit/writer/event_maker.h"

namespace tbprof {

inline constexpr int64_t kSecond = 1'000'000'000;
inline constexpr int64_t kNow =
    1'800'000'000 * kSecond;  // the tests' present time: files are old by then, unless Touch renews them
inline constexpr int64_t kOld = kNow - 3600 * kSecond;

class LogdirFixture : public testing::Test {
 protected:
  LogdirFixture() {
    char name[] = "/tmp/logdir_check.XXXXXX";
    root_ = std::filesystem::canonical(mkdtemp(name)).string();
    logdir_ = root_ + "/logs";
    std::filesystem::create_directory(logdir_);
  }
  ~LogdirFixture() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& path, const std::string& content = "", int64_t mtime_ns = kOld) {
    const std::string whole = logdir_ + "/" + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    std::ofstream(whole, std::ios::binary) << content;
    Touch(path, mtime_ns);
  }
  void Touch(const std::string& path, int64_t mtime_ns) {
    const timespec time = {mtime_ns / kSecond, mtime_ns % kSecond};
    const timespec times[2] = {time, time};
    ASSERT_EQ(utimensat(AT_FDCWD, (logdir_ + "/" + path).c_str(), times, 0), 0);
  }
  // A run in the root directory, with one host.
  void PutRun(const std::string& profile = event_maker::Profile()) { Put(kRun + "/h.xplane.pb", profile); }

  LogdirReport Check(const std::string& below = "", const ScanLimits& limits = {}) {
    return CheckLogdir(ScanLogdir(logdir_ + below, limits), kNow);
  }
  // `level id where`, all of them.
  static std::vector<std::string> Lines(const LogdirReport& report) {
    std::vector<std::string> lines;
    for (const LogdirFinding& finding : report.findings) {
      const char* level = finding.level == FindingLevel::kProblem   ? "fail"
                          : finding.level == FindingLevel::kWarning ? "warn"
                                                                    : "note";
      lines.push_back(StrCat(level, " ", finding.id, " ", finding.where));
    }
    return lines;
  }
  static LogdirFinding Only(const LogdirReport& report, std::string_view id) {
    std::vector<LogdirFinding> found;
    for (const LogdirFinding& finding : report.findings) {
      if (finding.id == id) found.push_back(finding);
    }
    EXPECT_EQ(found.size(), 1u) << id << " in\n" << ReportText(report);
    return found.empty() ? LogdirFinding() : found[0];
  }

  const std::string kRun = "plugins/profile/run";
  const std::string kEvents = "events.out.tfevents.1000.host.1.0";
  std::string root_, logdir_;
};

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_LAUNCHER_LOGDIR_FIXTURE_H_
