// SPDX-License-Identifier: Apache-2.0
#include "launcher/control_messages.h"

#include <climits>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/text.h"
#include "writer/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

constexpr std::pair<AskKind, std::string_view> kAsks[] = {
    {AskKind::kCapture, "capture"}, {AskKind::kMonitor, "monitor"},   {AskKind::kTerminate, "terminate"},
    {AskKind::kCancel, "cancel"},   {AskKind::kReceived, "received"}, {AskKind::kStatus, "status"}};
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

// Takes members of an object that may be anything; the first that is not what it should be is remembered.
class Reader {
 public:
  // `json` must outlive it: to copy what others have nested deeply takes as deep a stack.
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
  // A wider number would be cut, to another process's pid perhaps.
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
  if (ask.kind == AskKind::kCapture || ask.kind == AskKind::kMonitor) {
    json["capture"] = {{"duration_ns", capture.duration_ns},
                       {"start_unix_ns", capture.start_unix_ns},
                       {"deadline_unix_ns", capture.deadline_unix_ns},
                       {"families", capture.families},
                       {"run", capture.run},
                       {"host", capture.host},
                       {"repository_root", capture.repository_root},
                       {"asked_by", capture.asked_by},
                       {"warnings", capture.warnings},
                       {"publish", capture.publish},
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
  Reader capture(reader.Object("capture"));
  capture.Take("duration_ns", &ask.capture.duration_ns);
  capture.Take("start_unix_ns", &ask.capture.start_unix_ns);
  capture.Take("deadline_unix_ns", &ask.capture.deadline_unix_ns);
  capture.Take("families", &ask.capture.families);
  capture.Take("run", &ask.capture.run);
  capture.Take("host", &ask.capture.host);
  capture.Take("repository_root", &ask.capture.repository_root);
  capture.Take("asked_by", &ask.capture.asked_by);
  capture.Take("warnings", &ask.capture.warnings);
  capture.Take("publish", &ask.capture.publish);
  capture.Take("shared", &ask.capture.shared);
  if (!reader.status().ok()) return reader.status();
  if (!capture.status().ok()) return capture.status();
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

std::string ToText(const SessionStatus& status) {
  return Dump({{"pid", status.pid},
               {"run", status.run},
               {"logdir", status.logdir},
               {"host", status.host},
               {"window", status.window},
               {"command", status.command},
               {"since_unix_ns", status.since_unix_ns},
               {"state", status.state},
               {"capture_of", status.capture_of},
               {"capture_until_unix_ns", status.capture_until_unix_ns},
               {"captures", status.captures},
               {"processes", status.processes},
               {"records", status.records},
               {"dropped", status.dropped},
               {"pids", status.pids},
               {"addresses", status.addresses},
               {"rank", status.rank},
               {"world_size", status.world_size},
               {"sure_rank", status.sure_rank},
               {"ranks", status.ranks}});
}

absl::StatusOr<SessionStatus> ParseSessionStatus(std::string_view text) {
  SessionStatus status;
  const Json json = Parse(text);
  Reader reader(json);
  reader.Take("pid", &status.pid);
  reader.Take("run", &status.run);
  reader.Take("logdir", &status.logdir);
  reader.Take("host", &status.host);
  reader.Take("window", &status.window);
  reader.Take("command", &status.command);
  reader.Take("since_unix_ns", &status.since_unix_ns);
  reader.Take("state", &status.state);
  reader.Take("capture_of", &status.capture_of);
  reader.Take("capture_until_unix_ns", &status.capture_until_unix_ns);
  reader.Take("captures", &status.captures);
  reader.Take("processes", &status.processes);
  reader.Take("records", &status.records);
  reader.Take("dropped", &status.dropped);
  reader.Take("pids", &status.pids);
  reader.Take("addresses", &status.addresses);
  reader.Take("rank", &status.rank);
  reader.Take("world_size", &status.world_size);
  reader.Take("sure_rank", &status.sure_rank);
  reader.Take("ranks", &status.ranks);
  if (!reader.status().ok()) return reader.status();
  return status;
}

}  // namespace tbprof
