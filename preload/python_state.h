// SPDX-License-Identifier: Apache-2.0
//
// The thread state of the calling thread, for a walk over its frames.
//
// The thread that ends the interpreter frees the states of all other threads, which may be in a wait, in C code or in a
// hook, but not in Python. It marks the interpreter as finalizing before it does so. So the members that a walk needs
// are copied, and the copy is used only if the interpreter was not finalizing after the copy was made. The frames and
// the chunks that hold them stay in place: no release from 3.8 to 3.15 frees those of a thread that is still in them.
//
// Process: target, any thread, any signal handler; FindOwnPythonState in the constructor only. Rules: RULES.md.
#ifndef TBPROF_PRELOAD_PYTHON_STATE_H_
#define TBPROF_PRELOAD_PYTHON_STATE_H_

#include <link.h>
#include <pthread.h>
#include <stdint.h>

#include "preload/page_probe.h"
#include "preload/python.h"
#include "preload/state.h"
#include "wire/python_layout.h"

namespace tbprof {

template <typename Value>
inline Value LoadAt(uint64_t address) {
  Value value;
  __builtin_memcpy(&value, reinterpret_cast<const void*>(address), sizeof(value));
  return value;
}

inline constexpr uint64_t kBrokenFrame = 1;  // stands for a frame that cannot be trusted

// Up to 3.14 PyGILState_GetThisThreadState is pthread_getspecific. From 3.15 on it reads a thread-local variable, by
// __tls_get_addr if the variable is in a library, which may allocate.
inline constexpr uint32_t kFirstThreadLocalMinor = 15;

// The offset of that variable from the thread pointer. It is the same in each thread if the object was loaded when the
// program started. 0: it is not known, or not the same in each thread. `object`: as visited by dl_iterate_phdr.
int64_t FindOwnPythonState(const dl_phdr_info& object, size_t info_bytes, const uint8_t* (*own_state)());

inline uint64_t ThreadPointer() {
#ifdef __x86_64__
  uint64_t pointer;
  asm("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
#else
  return reinterpret_cast<uint64_t>(__builtin_thread_pointer());
#endif
}

inline uint64_t OwnPythonState(const PythonInterpreter& python) {
  if (python.state_offset == 0) return reinterpret_cast<uint64_t>(python.own_state());
  return LoadAt<uint64_t>(ThreadPointer() + static_cast<uint64_t>(python.state_offset));
}

// Whether the memory is on the C stack above this function, or in readable pages.
inline bool IsOnStackOrReadable(const ThreadState* thread, uint64_t address, uint64_t bytes, uint32_t second) {
  if (address % 8 != 0) return false;
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  if (here >= thread->stack_low && here < address && address + bytes <= thread->stack_top) return true;
  return IsReadable(address, bytes, second);
}

struct PythonThread {
  uint64_t frame;  // the innermost one; 0: it runs no Python
  uint64_t chunk;  // receives new frames; 0: up to 3.10
};

// Before 3.12 a thread's own state is known for the first interpreter only. The first one in the list is the latest.
inline __attribute__((always_inline)) bool IsOfTheOnlyInterpreter(const PythonInterpreter& python,
                                                                  const PythonLayout& layout, uint64_t state) {
  return layout.minor >= 12 ||
         LoadAt<uint64_t>(state + layout.thread_interpreter) ==
             LoadAt<uint64_t>(reinterpret_cast<uint64_t>(python.runtime) + layout.runtime_interpreters);
}

// False: the thread has no state, or the state may have been freed while it was read.
// `layout`: python.layout, or a constant that is equal.
inline __attribute__((always_inline)) bool TakePythonThread(const ThreadState* thread, const PythonInterpreter& python,
                                                            const PythonLayout& layout, uint32_t second,
                                                            PythonThread* own) {
  if (python.is_finalizing() != 0) return false;
  const uint64_t state = OwnPythonState(python);
  const bool has_chunks = layout.thread_chunk != kNoPythonMember;
  const uint32_t last = has_chunks && layout.thread_chunk > layout.thread_id ? layout.thread_chunk : layout.thread_id;
  if (state == 0 || state % 8 != 0 || !IsReadable(state, last + 16u, second)) return false;
  // After one interpreter has ended and another one was created, the variable may still point to freed memory.
  if (LoadAt<uint64_t>(state + layout.thread_id) != static_cast<uint64_t>(pthread_self())) return false;
  if (!IsOfTheOnlyInterpreter(python, layout, state)) return false;
  own->chunk = has_chunks ? LoadAt<uint64_t>(state + layout.thread_chunk) : 0;
  own->frame = LoadAt<uint64_t>(state + layout.thread_frame);
  if (layout.cframe_frame != kNoPythonMember && own->frame != 0) {
    // The _PyCFrame is on the C stack, or in the thread state itself.
    const uint64_t at = own->frame;
    const bool in_state = at - state < layout.thread_chunk;
    own->frame = kBrokenFrame;
    if (in_state || IsOnStackOrReadable(thread, at, layout.cframe_frame + 8u, second)) {
      own->frame = LoadAt<uint64_t>(at + layout.cframe_frame);
    }
  }
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return python.is_finalizing() == 0;
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_PYTHON_STATE_H_
