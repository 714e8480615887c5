// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/detail_view.h"

#include <algorithm>
#include <iterator>

namespace tbprof {
namespace {

// Puts the part of `all` that begins in `span` into its place. Returns the whole.
template <typename T>
std::vector<T> KeepIn(const TimeSpan& span, int64_t T::*start, std::vector<T>* all) {
  std::vector<T> part;
  std::ranges::copy_if(*all, std::back_inserter(part),
                       [&](const T& one) { return one.*start >= span.start_ps && one.*start < span.end_ps; });
  std::swap(part, *all);
  return part;
}

}  // namespace

DetailView::DetailView(Timeline* timeline) : timeline_(*timeline) {
  for (Thread& thread : timeline_.threads) {
    events_.push_back(KeepIn(timeline_.full_detail, &Event::start_ps, &thread.events));
  }
  for (PythonThread& thread : timeline_.python.threads) {
    runs_.push_back(KeepIn(timeline_.full_detail, &PythonRun::from_ps, &thread.runs));
  }
}

DetailView::~DetailView() {
  for (size_t i = 0; i < events_.size(); ++i) timeline_.threads[i].events = std::move(events_[i]);
  for (size_t i = 0; i < runs_.size(); ++i) timeline_.python.threads[i].runs = std::move(runs_[i]);
}

}  // namespace tbprof
