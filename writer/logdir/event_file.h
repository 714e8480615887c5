// SPDX-License-Identifier: Apache-2.0
//
// Reads a tfevents file of any writer as TensorBoard does: TFRecord framing with both checksums, Event, Summary. It
// keeps facts (where the file ends and why, tags, steps, times), but no values. Reading is bounded: only the beginning
// and the end of a large file are read. Every length is treated as hostile.
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
  uint64_t part = uint64_t{8} << 20;    // of larger files: bytes read at the start, and at the end
  size_t tags = 4096;
};

struct TagFacts {
  uint64_t points = 0;
  int64_t first_step = 0, last_step = 0, lowest_step = 0, highest_step = 0;
  double first_wall = 0, last_wall = 0;
  // The first point whose step is lower than the step of the point before it.
  bool goes_back = false;
  int64_t back_from = 0, back_to = 0;
};

struct EventFileFacts {
  enum class End { kClean, kTruncated, kCorrupt, kUnreadable };
  End end = End::kClean;
  uint64_t size = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_skipped = 0;  // between the beginning and the end of a large file
  uint64_t end_offset = 0;     // start of the first record that cannot be read; else the size
  std::string_view cause;      // kCorrupt: `the checksum of a record's length`, ...
  int error = 0;               // kUnreadable: errno

  uint64_t records = 0;
  uint64_t versions = 0;   // records that hold nothing but the version of the format
  uint64_t summaries = 0;  // records with at least one value
  uint64_t graphs = 0;     // graphs, and descriptions of a graph's run
  // Summaries of TensorFlow's trace_export: with the graph, and (profiler=True) with measurements.
  uint64_t graph_traces = 0, run_traces = 0;
  uint64_t bad_times = 0;  // wall time not a number: TensorBoard drops such a record
  bool has_time = false;
  double first_wall = 0, last_wall = 0;    // lowest and highest wall time of all records
  double first_value = 0, last_value = 0;  // the same for records with values
  std::map<std::string, TagFacts> tags;
  bool tags_cut = false;

  bool HasValues() const { return summaries > 0; }
};

// The caller keeps ownership of `fd`. `size` is the size from fstat: bytes appended later are ignored.
EventFileFacts ReadEventFile(int fd, uint64_t size, const EventFileLimits& limits);

// Decided by the first bytes: a record that begins with the time of an event. No other TFRecord file has one.
bool LooksLikeEventFile(std::string_view beginning);

// The writer in the name `events.out.tfevents.<seconds>.<host>[.<pid>.<number>]...`: `<host>` or `<host>.<pid>`; empty
// for a name in another form.
std::string EventFileWriter(std::string_view name);

// The checksum, rotated and offset, so that a checksum of data that contains a checksum stays good.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace tbprof

#endif  // TBPROF_WRITER_LOGDIR_EVENT_FILE_H_
