// SPDX-License-Identifier: Apache-2.0
//
// Reads a tfevents file of anybody as TensorBoard would: TFRecord framing with both checksums, Event, Summary. What is
// kept are facts (where it ends and why, tags, steps, times), no values. Reading is bounded: of a large file the
// beginning and the end are read. Every length is taken as hostile.
//
//   EventFileFacts facts = ReadEventFile(fd, size, EventFileLimits());
//   if (facts.end == EventFileFacts::End::kCorrupt) ...   // nothing behind facts.end_offset is shown
//
// Process: launcher. Any thread.
#ifndef TBPROF_WRITER_LOGDIR_EVENT_FILE_H_
#define TBPROF_WRITER_LOGDIR_EVENT_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tbprof {

struct EventFileLimits {
  uint64_t whole = uint64_t{32} << 20;  // files up to this size are read to the end
  uint64_t part = uint64_t{8} << 20;    // of larger ones: from the start, and at the end
  size_t tags = 4096;
};

struct TagFacts {
  uint64_t points = 0;
  int64_t first_step = 0, last_step = 0, lowest_step = 0, highest_step = 0;
  double first_wall = 0, last_wall = 0;
  // The first point whose step is lower than that of the point before it.
  bool goes_back = false;
  int64_t back_from = 0, back_to = 0;
};

struct EventFileFacts {
  enum class End { kClean, kTruncated, kCorrupt, kUnreadable };
  End end = End::kClean;
  uint64_t size = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_skipped = 0;  // between the beginning and the end of a large file
  uint64_t end_offset = 0;     // where the first record starts that can't be read; else the size
  std::string_view cause;      // kCorrupt: `the checksum of a record's length`, ...
  int error = 0;               // kUnreadable: errno

  uint64_t records = 0;
  uint64_t versions = 0;   // records that hold nothing but the version of the format
  uint64_t summaries = 0;  // records with at least one value
  uint64_t graphs = 0;     // graphs, and what describes a run of one
  // Summaries of TensorFlow's trace_export: of the graph, and (profiler=True) with what was measured.
  uint64_t graph_traces = 0, run_traces = 0;
  uint64_t bad_times = 0;  // wall time not a number: TensorBoard drops such a record
  bool has_time = false;
  double first_wall = 0, last_wall = 0;    // lowest and highest wall time of all records
  double first_value = 0, last_value = 0;  // and of those with values
  std::map<std::string, TagFacts> tags;
  bool tags_cut = false;

  bool HasValues() const { return summaries > 0; }
};

// `fd` stays the caller's; `size` as fstat gave it: what is appended meanwhile is not looked at.
EventFileFacts ReadEventFile(int fd, uint64_t size, const EventFileLimits& limits);

// By its first bytes: a record that begins with the time of an event. No other TFRecord file does.
bool LooksLikeEventFile(std::string_view beginning);

// The writer in the name `events.out.tfevents.<seconds>.<host>[.<pid>.<number>]...`: `<host>` or `<host>.<pid>`; empty
// where the name has another form.
std::string EventFileWriter(std::string_view name);

// Rotated and offset, so that a checksum of data with a checksum in it stays good.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace tbprof

#endif  // TBPROF_WRITER_LOGDIR_EVENT_FILE_H_
