// SPDX-License-Identifier: Apache-2.0
//
// The Python stack of the calling thread, at the instant of what is recorded of it.
//
//   record->python_stack = PythonStackOf(thread, Ticks());
//
// Only a thread itself changes its frames, so they can be followed without the interpreter's lock. No Python code runs
// and nothing of the interpreter is changed. Up to 3.11 a process has no Python stacks while it has several
// interpreters: the thread's own state is then known for the first of them alone.
//
// Process: target, any thread, any signal handler, fork children. FindPythonAtStart in the constructor only.
// Rules: RULES.md.
#ifndef TBPROF_PRELOAD_PYTHON_H_
#define TBPROF_PRELOAD_PYTHON_H_

#include <link.h>
#include <stdint.h>

#include "preload/state.h"
#include "wire/python_layout.h"

namespace tbprof {

// The CPython of this process.
struct PythonInterpreter {
  PythonLayout layout;
  int row;                        // of kPythonLayouts, if it is that one; else -1
  const uint8_t* runtime;         // _PyRuntime
  uint64_t code_type;             // &PyCode_Type
  const uint8_t* (*own_state)();  // PyGILState_GetThisThreadState; up to 3.14 by pthread_getspecific
  int64_t state_offset;           // from 3.15 on what that reads, from the thread pointer on; else 0
  int (*is_finalizing)();         // thread states of other threads are freed while it is
  uint32_t second_shift;          // of Ticks(): what is left counts in about a second
};
// Null: none was found, or its stacks cannot be read.
extern __attribute__((visibility("hidden"))) const PythonInterpreter* g_python;

// Where records carry Python stacks: looks at what is loaded.
void FindPythonAtStart(ThreadState* thread);
// Looks at a library that has just been seen for the first time, and that cannot be unloaded now.
void LookForPython(ThreadState* thread, const link_map* library);
// Its frames are not what they should be: no more stacks in this process.
void DisablePython(ThreadState* thread, const char* reason);

uint32_t ReadPythonStack(ThreadState* thread, const PythonInterpreter& python, uint64_t ticks);

// The number of a PythonStack record of this thread, committed before; 0: it runs no Python, or its stack is not known,
// as on an alternate signal stack and while the interpreter ends.
// `ticks`: now.
inline uint32_t PythonStackOf(ThreadState* thread, uint64_t ticks) {
  const PythonInterpreter* const python = __atomic_load_n(&g_python, __ATOMIC_ACQUIRE);
  return python == nullptr ? 0 : ReadPythonStack(thread, *python, ticks);
}

void NoteCurrentPythonStackSlow(ThreadState* thread);

// --malloc=exact: before the record of a block that is allocated.
inline void NoteCurrentPythonStack(ThreadState* thread) {
  const bool has_python = __atomic_load_n(&g_python, __ATOMIC_RELAXED) != nullptr;
  if (has_python || thread->current_python_stack != 0) NoteCurrentPythonStackSlow(thread);
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_PYTHON_H_
