// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/perfetto.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/unit/writer/random_timeline.h"
#include "tests/unit/writer/string_sink.h"
#include "tests/unit/writer/torch_maker.h"
#include "writer/outputs/outputs.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes)
      : path_(testing::TempDir() + "/tbprof_perfetto_" + std::to_string(getpid()) + ".gz") {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string Encode(const Timeline& timeline) {
  StringSink sink;
  EXPECT_TRUE(WritePerfetto(timeline, sink).ok());
  return sink.bytes();
}

std::string Unzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string out;
  char buffer[1 << 16];
  for (int size; (size = gzread(file, buffer, sizeof(buffer))) > 0;) out.append(buffer, static_cast<size_t>(size));
  EXPECT_EQ(gzclose(file), Z_OK);
  return out;
}

int64_t Nanoseconds(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

TEST(Perfetto, RandomTimelines_AreJsonWithEachEvent) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Timeline timeline = RandomTimeline(seed).Make();
    const TemporaryFile file(Encode(timeline));
    const auto verified = VerifyPerfetto(file.path(), timeline);
    ASSERT_TRUE(verified.ok()) << verified.status();
    const Json json = Json::parse(Unzip(file.path()));  // throws on invalid UTF-8, too
    EXPECT_EQ(json["otherData"]["command"], "python \\xff\\xfe train.py");

    std::vector<Json> events;
    size_t names = 0, counters = 0, flows = 0, steps = 0;
    for (const Json& event : json["traceEvents"]) {
      const std::string phase = event["ph"];
      if (phase == "M") {
        names += event["name"] == "process_name" && event["args"]["name"] != "steps";
      } else if (phase == "C") {
        ++counters;
      } else if (phase == "s" || phase == "f") {
        ++flows;
      } else if (event["cat"] == "step") {
        ++steps;
      } else {
        events.push_back(event);
      }
    }
    EXPECT_EQ(names, timeline.processes.size());
    EXPECT_EQ(steps, timeline.steps.size());
    size_t next = 0, samples = 0;
    for (const Thread& thread : timeline.threads) {
      for (const Event& event : thread.events) {
        ASSERT_LT(next, events.size());
        const Json& found = events[next++];
        const EventType& type = timeline.types[event.type];
        ASSERT_EQ(found["name"], type.name);
        ASSERT_EQ(found["tid"], thread.tid);
        ASSERT_EQ(found["ph"], event.duration_ps != 0 ? "X" : "i");
        ASSERT_EQ(Nanoseconds(found["ts"]), event.start_ps / 1000);
        if (event.duration_ps != 0) {
          // The end is rounded like the start, so that children stay inside their parents.
          ASSERT_EQ(Nanoseconds(found["ts"]) + Nanoseconds(found["dur"]), (event.start_ps + event.duration_ps) / 1000);
        }
        const Json args = found.value("args", Json::object());
        const bool is_operation = type.origin == RangeOrigin::kTorchOperation;
        ASSERT_EQ(args.value(is_operation ? "Input Dims" : "call_site", ""), timeline.strings.Get(event.call_site));
        ASSERT_EQ(args.value(is_operation ? "operation" : "detail", ""), timeline.strings.Get(event.detail));
        if (type.value == ValueKind::kBytes && !(event.flags & Event::kFailed)) {
          ASSERT_EQ(args["bytes"].get<int64_t>(), event.value);
        }
        if (event.error == EAGAIN) {
          ASSERT_EQ(args["error"], "EAGAIN");
        }
        if (type.object == ObjectKind::kAddress && event.object != 0) {
          ASSERT_EQ(std::stoull(args["object"].get<std::string>(), nullptr, 16), event.object);
        }
      }
    }
    EXPECT_EQ(next, events.size());
    for (const CounterTrack& track : timeline.counters) samples += track.samples.size();
    EXPECT_EQ(counters, samples);
  }
}

TEST(Perfetto, InvalidCounterValues_AreFiniteNumbers) {
  Timeline timeline;
  timeline.processes.resize(1);
  timeline.counters.push_back(
      {"c", "s", 0, {{0, std::nan("")}, {1000, INFINITY}, {2000, 0.1}, {3000, -5}, {4000, 1e300}}});
  const TemporaryFile file(Encode(timeline));
  std::vector<double> values;
  const Json json = Json::parse(Unzip(file.path()));
  for (const Json& event : json["traceEvents"]) {
    if (event["ph"] == "C") values.push_back(event["args"]["s"]);
  }
  EXPECT_EQ(values, (std::vector<double>{0, 0, 0.1, -5, 1e300}));
}

TEST(Perfetto, ProcessesOfOnePid_HaveTheirOwnNumbers) {
  Timeline timeline;
  timeline.processes.resize(3);
  for (Process& process : timeline.processes) process.pid = 1;
  const TemporaryFile file(Encode(timeline));
  std::map<int64_t, int> pids;
  const Json json = Json::parse(Unzip(file.path()));
  for (const Json& event : json["traceEvents"]) {
    if (event["name"] == "process_name") ++pids[event["pid"].get<int64_t>()];
  }
  EXPECT_EQ(pids.size(), 3u);
}

TEST(Perfetto, ArrowsToTheBackwardPass_AreCounted) {
  TorchMaker maker;
  maker.Forward("addmm", 7);
  maker.Backward("AddmmBackward0", 30, 7, 1);
  const TemporaryFile file(Encode(maker.Done()));
  EXPECT_TRUE(VerifyPerfetto(file.path(), maker.timeline).ok());
  std::string phases;
  const Json json = Json::parse(Unzip(file.path()));
  for (const Json& event : json["traceEvents"]) {
    if (event["name"] == "backward") phases += event["ph"].get<std::string>();
  }
  EXPECT_EQ(phases, "sf");
}

TEST(Perfetto, Verify_CutChangedOrShortFile_Fails) {
  Timeline timeline = RandomTimeline(3).Make();
  const std::string bytes = Encode(timeline);
  for (size_t keep : {size_t{0}, size_t{10}, bytes.size() / 2, bytes.size() - 1}) {
    const TemporaryFile file(bytes.substr(0, keep));
    EXPECT_FALSE(VerifyPerfetto(file.path(), timeline).ok()) << keep;
  }
  std::string changed = bytes;
  changed[changed.size() / 2] = static_cast<char>(~changed[changed.size() / 2]);
  const TemporaryFile file(changed);
  EXPECT_FALSE(VerifyPerfetto(file.path(), timeline).ok());
  const TemporaryFile whole(bytes);
  timeline.counters.push_back({"more", "", 0, {{0, 1}}});
  EXPECT_FALSE(VerifyPerfetto(whole.path(), timeline).ok());
}

TEST(Outputs, Table_EachOutput_HasNameAndWriter) {
  ASSERT_NE(FindOutput("xplane"), nullptr);
  ASSERT_NE(FindOutput("perfetto"), nullptr);
  EXPECT_EQ(FindOutput("nothing"), nullptr);
  EXPECT_TRUE(FindOutput("xplane")->by_default);
  for (const Output& output : Outputs()) {
    EXPECT_NE(output.file_name.find("%h"), std::string_view::npos);
    EXPECT_NE(output.write, nullptr);
  }
}

}  // namespace
}  // namespace tbprof
