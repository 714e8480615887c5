// SPDX-License-Identifier: Apache-2.0
//
// A message of the control socket, read as each of the three: what is parsed is the same when it is written and parsed
// again.
#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/base/control_messages.h"
#include "tests/fuzz/check_timeline.h"
#include "writer/base/utf8.h"

namespace {

using namespace tbprof;

template <typename Message>
void Check(const absl::StatusOr<Message>& message, absl::StatusOr<Message> (*parse)(std::string_view)) {
  if (!message.ok()) {
    Require(absl::IsInvalidArgument(message.status()) && message.status().message().size() < 200);
    return;
  }
  const std::string text = ToText(*message);
  const absl::StatusOr<Message> again = parse(text);
  Require(again.ok() && ToText(*again) == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<ControlAsk> ask = ParseAsk(text);
  Check(ask, &ParseAsk);
  if (ask.ok()) {
    Require(ask->capture.asked_by.size() <= 200 && PrintableUtf8(ask->capture.asked_by) == ask->capture.asked_by);
    for (const std::string& warning : ask->capture.warnings) {
      Require(warning.size() <= 500 && PrintableUtf8(warning) == warning);
    }
  }
  const absl::StatusOr<ControlAnswer> answer = ParseAnswer(text);
  Check(answer, &ParseAnswer);
  // What has failed is no success.
  if (answer.ok()) Require(answer->status.ok() == (answer->state != AnswerState::kFailed));
  Check(ParseSessionStatus(text), &ParseSessionStatus);
  return 0;
}
