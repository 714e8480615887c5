// SPDX-License-Identifier: Apache-2.0
//
// The Python stack of the calling thread at the time of a record.
//
//   record->python_stack = PythonStackOf(thread, Ticks());
//
// Only the thread itself changes its frames, so it can follow them without the interpreter's lock. No Python code runs,
// and the interpreter's state does not change. Up to 3.11 a process has no Python stacks while it has several
// interpreters: the thread's own state is then known for the first interpreter only.
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
  int row;                        // index of the equal row of kPythonLayouts, else -1
  const uint8_t* runtime;         // _PyRuntime
  uint64_t code_type;             // &PyCode_Type
  const uint8_t* (*own_state)();  // PyGILState_GetThisThreadState; up to 3.14 by pthread_getspecific
  int64_t
      state_offset;  // from 3.15 on: the variable that own_state reads, as an offset from the thread pointer; else 0
  int (*is_finalizing)();  // while it returns true, thread states of other threads are freed
  uint32_t second_shift;   // Ticks() >> second_shift changes about every second
};
// Null: no interpreter was found, or its stacks cannot be read.
extern __attribute__((visibility("hidden"))) const PythonInterpreter* g_python;

// If records carry Python stacks: looks for an interpreter in the loaded objects.
void FindPythonAtStart(ThreadState* thread);
// Checks whether a library that was seen for the first time, and that cannot be unloaded now, is an interpreter.
void LookForPython(ThreadState* thread, const link_map* library);
// The frames do not have the expected layout: this process records no more Python stacks.
void DisablePython(ThreadState* thread, const char* reason);

uint32_t ReadPythonStack(ThreadState* thread, const PythonInterpreter& python, uint64_t ticks);

// Returns the number of a committed PythonStack record of this thread. 0: the thread runs no Python, or its stack is
// not known, as on an alternate signal stack and while the interpreter ends. `ticks`: now.
inline uint32_t PythonStackOf(ThreadState* thread, uint64_t ticks) {
  const PythonInterpreter* const python = __atomic_load_n(&g_python, __ATOMIC_ACQUIRE);
  return python == nullptr ? 0 : ReadPythonStack(thread, *python, ticks);
}

void NoteCurrentPythonStackSlow(ThreadState* thread);

// --malloc=exact: call this before the record of an allocated block.
inline void NoteCurrentPythonStack(ThreadState* thread) {
  const bool has_python = __atomic_load_n(&g_python, __ATOMIC_RELAXED) != nullptr;
  if (has_python || thread->current_python_stack != 0) NoteCurrentPythonStackSlow(thread);
}

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_PYTHON_H_
