// SPDX-License-Identifier: Apache-2.0
//
// Events files and profiles made by hand, valid and invalid.
#ifndef TBPROF_TESTS_UNIT_WRITER_EVENT_MAKER_H_
#define TBPROF_TESTS_UNIT_WRITER_EVENT_MAKER_H_

#include <cstdint>
#include <string>

#include "writer/logdir/event_file.h"

namespace tbprof::event_maker {

template <typename T>
inline std::string Raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline std::string Varint(uint64_t value) {
  std::string out;
  for (; value > 0x7F; value >>= 7) out += static_cast<char>(value | 0x80);
  return out += static_cast<char>(value);
}

inline std::string Field(int number, const std::string& bytes) {
  std::string out = Varint(static_cast<uint64_t>(number) << 3 | 2);
  out += Varint(bytes.size());
  return out += bytes;
}

inline std::string Record(const std::string& data) {
  std::string out = Raw(static_cast<uint64_t>(data.size()));
  out += Raw(MaskedCrc32c(out));
  out += data;
  return out += Raw(MaskedCrc32c(data));
}

inline std::string Event(double wall, uint64_t step, const std::string& rest) {
  std::string out = "\x09" + Raw(wall);
  if (step != 0) {
    out += '\x10';
    out += Varint(step);
  }
  return out += rest;
}

inline std::string Version(double wall = 1) { return Record(Event(wall, 0, Field(3, "brain.Event:2"))); }
inline std::string Value(const std::string& tag, const std::string& more = {}) {
  return Field(1, Field(1, tag) + more);
}
inline std::string Scalar(const std::string& tag, uint64_t step, double wall = 2) {
  return Record(Event(wall, step, Field(5, Value(tag, "\x15" + Raw(1.0f)))));
}

inline std::string Plane(const std::string& name, const std::string& rest = {}) {
  return Field(1, Field(2, name) + rest);
}
// A profile with one event.
inline std::string ProfileWithoutSteps(const std::string& rest = {}) {
  return Plane("/host:CPU", Field(3, Field(2, "thread") + Field(4, "\x08\x01"))) + rest;
}
// A plane with one event named `event`, which has a stat named `stat` with value 1.
inline std::string PlaneWith(const std::string& event, const std::string& stat) {
  const auto metadata = [](int field, const std::string& name) {
    return Field(field, "\x08\x01" + Field(2, "\x08\x01" + Field(2, name)));
  };
  return Plane("/host:CPU", Field(3, Field(4, "\x08\x01" + Field(4, std::string("\x08\x01\x20\x01")))) +
                                metadata(4, event) + metadata(5, stat));
}
// A profile with a step.
inline std::string Profile(const std::string& rest = {}) { return PlaneWith("train", "_r") + rest; }

}  // namespace tbprof::event_maker

#endif  // TBPROF_TESTS_UNIT_WRITER_EVENT_MAKER_H_
