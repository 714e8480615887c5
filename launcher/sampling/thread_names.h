// SPDX-License-Identifier: Apache-2.0
//
// Reads the names that a Python program gives its threads (`threading.Thread.name`) from its memory. CPython before
// 3.14 does not pass them to the system.
//
//   ThreadNames names(layout, ProcessMemory(pid));
//   if (const uint64_t frame = reader.ThreadStartFrame(frames)) name = names.Read(frame);
//
// The outermost frame of such a thread is `Thread._bootstrap(self)`, which exists as long as the thread. Its first
// local variable is the Thread object. The name is the attribute `_name`, in the object's values or in its dictionary.
//
// Untrusted: everything that is read. At most kMostEntries attributes are read, and a name must be a text.
//
// Process: launcher, the sampler's thread. Not thread-safe.
#ifndef TBPROF_LAUNCHER_SAMPLING_THREAD_NAMES_H_
#define TBPROF_LAUNCHER_SAMPLING_THREAD_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "launcher/sampling/python_objects.h"
#include "launcher/sampling/target_memory.h"
#include "wire/python_layout.h"

namespace tbprof {

class ThreadNames {
 public:
  static constexpr uint64_t kMostEntries = 256;
  static constexpr size_t kMostNameBytes = 128;

  ThreadNames(const PythonLayout& layout, ReadMemory read);

  // Empty: no name could be read.
  std::string Read(uint64_t frame) const;

 private:
  // The addresses of the keys and values of an object's attributes.
  struct Attributes {
    uint64_t keys = 0;
    uint64_t values = 0;  // 0: the values are beside the keys
  };

  bool Load(uint64_t address, void* out, size_t size) const;
  uint64_t LoadPointer(uint64_t address) const;  // 0: none
  std::optional<Attributes> AttributesOf(uint64_t object) const;
  std::optional<Attributes> AttributesOfDictionary(uint64_t dictionary) const;
  uint64_t ValueOf(const Attributes& attributes) const;

  PythonLayout layout_;
  const PythonObjectLayout* objects_ = nullptr;  // null: not known for this version
  ReadMemory read_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_THREAD_NAMES_H_
