// SPDX-License-Identifier: Apache-2.0
// The walk over Python frames (preload/python_stack.cc), for python_walk.py: a library that a CPython loads by ctypes.
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "preload/hooks.h"
#include "preload/python.h"
#include "preload/record.h"
#include "preload/resolve.h"

namespace tbprof {

Attachment g_attachment;
SegmentHeader g_header;
const SegmentHeader* g_control = &g_header;
ForkPage g_page;
ForkPage* g_fork_page = &g_page;
__thread ThreadState t_thread;
AllocatorWay g_allocator_way;

void* RealDlsym(void* handle, const char* name) { return dlsym(handle, name); }
size_t TextLength(const char* text, size_t limit) { return strnlen(text, limit); }
void RecordProcessInfo(ThreadState*, ProcessInfoKey, const char*, size_t) {}

}  // namespace tbprof

using namespace tbprof;

// ns of a call with warm caches, the least of `count` batches of 100; below 0: there is no stack.
extern "C" __attribute__((visibility("default"))) double MeasureWalk(int count) {
  ThreadState* const thread = &t_thread;
  thread->stack_top = UINT64_MAX;
  constexpr uint32_t kChunks = 64;
  void* const memory =
      mmap(nullptr, LayoutFor(kChunks).bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_attachment.segment = SegmentAt(memory, kChunks);
  InitialiseSegment(g_attachment.segment, LayoutFor(kChunks).bytes);
  g_attachment.clock = ClockKind::kCounter;
  g_attachment.segment.header->clock_kind = static_cast<uint32_t>(ClockKind::kCounter);
  g_header.python_wait_ticks = 300'000;
  ResetChunkWriter(&thread->writer, &g_attachment.segment.thread_slots[0], 0, 1);
  FindPythonAtStart(thread);
  const uint64_t now = Ticks();
  if (PythonStackOf(thread, now) == 0) return -1;
  double least = 1e18;
  for (int i = 0; i < count; ++i) {
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int j = 0; j < 100; ++j) {
      if (PythonStackOf(thread, now) == 0) return -1;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double each =
        static_cast<double>(end.tv_sec - begin.tv_sec) * 1e7 + static_cast<double>(end.tv_nsec - begin.tv_nsec) / 100;
    if (each < least) least = each;
  }
  return least;
}
