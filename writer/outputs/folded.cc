// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/folded.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <vector>

#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/native_totals.h"
#include "writer/convert/python_totals.h"
#include "writer/outputs/xplane_native.h"

namespace tbprof {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

// One part of a line. Characters that would end the part, or the line, are replaced.
std::string Part(std::string_view text) {
  std::string part = PrintableUtf8(text);
  std::replace(part.begin(), part.end(), ';', ':');
  return part;
}

std::string ThreadPart(const Timeline& timeline, uint32_t index) {
  const Thread& thread = timeline.threads[index];
  const Process& process = timeline.processes[thread.process];
  const std::string& name = thread.name.empty() ? process.name : thread.name;
  return StrCat(Part(StrCat(process.name, " (", process.pid, ")")), ";", Part(StrCat(name, "/", thread.tid)));
}

std::map<uint32_t, uint64_t> SamplesByStack(const PythonThread& thread, const std::vector<uint32_t>& same) {
  std::map<uint32_t, uint64_t> samples;
  for (const PythonTally& tally : thread.tallies) samples[same[tally.stack]] += tally.samples;
  return samples;
}

// Native stacks have a root of their own: they count CPU time, while Python samples count all time.
absl::Status AppendNative(const Timeline& timeline, Sink& sink, std::string* text) {
  const NativeTimeline& native = timeline.native;
  const std::vector<uint32_t> same = NativeStacksWithoutLines(native);
  std::vector<std::string> parts(native.stacks.size());
  for (const NativeThread& thread : native.threads) {
    const std::string begin = StrCat("native ", ThreadPart(timeline, thread.thread));
    std::map<uint32_t, uint64_t> sums;
    for (const NativeTally& tally : thread.tallies) sums[same[tally.stack]] += tally.samples;
    for (const auto& [innermost, samples] : sums) {
      *text += begin;
      if (innermost == 0) *text += ";(stack not known)";
      std::vector<uint32_t> frames;
      for (uint32_t stack = innermost; stack != 0; stack = native.stacks[stack].parent) frames.push_back(stack);
      for (; !frames.empty(); frames.pop_back()) {
        std::string& part = parts[frames.back()];
        if (part.empty()) part = Part(NativeLabel(timeline, native.stacks[frames.back()]));
        StrAppend(text, ";", part);
      }
      StrAppend(text, " ", samples, "\n");
      if (text->size() < kBufferBytes) continue;
      if (absl::Status status = sink.Append(*text); !status.ok()) return status;
      text->clear();
    }
  }
  return sink.Append(*text);
}

}  // namespace

absl::Status WriteFolded(const Timeline& timeline, Sink& sink) {
  const PythonTimeline& python = timeline.python;
  const std::vector<uint32_t> same = StacksWithoutLines(python);
  std::vector<std::string> parts(python.functions.size());
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = Part(timeline.strings.Get(python.functions[i].label));
  std::string text;
  for (const PythonThread& thread : python.threads) {
    const std::string begin = ThreadPart(timeline, thread.thread);
    for (const auto& [innermost, samples] : SamplesByStack(thread, same)) {
      text += begin;
      if (innermost == 0) text += ";(no Python frames)";
      std::vector<uint32_t> frames;
      for (uint32_t stack = innermost; stack != 0; stack = python.stacks[stack].parent) frames.push_back(stack);
      for (; !frames.empty(); frames.pop_back()) StrAppend(&text, ";", parts[python.stacks[frames.back()].function]);
      StrAppend(&text, " ", samples, "\n");
      if (text.size() < kBufferBytes) continue;
      if (absl::Status status = sink.Append(text); !status.ok()) return status;
      text.clear();
    }
  }
  return AppendNative(timeline, sink, &text);
}

absl::StatusOr<std::string> VerifyFolded(const std::string& path, const Timeline& timeline) {
  std::ifstream file(path);
  if (!file) return absl::UnavailableError(StrCat("cannot open ", path));
  uint64_t lines = 0, found = 0, expected = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const size_t blank = line.rfind(' ');
    uint64_t samples = 0;
    const char* end = line.data() + line.size();
    const bool is_stack = blank != std::string::npos && std::count(line.begin(), line.end(), ';') >= 2;
    if (!is_stack || std::from_chars(line.data() + blank + 1, end, samples).ptr != end || samples == 0) {
      return absl::DataLossError(StrCat(path, ": line ", lines + 1, " is no stack"));
    }
    found += samples;
  }
  for (const PythonThread& thread : timeline.python.threads) {
    for (const PythonTally& tally : thread.tallies) expected += tally.samples;
  }
  for (const NativeThread& thread : timeline.native.threads) {
    for (const NativeTally& tally : thread.tallies) expected += tally.samples;
  }
  if (file.bad() || found != expected) {
    return absl::DataLossError(StrCat(path, ": holds ", found, " samples, ", expected, " were written"));
  }
  return StrCat("verified: ", Counted(lines, "stack"), ", ", Counted(found, "sample"));
}

}  // namespace tbprof
