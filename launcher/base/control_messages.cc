// SPDX-License-Identifier: Apache-2.0
#include "launcher/base/control_messages.h"

#include <climits>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/base/text.h"
#include "writer/base/utf8.h"
#include "writer/steps/step_markers.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

constexpr std::pair<AskKind, std::string_view> kAsks[] = {
    {AskKind::kCapture, "capture"}, {AskKind::kMonitor, "monitor"},   {AskKind::kTerminate, "terminate"},
    {AskKind::kCancel, "cancel"},   {AskKind::kReceived, "received"}, {AskKind::kStatus, "status"},
    {AskKind::kRefused, "refused"}};
constexpr std::pair<AnswerState, std::string_view> kStates[] = {{AnswerState::kOpen, "open"},
                                                                {AnswerState::kWriting, "writing"},
                                                                {AnswerState::kDone, "done"},
                                                                {AnswerState::kFailed, "failed"}};

template <typename Value, size_t count>
std::string WordOf(Value value, const std::pair<Value, std::string_view> (&table)[count]) {
  for (const auto& [known, word] : table) {
    if (known == value) return std::string(word);
  }
  return "";
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json Parse(std::string_view text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

// Reads members of an untrusted JSON object; keeps the first error.
class Reader {
 public:
  // `json` must outlive the reader: copying deeply nested input needs an equally deep stack.
  explicit Reader(const Json& json) : json_(json) {
    if (!json_.is_object()) Fail("no JSON object");
  }

  void Take(const char* name, uint64_t* value) { TakeNumber(name, value); }
  void Take(const char* name, uint32_t* value) {
    uint64_t number = *value;
    TakeNumber(name, &number);
    if (number > UINT32_MAX) return Fail(name);
    *value = static_cast<uint32_t>(number);
  }
  void Take(const char* name, int* value) {
    const Json* member = Find(name);
    if (member == nullptr) return;
    if (!IsInt(*member)) return Fail(name);
    *value = member->get<int>();
  }
  void Take(const char* name, bool* value) {
    const Json* member = Find(name);
    if (member == nullptr) return;
    if (!member->is_boolean()) return Fail(name);
    *value = member->get<bool>();
  }
  void Take(const char* name, std::string* value) {
    const Json* member = Find(name);
    if (member == nullptr) return;
    if (!member->is_string()) return Fail(name);
    *value = member->get<std::string>();
  }
  template <typename Item>
  void Take(const char* name, std::vector<Item>* value) {
    const Json* member = Find(name);
    if (member == nullptr) return;
    if (!member->is_array()) return Fail(name);
    for (const Json& item : *member) {
      if constexpr (std::is_same_v<Item, int>) {
        if (!IsInt(item)) return Fail(name);
      } else {
        if (!item.is_string()) return Fail(name);
      }
      value->push_back(item.get<Item>());
    }
  }
  template <typename Value, size_t count>
  void TakeWord(const char* name, Value* value, const std::pair<Value, std::string_view> (&table)[count]) {
    std::string word;
    Take(name, &word);
    for (const auto& [known, text] : table) {
      if (word != text) continue;
      *value = known;
      return;
    }
    Fail(name);
  }
  const Json& Object(const char* name) const {
    static const Json* const kNone = new Json(Json::object());
    const Json* member = Find(name);
    return member == nullptr ? *kNone : *member;
  }

  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }
  // A larger number would be truncated, perhaps to the pid of another process.
  static bool IsInt(const Json& json) {
    if (json.is_number_unsigned()) return json.get<uint64_t>() <= INT_MAX;
    return json.is_number_integer() && json.get<int64_t>() >= INT_MIN && json.get<int64_t>() <= INT_MAX;
  }
  void TakeNumber(const char* name, uint64_t* value) {
    const Json* member = Find(name);
    if (member == nullptr) return;
    if (!member->is_number_unsigned()) return Fail(name);
    *value = member->get<uint64_t>();
  }
  void Fail(std::string_view what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(StrCat("control message: ", what));
  }

  const Json& json_;
  absl::Status status_;
};

}  // namespace

uint64_t MaxReplyBytes() {
  const char* const text = getenv("TBPROF_TEST_MAX_REPLY");
  const uint64_t bytes = text == nullptr ? 0 : strtoull(text, nullptr, 10);
  return bytes != 0 ? bytes : uint64_t{1} << 30;
}

std::string ToText(const ControlAsk& ask) {
  Json json = {{"ask", WordOf(ask.kind, kAsks)}, {"id", ask.id}};
  const CaptureRequest& capture = ask.capture;
  if (ask.kind == AskKind::kTerminate) json["capture"] = {{"run", capture.run}};
  if (ask.kind == AskKind::kRefused) {
    json["capture"] = {{"asked_by", capture.asked_by}};
    json["count"] = ask.count;
  }
  if (ask.kind == AskKind::kCapture || ask.kind == AskKind::kMonitor) {
    json["capture"] = {{"duration_ns", capture.duration_ns},
                       {"start_unix_ns", capture.start_unix_ns},
                       {"deadline_unix_ns", capture.deadline_unix_ns},
                       {"families", capture.families},
                       {"run", capture.run},
                       {"host", capture.host},
                       {"repository_root", capture.repository_root},
                       {"asked_by", capture.asked_by},
                       {"step_marker", capture.step_marker},
                       {"warnings", capture.warnings},
                       {"publish", capture.publish},
                       {"summary", capture.summary},
                       {"shared", capture.shared}};
  }
  return Dump(json);
}

absl::StatusOr<ControlAsk> ParseAsk(std::string_view text) {
  ControlAsk ask;
  const Json json = Parse(text);
  Reader reader(json);
  reader.TakeWord("ask", &ask.kind, kAsks);
  reader.Take("id", &ask.id);
  reader.Take("count", &ask.count);
  Reader capture(reader.Object("capture"));
  capture.Take("duration_ns", &ask.capture.duration_ns);
  capture.Take("start_unix_ns", &ask.capture.start_unix_ns);
  capture.Take("deadline_unix_ns", &ask.capture.deadline_unix_ns);
  capture.Take("families", &ask.capture.families);
  capture.Take("run", &ask.capture.run);
  capture.Take("host", &ask.capture.host);
  capture.Take("repository_root", &ask.capture.repository_root);
  capture.Take("asked_by", &ask.capture.asked_by);
  capture.Take("step_marker", &ask.capture.step_marker);
  capture.Take("warnings", &ask.capture.warnings);
  capture.Take("publish", &ask.capture.publish);
  capture.Take("summary", &ask.capture.summary);
  capture.Take("shared", &ask.capture.shared);
  if (!reader.status().ok()) return reader.status();
  if (!capture.status().ok()) return capture.status();
  if (const absl::Status status = CheckStepMarker(ask.capture.step_marker); !status.ok()) {
    return absl::InvalidArgumentError(StrCat("step_marker must be ", std::string(status.message())));
  }
  ask.capture.asked_by = TruncateUtf8(PrintableUtf8(ask.capture.asked_by), 200);
  for (std::string& warning : ask.capture.warnings) warning = TruncateUtf8(PrintableUtf8(warning), 500);
  return ask;
}

std::string ToText(const ControlAnswer& answer) {
  Json json = {{"id", answer.id}, {"state", WordOf(answer.state, kStates)}};
  switch (answer.state) {
    case AnswerState::kOpen:
      json["opens_unix_ns"] = answer.opens_unix_ns;
      json["closes_unix_ns"] = answer.closes_unix_ns;
      break;
    case AnswerState::kWriting:
      json["done"] = answer.done;
      json["total"] = answer.total;
      break;
    case AnswerState::kDone:
      json["files"] = answer.files;
      json["directory"] = answer.directory;
      json["lines"] = answer.lines;
      json["json"] = answer.json;
      break;
    case AnswerState::kFailed:
      json["code"] = static_cast<int>(answer.status.code());
      json["text"] = std::string(answer.status.message());
      break;
  }
  return Dump(json);
}

absl::StatusOr<ControlAnswer> ParseAnswer(std::string_view text) {
  ControlAnswer answer;
  const Json json = Parse(text);
  Reader reader(json);
  reader.Take("id", &answer.id);
  reader.TakeWord("state", &answer.state, kStates);
  reader.Take("opens_unix_ns", &answer.opens_unix_ns);
  reader.Take("closes_unix_ns", &answer.closes_unix_ns);
  reader.Take("done", &answer.done);
  reader.Take("total", &answer.total);
  reader.Take("files", &answer.files);
  reader.Take("directory", &answer.directory);
  reader.Take("lines", &answer.lines);
  reader.Take("json", &answer.json);
  int code = 0;
  std::string words;
  reader.Take("code", &code);
  reader.Take("text", &words);
  if (!reader.status().ok()) return reader.status();
  if (answer.state == AnswerState::kFailed) {
    if (code <= 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
      code = static_cast<int>(absl::StatusCode::kUnknown);
    }
    answer.status = absl::Status(static_cast<absl::StatusCode>(code), words);
  }
  return answer;
}

namespace {

template <typename Status, typename Visitor>
void ForEachMember(Status&& status, const Visitor& visit) {
  visit("pid", status.pid);
  visit("run", status.run);
  visit("logdir", status.logdir);
  visit("host", status.host);
  visit("window", status.window);
  visit("command", status.command);
  visit("since_unix_ns", status.since_unix_ns);
  visit("state", status.state);
  visit("capture_of", status.capture_of);
  visit("capture_until_unix_ns", status.capture_until_unix_ns);
  visit("captures", status.captures);
  visit("processes", status.processes);
  visit("records", status.records);
  visit("dropped", status.dropped);
  visit("pids", status.pids);
  visit("addresses", status.addresses);
  visit("rank", status.rank);
  visit("world_size", status.world_size);
  visit("sure_rank", status.sure_rank);
  visit("ranks", status.ranks);
}

}  // namespace

std::string ToText(const SessionStatus& status) {
  Json json;
  ForEachMember(status, [&json](const char* name, const auto& value) { json[name] = value; });
  return Dump(json);
}

absl::StatusOr<SessionStatus> ParseSessionStatus(std::string_view text) {
  SessionStatus status;
  const Json json = Parse(text);
  Reader reader(json);
  ForEachMember(status, [&reader](const char* name, auto& value) { reader.Take(name, &value); });
  if (!reader.status().ok()) return reader.status();
  return status;
}

}  // namespace tbprof
