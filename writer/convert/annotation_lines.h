// SPDX-License-Identifier: Apache-2.0
//
// Converts ranges and marks of NVTX, PyTorch and TensorFlow to events: on the line of their thread, or, for ranges that
// begin and end by number, on separate lines.
//
// Process: converter, one thread. Untrusted: names and numbers.
#ifndef TBPROF_WRITER_CONVERT_ANNOTATION_LINES_H_
#define TBPROF_WRITER_CONVERT_ANNOTATION_LINES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/host_parts.h"
#include "writer/spool/annotations.h"
#include "writer/spool/record_view.h"
#include "writer/spool/spool_facts.h"
#include "writer/steps/step_markers.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class AnnotationLines {
 public:
  // `step_marker`: --step-marker, empty for the usual names. All must outlive this.
  AnnotationLines(const std::string& step_marker, const CaptureWindow* window, const SpoolFacts* facts,
                  const HostParts& host, Timeline* timeline);

  // Returns false if the record is not a valid annotation.
  bool Take(const Identity& thread, const Identity& process, const RecordView& record) {
    return ranges_.Take(thread, process, record, take_);
  }
  // Ends the ranges that are still open, and adds the lines of ranges by number.
  void Finish();
  // Add texts about missing annotations to the timeline's warnings and notes.
  void AddWarnings();
  void AddNotes();

 private:
  // A cache of event types, by the name of the range: most ranges share few names.
  struct Recent {
    uint64_t name = 0;
    uint32_t category = 0;
    uint16_t domain = 0;
    PayloadType payload_type{};
    uint16_t type = kNoType;
  };
  static constexpr size_t kRecents = 1024;
  struct Numbered {
    uint32_t owner;
    RawEvent event;
  };

  void TakeRange(const Annotations::Range& range);
  void TakeEnded(const Annotations::Range& range);
  void CountRange(const Annotations::Range& range, uint32_t owner, uint16_t type);
  RawEvent EventOf(const Annotations::Range& range, uint16_t type);
  uint16_t TypeOf(const Annotations::Range& range);
  uint16_t FindType(const Annotations::Range& range);
  // The text that the process, or a process that it was forked from, gave to the number; null: none of them gave one.
  const std::string* TextOf(Identity process, const std::map<std::pair<Identity, uint64_t>, std::string>& texts,
                            uint64_t number) const;
  StringId DomainText(const Annotations::Range& range);
  StringId ShapesText(const Annotations::Range& range, uint16_t type);
  void AddNumbered();
  bool KeepOn(uint32_t line, const RawEvent& event);

  const CaptureWindow& window_;
  const SpoolFacts& facts_;
  const HostParts host_;
  Timeline& timeline_;
  Annotations ranges_;
  const StepNames step_names_;
  const Annotations::Consume take_ = [this](const Annotations::Range& range) { TakeRange(range); };
  absl::flat_hash_map<std::tuple<uint64_t, ValueKind, RangeOrigin>, uint16_t> types_;
  Recent recents_[kRecents];
  absl::flat_hash_map<std::tuple<Identity, uint16_t, uint32_t>, StringId> domain_texts_;
  absl::flat_hash_map<uint64_t, StringId> shapes_texts_;  // by hash of the text
  uint16_t nameless_ = kNoType, lost_name_ = kNoType;
  bool names_left_out_ = false;
  std::vector<Numbered> numbered_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_ANNOTATION_LINES_H_
