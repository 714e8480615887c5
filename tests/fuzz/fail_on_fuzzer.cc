// SPDX-License-Identifier: Apache-2.0
//
// A rule of --fail-on: any text is a rule, or an error of one printable line with a place in the text.
#include <cstdint>
#include <string_view>

#include "launcher/gate/fail_on.h"
#include "tests/fuzz/check_timeline.h"
#include "writer/base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tbprof;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  FailOnProblem problem;
  const absl::StatusOr<FailRule> rule = ParseFailRule(text, &problem);
  if (rule.ok()) {
    Require(!rule->name.empty() && PrintableUtf8(rule->text) == rule->text && rule->limit >= -1e25 &&
            rule->limit <= 1e25);
    Require(ApplyFailRule(*rule, Comparison()).state == RuleResult::State::kCannotTell);
    return 0;
  }
  Require(problem.column >= 1 && !problem.message.empty());
  for (const std::string& line : FailOnErrorLines(text, problem)) Require(PrintableUtf8(line) == line);
  return 0;
}
