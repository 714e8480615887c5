// SPDX-License-Identifier: Apache-2.0
//
// The thread state of the calling thread, for a walk over its frames.
//
// The thread that ends the interpreter frees the states of all others, which may be anywhere but in Python: in a wait,
// in C code, in one of our hooks. It says that it ends before it does so. So what a walk needs is copied, and only a
// copy that was made before the interpreter said so is used. The frames themselves and the chunks that hold them stay
// where they are: no release from 3.8 to 3.15 frees those of a thread that is still within them.
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

inline constexpr uint64_t kBrokenFrame = 1;  // in place of one that cannot be trusted

// Up to 3.14 PyGILState_GetThisThreadState is pthread_getspecific. From then on it reads a thread-local variable, by
// __tls_get_addr if it is in a library: that may allocate.
inline constexpr uint32_t kFirstThreadLocalMinor = 15;

// Where that variable is, from the thread pointer on: the same in each thread for what was there when the program
// started. 0: it is not known, or not the same in each. `object`: as visited by dl_iterate_phdr.
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

// On the C stack above us, or in a page that can be read.
inline bool IsOnStackOrReadable(const ThreadState* thread, uint64_t address, uint64_t bytes, uint32_t second) {
  if (address % 8 != 0) return false;
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  if (here >= thread->stack_low && here < address && address + bytes <= thread->stack_top) return true;
  return IsReadable(address, bytes, second);
}

struct PythonThread {
  uint64_t frame;  // the innermost one; 0: it runs no Python
  uint64_t chunk;  // that new frames go to; 0: up to 3.10
};

// Before 3.12 a thread's own state is known for the first interpreter alone. The first of the list is the latest one.
inline __attribute__((always_inline)) bool IsOfTheOnlyInterpreter(const PythonInterpreter& python,
                                                                  const PythonLayout& layout, uint64_t state) {
  return layout.minor >= 12 ||
         LoadAt<uint64_t>(state + layout.thread_interpreter) ==
             LoadAt<uint64_t>(reinterpret_cast<uint64_t>(python.runtime) + layout.runtime_interpreters);
}

// False: the thread has no state, or it is not certain that it was still there when it was read.
// `layout`: python.layout, or a constant that is equal.
inline __attribute__((always_inline)) bool TakePythonThread(const ThreadState* thread, const PythonInterpreter& python,
                                                            const PythonLayout& layout, uint32_t second,
                                                            PythonThread* own) {
  if (python.is_finalizing() != 0) return false;
  const uint64_t state = OwnPythonState(python);
  const bool has_chunks = layout.thread_chunk != kNoPythonMember;
  const uint32_t last = has_chunks && layout.thread_chunk > layout.thread_id ? layout.thread_chunk : layout.thread_id;
  if (state == 0 || state % 8 != 0 || !IsReadable(state, last + 16u, second)) return false;
  // After an interpreter was ended and another one made, the variable may still point to what was freed.
  if (LoadAt<uint64_t>(state + layout.thread_id) != static_cast<uint64_t>(pthread_self())) return false;
  if (!IsOfTheOnlyInterpreter(python, layout, state)) return false;
  own->chunk = has_chunks ? LoadAt<uint64_t>(state + layout.thread_chunk) : 0;
  own->frame = LoadAt<uint64_t>(state + layout.thread_frame);
  if (layout.cframe_frame != kNoPythonMember && own->frame != 0) {
    // On the C stack, or in the state itself.
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
