// SPDX-License-Identifier: Apache-2.0
//
// Random timelines for tests of the outputs: valid as timeline.h requires, with unusual texts and values.
#ifndef TBPROF_TESTS_UNIT_WRITER_RANDOM_TIMELINE_H_
#define TBPROF_TESTS_UNIT_WRITER_RANDOM_TIMELINE_H_

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

class RandomTimeline {
 public:
  explicit RandomTimeline(uint32_t seed) : random_(seed) {}

  Timeline Make() {
    Timeline timeline;
    timeline.host = "host" + std::to_string(Up(100)) + ".example";
    timeline.run = "2026_01_02_03_04_05";
    timeline.command_line = "python \xff\xfe train.py";
    timeline.window = "all";
    timeline.origin_unix_ns = 1'790'000'000'000'000'000 + Up(1000);
    timeline.duration_ps = kDuration;
    timeline.exit_code = 0;
    timeline.types = {
        {"pthread_mutex_lock", EventFamily::kLock, ObjectKind::kAddress, ValueKind::kNone},
        {"read", EventFamily::kIo, ObjectKind::kDescriptor, ValueKind::kBytes},
        {"poll", EventFamily::kIo, ObjectKind::kNone, ValueKind::kResult},
        {"waitpid", EventFamily::kProcess, ObjectKind::kProcessId, ValueKind::kProcessId},
        {"pthread_create", EventFamily::kThread, ObjectKind::kThread, ValueKind::kFlowOut},
        {"thread start", EventFamily::kThread, ObjectKind::kNone, ValueKind::kFlowIn},
        {"kill", EventFamily::kProcess, ObjectKind::kProcessId, ValueKind::kSignal},
        {"malloc", EventFamily::kMemory, ObjectKind::kAddress, ValueKind::kBytes},
        {"aten::mm", EventFamily::kAnnotation, ObjectKind::kNone, ValueKind::kSequence, RangeOrigin::kTorchOperation},
    };
    for (int i = 0; i < 20; ++i) texts_.push_back(timeline.strings.Intern(Text(i)));
    AddPython(timeline);

    const int processes = 1 + Up(4);
    uint64_t line_id = 0;
    for (int p = 0; p < processes; ++p) {
      Process process;
      process.pid = 1000 + Up(3);  // namespaces give two processes one pid
      process.name = p == 0 ? "python" : p == 1 ? "worker\n\"\\" : "w\xc3(";
      process.is_command = p == 0;
      process.parent = p - 1;
      if (p == 2) {
        process.state = ProcessState::kInert;
        process.reason = "no room";
      }
      timeline.processes.push_back(process);
      for (int t = 0, threads = Up(4) + (p == 0); t < threads; ++t) {
        Thread thread;
        thread.process = static_cast<uint32_t>(p);
        thread.tid = process.pid + t;
        thread.line_id = ++line_id;
        thread.name = t == 1 ? "lo\xe2\x82\xac"
                               "ader"
                             : "";
        thread.is_main = t == 0;
        if (Up(5) != 0) Fill(thread.events, 0, kDuration, 3);
        timeline.records += thread.events.size();
        timeline.threads.push_back(std::move(thread));
      }
      for (int c = 0; c < Up(3); ++c) {
        CounterTrack track;
        track.name = c == 0 ? "heap live bytes" : "threads \"running\"";
        track.series = c == 0 ? "bytes" : "";
        track.process = static_cast<uint32_t>(p);
        int64_t at = 0;
        for (int i = 0; i < Up(50); ++i) {
          at += Up(1'000'000);
          track.samples.push_back({at, static_cast<double>(Up(1 << 20))});
        }
        timeline.counters.push_back(std::move(track));
      }
    }
    AddSteps(timeline);
    timeline.drops = {{"no free chunk", static_cast<uint64_t>(Up(3))}, {"too \x80 long", 7}};
    timeline.warnings = {"line\nbreak", std::string(5000, 'x')};
    timeline.errors = {"bad \xff byte"};
    return timeline;
  }

 private:
  static constexpr int64_t kDuration = 20'000'000'000;
  static constexpr int kStacks = 20;

  int Up(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }

  std::string Text(int i) {
    switch (i) {
      case 0:
        return "group_id";  // must not become metadata
      case 1:
        return "_r";
      case 2:
        return "broken \xed\xa0\x80 text (a.cc:1)";
      case 3:
        return "quote \" and \\ and \t (b.cc:2)";
      case 4:
        return std::string(300, 'p') + "/long";
      default:
        return "Function" + std::to_string(i) + " (file.cc:" + std::to_string(i) + ")";
    }
  }

  void AddPython(Timeline& timeline) {
    timeline.python.stacks.resize(1);
    for (int i = 0; i < kStacks; ++i) {
      PythonFunction function;
      function.name = texts_[static_cast<size_t>(Up(20))];
      function.file = i == 0 ? 0 : timeline.strings.Intern("/home/\n/" + timeline.strings.Get(function.name));
      function.first_line = i;
      timeline.python.functions.push_back(function);
      const auto parent = static_cast<uint32_t>(Up(i + 1));
      timeline.python.stacks.push_back({parent, static_cast<uint32_t>(Up(i + 1)), Up(100) - 1});
    }
  }

  // Properly nested events in [from, to], sorted by start, longer first.
  void Fill(std::vector<Event>& events, int64_t from, int64_t to, int depth) {
    int64_t at = from;
    const int count = Up(30);
    for (int i = 0; i < count && at < to; ++i) {
      Event event;
      event.start_ps = at + Up(1'000'000) * int64_t{Up(1000)};
      event.duration_ps = Up(4) == 0 ? 0 : 1 + Up(1'000'000) * int64_t{Up(1000)};
      if (event.start_ps + event.duration_ps > to) break;
      at = event.start_ps + event.duration_ps + Up(2);
      event.type = static_cast<uint16_t>(Up(9));
      event.object = Up(3) == 0           ? 0
                     : random_() % 8 == 0 ? ~uint64_t{0}
                                          : 0x7f0000000000 + static_cast<uint64_t>(Up(64)) * 64;
      event.value = Up(3) == 0 ? 0 : Up(2) == 0 ? Up(20) : std::numeric_limits<int64_t>::min() + Up(10);
      event.call_site = texts_[static_cast<size_t>(Up(20))];
      event.detail = Up(4) == 0 ? texts_[static_cast<size_t>(Up(20))] : 0;
      event.python = Up(4) == 0 ? static_cast<uint32_t>(1 + Up(kStacks)) : 0;
      if (Up(5) == 0) {
        event.flags |= Event::kFailed;
        event.error = Up(2) == 0 ? EAGAIN : 4711;
      }
      if (Up(9) == 0) event.flags |= Event::kClippedAtStart;
      if (Up(9) == 0) event.flags |= Event::kClippedAtEnd;
      if (Up(9) == 0) event.flags |= Event::kOpen;
      events.push_back(event);
      if (depth > 0 && event.duration_ps > 1000) {
        const size_t parent = events.size() - 1;
        Fill(events, event.start_ps, event.start_ps + event.duration_ps, depth - 1);
        std::stable_sort(events.begin() + static_cast<ptrdiff_t>(parent), events.end(),
                         [](const Event& a, const Event& b) {
                           return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
                         });
      }
    }
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.duration_ps > b.duration_ps;
    });
  }

  void AddSteps(Timeline& timeline) {
    if (timeline.threads.empty() || Up(5) == 0) return;
    const bool synthetic = Up(2) == 0;
    timeline.step_source = synthetic ? StepSource::kWholeCapture : StepSource::kFramework;
    timeline.step_source_text = synthetic ? kWholeCaptureText : "optimizer ranges";
    timeline.step_confidence = 0.8;
    const int count = synthetic ? 1 : 1 + Up(10);
    for (int i = 0; i < count; ++i) {
      Step step;
      step.start_ps = kDuration / count * i;
      step.end_ps = step.start_ps + kDuration / count - Up(1000);
      step.number = Up(4) == 0 ? 3 : i;  // numbers may repeat
      step.name = Up(2) == 0 ? "step" : "";
      step.thread = static_cast<uint32_t>(Up(static_cast<int>(timeline.threads.size())));
      timeline.steps.push_back(step);
    }
  }

  std::mt19937 random_;
  std::vector<StringId> texts_;
};

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_WRITER_RANDOM_TIMELINE_H_
