// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/option_values.h"

#include <cctype>
#include <charconv>

#include "launcher/base/text.h"
#include "launcher/cli/options.h"

namespace tbprof {
absl::Status Expected(std::string_view what) { return InvalidArgument(StrCat("expected ", what)); }

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  const absl::Status expected = Expected("a duration such as 500ms, 2s or 1m30s");
  if (text.empty() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.')) return expected;
  absl::Duration duration;
  if (!absl::ParseDuration(absl::string_view(text.data(), text.size()), &duration)) return expected;
  if (duration < absl::ZeroDuration() || duration > absl::Hours(24 * 3650)) return expected;
  return duration;
}

absl::StatusOr<uint64_t> ParseSize(std::string_view text) {
  const absl::Status expected = Expected("a size such as 65536, 512KiB, 64MB or 1GiB");
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return expected;
  const std::string unit = LowerCase(std::string_view(end, text.data() + text.size() - end));
  uint64_t factor = 1;
  if (!unit.empty() && unit != "b") {
    const size_t power = std::string_view("kmgt").find(unit[0]);
    const std::string_view rest = std::string_view(unit).substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) return expected;
    for (size_t i = 0; i <= power; ++i) factor *= rest == "b" ? 1000 : 1024;
  }
  uint64_t size;
  if (__builtin_mul_overflow(number, factor, &size)) return expected;
  return size;
}

}  // namespace tbprof
