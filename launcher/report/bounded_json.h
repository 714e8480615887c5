// SPDX-License-Identifier: Apache-2.0
//
// Reads an untrusted JSON file with bounds on everything that it can grow: file size, nesting, texts and values.
//
//   absl::StatusOr<nlohmann::json> json = ReadBoundedJson(fd, path);   // `path: byte 17: it ends too early`
//
// Process: launcher. Content is untrusted. Any thread.
#ifndef TBPROF_LAUNCHER_REPORT_BOUNDED_JSON_H_
#define TBPROF_LAUNCHER_REPORT_BOUNDED_JSON_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tbprof {

struct JsonLimits {
  uint64_t file_bytes = uint64_t{512} << 20;
  size_t depth = 64;
  size_t text_bytes = 1 << 20;       // per text
  size_t array_values = 2000;        // per array; further elements are left out
  size_t values = 1'000'000;         // kept in the whole file
  size_t all_text_bytes = 64 << 20;  // kept in the whole file
  size_t kept_text_bytes = 8 << 10;  // per text; the rest is left out
};

// `path`: the file's name in messages.
absl::StatusOr<nlohmann::json> ReadBoundedJson(int fd, const std::string& path, const JsonLimits& limits = {});
absl::StatusOr<nlohmann::json> ParseBoundedJson(std::string_view text, const std::string& path,
                                                const JsonLimits& limits = {});

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_BOUNDED_JSON_H_
