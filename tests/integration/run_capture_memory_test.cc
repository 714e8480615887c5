// SPDX-License-Identifier: Apache-2.0
// The heap in a capture that begins while the program has blocks.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr double kMiB = 1 << 20;

struct Captured {
  nlohmann::json summary;
  std::unique_ptr<Profile> profile;
  std::string printed;
};

// A capture in which earlier_blocks frees 40 of the 100 MiB that it had when the capture began.
Captured FreeOnce(std::vector<std::string> options_of_tbprof) {
  RunOptions options;
  options.tbprof = std::move(options_of_tbprof);
  options.tbprof.push_back("--window-duration=200s");
  const auto running = StartUnderTbprof({Program("earlier_blocks")}, options);
  EXPECT_TRUE(running->WaitForFact("ready ")) << running->Err();
  running->Signal(SIGUSR1);
  EXPECT_TRUE(running->WaitForError("capture 1")) << running->Err();
  WriteFile(running->path() + "/free", "");
  EXPECT_TRUE(running->WaitForFact("freed "));
  WriteFile(running->path() + "/stop", "");
  const RunResult result = running->Wait();
  EXPECT_EQ(result.code(), 6) << result.AllPrinted();
  Captured captured;
  captured.printed = result.AllPrinted();
  for (const std::string& directory : result.run_directories) {
    const auto json = nlohmann::json::parse(ReadFile(directory + "/summary.json"), nullptr, false);
    if (!json["window"].get<std::string>().starts_with("capture")) continue;
    captured.summary = json;
    captured.profile = Profile::Parse(FilesBelow(directory, ".xplane.pb").at(0));
  }
  EXPECT_NE(captured.profile, nullptr) << captured.printed;
  return captured;
}

// The launcher reads the counters at a window's opening a little later, on a busy machine after the frees: tries again.
Captured FreeInCapture(const std::vector<std::string>& options_of_tbprof) {
  constexpr int kMostAttempts = 20;
  for (int attempt = 1;; ++attempt) {
    Captured captured = FreeOnce(options_of_tbprof);
    const bool seen = captured.profile != nullptr && captured.summary["processes"][0]["allocator"]["frees"] == 40;
    if (seen || captured.profile == nullptr || attempt == kMostAttempts) return captured;
  }
}

std::vector<Event> MemoryEventsOf(const Captured& captured, const std::string& allocator) {
  std::vector<Event> events;
  for (const char* name : {"MemoryAllocation", "MemoryDeallocation"}) {
    for (const Event& event : captured.profile->Named(name)) {
      if (event.Stat("allocator_name").find(allocator) != std::string::npos) events.push_back(event);
    }
  }
  return events;
}

TEST(CaptureMemory, BlocksFromBeforeTheCapture_AreCounted) {
  const Captured captured = FreeInCapture({});
  ASSERT_NE(captured.profile, nullptr);
  const nlohmann::json heap = captured.summary["processes"][0]["allocator"];
  // The counters at the opening may be read a moment after it, when some of the 40 MiB are free.
  const auto level = [&](const char* name) { return heap[name].get<double>() / kMiB; };
  EXPECT_GT(level("begin_bytes"), 58) << heap;
  EXPECT_LT(level("begin_bytes"), 102) << heap;
  EXPECT_EQ(heap["begin_bytes"].get<int64_t>() + heap["change_bytes"].get<int64_t>(),
            heap["live_bytes"].get<int64_t>());
  EXPECT_NEAR(level("live_bytes"), 60, 2) << heap;
  EXPECT_GE(heap["window_peak_bytes"], heap["begin_bytes"]) << heap;
  EXPECT_LT(level("window_peak_bytes"), 102) << heap;
  EXPECT_NEAR(level("peak_bytes"), 150, 2) << heap;
  EXPECT_THAT(captured.printed, HasSubstr("live at the end 60.2 MiB; peak in this window "));
  EXPECT_THAT(captured.printed, HasSubstr(", since its start 151 MiB"));
  // The counter of the trace viewer and the memory page.
  const std::vector<Event> events = MemoryEventsOf(captured, " heap: earlier_blocks");
  ASSERT_FALSE(events.empty());
  int64_t lowest = INT64_MAX, highest = 0, peak = 0;
  for (const Event& event : events) {
    lowest = std::min(lowest, event.Number("bytes_allocated"));
    highest = std::max(highest, event.Number("bytes_allocated"));
    peak = std::max(peak, event.Number("peak_bytes_in_use"));
  }
  EXPECT_NEAR(static_cast<double>(lowest) / kMiB, 60, 2);
  EXPECT_EQ(highest, heap["window_peak_bytes"].get<int64_t>());
  EXPECT_NEAR(static_cast<double>(peak) / kMiB, 150, 2) << "the process's own, since its start";
}

// Nothing was counted before the capture: the size of the heap is unknown, but is at least the bytes freed.
TEST(CaptureMemory, CountingBeganWithTheCapture_IsUnknown) {
  const Captured captured = FreeInCapture({"--window=none"});
  ASSERT_NE(captured.profile, nullptr);
  const nlohmann::json heap = captured.summary["processes"][0]["allocator"];
  for (const char* field : {"begin_bytes", "live_bytes", "window_peak_bytes", "peak_bytes"}) {
    EXPECT_TRUE(heap[field].is_null()) << field << " " << heap;
  }
  EXPECT_NEAR(heap["change_bytes"].get<double>() / kMiB, -40, 2) << heap;
  EXPECT_NEAR(heap["window_peak_at_least_bytes"].get<double>() / kMiB, 40, 2) << heap;
  EXPECT_THAT(captured.printed, HasSubstr("live bytes not known"));
  EXPECT_TRUE(MemoryEventsOf(captured, " heap: ").empty()) << "what is a lower bound is called so";
  const std::vector<Event> events = MemoryEventsOf(captured, " heap, at least: earlier_blocks");
  ASSERT_FALSE(events.empty());
  for (const Event& event : events) EXPECT_GE(event.Number("bytes_allocated"), 0);
}

}  // namespace
}  // namespace tbprof::integration
