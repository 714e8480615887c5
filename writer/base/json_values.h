// SPDX-License-Identifier: Apache-2.0
//
// Values as the members of a JSON object have them.
//
// Process: converter, launcher. Pure functions.
#ifndef TBPROF_WRITER_BASE_JSON_VALUES_H_
#define TBPROF_WRITER_BASE_JSON_VALUES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "writer/base/utf8.h"

namespace tbprof {

inline double Seconds(int64_t picoseconds) { return static_cast<double>(picoseconds) / 1e12; }

// 0 of nothing.
inline double PartOf(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

inline nlohmann::ordered_json KnownOrNull(bool known, const nlohmann::ordered_json& value) {
  return known ? value : nlohmann::ordered_json(nullptr);
}

inline nlohmann::ordered_json TextOrNull(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(ValidUtf8(text));
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_JSON_VALUES_H_
