// SPDX-License-Identifier: Apache-2.0
//
// Where the members of CPython's internal structures lie, by minor version: what reading Python stacks from outside, or
// from a hook, needs.
//
// Process: launcher. Constants alone.
#ifndef TBPROF_WIRE_PYTHON_LAYOUT_H_
#define TBPROF_WIRE_PYTHON_LAYOUT_H_

#include <stdint.h>

namespace tbprof {

inline constexpr uint16_t kNoPythonMember = 0xffff;

// Offsets in bytes; kNoPythonMember where a version has none.
struct PythonLayout {
  uint16_t minor;
  // _PyRuntimeState
  uint16_t runtime_interpreters, runtime_main_thread;
  // PyInterpreterState
  uint16_t interpreter_next, interpreter_threads;
  // PyThreadState; `thread_frame` points to a _PyCFrame where `cframe_frame` is there, else to the innermost frame
  uint16_t thread_next, thread_interpreter, thread_frame, thread_id, thread_native_id, thread_chunk;
  uint16_t cframe_frame;
  // _PyInterpreterFrame; up to 3.10 PyFrameObject. `frame_size`: of its fixed part
  uint16_t frame_code, frame_previous, frame_instruction, frame_owner, frame_size;
  // PyCodeObject; `code_bytes`: up to 3.10 the bytes object with the instructions, later their number
  uint16_t code_flags, code_first_line, code_file, code_name, code_qualname, code_table, code_instructions, code_bytes;
  // PyObject, PyTypeObject, PyBytesObject
  uint16_t object_type, type_name, bytes_size, bytes_data;
  // PyASCIIObject, PyCompactUnicodeObject, PyUnicodeObject
  uint16_t text_length, text_state, text_ascii, text_compact, text_data;
};

inline constexpr PythonLayout kPythonLayouts[] = {
#define PYTHON_LAYOUT(...) {__VA_ARGS__},
#define PYTHON_DEBUG_OFFSETS(...)
#include "wire/python_layouts.def"
#undef PYTHON_LAYOUT
#undef PYTHON_DEBUG_OFFSETS
};

// In these the numbers are offsets into the _Py_DebugOffsets at the beginning of _PyRuntime, of 8 bytes each.
inline constexpr PythonLayout kPythonDebugOffsets[] = {
#define PYTHON_LAYOUT(...)
#define PYTHON_DEBUG_OFFSETS(...) {__VA_ARGS__},
#include "wire/python_layouts.def"
#undef PYTHON_LAYOUT
#undef PYTHON_DEBUG_OFFSETS
};

// The data stack of a thread from 3.11 on: chunks that hold its frames, the newest first.
struct PythonChunk {
  uint64_t previous, size,
      top;  // `top`: of an older chunk, in words behind this header; not kept up to date in the newest
};

}  // namespace tbprof

#endif  // TBPROF_WIRE_PYTHON_LAYOUT_H_
