// SPDX-License-Identifier: Apache-2.0
// Very many captures of one run: the launcher's resources do not grow.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <sstream>

#include "harness.h"

namespace tbprof::integration {
namespace {

size_t FilesIn(const std::string& directory) {
  std::error_code none;
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory, none)) ++count;
  return count;
}

uint64_t BytesIn(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none)) {
    const uint64_t size = entry.file_size(none);
    if (!none) bytes += size;
  }
  return bytes;
}

// `VmRSS`, `Threads`, ... of a process.
uint64_t StatusOf(pid_t pid, const std::string& name) {
  for (const std::string& line : Lines(ReadFile("/proc/" + std::to_string(pid) + "/status"))) {
    if (line.rfind(name + ":", 0) == 0) return strtoull(line.c_str() + name.size() + 1, nullptr, 10);
  }
  ADD_FAILURE() << "no " << name << " of " << pid;
  return 0;
}

struct Size {
  uint64_t rss_kib, descriptors, threads, mappings, spool_files, spool_bytes;
  uint64_t target_rss_kib, target_descriptors, target_mappings;
};

pid_t TargetOf(const Running& running) {
  const std::string launcher = std::to_string(running.pid());
  std::istringstream pids(ReadFile("/proc/" + launcher + "/task/" + launcher + "/children"));
  for (std::string pid; pids >> pid;) {
    if (ReadFile("/proc/" + pid + "/comm") == "phases\n") return std::stoi(pid);
  }
  ADD_FAILURE() << "no target";
  return 0;
}

Size SizeOf(const Running& running) {
  const std::string proc = "/proc/" + std::to_string(running.pid());
  const pid_t target = TargetOf(running);
  const std::string target_proc = "/proc/" + std::to_string(target);
  return {StatusOf(running.pid(), "VmRSS"),
          FilesIn(proc + "/fd"),
          StatusOf(running.pid(), "Threads"),
          Lines(ReadFile(proc + "/maps")).size(),
          FilesIn(running.logdir() + "/.tbprof"),
          BytesIn(running.logdir() + "/.tbprof"),
          StatusOf(target, "VmRSS"),
          FilesIn(target_proc + "/fd"),
          Lines(ReadFile(target_proc + "/maps")).size()};
}

TEST(Captures, ThousandInARow_AllArePublished) {
  constexpr size_t kCaptures = 1000;
  // The launcher publishes a profile when its files are safe on the disk. On a disk that other programs keep busy, that
  // takes 9 s and more for each.
  if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", /*overwrite=*/1);
  RunOptions options;
  options.tbprof = {"--window=none", "--window-duration=5ms", "--log-file=log"};
  options.timeout_s = 280;
  const auto running = StartUnderTbprof({Program("phases"), "10", "2", "1000"}, options);
  ASSERT_TRUE(running->WaitForFact("warm "));
  const std::string runs = running->logdir() + "/plugins/profile";
  const auto capture = [&](size_t count) {
    for (size_t before = FilesIn(runs); count > 0; --count) {
      running->Signal(SIGUSR1);
      ++before;
      for (int i = 0; i < 30000 && FilesIn(runs) < before; ++i) usleep(1000);
      if (FilesIn(runs) < before) return false;
    }
    return true;
  };
  ASSERT_TRUE(capture(50)) << running->Err();
  const Size warm = SizeOf(*running);
  ASSERT_TRUE(capture(kCaptures - 50));
  // The last capture's directory exists a moment before the launcher reads the result.
  for (int i = 0; i < 10000 && FilesIn(running->logdir() + "/.tbprof") > 2; ++i) usleep(1000);
  const Size size = SizeOf(*running);
  EXPECT_FALSE(running->Ended());
  EXPECT_LE(size.rss_kib, warm.rss_kib + 8 * 1024);
  // A conversion that is ending still has two descriptors.
  EXPECT_LE(size.descriptors, warm.descriptors + 4);
  EXPECT_LE(size.threads, warm.threads);
  EXPECT_LE(size.mappings, warm.mappings + 8);
  EXPECT_LE(size.spool_files, 2u);
  EXPECT_LE(size.spool_bytes, warm.spool_bytes + kCaptures * 4096);
  EXPECT_LE(size.target_rss_kib, warm.target_rss_kib + 1024) << "chunks of 64 KiB, used again";
  EXPECT_EQ(size.target_descriptors, warm.target_descriptors);
  EXPECT_LE(size.target_mappings, warm.target_mappings + 2);
  RecordProperty("rss_kib", static_cast<int>(size.rss_kib));
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 5);
  EXPECT_EQ(result.run_directories.size(), kCaptures);
}

}  // namespace
}  // namespace tbprof::integration
