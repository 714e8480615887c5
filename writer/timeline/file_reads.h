// SPDX-License-Identifier: Apache-2.0
//
// Which calls of a process read files. A pipe or a socket is read by the same `read`; no record has the kind of a
// descriptor, but files are opened by a call that is recorded, and what a worker has inherited is its queues.
//
// Process: converter. Pure functions of the timeline.
#ifndef TBPROF_WRITER_TIMELINE_FILE_READS_H_
#define TBPROF_WRITER_TIMELINE_FILE_READS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class FileReads {
 public:
  FileReads(const Timeline& timeline, uint32_t process);

  // Data of a file comes in, by `pread` or by `read` of a descriptor that the process has opened before.
  bool IsRead(const Event& event) const;
  // That, or what comes before it: `open`, `stat`, `lseek`.
  bool IsAccess(const Event& event) const;

 private:
  enum class Kind : uint8_t { kNone, kAccess, kFileRead, kDescriptorRead };
  static Kind KindOf(const EventType& type);

  std::vector<Kind> kinds_;                           // by type
  absl::flat_hash_map<uint64_t, int64_t> opened_ps_;  // descriptor: when it was first opened
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_FILE_READS_H_
