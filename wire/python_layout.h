// SPDX-License-Identifier: Apache-2.0
//
// The offsets of members of CPython's internal structures, by minor version, for reading Python stacks from outside of
// the process or from a hook.
//
// Process: target and launcher. No allocation.
#ifndef TBPROF_WIRE_PYTHON_LAYOUT_H_
#define TBPROF_WIRE_PYTHON_LAYOUT_H_

#include <stddef.h>
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
  // The garbage collector's state, in the runtime or the interpreter, and an int in that state; the thread state that
  // held the GIL last, in the runtime or the interpreter
  uint16_t runtime_gc, interpreter_gc, gc_collecting, runtime_gil_holder, interpreter_gil_holder;
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

// Here the numbers are offsets into the _Py_DebugOffsets at the beginning of _PyRuntime, where each entry has 8 bytes.
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

// The owner of a frame, from 3.11 on.
inline constexpr uint8_t kPythonOwnedByGenerator = 1;
// Frames between Python and C that run no code of a program: 3 in 3.12 and later, 4 in 3.14 as well.
inline constexpr uint8_t kPythonFirstWithoutCode = 3, kPythonLastWithoutCode = 4;
inline bool PythonFrameRunsCode(uint8_t owner) { return owner < kPythonFirstWithoutCode; }
// From 3.14 on a frame's reference to its code has tags in these bits (pycore_stackref.h).
inline constexpr uint16_t kPythonFirstTaggedMinor = 14;
inline constexpr uint64_t kPythonReferenceTags = 3;

// Whether the members that are read lie within the part of each structure that is read.
inline bool IsConsistentPythonLayout(const PythonLayout& layout) {
  const uint32_t frame_end = layout.frame_size;
  if (frame_end > 512 || layout.thread_chunk <= layout.thread_frame || layout.thread_chunk > 4096 ||
      layout.thread_id <= layout.thread_frame) {
    return false;
  }
  if (layout.frame_code + 8u > frame_end || layout.frame_previous + 8u > frame_end ||
      layout.frame_instruction + 8u > frame_end || layout.frame_owner + 1u > frame_end) {
    return false;
  }
  return layout.text_ascii <= 64 && layout.text_length + 8u <= layout.text_ascii &&
         layout.text_state + 4u <= layout.text_ascii;
}

// How much of _Py_DebugOffsets is read.
inline constexpr size_t kPythonDebugBytes = 1024;

// Replaces the offsets that the interpreter's own table has. `where`: a row of kPythonDebugOffsets.
inline bool ApplyPythonDebugOffsets(const uint8_t* table, size_t table_bytes, const PythonLayout& where,
                                    PythonLayout* layout, bool* free_threaded) {
  if (table_bytes < 24 || __builtin_memcmp(table, "xdebugpy", 8) != 0) return false;
  uint64_t value;
  __builtin_memcpy(&value, table + 16, 8);
  *free_threaded = value != 0;
  const auto* const places = reinterpret_cast<const uint16_t*>(&where);
  auto* const offsets = reinterpret_cast<uint16_t*>(layout);
  for (size_t i = 1; i < sizeof(PythonLayout) / sizeof(uint16_t); ++i) {
    if (places[i] == kNoPythonMember) continue;
    if (places[i] + 8u > table_bytes) return false;
    __builtin_memcpy(&value, table + places[i], 8);
    if (value >= kNoPythonMember - 64u) return false;
    offsets[i] = static_cast<uint16_t>(value);
  }
  return IsConsistentPythonLayout(*layout);
}

}  // namespace tbprof

#endif  // TBPROF_WIRE_PYTHON_LAYOUT_H_
