// SPDX-License-Identifier: Apache-2.0
//
// Formats quantities for people.
#ifndef TBPROF_WRITER_BASE_SUMMARY_FORMAT_H_
#define TBPROF_WRITER_BASE_SUMMARY_FORMAT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace tbprof {

std::string HumanTime(int64_t picoseconds);  // `45 us`, `1.23 s`, `2 min 5 s`, `3 h 12 min`
std::string HumanSeconds(double seconds);    // likewise; clamped to the range of int64_t picoseconds
std::string HumanBytes(double bytes);        // `512 B`, `1.2 GiB`
std::string HumanCount(uint64_t count);      // `9999`, `12.3 k`, `4.5 M`
std::string HumanPercent(double fraction);   // `0.3 %`, `32 %`
// `median 33 ms`; `median 33 ms, mean 316 ms` if one is 1.3 times the other: most of the time is then in few steps.
std::string StepLengthText(double median_s, double mean_s);
// `, 104 more irregular (67 % of the time)`; without the share if it is below a tenth; empty if there are none.
// `irregular_s`, `regular_s`: the time in steps of either kind.
std::string IrregularText(uint64_t count, double irregular_s, double regular_s);
std::string ShellQuoted(std::string_view text);  // unchanged if no shell would interpret it, else in single quotes

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_SUMMARY_FORMAT_H_
