// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/input_wait.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/unit/writer/torch_maker.h"
#include "writer/outputs/summary.h"
#include "writer/outputs/xplane.h"

namespace tbprof {
namespace {

constexpr char kWorkers[] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
constexpr char kLock[] = "PyThread_acquire_lock_timed (thread_pthread.h:497)";
constexpr char kResource[] = "tensorflow::data::IteratorResource::GetNext(void*) (libtensorflow_cc.so.2)";
constexpr char kPrefetch[] = "tensorflow::data::PrefetchDatasetOp::Dataset::Iterator (libtensorflow_cc.so.2)";

class InputWaitTest : public testing::Test, protected TorchMaker {
 protected:
  void Call(const std::string& name, EventFamily family, int64_t us, const std::string& site = "",
            uint64_t descriptor = 3, int64_t value = 1) {
    uint16_t type = 0;
    while (type < timeline.types.size() && (timeline.types[type].name != name || timeline.types[type].family != family))
      ++type;
    if (type == timeline.types.size()) timeline.types.push_back({name, family});
    timeline.threads[on].events.push_back({.start_ps = now,
                                           .duration_ps = us * kUs,
                                           .object = descriptor,
                                           .value = value,
                                           .call_site = timeline.strings.Intern(site),
                                           .type = type});
    now += us * kUs;
  }
  // Adds steps of 1000 us each, of the thread `on`.
  template <typename Body>
  void Steps(const Body& body, int count = 10) {
    for (int i = 0; i < count; ++i) {
      timeline.steps.push_back({now, now + 1000 * kUs, i, "step", on});
      const int64_t end = now + 1000 * kUs;
      body();
      now = end;
    }
    timeline.step_source = StepSource::kMarked;
    timeline.step_source_text = "marks";
    Done();
  }
  InputWait Measured() { return MeasureInputWait(timeline); }

  // The numbers that TensorBoard's page calculates from the steps line.
  struct Page {
    double input = 0, running = 0, others = 0;
  };
  Page PageOf() const {
    Page page;
    double whole = 0;
    std::vector<StepEvent> events = StepEvents(timeline);
    for (const StepEvent& event : events) {
      const auto length = static_cast<double>(event.end_ps - event.start_ps);
      (event.is_marker ? whole : event.is_input ? page.input : page.running) += length;
    }
    page.others = (whole - page.input - page.running) / whole;
    page.input /= whole;
    page.running /= whole;
    return page;
  }
};

TEST_F(InputWaitTest, Loader_IsMeasured) {
  Steps([&] { Range(kWorkers, RangeOrigin::kTorchUser, 300); });
  EXPECT_EQ(Measured().state, InputWaitState::kMeasured);
  EXPECT_NEAR(Measured().share, 0.3, 1e-9);
  EXPECT_EQ(InputWaitText(Measured()), "input wait 30 % of the step (DataLoader)");
  EXPECT_NEAR(PageOf().input, 0.3, 1e-9);
}

TEST_F(InputWaitTest, ProgramThatOnlyComputes_HasNone) {
  Steps([&] { Op("mm", 900); });
  const InputWait input = Measured();
  EXPECT_EQ(input.state, InputWaitState::kNone);
  EXPECT_EQ(input.share, 0);
  EXPECT_EQ(InputWaitText(input), "no wait for input seen: at most 0.0 % of the step (no loader is known)");
  EXPECT_NEAR(PageOf().running, 1, 1e-9);
}

// queue.Queue.get in a training that another thread feeds.
TEST_F(InputWaitTest, WaitForAnotherThread_IsUnknownAndNamed) {
  Steps([&] {
    Call("sem_wait", EventFamily::kLock, 890, kLock);
    Op("mm", 100);
  });
  const InputWait input = Measured();
  EXPECT_EQ(input.state, InputWaitState::kUnknown);
  EXPECT_EQ(input.cause, InputUnknown::kWaits);
  EXPECT_NEAR(input.unknown_share, 0.89, 1e-9);
  EXPECT_EQ(InputWaitText(input),
            "input wait unknown: 89 % of the step waits in sem_wait in PyThread_acquire_lock_timed");
  ASSERT_FALSE(input.unknown.empty());
  EXPECT_EQ(input.unknown[0].name, std::string("sem_wait in ") + kLock);
  EXPECT_NEAR(PageOf().others, 0.89, 1e-9);
  EXPECT_FALSE(XplaneWarnings(timeline).empty());
  EXPECT_NE(XplaneWarnings(timeline)[0].find("input wait unknown: 89 %"), std::string::npos);
  const auto json = nlohmann::json::parse(SummaryJson(timeline, {}, {}));
  EXPECT_EQ(json["steps"]["input_wait"]["state"], "unknown");
  EXPECT_TRUE(json["steps"]["input_wait"]["share"].is_null());
  EXPECT_TRUE(json["steps"]["input_wait_share"].is_null());
}

TEST_F(InputWaitTest, ShortWaitsOfUnknownPurpose_AreWaits) {
  Steps([&] {
    for (int i = 0; i < 20; ++i) {
      Call("recv", EventFamily::kIo, 40, "sock_recv (socketmodule.c:3463)");
      now += 5 * kUs;
    }
  });
  EXPECT_NEAR(Measured().unknown_share, 0.8, 1e-9);
  EXPECT_EQ(Measured().cause, InputUnknown::kReads);
  EXPECT_NEAR(PageOf().others, 0.8, 1e-9);
}

TEST_F(InputWaitTest, QueueBehindALoader_IsReported) {
  Steps([&] {
    Range(kWorkers, RangeOrigin::kTorchUser, 10);
    Call("sem_wait", EventFamily::kLock, 800, kLock);
  });
  EXPECT_EQ(Measured().state, InputWaitState::kMeasured);
  EXPECT_EQ(InputWaitText(Measured()),
            "input wait 1 % of the step (DataLoader); 80 % in waits for an unknown purpose: sem_wait in "
            "PyThread_acquire_lock_timed");
}

TEST_F(InputWaitTest, WaitsOfOptimizerAndBackwardPass_AreNoInput) {
  const uint32_t backward = Thread();
  Steps([&] {
    Range("Optimizer.step#SGD.step", RangeOrigin::kTorchUser, [&] {
      Call("pthread_cond_wait", EventFamily::kLock, 100, "std::condition_variable::wait (libstdc++.so.6)");
    });
    Range("aten::mm", RangeOrigin::kTorchOperation,
          [&] { Call("pthread_cond_wait", EventFamily::kLock, 100, "wait (libnuma.so)"); });
    Call("write", EventFamily::kIo, 100, "_Py_write (fileutils.c:1)");
    Call("pthread_barrier_wait", EventFamily::kLock, 100, "team (program)");
    Call("sem_wait", EventFamily::kLock, 100, "omp_barrier (libgomp.so.1)");
    const int64_t begin = now;
    Call("pthread_cond_wait", EventFamily::kLock, 200, "std::condition_variable::wait (libstdc++.so.6)");
    const int64_t end = now;
    on = backward;
    now = begin + 20 * kUs;
    Backward("MmBackward0", 150);
    on = 0;
    now = end;
  });
  const InputWait input = Measured();
  EXPECT_EQ(input.state, InputWaitState::kNone) << InputWaitText(input);
  EXPECT_EQ(input.unknown_share, 0);
}

TEST_F(InputWaitTest, BatchOfAFunction_IsMeasuredOnItsThread) {
  const uint32_t taker = Thread(), filler = Thread();
  Steps([&] {
    const int64_t begin = now;
    Range("__inference_one_step_on_iterator_12", RangeOrigin::kTensorFlow, 950);
    on = taker;
    now = begin + 10 * kUs;
    Call("IteratorGetNext", EventFamily::kOther, 880, kResource);
    on = filler;
    now = begin + 10 * kUs;
    Call("IteratorGetNext", EventFamily::kOther, 930, kPrefetch);
    on = 0;
    now = begin;
  });
  EXPECT_EQ(Measured().state, InputWaitState::kMeasured);
  EXPECT_EQ(Measured().loader, "tf.data");
  EXPECT_NEAR(Measured().share, 0.88, 1e-9);
  EXPECT_NEAR(PageOf().input, 0.88, 1e-9);
  EXPECT_NEAR(PageOf().running, 0.12, 1e-9);
}

TEST_F(InputWaitTest, FunctionWithoutABatch_IsUnknown) {
  Steps([&] { Range("__inference_one_step_on_iterator_12", RangeOrigin::kTensorFlow, 950); });
  EXPECT_EQ(Measured().cause, InputUnknown::kInFunction);
  EXPECT_EQ(Measured().state, InputWaitState::kUnknown);
  EXPECT_NEAR(PageOf().others, 0.95, 1e-6);
}

TEST_F(InputWaitTest, FunctionThatIsGivenItsBatch_Computes) {
  Steps([&] { Range("__inference_train_step_12", RangeOrigin::kTensorFlow, 950); });
  EXPECT_EQ(Measured().state, InputWaitState::kNone);
}

// The time to decode the data looks like computing.
TEST_F(InputWaitTest, StepsThatReadData_AreUnknown) {
  for (const char* call : {"read", "pread64", "recv", "__read_chk"}) {
    timeline.steps.clear();
    timeline.threads[0].events.clear();
    now = 0;
    Steps([&] {
      Call(call, EventFamily::kIo, 10, "_Py_read", 7, 4096);
      Op("mm", 900);
    });
    EXPECT_EQ(Measured().cause, InputUnknown::kReads);
    EXPECT_EQ(InputWaitText(Measured()), "input wait unknown: 100 % of the steps read data themselves");
    EXPECT_GT(PageOf().others, 0.9) << "the page must not call it not input-bound";
  }
}

TEST_F(InputWaitTest, OccasionalRead_IsNotTheInput) {
  int step = 0;
  Steps([&] {
    if (++step % 4 == 0) Call("read", EventFamily::kIo, 10, "_Py_read", 9, 4096);
    Op("mm", 900);
  });
  EXPECT_EQ(Measured().state, InputWaitState::kNone);
}

TEST_F(InputWaitTest, NoStepsOrNoWaits_IsUnknown) {
  Op("mm", 900);
  Done();
  EXPECT_EQ(Measured().cause, InputUnknown::kNoSteps);
  EXPECT_EQ(InputWaitText(Measured()), "");
  Steps([&] { Op("mm", 900); });
  timeline.waits_recorded = false;
  EXPECT_EQ(Measured().cause, InputUnknown::kNotRecorded);
  timeline.waits_recorded = true;
  timeline.types.push_back({"sem_wait", EventFamily::kLock});
  OperationTotal total;
  total.type = static_cast<uint16_t>(timeline.types.size() - 1);
  total.total_ps = timeline.duration_ps / 2;
  timeline.processes[0].operations.push_back(total);
  EXPECT_EQ(Measured().cause, InputUnknown::kNotDrawn);
}

TEST_F(InputWaitTest, WaitsThatAreNotDrawn_Count) {
  Steps([&] {
    for (int i = 0; i < 3; ++i) {
      Call("sem_wait", EventFamily::kLock, 200, kLock);
      Op("mm", 100);
    }
  });
  // Keeps one event of three, as the builder does if there are too many.
  std::vector<Event>& events = timeline.threads[0].events;
  int count = 0;
  std::erase_if(events, [&](const Event& event) {
    if (timeline.types[event.type].name != "sem_wait" || count++ % 3 == 0) return false;
    timeline.threads[0].cut_waits.push_back({event.start_ps, event.duration_ps, event.call_site, event.type});
    return true;
  });
  EXPECT_NEAR(Measured().unknown_share, 0.6, 1e-9);
  EXPECT_NEAR(PageOf().others, 0.6, 1e-9);
}

// The page computes the numbers that the terminal prints, for any number of steps.
TEST_F(InputWaitTest, ManySteps_PageEqualsTheTerminal) {
  for (const int count : {100, 10'000, 64'000, 141'000, 200'000}) {
    timeline.steps.clear();
    timeline.threads[0].events.clear();
    now = 0;
    Steps(
        [&] {
          Range(kWorkers, RangeOrigin::kTorchUser, 480);
          Op("mm", 300);
          // More pieces than are drawn individually.
          for (int i = 0; i < 4; ++i) {
            Call("write", EventFamily::kIo, 20);
            now += 10 * kUs;
          }
        },
        count);
    const Page page = PageOf();
    EXPECT_NEAR(Measured().share, 0.48, 1e-6) << count;
    EXPECT_NEAR(page.input, 0.48, 1e-6) << count;
    EXPECT_NEAR(page.running, 0.44, 1e-6) << count;
    std::vector<StepEvent> events = StepEvents(timeline);
    EXPECT_EQ(std::count_if(events.begin(), events.end(), [](const StepEvent& event) { return event.is_marker; }),
              count);
    EXPECT_LE(events.size(), 800'000u);
    EXPECT_TRUE(std::is_sorted(events.begin(), events.end(), [](const StepEvent& a, const StepEvent& b) {
      return a.start_ps < b.start_ps || (a.start_ps == b.start_ps && a.end_ps > b.end_ps);
    }));
  }
}

}  // namespace
}  // namespace tbprof
