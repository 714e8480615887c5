// SPDX-License-Identifier: Apache-2.0
// Children by fork, exec, posix_spawn, system; Python's workers.
#include <gmock/gmock.h>
#include <unistd.h>

#include <set>

#include "harness.h"

namespace tbprof::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// The events of a process's main thread: its line is `<name>/<tid>`. Its plane is `/host:CPU <name> NN pid <pid>`, but
// `/host:CPU` for the one whose steps count and `/host:CPU ~ N short processes` for many short ones.
std::vector<Event> EventsOf(const Profile& profile, uint64_t pid) {
  std::vector<Event> events;
  for (const Event& event : profile.events()) {
    if (event.line.ends_with("/" + std::to_string(pid))) events.push_back(event);
  }
  return events;
}

std::vector<Event> Named(const std::vector<Event>& events, std::string_view name) {
  std::vector<Event> found;
  for (const Event& event : events) {
    if (event.name == name) found.push_back(event);
  }
  return found;
}

// The process's entry in the summary.
nlohmann::json ProcessOf(const RunResult& result, uint64_t pid) {
  for (const auto& process : result.summary["processes"]) {
    if (process["pid"] == pid) return process;
  }
  return nullptr;
}

TEST(Fork, EachChild_HasItsOwnLine) {
  const Pair pair = RunBoth(Program("forks"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  std::set<std::string> lines;
  for (const char* child : {"exits", "leaves", "is_killed", "grandchild"}) {
    const uint64_t pid = pair.profiled.Fact(child);
    const std::vector<Event> sleeps = Named(EventsOf(profile, pid), "usleep");
    ASSERT_THAT(sleeps, SizeIs(1)) << child << " " << pid;
    const std::string& plane = sleeps[0].plane;
    EXPECT_TRUE(plane == "/host:CPU" || plane.ends_with(" pid " + std::to_string(pid)) ||
                plane.ends_with(" short processes"))
        << plane;
    EXPECT_TRUE(lines.insert(plane + "|" + sleeps[0].line).second) << "each has a line of its own";
    EXPECT_THAT(sleeps[0].line, HasSubstr("forks"));
    EXPECT_TRUE(ProcessOf(pair.profiled, pid)["forked"]) << child;
  }
  EXPECT_EQ(profile.Named("usleep", "ChildWork")[0].Stat("call_site"), SiteAt("ChildWork", "forks.c", "child work"));
  const nlohmann::json grandchild = ProcessOf(pair.profiled, pair.profiled.Fact("grandchild"));
  const int parent = grandchild["parent"];
  ASSERT_GE(parent, 0);
  EXPECT_EQ(pair.profiled.summary["processes"][parent]["pid"], pair.profiled.Fact("grandparent"));
  // The parent's side: fork with the child's number, and the waits.
  const uint64_t main_pid = pair.profiled.summary["processes"][0]["pid"];
  int waits = 0;
  for (const Event& event : Named(EventsOf(profile, main_pid), "waitpid")) {
    if (event.Has("error")) continue;
    ++waits;
    EXPECT_EQ(event.Stat("call_site"), SiteAt("WaitFor", "forks.c", "waitpid"));
    EXPECT_TRUE(event.Has("process")) << event;
  }
  EXPECT_EQ(waits, 5);
  std::set<int64_t> made;
  for (const Event& event : profile.Named("fork", "main")) made.insert(event.Number("process"));
  for (const char* child : {"exits", "leaves", "is_killed"}) {
    EXPECT_EQ(made.count(static_cast<int64_t>(pair.profiled.Fact(child))), 1u) << child;
  }
  ASSERT_THAT(profile.Named("waitid", "main"), SizeIs(1));
  int no_child = 0;
  for (const Event& event : profile.Named("waitpid", "main")) no_child += event.Stat("error") == "ECHILD";
  EXPECT_EQ(no_child, 1);
}

// The harness reads stats into a map, which would hide a second stat of the same name.
int EventsWithAStatTwice(const Profile& profile) {
  int found = 0;
  for (const auto& plane : profile.space().planes()) {
    for (const auto& line : plane.lines()) {
      for (const auto& event : line.events()) {
        std::set<int64_t> ids;
        bool twice = false;
        for (const auto& stat : event.stats()) twice |= !ids.insert(stat.metadata_id()).second;
        found += twice ? 1 : 0;
      }
    }
  }
  return found;
}

TEST(Wait, ProcessWaitedFor_IsCountedOnce) {
  const Pair pair = RunBoth(Program("forks"), {}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(EventsWithAStatTwice(*pair.profiled.profile), 0);
  std::set<int64_t> waited_for;
  for (const Event& event : pair.profiled.profile->Named("waitpid")) waited_for.insert(event.Number("process"));
  for (const char* child : {"exits", "leaves", "is_killed"}) {
    EXPECT_EQ(waited_for.count(static_cast<int64_t>(pair.profiled.Fact(child))), 1u) << child;
  }
}

// A forked child that executes a program is one process from its fork on, named by that program.
TEST(ForkAndExec, Child_IsCountedOnce) {
  const Pair pair = RunBoth(Program("fork_exec_storm"), {"3", "1"}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const nlohmann::json& summary = pair.profiled.summary;
  EXPECT_EQ(summary["process_count"], 4) << summary["processes"];
  EXPECT_EQ(summary["processes"].size(), 4u) << summary["processes"];
  EXPECT_EQ(summary["threads"], 4);
  EXPECT_TRUE(pair.profiled.Printed("4 processes, 4 threads")) << pair.profiled.AllPrinted();
  for (size_t i = 1; i < summary["processes"].size(); ++i) {
    const nlohmann::json& child = summary["processes"][i];
    EXPECT_EQ(child["forked"], false) << child;
    EXPECT_EQ(child["parent"], 0) << child;
    EXPECT_EQ(child["arguments"][1], "child") << child;
  }
  // The exec call is on the line of the executed program.
  for (const Event& exec : pair.profiled.profile->Named("execl")) {
    int starts = 0;
    for (const Event& start : pair.profiled.profile->Named("thread start")) {
      if (start.line != exec.line || start.plane != exec.plane) continue;
      ++starts;
      EXPECT_LE(start.start_ps, exec.start_ps);
    }
    EXPECT_EQ(starts, 1) << exec;
  }
}

class ExecFamily : public testing::TestWithParam<const char*> {};

TEST_P(ExecFamily, BothImages_AreInTheProfile) {
  const Pair pair = RunBoth(Program("execs"), {GetParam()}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 17);
  const Profile& profile = *pair.profiled.profile;
  EXPECT_EQ(profile.Named("usleep", "main").size(), 1u);
  EXPECT_EQ(profile.Named("usleep", "PrintEnd").size(), 1u);
  const std::vector<Event> execs = profile.Named(GetParam());
  ASSERT_THAT(execs, SizeIs(1));
  if (std::string(GetParam()) != "fexecve") {
    EXPECT_THAT(execs[0].Stat("detail"), HasSubstr("execs"));
  }
  EXPECT_EQ(pair.profiled.summary["processes"].size(), 2u);
}
INSTANTIATE_TEST_SUITE_P(All, ExecFamily,
                         testing::Values("execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve",
                                         "execveat"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(Exec, LostEnvironment_IsReported) {
  const Pair pair = RunBoth(Program("execs"), {"clean"});
  ASSERT_TRUE(pair.Same());
  EXPECT_TRUE(pair.profiled.profile->Named("usleep", "PrintEnd").empty());
  EXPECT_TRUE(pair.profiled.profile->HasWarning("without tbprof's LD_PRELOAD")) << "never silently empty";
}

TEST(Exec, Failed_ProgramContinues) {
  const Pair pair = RunBoth(Program("execs"), {"fail"});
  ASSERT_TRUE(pair.Same());
  int failed = 0;
  for (const Event& event : pair.profiled.profile->Named("execv")) failed += event.Stat("error") == "ENOENT";
  EXPECT_EQ(failed, 1);
}

TEST(Spawn, Children_AreInTheProfile) {
  const Pair pair = RunBoth(Program("execs"), {"spawn"}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  EXPECT_THAT(profile.Named("usleep", "PrintEnd"), SizeIs(2));
  int failed = 0;
  for (const Event& event : profile.Named("posix_spawn", "main")) failed += event.Stat("error") == "ENOENT";
  EXPECT_EQ(failed, 1);
  EXPECT_THAT(profile.Named("posix_spawn", "main"), SizeIs(2));
  EXPECT_THAT(profile.Named("posix_spawnp", "main"), SizeIs(1));
  EXPECT_FALSE(EventsOf(profile, pair.profiled.Fact("end_pid")).empty());
}

TEST(Spawn, Vfork_ChildIsInTheProfile) {
  const Pair pair = RunBoth(Program("execs"), {"vfork"}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  EXPECT_THAT(pair.profiled.profile->Named("usleep", "PrintEnd"), SizeIs(1));
  EXPECT_FALSE(EventsOf(*pair.profiled.profile, pair.profiled.Fact("end_pid")).empty());
  EXPECT_EQ(pair.profiled.summary["records"]["corrupt"], 0);
}

TEST(System, ShellAndItsChild_AreInTheProfile) {
  const Pair pair = RunBoth(Program("execs"), {"system"}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  const std::vector<Event> systems = profile.Named("system", "main");
  ASSERT_THAT(systems, SizeIs(1));
  const std::vector<Event> inside = profile.Named("usleep", "PrintEnd");
  ASSERT_THAT(inside, SizeIs(1));
  EXPECT_LE(systems[0].start_ps, inside[0].start_ps);
  EXPECT_GE(systems[0].end_ps(), inside[0].end_ps());
}

// ---- Python

constexpr char kPython[] = "/usr/bin/python3";

class Python : public testing::Test {
 protected:
  void SetUp() override {
    if (access(kPython, X_OK) != 0) GTEST_SKIP() << kPython << " is not installed";
  }
};

TEST_F(Python, PlainScript_IsAsBare) {
  const std::string script = "import json, sys\nprint(json.dumps({'a': [1, 2, sys.argv[1]]}))\nsys.exit(3)\n";
  const Pair pair = RunBoth(kPython, {"-c", script, "word"});
  ASSERT_TRUE(pair.Same());
  EXPECT_EQ(pair.profiled.code(), 3);
  EXPECT_EQ(pair.profiled.out, "{\"a\": [1, 2, \"word\"]}\n");
}

// Workers that end like those of multiprocessing (fork) and PyTorch's DataLoader: by os._exit, without destructors.
constexpr char kForkWorkers[] = R"(
import multiprocessing, os, sys, time
def work(number, queue):
    time.sleep(0.02)
    queue.put((number, os.getpid()))
context = multiprocessing.get_context('fork')
queue = context.Queue()
workers = [context.Process(target=work, args=(i, queue)) for i in range(4)]
for worker in workers: worker.start()
seen = dict(queue.get() for _ in workers)
for worker in workers: worker.join()
print(sorted(seen), [worker.exitcode for worker in workers])
with open(os.environ['TEST_FACTS'], 'a') as facts:
    for number, pid in seen.items(): facts.write(f'worker{number} {pid}\n')
)";

TEST_F(Python, ForkWorkers_AreInTheProfile) {
  const Pair pair = RunBoth(kPython, {"-c", kForkWorkers});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  for (int i = 0; i < 4; ++i) {
    const uint64_t pid = pair.profiled.Fact("worker" + std::to_string(i));
    const std::vector<Event> sleeps = Named(EventsOf(profile, pid), "clock_nanosleep");
    ASSERT_THAT(sleeps, SizeIs(1)) << pid;
    EXPECT_GE(sleeps[0].milliseconds(), 20);
  }
}

constexpr char kLoader[] = R"(
import os, sys, time
def loader(number, requests, results):
    count = 0
    while True:
        word = os.read(requests, 4)
        if word == b'stop': break
        time.sleep(0.001)
        os.write(results, b'%04d' % number)
        count += 1
    os.write(2, b'')
    os._exit(0)
workers = []
for number in range(2):
    request, result = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0: loader(number, request[0], result[1])
    workers.append((pid, request[1], result[0]))
total = 0
for batch in range(50):
    pid, request, result = workers[batch % 2]
    os.write(request, b'next')
    total += int(os.read(result, 4))
for pid, request, result in workers:
    os.write(request, b'stop')
    print(os.waitpid(pid, 0)[1])
print(total)
with open(os.environ['TEST_FACTS'], 'a') as facts:
    for number, worker in enumerate(workers): facts.write(f'worker{number} {worker[0]}\n')
)";

TEST_F(Python, LoaderWorkersLeftByExit_HaveAllTheirEvents) {
  const Pair pair = RunBoth(kPython, {"-c", kLoader}, {"--wait-threshold=0"});
  ASSERT_TRUE(pair.Same());
  const Profile& profile = *pair.profiled.profile;
  for (int i = 0; i < 2; ++i) {
    int reads = 0, sleeps = 0, writes = 0;
    for (const Event& event : EventsOf(profile, pair.profiled.Fact("worker" + std::to_string(i)))) {
      reads += event.name == "read" && event.Number("bytes") == 4;
      sleeps += event.name == "clock_nanosleep";
      writes += event.name == "write" && event.Number("bytes") == 4;
    }
    EXPECT_EQ(reads, 26);
    EXPECT_EQ(sleeps, 25);
    EXPECT_EQ(writes, 25);
  }
}

}  // namespace
}  // namespace tbprof::integration
