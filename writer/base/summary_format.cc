// SPDX-License-Identifier: Apache-2.0
#include "writer/base/summary_format.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Three digits, without an exponent: 1.23, 12.3, 123.
std::string ThreeDigits(double value) {
  if (value >= 99.95) return absl::StrFormat("%.0f", value);
  if (value >= 9.995) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.2f", value);
}

}  // namespace

std::string HumanTime(int64_t picoseconds) {
  if (picoseconds < 0) return StrCat("-", HumanTime(picoseconds == INT64_MIN ? INT64_MAX : -picoseconds));
  const double seconds = static_cast<double>(picoseconds) / 1e12;
  if (picoseconds == 0) return "0 s";
  if (seconds < 0.9995e-6) return StrCat(ThreeDigits(seconds * 1e9), " ns");
  if (seconds < 0.9995e-3) return StrCat(ThreeDigits(seconds * 1e6), " us");
  if (seconds < 0.9995) return StrCat(ThreeDigits(seconds * 1e3), " ms");
  if (seconds < 119.5) return StrCat(ThreeDigits(seconds), " s");
  const int64_t whole = std::llround(seconds);
  if (whole < 7200) return StrCat(whole / 60, " min ", whole % 60, " s");
  return StrCat(whole / 3600, " h ", whole % 3600 / 60, " min");
}

std::string HumanSeconds(double seconds) {
  constexpr double kMost = 9e18;
  const double picoseconds = seconds * 1e12;
  // The negated comparison includes NaN, which gives 0.
  if (!(picoseconds > -kMost)) return HumanTime(std::isnan(seconds) ? 0 : static_cast<int64_t>(-kMost));
  return HumanTime(picoseconds < kMost ? static_cast<int64_t>(picoseconds) : static_cast<int64_t>(kMost));
}

std::string StepLengthText(double median_s, double mean_s) {
  constexpr double kFarApart = 1.3;
  const bool is_even = mean_s < median_s * kFarApart && median_s < mean_s * kFarApart;
  return StrCat("median ", HumanSeconds(median_s), is_even ? "" : StrCat(", mean ", HumanSeconds(mean_s)));
}

std::string IrregularText(uint64_t count, double irregular_s, double regular_s) {
  constexpr double kLeastShare = 0.1;
  if (count == 0) return "";
  const double all = irregular_s + regular_s;
  const double share = all > 0 ? irregular_s / all : 0;
  return StrCat(", ", count, " more irregular",
                share < kLeastShare ? "" : StrCat(" (", HumanPercent(share), " of the time)"));
}

std::string HumanBytes(double bytes) {
  if (bytes < 0) return StrCat("-", HumanBytes(-bytes));
  if (bytes < 1023.5) return absl::StrFormat("%.0f B", bytes);
  static constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 1023.5 && unit + 1 < std::size(kUnits); bytes /= 1024) ++unit;
  return StrCat(ThreeDigits(bytes), " ", kUnits[unit]);
}

std::string HumanCount(uint64_t count) {
  if (count < 10'000) return StrCat(count);
  const double value = static_cast<double>(count);
  if (value < 999'500) return StrCat(ThreeDigits(value / 1e3), " k");
  if (value < 999.5e6) return StrCat(ThreeDigits(value / 1e6), " M");
  return StrCat(ThreeDigits(value / 1e9), " G");
}

std::string HumanPercent(double fraction) {
  const double percent = std::clamp(fraction * 100, -1e9, 1e9);
  return percent < 9.95 ? absl::StrFormat("%.1f %%", percent) : absl::StrFormat("%.0f %%", percent);
}

std::string ShellQuoted(std::string_view text) {
  bool plain = !text.empty();
  for (char c : text) {
    // A shell does not interpret the bytes of UTF-8 characters.
    const bool safe = absl::ascii_isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80 ||
                      std::string_view("/._-+=:,@%^").find(c) != std::string_view::npos;
    plain = plain && safe;
  }
  // A terminal would execute unprintable characters. They are written as $'\x1b', which bash and zsh read.
  const bool printable = PrintableUtf8(text) == text;
  if (plain && printable) return std::string(text);
  if (!printable) {
    std::string word = "$'";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '\'' || c == '\\') {
        word += StrCat("\\", std::string(1, c));
      } else if (byte >= 0x20 && byte < 0x7f) {
        word += c;
      } else {
        word += absl::StrFormat("\\x%02x", byte);
      }
    }
    return word + "'";
  }
  std::string out = "'";
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace tbprof
