// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/flamegraph.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/base/summary_format.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/outputs/flamegraph_tree.h"

namespace tbprof {
namespace {

// Most nodes in a file: a browser opens it in less than a second.
constexpr size_t kMostFlameNodes = 100'000;
constexpr size_t kFlameBufferBytes = 1 << 16;
constexpr std::string_view kDataMark = "@DATA@";

constexpr std::string_view kPageParts[] = {
#include "writer/outputs/flamegraph_page.inc"
};

// A JSON string that can stand in a script element: no character of it begins a tag, a comment or a character
// reference.
std::string ScriptString(std::string_view text) {
  std::string out;
  const std::string json = nlohmann::json(ValidUtf8(text)).dump();
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

// What was run: the command, else the process that tbprof was attached to.
std::string TitleOf(const Timeline& timeline) {
  if (!timeline.command_line.empty()) return PrintableUtf8(timeline.command_line);
  for (const Process& process : timeline.processes) {
    if (process.is_command || timeline.attached) return PrintableUtf8(StrCat(process.name, " (", process.pid, ")"));
  }
  return PrintableUtf8(timeline.run);
}

std::vector<std::string> FactsOf(const Timeline& timeline) {
  std::vector<std::string> facts = {StrCat("run ", PrintableUtf8(timeline.run)),
                                    StrCat("host ", PrintableUtf8(timeline.host))};
  if (timeline.rank >= 0) facts.push_back(StrCat("rank ", timeline.rank));
  if (timeline.window.starts_with("capture ")) facts.push_back(PrintableUtf8(timeline.window));
  facts.push_back(timeline.totals_ps > 0 ? StrCat("the last ", HumanTime(timeline.duration_ps), " of ",
                                                  HumanTime(timeline.totals_ps), " recorded")
                                         : StrCat(HumanTime(timeline.duration_ps), " recorded"));
  return facts;
}

// Errors, and the warnings and notes about samples.
std::vector<std::string> FlameNotes(const Timeline& timeline) {
  std::vector<std::string> out;
  if (!timeline.complete) out.push_back("Recovered from the spool: tbprof ended before it could write the profile");
  for (const std::string& text : timeline.errors) out.push_back(PrintableUtf8(StrCat("Error: ", text)));
  for (const std::vector<std::string>* const texts : {&timeline.warnings, &timeline.notes}) {
    for (const std::string& text : *texts) {
      const bool is_of_samples = text.starts_with("Python stacks") || text.starts_with("Native stacks");
      // The page draws all samples.
      if (!is_of_samples || text.find("but not drawn") != std::string::npos) continue;
      if (std::ranges::find(out, PrintableUtf8(text)) == out.end()) out.push_back(PrintableUtf8(text));
    }
  }
  return out;
}

// Why there are no samples; FlameNotes has the processes that could not be sampled.
std::string EmptyText(const Timeline& timeline, bool has_reasons) {
  const auto any = [](const auto& processes, auto sampling) {
    return std::ranges::any_of(processes, [&](const auto& process) { return process.sampling == sampling; });
  };
  if (any(timeline.python.processes, PythonSampling::kOff) || any(timeline.native.processes, NativeSampling::kOff)) {
    return "Sampling was switched off (--sample-rate=0).";
  }
  if (any(timeline.python.processes, PythonSampling::kSampled) ||
      any(timeline.native.processes, NativeSampling::kSampled)) {
    return "The processes were sampled, but none of the samples is in this part of the run.";
  }
  if (has_reasons) return "The processes could not be sampled, for the reasons above.";
  return "Either sampling was switched off (--sample-rate=0), or each process ended within its first 20 ms, before "
         "tbprof samples it, or none of them used the CPU in this part of the run.";
}

class FlamegraphWriter {
 public:
  FlamegraphWriter(const Timeline& timeline, Sink* sink) : timeline_(timeline), sink_(*sink) {}

  absl::Status Write() {
    std::string page;
    for (const std::string_view part : kPageParts) page += part;
    const size_t mark = page.find(kDataMark);
    if (mark == std::string::npos) return absl::InternalError("the page has no place for the data");
    text_ = page.substr(0, mark);
    WriteData();
    text_ += page.substr(mark + kDataMark.size());
    Flush(0);
    return status_;
  }

 private:
  void WriteData() {
    FlameTree python = PythonFlameTree(timeline_), native = NativeFlameTree(timeline_);
    // A tree that needs less than its half leaves the rest to the other.
    const size_t half = kMostFlameNodes / 2;
    const size_t python_nodes = python.nodes.size(), native_nodes = native.nodes.size();
    OrderFlameTree(std::max(half, kMostFlameNodes - std::min(native_nodes, half)), &python);
    OrderFlameTree(std::max(half, kMostFlameNodes - std::min(python_nodes, half)), &native);
    const std::vector<std::string> notes = FlameNotes(timeline_);
    StrAppend(&text_, "{\"title\":", ScriptString(TitleOf(timeline_)), ",\n\"facts\":");
    WriteTexts(FactsOf(timeline_));
    text_ += ",\n\"notes\":";
    WriteTexts(notes);
    text_ += ",\n\"empty\":";
    const bool is_empty = python.nodes.empty() && native.nodes.empty();
    text_ += is_empty ? ScriptString(EmptyText(timeline_, !notes.empty())) : "null";
    text_ += ",\n\"trees\":[";
    if (!python.nodes.empty()) WriteTree("python", IntervalsOf(timeline_.python.processes), python);
    if (!python.nodes.empty() && !native.nodes.empty()) text_ += ",";
    if (!native.nodes.empty()) WriteTree("native", IntervalsOf(timeline_.native.processes), native);
    // After the trees, which fill the table.
    text_ += "],\n\"strings\":[";
    for (size_t i = 0; i < strings_.size(); ++i) {
      StrAppend(&text_, i > 0 ? ",\n" : "\n", ScriptString(strings_[i]));
      Flush(kFlameBufferBytes);
    }
    text_ += "]}";
  }

  void WriteTexts(const std::vector<std::string>& texts) {
    text_ += "[";
    for (size_t i = 0; i < texts.size(); ++i) StrAppend(&text_, i > 0 ? "," : "", ScriptString(texts[i]));
    text_ += "]";
  }

  // The shortest and the longest interval between samples in microseconds, at the end; 0: not known.
  template <typename Process>
  static std::pair<int64_t, int64_t> IntervalsOf(const std::vector<Process>& processes) {
    std::pair<int64_t, int64_t> out = {0, 0};
    for (const Process& process : processes) {
      const int64_t us = process.period_ps / 1'000'000;
      if (us <= 0 || process.samples == 0) continue;
      out = {out.first == 0 ? us : std::min(out.first, us), std::max(out.second, us)};
    }
    return out;
  }

  // Frames are rows of four numbers: name, group and place (indexes into `strings`), origin. The other arrays have one
  // number for each node, in preorder.
  void WriteTree(std::string_view kind, std::pair<int64_t, int64_t> intervals_us, const FlameTree& tree) {
    StrAppend(&text_, "\n{\"kind\":\"", kind, "\",\"intervals_us\":[", intervals_us.first, ",", intervals_us.second,
              "],\"merged\":", tree.merged, ",\n\"frames\":[");
    std::vector<uint32_t> numbers(tree.frames.size(), UINT32_MAX);
    uint32_t used = 0;
    for (const FlameNode& node : tree.nodes) {
      if (numbers[node.frame] != UINT32_MAX) continue;
      const FlameFrame& frame = tree.frames[node.frame];
      StrAppend(&text_, used > 0 ? "," : "", IdOf(frame.name), ",", IdOf(frame.group), ",", IdOf(frame.place), ",",
                static_cast<int>(frame.origin));
      numbers[node.frame] = used++;
      Flush(kFlameBufferBytes);
    }
    text_ += "]";
    WriteNumbers("depth", tree, [](const FlameNode& node) { return node.depth; });
    WriteNumbers("frame", tree, [&](const FlameNode& node) { return numbers[node.frame]; });
    WriteNumbers("samples", tree, [](const FlameNode& node) { return node.samples; });
    WriteNumbers("time_ns", tree, [](const FlameNode& node) { return node.time_ns; });
    if (kind == "python") WriteNumbers("cpu_ns", tree, [](const FlameNode& node) { return node.cpu_ns; });
    text_ += "}";
  }

  template <typename NumberOf>
  void WriteNumbers(std::string_view name, const FlameTree& tree, NumberOf number_of) {
    StrAppend(&text_, ",\n\"", name, "\":[");
    for (size_t i = 0; i < tree.nodes.size(); ++i) {
      StrAppend(&text_, i > 0 ? "," : "", number_of(tree.nodes[i]));
      Flush(kFlameBufferBytes);
    }
    text_ += "]";
  }

  uint32_t IdOf(const std::string& text) {
    const auto [found, added] = ids_.try_emplace(text, static_cast<uint32_t>(strings_.size()));
    if (added) strings_.push_back(text);
    return found->second;
  }

  void Flush(size_t from_bytes) {
    if (text_.size() < from_bytes) return;
    if (status_.ok()) status_ = sink_.Append(text_);
    text_.clear();
  }

  const Timeline& timeline_;
  Sink& sink_;
  absl::flat_hash_map<std::string, uint32_t> ids_;
  std::vector<std::string> strings_;
  std::string text_;
  absl::Status status_;
};

}  // namespace

absl::Status WriteFlamegraph(const Timeline& timeline, Sink& sink) { return FlamegraphWriter(timeline, &sink).Write(); }

}  // namespace tbprof
