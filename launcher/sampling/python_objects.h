// SPDX-License-Identifier: Apache-2.0
//
// Where the members of CPython's objects with attributes lie, by minor version: types, dictionaries, and the local
// variables of a frame. What is read of every stack is in wire/python_layout.h.
//
// Process: launcher. Constants alone.
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
  // PyDictKeysObject; `keys_size`: of the index, up to 3.10 its entries (8 bytes), later log2 of its bytes (1 byte)
  uint16_t keys_size, keys_kind, keys_count, keys_index;
  // PyDictValues; `values_valid`: of those within the object
  uint16_t values_first, values_valid;
  // How far in front of the object a pointer to its values, or to its dictionary, lies. Where both are the same, bit 0
  // is set for values.
  uint16_t values_before, dict_before;
  uint16_t values_within;  // behind the object's begin: the values themselves
};

inline constexpr PythonObjectLayout kPythonObjectLayouts[] = {
#define PYTHON_OBJECTS(...) {__VA_ARGS__},
#include "launcher/sampling/python_objects.def"
#undef PYTHON_OBJECTS
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_PYTHON_OBJECTS_H_
