// SPDX-License-Identifier: Apache-2.0
//
// Leaves in a timeline only what is in its full detail (full_detail.h), as long as the view exists: the events of
// threads, and the rows of Python samples. Work of devices stays: it belongs to the call that launched it.
//
//   {
//     const DetailView view(&timeline);
//     InferSteps(timeline, process);    // sees all events of a part, instead of the long ones of the whole
//   }
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_DETAIL_VIEW_H_
#define TBPROF_WRITER_CONVERT_DETAIL_VIEW_H_

#include <vector>

#include "writer/timeline/timeline.h"

namespace tbprof {

class DetailView {
 public:
  explicit DetailView(Timeline* timeline);
  ~DetailView();
  DetailView(const DetailView&) = delete;
  DetailView& operator=(const DetailView&) = delete;

 private:
  Timeline& timeline_;
  std::vector<std::vector<Event>> events_;    // by thread: all of them
  std::vector<std::vector<PythonRun>> runs_;  // by PythonTimeline::threads: all of them
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_DETAIL_VIEW_H_
