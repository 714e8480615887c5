// SPDX-License-Identifier: Apache-2.0
//
// The session record: the facts that the launcher knows at the start of a session, as the JSON of the spool's first
// frame. Its members are rows of wire/settings.def.
//
// Process: launcher (formats) and converter (parses). Untrusted: members may be missing or of another type.
#ifndef TBPROF_WRITER_CONVERT_SESSION_FACTS_H_
#define TBPROF_WRITER_CONVERT_SESSION_FACTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "wire/layout.h"

namespace tbprof {

// The options that the converter needs, some of which the target needs, too.
struct SessionOptions {
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) type name = preset;
#define TBPROF_RECORD_OPTION(type, name, preset, absent, option, meaning) type name = preset;
#include "wire/settings.def"
};

// The maximum (`high`) of each option.
struct OptionMaximum {
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) static constexpr type name = high;
#include "wire/settings.def"
};

struct SessionFacts : SessionOptions {
#define TBPROF_RECORD(type, name, absent, meaning) type name = absent;
#include "wire/settings.def"
};

// Replaces bytes that are not valid UTF-8.
std::string FormatSession(const SessionFacts& facts);
// Returns an error if the text does not describe a session.
absl::StatusOr<SessionFacts> ParseSession(std::string_view json);

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_SESSION_FACTS_H_
