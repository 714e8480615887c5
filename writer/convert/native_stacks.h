// SPDX-License-Identifier: Apache-2.0
//
// The native frames of all processes of a spool as stacks of the timeline, with names. Processes of one program share
// stacks. Functions that the compiler inlined are frames, too.
//
// Process: converter, one thread. Memory: bounded by the size of NativeFacts, and some 50 MB.
#ifndef TBPROF_WRITER_CONVERT_NATIVE_STACKS_H_
#define TBPROF_WRITER_CONVERT_NATIVE_STACKS_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/convert/process_modules.h"
#include "writer/spool/native_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// The outermost frame of a stack whose callers were not found.
inline constexpr std::string_view kMissingFrames = "(callers not known)";

class NativeStacks {
 public:
  // All must outlive this.
  NativeStacks(ProcessModules* modules, Timeline* timeline);

  // Index into NativeTimeline::stacks. `frame`: index into the frames of `process`, which must outlive this.
  uint32_t StackOf(const Identity& identity, const NativeProcessFacts& process, uint32_t frame);

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  NativeStack Name(Symbol symbol);
  // The stack of `entry`, called by `parent`.
  uint32_t Below(uint32_t parent, NativeStack entry);
  // The innermost of the functions that run at `address`: inlined functions have a stack each.
  uint32_t Below(uint32_t parent, const Identity& identity, uint64_t address);

  ProcessModules& modules_;
  Timeline& timeline_;
  std::map<Identity, std::vector<uint32_t>> processes_;                             // stacks, by frame
  absl::flat_hash_map<std::tuple<uint32_t, StringId, StringId>, uint32_t> stacks_;  // by parent, site and module
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_NATIVE_STACKS_H_
