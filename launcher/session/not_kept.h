// SPDX-License-Identifier: Apache-2.0
//
// Counts the records that the spool did not take, by kind and operation. A profile compares them with the calls that
// the hooks counted.
//
//   NotKept counts;
//   counts.Take(frames);       // chunk frames that are dropped
//   counts.AppendTo(&buffer);  // a kNotKept frame with all counts so far
//
// Process: launcher; the drain and the write thread have separate objects. Memory: bounded by kMaxRows.
#ifndef TBPROF_LAUNCHER_SESSION_NOT_KEPT_H_
#define TBPROF_LAUNCHER_SESSION_NOT_KEPT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "writer/spool/spool.h"

namespace tbprof {

class NotKept {
 public:
  // Counts the records of a contiguous piece of frames.
  void Take(std::span<const uint8_t> frames);
  void Add(const NotKept& other);
  void AppendTo(FrameBuffer* buffer) const;
  bool empty() const { return records_ == 0; }

 private:
  static constexpr size_t kMaxRows = 4096;
  using Key = std::tuple<uint32_t, RecordKind, uint32_t>;  // segment, kind, operation or domain
  void Count(const Key& key, uint64_t records);
  std::map<Key, uint64_t> rows_;
  uint64_t records_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_NOT_KEPT_H_
