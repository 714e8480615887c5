// SPDX-License-Identifier: Apache-2.0
//
// Which frames of a Python stack are shown as boxes. Frames of importlib that call others are left out (one import has
// five of them), and in a process of multiprocessing those below its own beginning, which are its parent's.
//
// Process: converter. A pure function of the stacks.
#ifndef TBPROF_WRITER_TIMELINE_SHOWN_FRAMES_H_
#define TBPROF_WRITER_TIMELINE_SHOWN_FRAMES_H_

#include <cstdint>
#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

class ShownFrames {
 public:
  // `python` must outlive this.
  ShownFrames(const StringTable& strings, const PythonTimeline& python);

  // `stack`, and those of its callers that are shown, the outermost first. 0 has none.
  void Get(uint32_t stack, std::vector<uint32_t>* frames) const;

 private:
  const PythonTimeline& python_;
  std::vector<bool> are_of_importlib_, begin_workers_;  // by function
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_TIMELINE_SHOWN_FRAMES_H_
