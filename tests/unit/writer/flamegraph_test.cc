// SPDX-License-Identifier: Apache-2.0
//
// Flame graphs of timelines made by hand.
#include "writer/outputs/flamegraph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/unit/writer/spool_maker.h"
#include "tests/unit/writer/string_sink.h"
#include "writer/outputs/outputs.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000'000;  // picoseconds

class FlamegraphTest : public testing::Test {
 protected:
  FlamegraphTest() {
    timeline_.run = "2026_01_02_03_04_05";
    timeline_.host = "node1";
    timeline_.command_line = "python train.py";
    timeline_.duration_ps = 2000 * kMs;
    timeline_.processes.resize(1);
    timeline_.processes[0].pid = 100;
    timeline_.processes[0].name = "train.py";
    timeline_.threads.resize(2);
    timeline_.threads[0].tid = 100;
    timeline_.threads[1].tid = 101;
    timeline_.threads[1].name = "Loader";
    timeline_.python.stacks.resize(1);
    timeline_.native.stacks.resize(1);
  }

  // Returns the stack of a function that is called by another.
  uint32_t Python(uint32_t caller, const std::string& name, const std::string& file = "/home/u/train.py") {
    PythonFunction function;
    function.name = function.label = timeline_.strings.Intern(name);
    function.file = timeline_.strings.Intern(file);
    timeline_.python.functions.push_back(function);
    const auto index = static_cast<uint32_t>(timeline_.python.functions.size() - 1);
    timeline_.python.stacks.push_back({caller, index, 1});
    return static_cast<uint32_t>(timeline_.python.stacks.size() - 1);
  }
  uint32_t Native(uint32_t caller, const std::string& name) {
    NativeStack stack;
    stack.parent = caller;
    stack.function = timeline_.strings.Intern(name);
    stack.module = timeline_.strings.Intern("libwork.so");
    timeline_.native.stacks.push_back(stack);
    return static_cast<uint32_t>(timeline_.native.stacks.size() - 1);
  }
  void AddPython(uint32_t thread, std::vector<PythonTally> tallies) {
    PythonThread samples;
    samples.thread = thread;
    samples.tallies = std::move(tallies);
    timeline_.python.threads.push_back(std::move(samples));
  }
  void AddNative(uint32_t thread, std::vector<NativeTally> tallies) {
    NativeThread samples;
    samples.thread = thread;
    samples.tallies = std::move(tallies);
    timeline_.native.threads.push_back(std::move(samples));
  }
  static PythonTally Tally(uint32_t stack, uint64_t samples, int64_t wall_ms, int64_t cpu_ms) {
    PythonTally tally;
    tally.stack = stack;
    tally.samples = samples;
    tally.wall_ps = wall_ms * kMs;
    tally.on_cpu_ps = cpu_ms * kMs;
    return tally;
  }

  std::string Page() {
    StringSink sink;
    EXPECT_TRUE(WriteFlamegraph(timeline_, sink).ok());
    return sink.bytes();
  }
  absl::StatusOr<std::string> Verified(const std::string& page) {
    const TemporaryPath file("flamegraph");
    file.Write(page);
    return VerifyFlamegraph(file.path(), timeline_);
  }
  static std::string DataText(const std::string& page) {
    constexpr std::string_view kBegin = "<script type=\"application/json\" id=\"data\">";
    const size_t begin = page.find(kBegin) + kBegin.size();
    return page.substr(begin, page.find("</script>", begin) - begin);
  }
  Json Data() { return Json::parse(DataText(Page())); }
  // `depth name samples/ms`, of the whole tree.
  static std::vector<std::string> Nodes(const Json& data, size_t index, const char* time = "time_ns") {
    std::vector<std::string> out;
    const Json& tree = data["trees"][index];
    for (size_t i = 0; i < tree["depth"].size(); ++i) {
      const auto frame = tree["frame"][i].get<size_t>();
      const auto name = tree["frames"][4 * frame].get<size_t>();
      out.push_back(std::to_string(tree["depth"][i].get<int>()) + " " + data["strings"][name].get<std::string>() + " " +
                    std::to_string(tree["samples"][i].get<int>()) + "/" +
                    std::to_string(tree[time][i].get<int64_t>() / 1'000'000));
    }
    return out;
  }

  Timeline timeline_;
};

TEST_F(FlamegraphTest, PythonAndNativeStacks_AreTreesOfTheirOwn) {
  const uint32_t main = Python(0, "main"), step = Python(main, "step"), load = Python(main, "load");
  AddPython(0, {Tally(0, 1, 10, 0), Tally(main, 2, 20, 5), Tally(step, 30, 300, 290)});
  AddPython(1, {Tally(load, 4, 400, 7)});
  const uint32_t start = Native(0, "_start"), multiply = Native(start, "gemm");
  AddNative(0, {{multiply, 9, 90 * kMs}});
  const Json data = Data();
  ASSERT_EQ(data["trees"].size(), 2u);
  EXPECT_EQ(data["trees"][0]["kind"], "python");
  EXPECT_THAT(Nodes(data, 0),
              ElementsAre("0 all threads 0/0", "1 train.py (100) 0/0", "2 Loader/101 0/0", "3 main 0/0", "4 load 4/400",
                          "2 train.py/100 0/0", "3 main 2/20", "4 step 30/300", "3 (no Python frames) 1/10"));
  EXPECT_EQ(Nodes(data, 0, "cpu_ns")[7], "4 step 30/290");
  EXPECT_EQ(data["trees"][1]["kind"], "native");
  EXPECT_THAT(Nodes(data, 1), ElementsAre("0 all threads 0/0", "1 train.py (100) 0/0", "2 train.py/100 0/0",
                                          "3 _start [libwork.so] 0/0", "4 gemm [libwork.so] 9/90"));
  EXPECT_FALSE(data["trees"][1].contains("cpu_ns"));
  EXPECT_TRUE(data["empty"].is_null());
  const auto verified = Verified(Page());
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(*verified, "verified: 14 nodes, 46 samples");
}

TEST_F(FlamegraphTest, LinesOfAFunction_AreOneNode) {
  const uint32_t main = Python(0, "main");
  timeline_.python.stacks.push_back({0, timeline_.python.stacks[main].function, 7});
  AddPython(0, {Tally(main, 1, 10, 0), Tally(main + 1, 2, 20, 0)});
  EXPECT_THAT(Nodes(Data(), 0),
              ElementsAre("0 all threads 0/0", "1 train.py (100) 0/0", "2 train.py/100 0/0", "3 main 3/30"));
}

TEST_F(FlamegraphTest, Frames_HaveTheirOrigin) {
  const uint32_t main = Python(0, "main");
  AddPython(0, {Tally(Python(main, "dot", "/usr/lib/python3.11/site-packages/numpy/core.py"), 1, 10, 0)});
  const Json data = Data();
  std::vector<int> origins;
  for (size_t i = 3; i < data["trees"][0]["frames"].size(); i += 4) origins.push_back(data["trees"][0]["frames"][i]);
  EXPECT_THAT(origins, ElementsAre(0, 1, 2, 3, 4));
}

// A name that ended the script element would run as part of the page.
TEST_F(FlamegraphTest, HostileNames_StayInTheData) {
  const std::string name = "</script><script>alert(\"1\")</script><!-- & \xe2\x80\xa8\xe2\x80\xa9\x80\x01'";
  AddPython(0, {Tally(Python(0, name, "/tmp/<b>.py"), 1, 10, 0)});
  timeline_.threads[0].name = "<img src=x>";
  timeline_.command_line = "python -c '</script>'";
  timeline_.warnings = {"Python stacks: </script>", "other"};
  const std::string page = Page(), text = DataText(page);
  EXPECT_EQ(page.find("alert("), page.find(text) + text.find("alert("));
  EXPECT_EQ(page.rfind("alert("), page.find("alert("));
  for (const char* part : {"<", ">", "&", "\xe2\x80\xa8", "\xe2\x80\xa9", "\x80"})
    EXPECT_THAT(text, Not(HasSubstr(part)));
  const Json data = Json::parse(text);
  EXPECT_EQ(data["title"], "python -c '</script>'");
  EXPECT_THAT(data["notes"], ElementsAre("Python stacks: </script>"));
  const std::vector<std::string> nodes = Nodes(data, 0);
  EXPECT_EQ(nodes[2], "2 <img src=x>/100 0/0");
  EXPECT_EQ(nodes[3], "3 </script><script>alert(\"1\")</script><!-- & \\xe2\\x80\\xa8\\xe2\\x80\\xa9\\x80\\x01' 1/10");
  EXPECT_TRUE(Verified(page).ok());
}

TEST_F(FlamegraphTest, MoreNodesThanTheLimit_ShortestAreOne) {
  constexpr int kFunctions = 120'000;
  const uint32_t main = Python(0, "main"), other = Python(0, "other");
  std::vector<PythonTally> tallies;
  for (int i = 0; i < kFunctions; ++i) {
    tallies.push_back(Tally(Python(main, "f" + std::to_string(i)), 1, i < 10 ? 1000 + i : 1, 0));
  }
  tallies.push_back(Tally(Python(other, "long"), 1, 10'000'000, 0));
  AddPython(0, std::move(tallies));
  const std::string page = Page();
  const Json data = Json::parse(DataText(page));
  const std::vector<std::string> nodes = Nodes(data, 0);
  EXPECT_LE(nodes.size(), 100'000u);
  EXPECT_GT(nodes.size(), 99'000u);
  EXPECT_EQ(nodes[4], "4 long 1/10000000");
  EXPECT_EQ(nodes[6], "4 f9 1/1009");
  const uint64_t merged = data["trees"][0]["merged"];
  EXPECT_EQ(merged, kFunctions + 6 - (nodes.size() - 1));
  const std::string number = std::to_string(merged);
  EXPECT_EQ(nodes.back(), "4 (" + number + " smaller) " + number + "/" + number);
  const auto verified = Verified(page);
  EXPECT_TRUE(verified.ok()) << verified.status();
}

// With each that is left out, its caller gets another node: only leaving out callers, too, makes the page smaller.
TEST_F(FlamegraphTest, OneCalleeOfEachOfManyCallers_IsWithinTheLimit) {
  std::vector<PythonTally> tallies;
  for (int i = 0; i < 50'000; ++i) {
    const uint32_t caller = Python(0, "f" + std::to_string(i));
    tallies.push_back(Tally(caller, 2, 20, 0));
    tallies.push_back(Tally(Python(caller, "g" + std::to_string(i)), 1, 10, 0));
  }
  AddPython(0, std::move(tallies));
  const std::string page = Page();
  const std::vector<std::string> nodes = Nodes(Json::parse(DataText(page)), 0);
  EXPECT_LE(nodes.size(), 100'000u);
  EXPECT_GT(nodes.size(), 99'990u);
  EXPECT_TRUE(Verified(page).ok());
}

TEST_F(FlamegraphTest, DeepAndShortNodesBeyondTheLimit_AreOnePerCaller) {
  std::vector<PythonTally> tallies;
  for (int i = 0; i < 600; ++i) {
    uint32_t stack = Python(0, "top" + std::to_string(i));
    for (int depth = 0; depth < 200; ++depth) stack = Python(stack, "d" + std::to_string(depth));
    tallies.push_back(Tally(stack, 1, 1 + i, 0));
  }
  AddPython(0, std::move(tallies));
  const std::string page = Page();
  EXPECT_LE(Json::parse(DataText(page))["trees"][0]["depth"].size(), 100'000u);
  const auto verified = Verified(page);
  EXPECT_TRUE(verified.ok()) << verified.status();
}

TEST_F(FlamegraphTest, NoSamples_PageSaysWhy) {
  EXPECT_THAT(Data()["empty"].get<std::string>(), HasSubstr("--sample-rate=0"));
  timeline_.python.processes.push_back({0, PythonSampling::kRefused, "Python stacks: not sampled, denied"});
  timeline_.warnings = {"Python stacks: not sampled, denied (train.py 100)"};
  const Json data = Data();
  EXPECT_THAT(data["empty"].get<std::string>(), HasSubstr("could not be sampled"));
  EXPECT_THAT(data["notes"], ElementsAre("Python stacks: not sampled, denied (train.py 100)"));
  EXPECT_TRUE(data["trees"].empty());
  const auto verified = Verified(Page());
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(*verified, "verified: 0 nodes, 0 samples");
}

TEST_F(FlamegraphTest, TimesBeyondTheirType_AreClamped) {
  const uint32_t main = Python(0, "main");
  AddPython(0, {Tally(main, 1, 0, 0)});
  AddNative(0, {{Native(0, "a"), UINT64_MAX, INT64_MAX}, {Native(0, "b"), 1, -5}});
  timeline_.python.threads[0].tallies[0].wall_ps = INT64_MIN;
  const auto verified = Verified(Page());
  EXPECT_TRUE(verified.ok()) << verified.status();
}

TEST_F(FlamegraphTest, Page_AllowsNothingFromOutside) {
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"));
  for (const char* part : {"http:", "https:", "src=", "@import", "url(", "innerHTML", "@DATA@", "@SCRIPT@"}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
}

TEST_F(FlamegraphTest, DamagedFile_IsRefused) {
  const uint32_t main = Python(0, "main");
  AddPython(0, {Tally(Python(main, "step"), 31, 310, 0), Tally(main, 2, 20, 0)});
  const std::string page = Page();
  ASSERT_TRUE(Verified(page).ok());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string damaged = page;
    const size_t at = damaged.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? damaged : damaged.replace(at, from.size(), to);
  };
  EXPECT_FALSE(Verified("").ok());
  EXPECT_FALSE(Verified(page.substr(0, page.size() - 2)).ok());
  EXPECT_FALSE(Verified(with(",2,31]", ",2,30]")).ok());                      // a sample less
  EXPECT_FALSE(Verified(with(",20000000,310000000]", ",20000000,1]")).ok());  // another time
  EXPECT_FALSE(Verified(with("\"depth\":[0,1,2,3,4]", "\"depth\":[0,1,2,4,4]")).ok());
  EXPECT_FALSE(Verified(with("\"depth\":[0,1,2,3,4]", "\"depth\":[0,1,2,3]")).ok());
  EXPECT_FALSE(Verified(with("\"frame\":[0,1,2,3,4]", "\"frame\":[0,1,2,3,5]")).ok());
  EXPECT_FALSE(Verified(with("\"kind\":\"python\"", "\"kind\":7")).ok());
  EXPECT_FALSE(Verified(with("\"trees\":[", "\"trees\":[7,")).ok());
  EXPECT_FALSE(Verified(with("\"strings\":[", "\"strings\":[<")).ok());
  EXPECT_FALSE(VerifyFlamegraph("/nonexistent/page.html", timeline_).ok());
}

}  // namespace
}  // namespace tbprof
