// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/speedscope.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "writer/base/saturating.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/native_totals.h"
#include "writer/convert/python_totals.h"

namespace tbprof {
namespace {

// Most frames in all stacks of a thread: a file with 100 threads still opens.
constexpr uint64_t kMostFramesOfThread = 4'000'000;
constexpr size_t kBufferBytes = 1 << 16;

// A stack and its duration. Stack 0: no sample, or no frames.
using Weight = std::pair<uint32_t, int64_t>;

std::string Quoted(std::string_view text) { return nlohmann::json(ValidUtf8(text)).dump(); }

std::string ThreadTitle(const Timeline& timeline, uint32_t index, bool is_sum) {
  const Thread& thread = timeline.threads[index];
  const Process& process = timeline.processes[thread.process];
  const std::string& name = thread.name.empty() ? process.name : thread.name;
  return StrCat(process.name, " (", process.pid, ") ", name, "/", thread.tid, is_sum ? " (stacks added up)" : "");
}

class SpeedscopeWriter {
 public:
  SpeedscopeWriter(const Timeline& timeline, Sink* sink)
      : timeline_(timeline),
        python_(timeline.python),
        sink_(*sink),
        same_(StacksWithoutLines(timeline.python)),
        same_native_(NativeStacksWithoutLines(timeline.native)) {
    depths_.resize(python_.stacks.size());
    for (size_t i = 1; i < depths_.size(); ++i) depths_[i] = depths_[python_.stacks[i].parent] + 1;
  }

  absl::Status Write() {
    text_ =
        StrCat("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"tbprof\",\"name\":",
               Quoted(StrCat(timeline_.host, " ", timeline_.run)), ",\"shared\":{\"frames\":[");
    for (size_t i = 0; i < python_.functions.size(); ++i) {
      const PythonFunction& function = python_.functions[i];
      StrAppend(&text_, i == 0 ? "\n" : ",\n", "{\"name\":", Quoted(timeline_.strings.Get(function.name)),
                ",\"file\":", Quoted(timeline_.strings.Get(function.file)), ",\"line\":", function.first_line, "}");
      Flush(kBufferBytes);
    }
    WriteNativeFrames();
    text_ += "]},\"profiles\":[";
    for (size_t i = 0; i < python_.threads.size(); ++i) {
      text_ += i == 0 ? "\n" : ",\n";
      WriteThread(python_.threads[i]);
    }
    for (size_t i = 0; i < timeline_.native.threads.size(); ++i) {
      text_ += i + python_.threads.size() == 0 ? "\n" : ",\n";
      WriteNative(timeline_.native.threads[i]);
    }
    text_ += "]}\n";
    Flush(0);
    return status_;
  }

 private:
  // The native frames follow the Python frames.
  void WriteNativeFrames() {
    const NativeTimeline& native = timeline_.native;
    std::map<std::pair<StringId, StringId>, uint32_t> known;
    native_frames_.resize(native.stacks.size());
    for (size_t i = 1; i < native.stacks.size(); ++i) {
      const NativeStack& stack = native.stacks[i];
      const auto next = static_cast<uint32_t>(python_.functions.size() + known.size());
      const auto [found, added] = known.try_emplace({stack.function, stack.module}, next);
      native_frames_[i] = found->second;
      if (!added) continue;
      StrAppend(&text_, next == 0 ? "\n" : ",\n", "{\"name\":", Quoted(timeline_.strings.Get(stack.function)),
                ",\"file\":", Quoted(timeline_.strings.Get(stack.module)), "}");
      Flush(kBufferBytes);
    }
  }

  // CPU time, summed by stack.
  void WriteNative(const NativeThread& thread) {
    std::map<uint32_t, int64_t> sums;
    for (const NativeTally& tally : thread.tallies)
      AddSaturating(&sums[same_native_[tally.stack]], tally.cpu_ps / 1000);
    int64_t end_ns = 0;
    for (const auto& [stack, weight] : sums) AddSaturating(&end_ns, weight);
    StrAppend(&text_, "{\"type\":\"sampled\",\"unit\":\"nanoseconds\",\"name\":",
              Quoted(StrCat("native ", ThreadTitle(timeline_, thread.thread, true))),
              ",\"startValue\":0,\"endValue\":", end_ns, ",\n\"samples\":[");
    const char* separator = "[";
    for (const auto& [innermost, weight] : sums) {
      std::vector<uint32_t> frames;
      for (uint32_t at = innermost; at != 0; at = timeline_.native.stacks[at].parent)
        frames.push_back(native_frames_[at]);
      text_ += separator;
      for (; !frames.empty(); frames.pop_back()) StrAppend(&text_, frames.back(), frames.size() > 1 ? "," : "");
      text_ += "]";
      separator = ",[";
      Flush(kBufferBytes);
    }
    text_ += "],\n\"weights\":[";
    separator = "";
    for (const auto& [innermost, weight] : sums) {
      StrAppend(&text_, separator, weight);
      separator = ",";
    }
    text_ += "]}";
  }

  void WriteThread(const PythonThread& thread) {
    int64_t start_ns = 0;
    std::vector<Weight> weights = InOrder(thread, &start_ns);
    const bool is_sum = weights.empty();
    if (is_sum) weights = Sums(thread);
    int64_t end_ns = start_ns;
    for (const Weight& weight : weights) AddSaturating(&end_ns, weight.second);
    StrAppend(&text_, "{\"type\":\"sampled\",\"unit\":\"nanoseconds\",\"name\":",
              Quoted(ThreadTitle(timeline_, thread.thread, is_sum)), ",\"startValue\":", start_ns,
              ",\"endValue\":", end_ns, ",\n\"samples\":[");
    for (size_t i = 0; i < weights.size(); ++i) {
      if (i > 0) text_ += ",";
      WriteStack(weights[i].first);
      Flush(kBufferBytes);
    }
    text_ += "],\n\"weights\":[";
    for (size_t i = 0; i < weights.size(); ++i) {
      StrAppend(&text_, i > 0 ? "," : "", weights[i].second);
      Flush(kBufferBytes);
    }
    text_ += "]}";
  }

  // Returns an empty vector if there are too many frames, or if samples have no run.
  std::vector<Weight> InOrder(const PythonThread& thread, int64_t* start_ns) const {
    std::vector<Weight> weights;
    uint64_t frames = 0, samples = 0, tallied = 0;
    int64_t at_ns = thread.runs.empty() ? 0 : thread.runs[0].from_ps / 1000;
    const int64_t first_ns = at_ns;
    const auto add = [&](uint32_t stack, int64_t to_ns) {
      if (to_ns <= at_ns) return;
      if (!weights.empty() && weights.back().first == stack) {
        weights.back().second += to_ns - at_ns;
      } else {
        weights.emplace_back(stack, to_ns - at_ns);
        frames += depths_[stack] + 1;
      }
      at_ns = to_ns;
    };
    for (const PythonRun& run : thread.runs) {
      add(0, run.from_ps / 1000);
      add(same_[run.stack], run.to_ps / 1000);
      samples += run.samples;
      if (frames > kMostFramesOfThread) return {};
    }
    for (const PythonTally& tally : thread.tallies) tallied += tally.samples;
    if (samples != tallied) return {};
    *start_ns = first_ns;
    return weights;
  }

  std::vector<Weight> Sums(const PythonThread& thread) const {
    std::map<uint32_t, int64_t> sums;
    for (const PythonTally& tally : thread.tallies) AddSaturating(&sums[same_[tally.stack]], tally.wall_ps / 1000);
    return {sums.begin(), sums.end()};
  }

  void WriteStack(uint32_t innermost) {
    std::vector<uint32_t> functions;
    for (uint32_t stack = innermost; stack != 0; stack = python_.stacks[stack].parent) {
      functions.push_back(python_.stacks[stack].function);
    }
    text_ += "[";
    for (; !functions.empty(); functions.pop_back()) {
      StrAppend(&text_, functions.back(), functions.size() > 1 ? "," : "");
    }
    text_ += "]";
  }

  void Flush(size_t from_bytes) {
    if (text_.size() < from_bytes) return;
    if (status_.ok()) status_ = sink_.Append(text_);
    text_.clear();
  }

  const Timeline& timeline_;
  const PythonTimeline& python_;
  Sink& sink_;
  std::vector<uint32_t> same_, depths_;
  std::vector<uint32_t> same_native_, native_frames_;  // by native stack
  std::string text_;
  absl::Status status_;
};

// Counts profiles, their stacks and weights without storing them.
class Counter : public nlohmann::json_sax<nlohmann::json> {
 public:
  uint64_t profiles = 0, samples = 0, weights = 0, length = 0, weight = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return false; }  // negative
  bool number_unsigned(number_unsigned_t value) override {
    if (key_ == "weights") {
      ++weights;
      weight += value;
    }
    if (key_ == "startValue") length -= value;
    if (key_ == "endValue") length += value;
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return false; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return true; }
  bool end_object() override { return true; }
  bool key(string_t& key) override {
    key_ = key;
    profiles += key == "samples";
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    // The outermost array is `profiles`.
    samples += key_ == "samples" && depth_ == 3;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  std::string key_;
  int depth_ = 0;
};

}  // namespace

absl::Status WriteSpeedscope(const Timeline& timeline, Sink& sink) { return SpeedscopeWriter(timeline, &sink).Write(); }

absl::StatusOr<std::string> VerifySpeedscope(const std::string& path, const Timeline& timeline) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::UnavailableError(StrCat("cannot open ", path));
  Counter counter;
  if (!nlohmann::json::sax_parse(file, &counter)) return absl::DataLossError(StrCat(path, ": the JSON is broken"));
  const uint64_t expected = timeline.python.threads.size() + timeline.native.threads.size();
  if (counter.profiles != expected || counter.samples != counter.weights || counter.weight != counter.length) {
    return absl::DataLossError(StrCat(path, ": holds ", counter.profiles, " threads, ", counter.samples, " stacks, ",
                                      counter.weights, " weights of ", counter.weight, " ns in ", counter.length,
                                      " ns; ", expected, " threads were written"));
  }
  return StrCat("verified: ", Counted(counter.profiles, "thread"), ", ", Counted(counter.samples, "stack"));
}

}  // namespace tbprof
