// SPDX-License-Identifier: Apache-2.0
//
// The xplane output, read back with generated protobuf classes and compared with the timeline event by event; and the
// lint, with files that break one rule each.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/random_timeline.h"
#include "tests/unit/writer/string_sink.h"
#include "wire/records.h"
#include "writer/base/utf8.h"
#include "writer/outputs/memory_events.h"
#include "writer/outputs/xplane.h"
#include "writer/proto/xplane.pb.h"

namespace tbprof {
namespace {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;
using tensorflow::profiler::XStat;

std::string Encode(const Timeline& timeline) {
  StringSink sink;
  EXPECT_TRUE(WriteXplane(timeline, sink).ok());
  return sink.bytes();
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    path_ = testing::TempDir() + "/tbprof_xspace_" + std::to_string(getpid()) + "_" + std::to_string(++count_);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  static inline int count_ = 0;
  std::string path_;
};

std::string Shown(const XPlane& plane, const XStat& stat) {
  switch (stat.value_case()) {
    case XStat::kStrValue:
      return stat.str_value();
    case XStat::kRefValue:
      return plane.stat_metadata().at(static_cast<int64_t>(stat.ref_value())).name();
    case XStat::kInt64Value:
      return std::to_string(stat.int64_value());
    case XStat::kUint64Value:
      return std::to_string(stat.uint64_value()) + "u";
    case XStat::kDoubleValue:
      return std::to_string(stat.double_value());
    default:
      return "?";
  }
}

std::map<std::string, std::string> Stats(const XPlane& plane, const XEvent& event) {
  std::map<std::string, std::string> out;
  for (const XStat& stat : event.stats()) {
    out[plane.stat_metadata().at(stat.metadata_id()).name()] = Shown(plane, stat);
  }
  return out;
}

std::string Hex(uint64_t value) {
  char text[32];
  snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string PythonLine(const Timeline& timeline, const PythonStack& frame) {
  const PythonFunction& function = timeline.python.functions[frame.function];
  const std::string& path = timeline.strings.Get(function.file);
  const auto printable = [](const std::string& text) { return PrintableUtf8(TruncateUtf8(text, 200)); };
  const std::string file = printable(path.substr(path.rfind('/') + 1));
  return (file.empty() ? "?" : file) + ":" + (frame.line < 0 ? "?" : std::to_string(frame.line)) + " " +
         printable(timeline.strings.Get(function.name));
}

// The stats that a viewer must show for an event. The caller checks flow ids, which the writer assigns.
std::map<std::string, std::string> Wanted(const Timeline& timeline, const Event& event) {
  std::map<std::string, std::string> out;
  const EventType& type = timeline.types[event.type];
  const bool is_operation = type.origin == RangeOrigin::kTorchOperation;
  if (event.call_site != 0) out[is_operation ? "Input Dims" : "call_site"] = timeline.strings.Get(event.call_site);
  if (event.detail != 0) out[is_operation ? "tf_op" : "detail"] = timeline.strings.Get(event.detail);
  if (event.object != 0) {
    if (type.object == ObjectKind::kAddress) out["object"] = Hex(event.object);
    if (type.object == ObjectKind::kThread) out["thread"] = Hex(event.object);
    if (type.object == ObjectKind::kProcessId) out["process"] = std::to_string(static_cast<int64_t>(event.object));
  }
  if (type.object == ObjectKind::kDescriptor) out["fd"] = std::to_string(static_cast<int64_t>(event.object));
  if (!(event.flags & Event::kFailed)) {
    if (type.value == ValueKind::kBytes) out["bytes"] = std::to_string(event.value);
    if (type.value == ValueKind::kResult) out["result"] = std::to_string(event.value);
    const bool is_asked_for = type.object == ObjectKind::kProcessId && (event.flags & Event::kOpen) != 0;
    if (type.value == ValueKind::kProcessId && !is_asked_for) out["process"] = std::to_string(event.value);
    if (type.value == ValueKind::kSignal) out["signal"] = std::to_string(event.value);
    if (type.value == ValueKind::kSequence) out["sequence"] = std::to_string(event.value);
  }
  if (event.error == EAGAIN) out["error"] = "EAGAIN";
  if (event.error == 4711) out["error"] = "errno 4711";
  const bool start = event.flags & Event::kClippedAtStart, end = event.flags & Event::kClippedAtEnd;
  if (start || end) out["clipped"] = start && end ? "start and end" : start ? "start" : "end";
  if (event.flags & Event::kOpen) out["open"] = "1";
  if (event.python != 0) {
    const std::vector<PythonStack>& stacks = timeline.python.stacks;
    out["python"] = PythonLine(timeline, stacks[event.python]);
    std::string stack = out["python"];
    uint32_t at = stacks[event.python].parent;
    for (int callers = 0; at != 0 && callers < 8; ++callers, at = stacks[at].parent) {
      stack += " < " + PythonLine(timeline, stacks[at]);
    }
    if (stacks[event.python].parent != 0) out["python stack"] = stack;
  }
  return out;
}

TEST(Xspace, RandomTimelines_AreReadBackEventForEvent) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Timeline timeline = RandomTimeline(seed).Make();
    const std::string bytes = Encode(timeline);
    XSpace space;
    ASSERT_TRUE(space.ParseFromString(bytes));
    // The file has no field that is not in the schema.
    const size_t size = space.ByteSizeLong();
    space.DiscardUnknownFields();
    ASSERT_EQ(space.ByteSizeLong(), size);
    ASSERT_EQ(space.hostnames_size(), 1);
    ASSERT_EQ(space.hostnames(0), timeline.host);
    ASSERT_EQ(space.planes(0).name(), "/host:CPU");

    const std::vector<HostPlane> planes = HostPlanes(timeline);
    ASSERT_EQ(static_cast<size_t>(space.planes_size()), planes.size() + 1);
    std::map<uint64_t, int64_t> flow_ids;  // writer's id -> timeline's
    std::map<int64_t, uint64_t> flows;
    for (size_t p = 0; p < planes.size(); ++p) {
      const XPlane& plane = space.planes(static_cast<int>(p));
      ASSERT_EQ(plane.name(), planes[p].name);
      std::map<std::string, const XLine*> lines;
      int64_t last_id = 0;
      for (const XLine& line : plane.lines()) {
        ASSERT_GT(line.id(), last_id);
        last_id = line.id();
        ASSERT_EQ(line.timestamp_ns(), 0);
      }
      const bool has_steps = p == 0 && !StepEvents(timeline).empty();
      ASSERT_EQ(has_steps, plane.lines_size() > 0 && plane.lines(0).name() == "steps");
      for (size_t t = 0; t < planes[p].threads.size(); ++t) {
        const Thread& thread = timeline.threads[planes[p].threads[t]];
        const XLine& line = plane.lines(static_cast<int>(t) + has_steps);
        ASSERT_TRUE(line.name().ends_with("/" + std::to_string(thread.tid))) << line.name();
        ASSERT_EQ(static_cast<size_t>(line.events_size()), thread.events.size());
        for (size_t e = 0; e < thread.events.size(); ++e) {
          const Event& event = thread.events[e];
          const XEvent& found = line.events(static_cast<int>(e));
          ASSERT_EQ(found.data_case(), XEvent::kOffsetPs);
          ASSERT_EQ(found.offset_ps(), event.start_ps);
          ASSERT_EQ(found.duration_ps(), event.duration_ps);
          ASSERT_EQ(plane.event_metadata().at(found.metadata_id()).name(), timeline.types[event.type].name);
          std::map<std::string, std::string> stats = Stats(plane, found);
          const ValueKind kind = timeline.types[event.type].value;
          if (event.value != 0 && !(event.flags & Event::kFailed) &&
              (kind == ValueKind::kFlowOut || kind == ValueKind::kFlowIn)) {
            const uint64_t flow = std::stoull(stats["flow"]);
            ASSERT_EQ(flow & 3, kind == ValueKind::kFlowOut ? 2u : 1u);
            ASSERT_EQ(flow >> 58, 0u);
            ASSERT_EQ(flow_ids.emplace(flow >> 2, event.value).first->second, event.value);
            ASSERT_EQ(flows.emplace(event.value, flow >> 2).first->second, flow >> 2);
            stats.erase("flow");
          }
          ASSERT_EQ(stats, Wanted(timeline, event));
        }
      }
    }
    const TemporaryFile file(bytes);
    const auto verified = VerifyXplane(file.path(), timeline);
    ASSERT_TRUE(verified.ok()) << verified.status();
  }
}

TEST(Xspace, SameTimeline_GivesTheSameBytes) {
  EXPECT_EQ(Encode(RandomTimeline(5).Make()), Encode(RandomTimeline(5).Make()));
}

TEST(Xspace, Steps_AreMarkersWithNestedContent) {
  int checked = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Timeline timeline = RandomTimeline(seed).Make();
    XSpace space;
    ASSERT_TRUE(space.ParseFromString(Encode(timeline)));
    if (StepEvents(timeline).empty()) continue;
    const XPlane& plane = space.planes(0);
    const XLine& line = plane.lines(0);
    std::set<std::string> shown;
    const XEvent* marker = nullptr;
    bool has_content = true;
    for (const XEvent& event : line.events()) {
      const auto stats = Stats(plane, event);
      if (stats.contains("_r")) {
        EXPECT_TRUE(has_content);
        has_content = false;
        EXPECT_EQ(stats.at("_r"), "1");
        EXPECT_TRUE(shown.insert(stats.at("graph_type") + " " + stats.at("step_num")).second);
        marker = &event;
        ++checked;
      } else {
        has_content = true;
        ASSERT_NE(marker, nullptr);
        EXPECT_GE(event.offset_ps(), marker->offset_ps());
        EXPECT_LE(event.offset_ps() + event.duration_ps(), marker->offset_ps() + marker->duration_ps());
        EXPECT_GT(event.duration_ps(), 0);
      }
    }
    EXPECT_TRUE(has_content);
  }
  EXPECT_GT(checked, 50);
}

TEST(Xspace, Running_IsTheTimeWithoutWaits) {
  Timeline timeline;
  timeline.host = "h";
  timeline.duration_ps = 1'000'000'000'000;
  timeline.types = {{"poll", EventFamily::kIo}, {"malloc", EventFamily::kMemory}};
  timeline.processes.resize(1);
  timeline.threads.resize(1);
  auto add = [&](uint16_t type, int64_t start_ms, int64_t duration_ms) {
    Event event;
    event.type = type;
    event.start_ps = start_ms * 1'000'000'000;
    event.duration_ps = duration_ms * 1'000'000'000;
    timeline.threads[0].events.push_back(event);
  };
  add(1, 10, 20);  // no wait
  add(0, 90, 20);  // across the border of the two steps
  add(0, 150, 10);
  add(0, 160, 40);  // until the end
  Step step;
  step.end_ps = 100'000'000'000;
  timeline.steps.push_back(step);
  step = {100'000'000'000, 200'000'000'000, 1, "", 0};
  timeline.steps.push_back(step);
  timeline.step_source = StepSource::kMarked;
  timeline.step_source_text = "test";
  std::vector<std::pair<int64_t, int64_t>> running;
  for (const StepEvent& event : StepEvents(timeline)) {
    if (!event.is_marker) running.emplace_back(event.start_ps / 1'000'000'000, event.end_ps / 1'000'000'000);
  }
  EXPECT_EQ(running, (std::vector<std::pair<int64_t, int64_t>>{{0, 90}, {110, 150}}));
}

TEST(Xspace, ThreadThatStartsLate_DoesNotRunBefore) {
  Timeline timeline;
  timeline.duration_ps = 1000;
  timeline.threads.resize(1);
  timeline.threads[0].start_ps = 300;
  timeline.threads[0].end_ps = 950;
  for (int i = 0; i < 6; ++i) timeline.steps.push_back({400 + i * 90, 490 + i * 90, i, "step", 0});
  std::vector<std::pair<int64_t, int64_t>> running;
  for (const StepEvent& event : StepEvents(timeline)) {
    if (!event.is_marker) running.emplace_back(event.start_ps, event.end_ps);
  }
  ASSERT_EQ(running.size(), 8u);
  EXPECT_EQ(running.front(), (std::pair<int64_t, int64_t>(300, 400)));
  EXPECT_EQ(running.back(), (std::pair<int64_t, int64_t>(940, 950)));
  // A thread that ends with its last step does not run after it: 1 ns makes the marker a step for the reader.
  timeline.duration_ps = 100'000;
  timeline.threads[0].end_ps = 940;
  EXPECT_EQ(StepEvents(timeline).back().end_ps, 1940);
}

TEST(Xspace, StepsThatTheReaderLeavesOut_HaveOuterMarkers) {
  Timeline timeline;
  timeline.threads.resize(1);
  auto markers = [&](int steps, int64_t first, int64_t duration) {
    timeline.steps.clear();
    timeline.duration_ps = duration;
    for (int i = 0; i < steps; ++i) timeline.steps.push_back({first + i * 100, first + i * 100 + 100, i, "step", 0});
    std::vector<std::string> titles;
    for (const StepEvent& event : StepEvents(timeline)) {
      if (event.is_marker) titles.push_back(event.title + " " + std::to_string(event.beside.value_or(event.number)));
    }
    return titles;
  };
  EXPECT_EQ(markers(5, 10, 1000).size(), 5u);
  const std::vector<std::string> titles = markers(6, 10, 1000);
  ASSERT_EQ(titles.size(), 8u);
  EXPECT_EQ(titles.front(), "before step 0");
  EXPECT_EQ(titles[1], "step 0");
  EXPECT_EQ(titles.back(), "after step 5");
  EXPECT_EQ(markers(6, 0, 600).size(), 6u);  // the capture cuts these
  EXPECT_EQ(markers(6, 0, 601).size(), 7u);
  timeline.steps_in_detail = true;
  EXPECT_EQ(markers(6, 10, 1000).front(), "steps not searched before step 0");
  EXPECT_EQ(markers(6, 10, 1000).back(), "steps not searched after step 5");
}

TEST(Xspace, ProcessesBeyondTheLimit_ShareAPlane) {
  Timeline timeline;
  timeline.host = "h";
  timeline.types = {{"read", EventFamily::kIo}};
  timeline.processes.resize(500);
  timeline.threads.resize(500);
  for (uint32_t i = 0; i < 500; ++i) {
    timeline.processes[i].pid = static_cast<int32_t>(i) + 1;
    timeline.processes[i].name = "sh";
    timeline.processes[i].is_command = i == 0;
    timeline.threads[i].process = i;
    timeline.threads[i].line_id = i + 1;
    timeline.threads[i].events.resize(1);
  }
  const std::vector<HostPlane> planes = HostPlanes(timeline);
  EXPECT_EQ(planes.size(), 65u);
  EXPECT_EQ(planes[1].name, "/host:CPU sh 01 pid 2");
  EXPECT_EQ(planes.back().threads.size(), 499u - 63u);
  const TemporaryFile file(Encode(timeline));
  EXPECT_EQ(*VerifyXplane(file.path(), timeline), "verified: 66 planes, 500 lines, 500 events");
}

// A row of more than 20 lines is folded when the viewer opens.
TEST(Xspace, PoolOfThreads_DoesNotFoldTheRow) {
  Timeline timeline;
  timeline.host = "h";
  timeline.types = {{"read", EventFamily::kIo}, {"aten::mm", EventFamily::kAnnotation}};
  timeline.processes.resize(1);
  timeline.processes[0].is_command = true;
  const auto planes_of = [&](uint32_t threads) {
    timeline.threads.assign(threads, {});
    for (uint32_t i = 0; i < threads; ++i) {
      Thread& thread = timeline.threads[i];
      thread.line_id = i + 1;
      thread.is_main = i == 0;
      thread.events.resize(i % 10 == 3 ? 9 : 2);
      for (size_t k = 0; k < thread.events.size(); ++k) thread.events[k].start_ps = static_cast<int64_t>(k) * 1000;
    }
    timeline.threads[threads - 1].events[1].type = 1;
    return HostPlanes(timeline);
  };
  EXPECT_EQ(planes_of(16).size(), 1u);
  const std::vector<HostPlane> planes = planes_of(100);
  ASSERT_EQ(planes.size(), 2u);
  EXPECT_EQ(planes[1].name, "/host:CPU + 84 threads");
  EXPECT_TRUE(planes[1].processes.empty()) << "counters once";
  // The main thread, the thread with operations, the ten busiest threads, and the first of the others.
  EXPECT_EQ(planes[0].threads, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 13, 23, 33, 43, 53, 63, 73, 83, 93, 99}));
  EXPECT_EQ(planes[1].threads.size(), 84u);
  EXPECT_TRUE(std::ranges::is_sorted(planes[1].threads));
  const TemporaryFile file(Encode(timeline));
  EXPECT_EQ(*VerifyXplane(file.path(), timeline), "verified: 3 planes, 100 lines, 270 events");
  // All threads have operations: they stay in one plane, in a folded row.
  planes_of(100);
  for (Thread& thread : timeline.threads) thread.events[0].type = 1;
  EXPECT_EQ(HostPlanes(timeline).size(), 1u);
}

TEST(Xspace, Notes_AreBoundedAndPrintable) {
  Timeline timeline = RandomTimeline(1).Make();
  timeline.complete = false;
  timeline.corrupt_records = 3;
  timeline.events_over_budget = 9;
  timeline.shortest_shown_ps = 2'500'000;
  for (int i = 0; i < 500; ++i)
    timeline.warnings.push_back("warning " + std::to_string(i) + std::string(10'000, '\x1b'));
  const std::vector<std::string> warnings = XplaneWarnings(timeline);
  EXPECT_EQ(warnings.size(), 11u);
  std::string all;
  for (const std::string& text : warnings) {
    EXPECT_LE(text.size(), 500u);
    EXPECT_EQ(PrintableUtf8(text), text);
    all += text + "\n";
  }
  EXPECT_NE(all.find("7 records lost: too \\x80 long"), std::string::npos);
  EXPECT_NE(all.find("2.5 us"), std::string::npos);
  EXPECT_NE(all.find("3 records were corrupt"), std::string::npos);
  EXPECT_EQ(XplaneErrors(timeline), std::vector<std::string>{"bad \\xff byte"});
}

TEST(Xspace, NotesWithoutLoss_AreOneNote) {
  Timeline timeline;
  timeline.warnings = {"a loss"};
  timeline.notes = {"one", "two\x1b"};
  timeline.steps.resize(1);
  timeline.step_source = StepSource::kMarked;
  timeline.step_source_text = "Optimizer.step";
  timeline.step_confidence = 0.95;
  EXPECT_EQ(XplaneWarnings(timeline),
            (std::vector<std::string>{"a loss",
                                      "tbprof: steps are inferred (Optimizer.step), confidence 95 %; one; two\\x1b"}));
  timeline.step_confidence = 0.65;
  timeline.notes.push_back(std::string(1985, 'x'));
  EXPECT_EQ(XplaneWarnings(timeline),
            (std::vector<std::string>{"a loss", "tbprof: steps are inferred (Optimizer.step), confidence 65 %",
                                      "tbprof: one; two\\x1b", "tbprof: " + std::string(489, 'x') + "…"}));
}

TEST(Xspace, EmptyTimeline_IsAValidFile) {
  Timeline timeline;
  timeline.host = "h";
  const TemporaryFile file(Encode(timeline));
  EXPECT_EQ(*VerifyXplane(file.path(), timeline), "verified: 2 planes, 0 lines, 0 events");
}

TEST(Xspace, FullSink_IsReported) {
  class FullSink : public Sink {
   public:
    absl::Status Append(std::string_view) override { return absl::ResourceExhaustedError("full"); }
  } sink;
  EXPECT_TRUE(absl::IsResourceExhausted(WriteXplane(RandomTimeline(1).Make(), sink)));
}

TEST(MemoryEvents, CounterTrack_IsFollowedAndThinned) {
  Timeline timeline;
  timeline.processes.resize(1);
  CounterTrack track;
  track.name = std::string(kHeapTrack);
  int64_t value = 0, peak = 0;
  std::mt19937 random(3);
  for (int i = 0; i < 100'000; ++i) {
    value += static_cast<int64_t>(random() % 1000) - (i < 50'000 ? 300 : 700);
    value = std::max<int64_t>(value, 0);
    peak = std::max(peak, value);
    track.samples.push_back({i * 1000, static_cast<double>(value)});
  }
  timeline.counters.push_back(track);
  const HeldRows rows = RowsOfMemoryEvents(timeline);
  const std::vector<MemoryEvent> events = MemoryEvents(timeline, rows);
  EXPECT_LE(events.size(), 4000u);
  EXPECT_GT(events.size(), 1000u);
  int64_t in_use = 0, last = 0;
  for (const MemoryEvent& event : events) {
    in_use += event.delta;
    EXPECT_EQ(in_use, event.in_use);
    EXPECT_GE(event.time_ps, last);
    last = event.time_ps;
  }
  EXPECT_EQ(events.back().peak, peak);
}

// A valid file that `change` breaks, and a part of the lint's message.
struct Breakage {
  const char* name;
  std::function<void(XSpace&)> change;
  const char* complaint;
};

XLine* AnyLine(XSpace& space) {
  for (XLine& line : *space.mutable_planes(0)->mutable_lines()) {
    if (line.name() != "steps" && line.events_size() > 2) return &line;
  }
  return nullptr;
}

XStat* AddStat(XSpace& space, const std::string& name) {
  XPlane* plane = space.mutable_planes(0);
  int64_t id = 0;
  for (const auto& [key, metadata] : plane->stat_metadata()) {
    if (metadata.name() == name) id = key;
  }
  if (id == 0) {
    id = 1'000'000;
    (*plane->mutable_stat_metadata())[id].set_id(id);
    (*plane->mutable_stat_metadata())[id].set_name(name);
  }
  XStat* stat = AnyLine(space)->mutable_events(0)->add_stats();
  stat->set_metadata_id(id);
  return stat;
}

TEST(XspaceLint, EachBrokenRule_IsReported) {
  const Breakage breakages[] = {
      {"event id", [](XSpace& s) { AnyLine(s)->mutable_events(0)->set_metadata_id(99'999); }, "event metadata 99999"},
      {"stat id", [](XSpace& s) { AnyLine(s)->mutable_events(0)->add_stats()->set_metadata_id(99'999); }, "no value"},
      {"stat id with value",
       [](XSpace& s) {
         XStat* stat = AnyLine(s)->mutable_events(0)->add_stats();
         stat->set_metadata_id(99'999);
         stat->set_int64_value(1);
       },
       "stat metadata 99999"},
      {"ref", [](XSpace& s) { AddStat(s, "call_site")->set_ref_value(99'999); }, "text 99999"},
      {"event name twice",
       [](XSpace& s) {
         auto& map = *s.mutable_planes(0)->mutable_event_metadata();
         map[5000].set_id(5000);
         map[5000].set_name(map.begin()->first == 5000 ? std::next(map.begin())->second.name()
                                                       : map.begin()->second.name());
       },
       "two entries of event metadata"},
      {"stat name twice",
       [](XSpace& s) {
         auto& map = *s.mutable_planes(0)->mutable_stat_metadata();
         for (int64_t id : {5000, 5001}) {
           map[id].set_id(id);
           map[id].set_name("same");
         }
       },
       "two entries of stat metadata"},
      {"key", [](XSpace& s) { (*s.mutable_planes(0)->mutable_event_metadata())[5000].set_id(5001); },
       "differs from its id"},
      {"zero id", [](XSpace& s) { (*s.mutable_planes(0)->mutable_event_metadata())[0].set_name("x"); },
       "metadata is 0"},
      {"order", [](XSpace& s) { AnyLine(s)->mutable_events()->SwapElements(0, AnyLine(s)->events_size() - 1); },
       "out of order"},
      {"overlap",
       [](XSpace& s) {
         XLine* line = AnyLine(s);
         const XEvent first = line->events(0);
         line->clear_events();
         for (int64_t start : {0, 5}) {
           XEvent* event = line->add_events();
           *event = first;
           event->set_offset_ps(start);
           event->set_duration_ps(10);
         }
       },
       "overlap without nesting"},
      {"no offset", [](XSpace& s) { AnyLine(s)->mutable_events(0)->clear_offset_ps(); }, "no offset"},
      {"negative", [](XSpace& s) { AnyLine(s)->mutable_events(0)->set_duration_ps(-1); }, "negative time"},
      {"too late",
       [](XSpace& s) {
         XEvent* event = AnyLine(s)->mutable_events(AnyLine(s)->events_size() - 1);
         event->set_offset_ps(INT64_MAX - 5);
         event->set_duration_ps(6);
       },
       "ends too late"},
      {"int64 arm", [](XSpace& s) { AddStat(s, "_r")->set_uint64_value(1); }, "`_r` has a value of another kind"},
      {"text arm", [](XSpace& s) { AddStat(s, "call_site")->set_int64_value(1); }, "`call_site` has a value"},
      {"bytes", [](XSpace& s) { AddStat(s, "mine")->set_bytes_value("x"); }, "holds bytes"},
      {"group_id", [](XSpace& s) { AddStat(s, "group_id")->set_int64_value(1); }, "holds `group_id`"},
      {"loop",
       [](XSpace& s) {
         auto& map = *s.mutable_planes(0)->mutable_event_metadata();
         map[5000].set_id(5000);
         map[5000].set_name("WhileOp-StartBody");
       },
       "WhileOp-StartBody"},
      {"epoch", [](XSpace& s) { AnyLine(s)->set_timestamp_ns(1'790'000'000'000'000'000); }, "timestamp_ns"},
      {"derived id", [](XSpace& s) { AnyLine(s)->set_id(0xDEADBEEF); }, "out of range"},
      {"same id",
       [](XSpace& s) {
         XLine copy = *AnyLine(s);
         *s.mutable_planes(0)->add_lines() = copy;
       },
       "two lines"},
      {"empty line", [](XSpace& s) { AnyLine(s)->clear_events(); }, "is empty"},
      {"no host", [](XSpace& s) { s.clear_hostnames(); }, "0 host names"},
      {"two hosts", [](XSpace& s) { s.add_hostnames(s.hostnames(0)); }, "2 host names"},
      {"other host", [](XSpace& s) { s.set_hostnames(0, "other"); }, "the host name is `other`"},
      {"same plane", [](XSpace& s) { s.add_planes()->set_name("/host:CPU"); }, "two planes"},
      {"nameless plane", [](XSpace& s) { s.add_planes(); }, "no name"},
  };
  Timeline timeline;
  for (uint32_t seed = 0;; ++seed) {
    timeline = RandomTimeline(seed).Make();
    XSpace space;
    ASSERT_TRUE(space.ParseFromString(Encode(timeline)));
    XLine* line = AnyLine(space);
    if (line == nullptr) continue;
    if (line->events(0).offset_ps() < line->events(line->events_size() - 1).offset_ps()) break;
  }
  XSpace good;
  ASSERT_TRUE(good.ParseFromString(Encode(timeline)));
  {
    const TemporaryFile file(good.SerializeAsString());
    const auto counts = LintXplane(file.path(), timeline.host);
    ASSERT_TRUE(counts.ok()) << counts.status();
  }
  for (const Breakage& breakage : breakages) {
    SCOPED_TRACE(breakage.name);
    XSpace broken = good;
    breakage.change(broken);
    const TemporaryFile file(broken.SerializeAsString());
    const auto counts = LintXplane(file.path(), timeline.host);
    ASSERT_FALSE(counts.ok());
    EXPECT_NE(counts.status().message().find(breakage.complaint), absl::string_view::npos) << counts.status();
    EXPECT_NE(counts.status().message().find(file.path()), absl::string_view::npos);
  }
}

// The window opens while the operations of a step are not recorded.
TEST(XspaceLint, PauseFromTheBeginning_IsInOrder) {
  Timeline timeline;
  timeline.host = "host";
  timeline.duration_ps = 10'000'000;
  timeline.types = {{"aten::mm", EventFamily::kAnnotation}, {kTorchPause, EventFamily::kAnnotation}};
  timeline.types[0].origin = RangeOrigin::kTorchOperation;
  timeline.types[1].origin = RangeOrigin::kTorchUser;
  timeline.processes.resize(1);
  timeline.processes[0].is_command = true;
  timeline.processes[0].torch = {1, 9, {{0, 10, false}}};
  timeline.threads.resize(2);
  for (size_t i = 0; i < 2; ++i) timeline.threads[i].line_id = i + 1;
  timeline.threads[0].is_main = true;
  timeline.threads[0].events.push_back({.start_ps = 6'000'000, .duration_ps = 100'000, .type = 0});
  timeline.threads[0].events[0].detail = timeline.strings.Intern("aten/mm:mm");
  timeline.threads[1].is_line = true;
  timeline.threads[1].events.push_back({.start_ps = 0, .duration_ps = 5'000'000, .type = 1});
  const TemporaryFile file(Encode(timeline));
  const auto verified = VerifyXplane(file.path(), timeline);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_THAT(std::string(*verified), testing::HasSubstr("3 lines, 4 events"))
      << "the pause, the operation, its estimate and the note";
}

TEST(XspaceLint, InvalidText_IsReported) {
  const Timeline timeline = RandomTimeline(2).Make();
  std::string bytes = Encode(timeline);
  const size_t at = bytes.find("/host:CPU");
  bytes[at + 1] = '\xff';
  const TemporaryFile file(bytes);
  const auto counts = LintXplane(file.path(), timeline.host);
  EXPECT_NE(counts.status().message().find("UTF-8"), absl::string_view::npos) << counts.status();
}

// A file that is truncated anywhere or has one wrong byte is never read past its end and never crashes the reader. The
// comparison with the timeline always detects a truncated file.
TEST(XspaceLint, CutAndChangedFiles_DoNotCrash) {
  const Timeline timeline = RandomTimeline(4).Make();
  const std::string bytes = Encode(timeline);
  std::mt19937 random(11);
  for (int i = 0; i < 400; ++i) {
    const TemporaryFile cut(bytes.substr(0, random() % bytes.size()));
    EXPECT_FALSE(VerifyXplane(cut.path(), timeline).ok());
    std::string changed = bytes;
    changed[random() % changed.size()] = static_cast<char>(random());
    const TemporaryFile file(changed);
    VerifyXplane(file.path(), timeline).IgnoreError();
  }
}

TEST(XspaceLint, MissingFile_IsNamed) {
  const auto counts = LintXplane("/nonexistent/x.xplane.pb", "h");
  EXPECT_NE(counts.status().message().find("/nonexistent/x.xplane.pb"), absl::string_view::npos);
}

TEST(XspaceVerify, MissingEvent_IsReported) {
  Timeline timeline = RandomTimeline(6).Make();
  const TemporaryFile file(Encode(timeline));
  ASSERT_TRUE(VerifyXplane(file.path(), timeline).ok());
  for (Thread& thread : timeline.threads) {
    if (thread.events.size() < 2) continue;
    thread.events.pop_back();
    break;
  }
  EXPECT_FALSE(VerifyXplane(file.path(), timeline).ok());
}

}  // namespace
}  // namespace tbprof
