// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <memory>
#include <vector>

#include "writer/base/text.h"
#include "writer/convert/torch_links.h"
#include "writer/outputs/perfetto.h"

namespace tbprof {
namespace {

// Checks the lexical structure of JSON as a stream: strings are closed, brackets match. Counts the objects of the outer
// array.
class Scanner {
 public:
  bool Scan(const char* bytes, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      const char c = bytes[i];
      if (in_string_) {
        if (escaped_) {
          escaped_ = false;
        } else if (c == '\\') {
          escaped_ = true;
        } else if (c == '"') {
          in_string_ = false;
        } else if (static_cast<uint8_t>(c) < 0x20) {
          return false;
        }
      } else if (c == '"') {
        in_string_ = true;
      } else if (c == '{' || c == '[') {
        if (closed_) return false;
        if (c == '{' && open_ == "{[") ++events_;
        open_ += c;
      } else if (c == '}' || c == ']') {
        if (open_.empty() || open_.back() != (c == '}' ? '{' : '[')) return false;
        open_.pop_back();
        closed_ = open_.empty();
      }
    }
    return true;
  }
  bool Complete() const { return closed_ && !in_string_; }
  uint64_t events() const { return events_; }

 private:
  std::string open_;
  bool in_string_ = false, escaped_ = false, closed_ = false;
  uint64_t events_ = 0;
};

uint64_t ExpectedEvents(const Timeline& timeline) {
  uint64_t events = 2 * timeline.processes.size() + timeline.steps.size() + (timeline.steps.empty() ? 0 : 2);
  for (const Thread& thread : timeline.threads) {
    if (thread.process >= timeline.processes.size()) continue;
    events += 1 + thread.events.size();
    for (const Event& event : thread.events) {
      const ValueKind kind = timeline.types[event.type].value;
      events += event.value != 0 &&
                (kind == ValueKind::kFlowOut || kind == ValueKind::kFlowIn || kind == ValueKind::kCorrelation);
    }
  }
  for (const CounterTrack& track : timeline.counters) {
    if (IsShown(timeline, track)) events += track.samples.size();
  }
  events += TorchLinks(timeline).size() + 2 * timeline.gpu_devices.size();
  for (const PythonThread& thread : timeline.python.threads) {
    if (!thread.spans.empty()) events += 1 + thread.spans.size();
  }
  for (const NativeThread& thread : timeline.native.threads) {
    if (!thread.spans.empty()) events += 1 + thread.spans.size();
  }
  for (const GpuStream& stream : timeline.gpu_streams) events += 1 + 2 * stream.events.size();
  return events;
}

}  // namespace

absl::StatusOr<std::string> VerifyPerfetto(const std::string& path, const Timeline& timeline) {
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rbe"), gzclose);
  if (file == nullptr) return absl::UnavailableError(StrCat("cannot open ", path));
  gzbuffer(file.get(), 1 << 18);
  std::vector<char> buffer(1 << 18);
  Scanner scanner;
  while (const int size = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) {
    int error = 0;
    if (size < 0) return absl::DataLossError(StrCat(path, ": ", gzerror(file.get(), &error)));
    if (!scanner.Scan(buffer.data(), static_cast<size_t>(size))) {
      return absl::DataLossError(StrCat(path, ": the JSON is broken"));
    }
  }
  // A truncated file is reported only here, by gzclose.
  if (gzclose(file.release()) != Z_OK || !scanner.Complete()) {
    return absl::DataLossError(StrCat(path, ": the file is cut"));
  }
  const uint64_t expected = ExpectedEvents(timeline);
  if (scanner.events() != expected) {
    return absl::DataLossError(
        StrCat(path, ": holds ", scanner.events(), " trace events, ", expected, " were written"));
  }
  return StrCat("verified: ", expected, " trace events");
}

}  // namespace tbprof
