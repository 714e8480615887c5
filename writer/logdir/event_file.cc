// SPDX-License-Identifier: Apache-2.0
#include "writer/logdir/event_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "writer/base/crc32c.h"
#include "writer/base/file_window.h"

namespace tbprof {
namespace {

constexpr size_t kHeaderBytes = 12;  // length, checksum of the length
constexpr size_t kFooterBytes = 4;   // checksum of the data
constexpr size_t kMaxTagBytes = 256;
// A record of this size cannot be a message: protobuf is limited to 2 GiB.
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 31;

uint32_t Mask(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8; }

template <typename T>
T Load(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

enum class Step { kRecord, kEnd, kTruncated, kCorrupt, kUnreadable };

class Reader {
 public:
  Reader(int fd, uint64_t size, const EventFileLimits& limits) : file_(fd, size), limits_(limits) {
    facts_.size = size;
  }

  EventFileFacts Read() {
    const uint64_t size = file_.size();
    const bool whole = size <= limits_.whole;
    uint64_t offset = 0;
    bool finished = ReadRecords(&offset, whole ? size : limits_.part);
    if (!finished) {
      const uint64_t tail = std::max(offset, size - std::min(size, limits_.part));
      uint64_t at = tail;
      if (tail == offset || FindRecord(tail, &at)) {
        facts_.bytes_skipped = at - offset;
        offset = at;
        finished = ReadRecords(&offset, size);
      } else {
        facts_.bytes_skipped = size - offset;
        facts_.end_offset = size;
      }
    }
    facts_.bytes_read = file_.bytes_read();
    return std::move(facts_);
  }

 private:
  // Returns true at the end of what TensorBoard reads, and false at the limit.
  bool ReadRecords(uint64_t* offset, uint64_t limit) {
    while (true) {
      const uint64_t start = *offset;
      if (start >= limit && start < file_.size()) return false;
      const Step step = ReadRecord(offset);
      if (step == Step::kRecord) continue;
      facts_.end_offset = start;
      facts_.end = step == Step::kTruncated    ? EventFileFacts::End::kTruncated
                   : step == Step::kCorrupt    ? EventFileFacts::End::kCorrupt
                   : step == Step::kUnreadable ? EventFileFacts::End::kUnreadable
                                               : EventFileFacts::End::kClean;
      facts_.error = file_.error();
      return true;
    }
  }

  Step Short() const { return file_.error() != 0 ? Step::kUnreadable : Step::kTruncated; }
  Step Corrupt(std::string_view cause) {
    facts_.cause = cause;
    return Step::kCorrupt;
  }

  Step ReadRecord(uint64_t* offset) {
    const uint64_t start = *offset;
    if (start >= file_.size()) return Step::kEnd;
    const std::string_view header = file_.Read(start, kHeaderBytes);
    if (header.size() < kHeaderBytes) return Short();
    if (MaskedCrc32c(header.substr(0, 8)) != Load<uint32_t>(header.substr(8))) {
      return Corrupt("the checksum of a record's length is wrong");
    }
    const uint64_t length = Load<uint64_t>(header);
    if (length > kMaxRecordBytes) return Corrupt("a record's length is over 2 GiB");
    const uint64_t data = start + kHeaderBytes;
    if (file_.size() - data < length + kFooterBytes) return Step::kTruncated;
    // Only data that passes the checksum is parsed. If a record is larger than one read, only its beginning is parsed:
    // it contains the time, the step and the first tag.
    std::string_view event;
    bool fits_window = length + kFooterBytes <= FileWindow::kMaxRead;
    if (!fits_window) CountTrace(file_.Read(data + length - kMaxTagBytes, kMaxTagBytes));
    if (fits_window) {
      event = file_.Read(data, static_cast<size_t>(length + kFooterBytes));
      if (event.size() < length + kFooterBytes) return Short();
      const uint32_t crc = Load<uint32_t>(event.substr(static_cast<size_t>(length)));
      event = event.substr(0, static_cast<size_t>(length));
      if (MaskedCrc32c(event) != crc) return Corrupt("the checksum of a record is wrong");
      CountTrace(event.substr(event.size() - std::min(event.size(), kMaxTagBytes)));
    } else {
      bool fits;
      if (!Fits(data, length, &fits)) return Short();
      if (!fits) return Corrupt("the checksum of a record is wrong");
      event = file_.Read(data, FileWindow::kMaxRead);
      if (event.empty()) return Short();
    }
    if (!Event(event, length)) return Corrupt("a record holds no event");
    ++facts_.records;
    *offset = data + length + kFooterBytes;
    return Step::kRecord;
  }

  // Returns false if the data could not be read.
  bool Fits(uint64_t data, uint64_t length, bool* fits) {
    uint32_t crc = 0;
    for (uint64_t at = 0; at < length;) {
      const std::string_view piece =
          file_.Read(data + at, static_cast<size_t>(std::min<uint64_t>(length - at, FileWindow::kMaxRead)));
      if (piece.empty()) return false;
      crc = Crc32c(crc, piece.data(), piece.size());
      at += piece.size();
    }
    const std::string_view footer = file_.Read(data + length, kFooterBytes);
    if (footer.size() < kFooterBytes) return false;
    *fits = Mask(crc) == Load<uint32_t>(footer);
    return true;
  }

  // Records have no marker. At a wrong position, a length matches its checksum with a probability of 1 in 2^32; length
  // and data together never match in practice.
  bool FindRecord(uint64_t from, uint64_t* found) {
    // A hostile file may have a matching length every twelve bytes: the budget limits the time.
    uint64_t budget = 4 * limits_.part;
    std::string copy;  // further reads move the window
    for (uint64_t base = from; base + kHeaderBytes <= file_.size(); base += copy.size() - (kHeaderBytes - 1)) {
      copy = file_.Read(base, 64 << 10);
      if (copy.size() < kHeaderBytes) return false;
      for (size_t i = 0; i + kHeaderBytes <= copy.size(); ++i) {
        const std::string_view header = std::string_view(copy).substr(i, kHeaderBytes);
        if (MaskedCrc32c(header.substr(0, 8)) != Load<uint32_t>(header.substr(8))) continue;
        const uint64_t length = Load<uint64_t>(header);
        const uint64_t data = base + i + kHeaderBytes;
        if (length > kMaxRecordBytes || file_.size() - data < length + kFooterBytes) continue;
        if (length > budget) return false;
        budget -= std::max<uint64_t>(length, 4096);
        if (budget > 4 * limits_.part) return false;  // below zero
        bool fits;
        if (!Fits(data, length, &fits)) return false;
        if (!fits) continue;
        *found = base + i;
        return true;
      }
    }
    return false;
  }

  // The plugin's name is at the end of a summary, possibly after megabytes of data.
  void CountTrace(std::string_view end) {
    constexpr std::string_view kTrace = "graph_run_metadata";
    const size_t at = end.find(kTrace);
    if (at == std::string_view::npos) return;
    ++(end.substr(at + kTrace.size()).starts_with("_graph") ? facts_.graph_traces : facts_.run_traces);
  }

  bool Event(std::string_view bytes, uint64_t length) {
    FieldReader event(bytes, length);
    double wall = 0;
    int64_t step = 0;
    bool version = false, graph = false;
    std::string_view summary;
    uint64_t summary_length = 0;
    bool has_summary = false;
    while (event.Next()) {
      const uint32_t field = event.number();
      if (field == 1 && event.type() == 1) wall = event.number_as_double();
      if (field == 2 && event.type() == 0) step = static_cast<int64_t>(event.value());
      if (event.type() != 2) continue;
      if (field == 3) version = true;
      if (field == 4 || field == 8 || field == 9) graph = true;
      if (field == 5) {
        summary = event.bytes();
        summary_length = event.length();
        has_summary = true;
      }
    }
    if (event.malformed()) return false;
    if (!std::isfinite(wall)) {
      ++facts_.bad_times;
      return true;
    }
    if (version && !has_summary && !graph) ++facts_.versions;
    if (graph) ++facts_.graphs;
    if (!facts_.has_time || wall < facts_.first_wall) facts_.first_wall = wall;
    if (!facts_.has_time || wall > facts_.last_wall) facts_.last_wall = wall;
    facts_.has_time = true;
    return !has_summary || Summary(summary, summary_length, wall, step);
  }

  bool Summary(std::string_view bytes, uint64_t length, double wall, int64_t step) {
    FieldReader summary(bytes, length);
    bool any = false;
    while (summary.Next()) {
      if (summary.number() != 1 || summary.type() != 2) continue;
      FieldReader value(summary.bytes(), summary.length());
      std::string_view tag;
      while (value.Next()) {
        if (value.number() == 1 && value.type() == 2) {
          tag = value.bytes();
          break;  // the fields after it can be megabytes
        }
      }
      if (value.malformed()) return false;
      any = true;
      Point(tag.substr(0, kMaxTagBytes), wall, step);
    }
    if (summary.malformed()) return false;
    if (!any) return true;
    if (facts_.summaries == 0 || wall < facts_.first_value) facts_.first_value = wall;
    if (facts_.summaries == 0 || wall > facts_.last_value) facts_.last_value = wall;
    ++facts_.summaries;
    return true;
  }

  void Point(std::string_view name, double wall, int64_t step) {
    key_.assign(name);
    auto found = facts_.tags.find(key_);
    if (found == facts_.tags.end()) {
      if (facts_.tags.size() >= limits_.tags) {
        facts_.tags_cut = true;
        return;
      }
      found = facts_.tags.emplace(key_, TagFacts()).first;
      found->second.first_step = found->second.last_step = step;
      found->second.lowest_step = found->second.highest_step = step;
      found->second.first_wall = wall;
    }
    TagFacts& tag = found->second;
    if (step < tag.last_step && !tag.goes_back) {
      tag.goes_back = true;
      tag.back_from = tag.last_step;
      tag.back_to = step;
    }
    ++tag.points;
    tag.last_step = step;
    tag.last_wall = wall;
    tag.lowest_step = std::min(tag.lowest_step, step);
    tag.highest_step = std::max(tag.highest_step, step);
  }

  FileWindow file_;
  EventFileLimits limits_;
  EventFileFacts facts_;
  std::string key_;
};

}  // namespace

uint32_t MaskedCrc32c(std::string_view bytes) { return Mask(Crc32c(0, bytes.data(), bytes.size())); }

EventFileFacts ReadEventFile(int fd, uint64_t size, const EventFileLimits& limits) {
  return Reader(fd, size, limits).Read();
}

bool LooksLikeEventFile(std::string_view beginning) {
  if (beginning.size() <= kHeaderBytes || beginning[kHeaderBytes] != 0x09) return false;
  return MaskedCrc32c(beginning.substr(0, 8)) == Load<uint32_t>(beginning.substr(8));
}

std::string EventFileWriter(std::string_view name) {
  constexpr std::string_view kInfix = "tfevents.";
  const size_t infix = name.find(kInfix);
  if (infix == std::string_view::npos) return "";
  std::string_view rest = name.substr(infix + kInfix.size());
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos || !digits(rest.substr(0, dot))) return "";
  rest.remove_prefix(dot + 1);
  // The host may contain dots. `.<pid>.<number>` is the first pair of numbers after it; a user's suffix comes last.
  for (size_t at = rest.find('.'); at != std::string_view::npos; at = rest.find('.', at + 1)) {
    const size_t second = rest.find('.', at + 1);
    if (second == std::string_view::npos) break;
    const size_t end = std::min(rest.find('.', second + 1), rest.size());
    if (digits(rest.substr(at + 1, second - at - 1)) && digits(rest.substr(second + 1, end - second - 1))) {
      // An address such as 10.0.0.1 contains such pairs as well: the last pair counts.
      std::string_view behind = rest.substr(end);
      if (behind.size() > 1 && digits(behind.substr(1, std::min(behind.find('.', 1), behind.size()) - 1))) continue;
      return std::string(rest.substr(0, second));
    }
  }
  return std::string(rest);
}

}  // namespace tbprof
