// SPDX-License-Identifier: Apache-2.0
//
// Ranges and marks of NVTX, PyTorch and TensorFlow as events: of the thread that they were on, or, where they begin and
// end by number, on lines of their own.
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

  // False: no annotation that can be.
  bool Take(const Identity& thread, const Identity& process, const RecordView& record) {
    return ranges_.Take(thread, process, record, take_);
  }
  // Ends the ranges that are open, and adds the lines of those by number.
  void Finish();
  // What is missing, into the timeline's warnings and notes.
  void AddWarnings();
  void AddNotes();

 private:
  // What the last ranges were, by their names: most are of few.
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
  // A text that a process has given, or one of those that it was forked from; null: none has.
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
  absl::flat_hash_map<uint64_t, StringId> shapes_texts_;  // by the hashes of the texts
  uint16_t nameless_ = kNoType, lost_name_ = kNoType;
  bool names_left_out_ = false;
  std::vector<Numbered> numbered_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_ANNOTATION_LINES_H_
