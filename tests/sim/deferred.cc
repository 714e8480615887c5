// SPDX-License-Identifier: Apache-2.0
//
// Host functions, and all work that stands behind one. One thread calls the functions, as the driver's own thread does,
// and resolves what waited for them in the order that streams and events demand.
#include <pthread.h>
#include <signal.h>

#include <algorithm>

#include "tests/sim/engine.h"

namespace tbprof::sim {
namespace {

// Taken before any stream's or context's lock.
Lock deferred_lock;
std::vector<CUstream> waiting;  // streams with something pending
std::atomic<uint32_t> kick{0};
std::atomic<uint32_t> progress{0};
bool thread_started = false;

bool Runnable(const Deferred& deferred) {
  return std::all_of(deferred.waits.begin(), deferred.waits.end(),
                     [](const auto& wait) { return wait.first->resolved.load() >= wait.second; });
}

struct Done {
  Op op;
  std::vector<Work> nodes;
};

void Pop(CUstream stream) {
  stream->pending.pop_front();
  stream->resolved.fetch_add(1);
  stream->context->deferred.fetch_sub(1);
}

void CallHostFunction(CUstream stream) {
  Op& op = stream->pending.front().op;
  const CUhostFn function = op.host.function;
  void* data = op.host.data;
  op.work.start = Now();
  deferred_lock.unlock();
  function(data);
  deferred_lock.lock();
  Op& again = stream->pending.front().op;
  again.work.end = Now();
  Guard guard(stream->lock);
  stream->end.store(std::max(stream->end.load(), again.work.end));
}

int64_t DueAt(CUstream stream) {
  CUcontext context = stream->context;
  int64_t due = stream->end.load();
  if (stream->blocking) due = std::max(due, context->legacy_end.load());
  if (stream->legacy) due = std::max(due, context->blocking_end.load());
  return due;
}

// One round over all streams; false when nothing could be done before `*due`. The lock is held, and given up meanwhile.
bool Round(std::vector<Done>* done, int64_t* due) {
  bool moved = false;
  for (size_t i = 0; i < waiting.size(); ++i) {
    CUstream stream = waiting[i];
    while (!stream->pending.empty() && Runnable(stream->pending.front())) {
      Deferred& front = stream->pending.front();
      if (front.op.work.kind == WorkKind::kHostFunction) {
        const int64_t at = DueAt(stream);
        if (at > Now()) {
          *due = std::min(*due, at);
          break;
        }
        CallHostFunction(stream);
        done->push_back({stream->pending.front().op, {}});
      } else {
        Done result{front.op, {}};
        {
          Guard guard(stream->lock);
          Resolve(stream, result.op, Now(), &result.nodes);
        }
        if (result.op.work.kind == WorkKind::kEventRecord) result.op.event->unresolved.fetch_sub(1);
        done->push_back(std::move(result));
      }
      Pop(stream);
      moved = true;
    }
  }
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), [](CUstream s) { return s->pending.empty(); }),
                waiting.end());
  return moved;
}

void* Run(void*) {
  pthread_setname_np(pthread_self(), "cuda-EvtHandlr");
  for (;;) {
    const uint32_t seen = kick.load();
    std::vector<Done> done;
    int64_t due = INT64_MAX;
    deferred_lock.lock();
    const bool moved = Round(&done, &due);
    deferred_lock.unlock();
    if (moved) {
      progress.fetch_add(1);
      FutexWake(&progress);
      // Outside the lock: the tool may call back into the program.
      for (const Done& one : done) Report(one.op, one.nodes);
      continue;
    }
    FutexWait(&kick, seen, due == INT64_MAX ? -1 : due);
  }
  return nullptr;
}

// With all signals blocked, so that none of the program's is delivered here.
bool StartThread() {
  if (thread_started) return true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  thread_started = pthread_create(&thread, nullptr, Run, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (thread_started) pthread_detach(thread);
  return thread_started;
}

}  // namespace

CUresult SubmitDeferred(CUstream stream, const Op& given) {
  CUcontext context = stream->context;
  Deferred deferred{given, 0, {}};
  Op& op = deferred.op;
  deferred_lock.lock();
  if (stream->legacy || stream->blocking) {
    Guard guard(context->lock);
    for (CUstream other : context->streams) {
      const bool ordered = stream->legacy ? other->blocking : other->legacy;
      if (ordered && !other->pending.empty()) deferred.waits.emplace_back(other, other->submitted.load());
    }
  }
  if (op.work.kind == WorkKind::kEventWait && op.event->unresolved.load() != 0) {
    deferred.waits.emplace_back(op.event->pending_stream, op.event->pending_sequence);
  }
  if (op.work.kind != WorkKind::kHostFunction && stream->pending.empty() && deferred.waits.empty()) {
    std::vector<Work> nodes;
    {
      Guard guard(stream->lock);
      Resolve(stream, op, Now(), &nodes);
    }
    deferred_lock.unlock();
    Report(op, nodes);
    return CUDA_SUCCESS;
  }
  if (!StartThread()) {
    deferred_lock.unlock();
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  context->deferred.fetch_add(1);
  const uint64_t sequence = stream->submitted.fetch_add(1) + 1;
  if (op.work.kind == WorkKind::kEventRecord) {
    op.event->unresolved.fetch_add(1);
    op.event->pending_stream = stream;
    op.event->pending_sequence = sequence;
  }
  if (stream->pending.empty()) waiting.push_back(stream);
  stream->pending.push_back(std::move(deferred));
  deferred_lock.unlock();
  kick.fetch_add(1);
  FutexWake(&kick);
  return CUDA_SUCCESS;
}

void WaitResolved(CUstream stream, uint64_t sequence) {
  for (;;) {
    const uint32_t seen = progress.load();
    if (stream->resolved.load() >= sequence) return;
    FutexWait(&progress, seen, -1);
  }
}

void WaitEventResolved(CUevent event) {
  for (;;) {
    const uint32_t seen = progress.load();
    if (event->unresolved.load() == 0) return;
    FutexWait(&progress, seen, -1);
  }
}

}  // namespace tbprof::sim
