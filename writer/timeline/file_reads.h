// SPDX-License-Identifier: Apache-2.0
//
// Decides which calls of a process read files. `read` is also used for pipes and sockets, and no record has the kind of
// a descriptor. But the call that opens a file is recorded, while the descriptors that a worker inherits are its
// queues.
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

  // The call reads data of a file: by `pread` or `fread`, or by `read` of a descriptor that the process has opened
  // before.
  bool IsRead(const Event& event) const;
  // The call is a read, or one that precedes reads: `open`, `stat`, `lseek`.
  bool IsAccess(const Event& event) const;

 private:
  enum class Kind : uint8_t { kNone, kAccess, kFileRead, kDescriptorRead };
  static Kind KindOf(const EventType& type);

  std::vector<Kind> kinds_;                           // by type
  absl::flat_hash_map<uint64_t, int64_t> opened_ps_;  // descriptor: when it was first opened
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_FILE_READS_H_
