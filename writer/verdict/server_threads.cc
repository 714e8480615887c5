// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/server_threads.h"

#include "writer/base/saturating.h"

namespace tbprof {
namespace {

struct Service {
  int64_t all_ps = 0;      // as far as samples show it
  int64_t serves_ps = 0;   // waits for clients
  int64_t answers_ps = 0;  // in code that a server calls, waits for other things included, but not for the next request
};

Service ServiceOf(const PythonThread& python, const PythonTags& tags) {
  Service service;
  for (const PythonRun& run : python.runs) {
    const PythonTag tag = tags.TagOf(run.stack);
    const int64_t length = run.to_ps - run.from_ps;
    AddSaturating(&service.all_ps, length);
    const bool serves = tag == PythonTag::kServe;
    if (serves) AddSaturating(&service.serves_ps, length);
    const bool answers = !serves && tag != PythonTag::kQueueGet && tag != PythonTag::kImport;
    if (answers && tags.IsOfServer(run.stack)) AddSaturating(&service.answers_ps, length);
  }
  return service;
}

}  // namespace

uint32_t ThreadThatAnswers(const Timeline& timeline, const PythonTags& tags, uint32_t waiting) {
  constexpr int64_t kLeastPart = 5;
  const PythonThread* const python = timeline.python.OfThread(waiting);
  if (python == nullptr) return waiting;
  const Service own = ServiceOf(*python, tags);
  if (own.serves_ps <= own.all_ps / 2) return waiting;
  uint32_t best = waiting;
  int64_t most = own.all_ps / kLeastPart;
  for (const PythonThread& other : timeline.python.threads) {
    if (other.thread >= timeline.threads.size() || other.thread == waiting) continue;
    if (timeline.threads[other.thread].process != timeline.threads[waiting].process) continue;
    const int64_t answers_ps = ServiceOf(other, tags).answers_ps;
    if (answers_ps <= most) continue;
    most = answers_ps;
    best = other.thread;
  }
  return best;
}

}  // namespace tbprof
