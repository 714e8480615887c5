// SPDX-License-Identifier: Apache-2.0
//
// Offsets of the members of CPython's objects with attributes, by minor version: types, dictionaries, and the local
// variables of a frame. The offsets that are needed for every stack are in wire/python_layout.h.
//
// Process: launcher. Constants only.
#ifndef TBPROF_LAUNCHER_SAMPLING_PYTHON_OBJECTS_H_
#define TBPROF_LAUNCHER_SAMPLING_PYTHON_OBJECTS_H_

#include <cstdint>

namespace tbprof {

inline constexpr uint16_t kNoObjectMember = 0xffff;

// Offsets in bytes; kNoObjectMember where a version has none.
struct PythonObjectLayout {
  uint16_t minor;
  uint16_t frame_locals;  // of the frame that wire/python_layout.h describes
  // PyTypeObject, PyHeapTypeObject
  uint16_t type_flags, type_dict_offset, type_keys;
  // PyDictObject
  uint16_t dict_keys, dict_values;
  // PyDictKeysObject; `keys_size`: size of the index, up to 3.10 in entries (8 bytes), later log2 of bytes (1 byte)
  uint16_t keys_size, keys_kind, keys_count, keys_index;
  // PyDictValues; `values_valid`: flag of values that lie within the object
  uint16_t values_first, values_valid;
  // Distance from the object back to the pointer to its values, or to its dictionary. If both distances are equal, bit
  // 0 of the pointer is set for values.
  uint16_t values_before, dict_before;
  uint16_t values_within;  // offset of the values from the object's begin
};

inline constexpr PythonObjectLayout kPythonObjectLayouts[] = {
#define PYTHON_OBJECTS(...) {__VA_ARGS__},
#include "launcher/sampling/python_objects.def"
#undef PYTHON_OBJECTS
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_OBJECTS_H_
