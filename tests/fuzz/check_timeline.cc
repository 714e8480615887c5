// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/check_timeline.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/outputs/outputs.h"
#include "writer/outputs/summary.h"

namespace tbprof {
namespace {

class UnnamedFileSink : public Sink {
 public:
  // A real file: what is verified is opened by its path, and no link is followed.
  UnnamedFileSink() {
    const char* directory = getenv("TMPDIR");
    path_ = StrCat(directory != nullptr ? directory : "/tmp", "/tbprof-output-XXXXXX");
    fd_ = mkstemp(path_.data());
    Require(fd_ >= 0);
  }
  ~UnnamedFileSink() override {
    close(fd_);
    unlink(path_.c_str());
  }
  absl::Status Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t wrote = write(fd_, bytes.data(), bytes.size());
      Require(wrote > 0);
      bytes.remove_prefix(static_cast<size_t>(wrote));
      bytes_ += static_cast<uint64_t>(wrote);
    }
    return absl::OkStatus();
  }
  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

 private:
  int fd_;
  std::string path_;
  uint64_t bytes_ = 0;
};

void CheckThread(const Timeline& timeline, const Thread& thread) {
  int64_t before = 0;
  for (const Event& event : thread.events) {
    Require(event.type < timeline.types.size() && event.start_ps >= before && event.duration_ps >= 0);
    Require(event.start_ps <= timeline.duration_ps && event.duration_ps <= timeline.duration_ps - event.start_ps);
    Require(event.call_site < timeline.strings.size() && event.detail < timeline.strings.size());
    Require(event.python == 0 || event.python < timeline.python.stacks.size());
    before = event.start_ps;
  }
}

void CheckStream(const Timeline& timeline, const GpuStream& stream) {
  Require(stream.device < timeline.gpu_devices.size() && stream.process < timeline.processes.size());
  int64_t before = 0;
  for (const GpuEvent& event : stream.events) {
    Require(event.start_ps >= before && event.duration_ps > 0 && event.correlation != 0);
    Require(event.start_ps <= timeline.duration_ps && event.duration_ps <= timeline.duration_ps - event.start_ps);
    Require(event.name < timeline.strings.size());
    Require(event.kind != GpuEventKind::kKernel || event.launch < timeline.gpu_launches.size());
    before = event.start_ps;
  }
}

void CheckBlocked(const Timeline& timeline, const ThreadBlocked& thread) {
  Require(thread.thread < timeline.threads.size());
  int64_t before = 0;
  for (const BlockedRun& run : thread.runs) {
    Require(run.first_ps >= before && run.first_ps <= run.last_ps && run.last_ps <= timeline.duration_ps);
    Require(run.samples > 0 && static_cast<size_t>(run.kind) < kBlockedKinds);
    before = run.first_ps;
  }
}

void CheckPython(const Timeline& timeline, const PythonThread& thread) {
  const PythonTimeline& python = timeline.python;
  Require(thread.thread < timeline.threads.size());
  int64_t before = 0;
  for (const PythonRun& run : thread.runs) {
    Require(run.from_ps >= before && run.from_ps <= run.to_ps && run.to_ps <= timeline.duration_ps);
    Require(run.stack < python.stacks.size() && run.samples > 0 && run.on_cpu <= run.samples);
    Require(run.collecting <= run.on_cpu);
    before = run.to_ps;
  }
  std::vector<int64_t> ends;
  before = 0;
  for (const PythonSpan& span : thread.spans) {
    const int64_t end = span.start_ps + span.duration_ps;
    Require(span.start_ps >= before && span.duration_ps >= 0 && end <= timeline.duration_ps);
    Require(span.function < python.functions.size() && span.samples > 0);
    while (!ends.empty() && ends.back() <= span.start_ps) ends.pop_back();
    Require(ends.empty() || end <= ends.back());
    ends.push_back(end);
    before = span.start_ps;
  }
  for (const PythonTally& tally : thread.tallies) {
    Require(tally.stack < python.stacks.size() && tally.wall_ps >= 0);
    Require(tally.collecting_ps >= 0 && tally.collecting_ps <= tally.on_cpu_ps);
  }
}

void CheckNative(const Timeline& timeline, const NativeThread& thread) {
  const NativeTimeline& native = timeline.native;
  Require(thread.thread < timeline.threads.size());
  std::vector<int64_t> ends;
  int64_t before = 0;
  for (const NativeSpan& span : thread.spans) {
    const int64_t end = span.start_ps + span.duration_ps;
    Require(span.start_ps >= before && span.duration_ps >= 0 && end <= timeline.duration_ps);
    Require(span.stack < native.stacks.size() && span.samples > 0);
    while (!ends.empty() && ends.back() <= span.start_ps) ends.pop_back();
    Require(ends.empty() || end <= ends.back());
    ends.push_back(end);
    before = span.start_ps;
  }
  for (const NativeTally& tally : thread.tallies) Require(tally.stack < native.stacks.size() && tally.cpu_ps >= 0);
}

void CheckUsage(const Timeline& timeline, const ThreadUsage& usage) {
  Require(usage.thread < timeline.threads.size() && !usage.points.empty());
  Require(timeline.UsageOfThread(usage.thread) == &usage);
  UsagePoint before;
  for (const UsagePoint& point : usage.points) {
    Require(point.at_ps >= before.at_ps && point.at_ps <= timeline.duration_ps);
    Require(point.cpu_ps >= before.cpu_ps && point.run_delay_ps >= before.run_delay_ps);
    Require(point.major_faults >= before.major_faults);
    before = point;
  }
}

}  // namespace

void Require(bool condition, int line, const char* file) {
  if (condition) return;
  fprintf(stderr, "ERROR: requirement not met at %s:%d\n", file, line);
  abort();
}

void CheckTimeline(const absl::StatusOr<Timeline>& timeline) {
  if (!timeline.ok()) {
    Require(!timeline.status().message().empty());
    return;
  }
  for (const Thread& thread : timeline->threads) CheckThread(*timeline, thread);
  for (const GpuStream& stream : timeline->gpu_streams) CheckStream(*timeline, stream);
  const PythonTimeline& python = timeline->python;
  for (size_t i = 1; i < python.stacks.size(); ++i) {
    Require(python.stacks[i].parent < i && python.stacks[i].function < python.functions.size());
  }
  for (const PythonThread& thread : python.threads) CheckPython(*timeline, thread);
  for (const ThreadBlocked& thread : timeline->blocked) CheckBlocked(*timeline, thread);
  for (size_t i = 1; i < timeline->native.stacks.size(); ++i) Require(timeline->native.stacks[i].parent < i);
  for (const NativeThread& thread : timeline->native.threads) CheckNative(*timeline, thread);
  for (const ThreadUsage& usage : timeline->usage) CheckUsage(*timeline, usage);
  Require(timeline->cpu_limits.cpus_allowed >= 0 && timeline->cpu_limits.throttled_ps >= -1);
  for (const CallSiteTotal& site : timeline->wait_sites) Require(site.python < timeline->strings.size());
  for (const AllocationSiteTotal& site : timeline->allocation_sites) {
    Require(site.python < timeline->strings.size() && (site.python == 0) == (site.python_stack == 0));
    Require(site.python_stack == 0 || site.python_stack < python.stacks.size());
  }
  std::vector<PublishedFile> files;
  for (const Output& output : Outputs()) {
    UnnamedFileSink sink;
    Require(output.write(*timeline, sink).ok());
    PublishedFile file;
    file.path = StrCat("/logdir/plugins/profile/run/", output.name);
    file.bytes = sink.bytes();
    if (output.verify != nullptr) {
      const absl::StatusOr<std::string> verified = output.verify(sink.path(), *timeline);
      if (!verified.ok()) fprintf(stderr, "%s: %s\n", file.path.c_str(), verified.status().ToString().c_str());
      Require(verified.ok());
      file.verified = *verified;
    }
    files.push_back(std::move(file));
  }
  SummaryOptions options;
  options.logdir = "/logdir";
  for (const std::string& line : SummaryText(*timeline, files, options)) {
    Require(PrintableUtf8(line) == line && line.size() <= 4096);
  }
  Require(nlohmann::json::parse(SummaryJson(*timeline, files, options), nullptr, false).is_object());
}

}  // namespace tbprof
