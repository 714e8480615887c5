// SPDX-License-Identifier: Apache-2.0
#include "launcher/convert/conversion_messages.h"

namespace tbprof {
namespace {

// All fields of a request in one table; `bytes` for values that may not be UTF-8. The two descriptors are not in
// the table, because they have other numbers in the worker.
template <typename Request, typename Text, typename Bytes>
void VisitFields(Request& request, const Text& field, const Bytes& bytes) {
  bytes("spool", request.spool);
  bytes("spool_name", request.spool_name);
  field("main_bytes", request.extent.main_bytes);
  field("first_part", request.extent.first_part);
  field("last_part", request.extent.last_part);
  field("window", request.window);
  bytes("logdir", request.logdir);
  bytes("logdir_place", request.logdir_place);
  field("run", request.run);
  field("run_exclusive", request.run_exclusive);
  field("host", request.host);
  field("max_profile_size", request.max_profile_size);
  field("max_reply_bytes", request.max_reply_bytes);
  bytes("step_marker", request.step_marker);
  field("also", request.also);
  field("warnings", request.warnings);
  field("recovered", request.recovered);
  field("wait_for_ranks", request.wait_for_ranks);
  field("rank_wait_ms", request.rank_wait_ms);
  field("world_size", request.world_size);
  field("agreed_start_unix_ns", request.agreed_start_unix_ns);
  field("durable", request.durable);
  field("delivered", request.delivered);
  field("summary_only", request.summary_only);
  field("summary_wanted", request.summary_wanted);
  field("before_command_ns", request.before_command_ns);
  field("command_end_ns", request.command_end_ns);
  field("command_ended", request.command_ended);
  field("first_step", request.first_step);
  field("last_step", request.last_step);
  field("color", request.color);
  field("width", request.width);
  field("full_summary", request.full_summary);
}

std::vector<std::string> FilesAsText(const std::vector<std::string>& files) {
  std::vector<std::string> texts;
  texts.reserve(files.size());
  for (const std::string& file : files) texts.push_back(BytesToText(file));
  return texts;
}

}  // namespace

std::string BytesToText(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xc0 | byte >> 6);
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

std::string TextToBytes(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80 || i + 1 == text.size()) {
      bytes += text[i];
    } else {
      bytes += static_cast<char>((byte & 0x03) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    }
  }
  return bytes;
}

nlohmann::json ToJson(const ConversionRequest& request) {
  nlohmann::json json = {{"spool_directory", request.spool_directory >= 0 ? kConvertSpoolDirectoryFd : -1},
                         {"logdir_fd", request.logdir_fd >= 0 ? kConvertLogdirFd : -1}};
  VisitFields(
      request, [&](const char* name, const auto& value) { json[name] = value; },
      [&](const char* name, const std::string& value) { json[name] = BytesToText(value); });
  return json;
}

ConversionRequest RequestFromJson(const nlohmann::json& json) {
  ConversionRequest request;
  request.spool_directory = json.at("spool_directory");
  request.logdir_fd = json.at("logdir_fd");
  VisitFields(
      request, [&](const char* name, auto& value) { json.at(name).get_to(value); },
      [&](const char* name, std::string& value) { value = TextToBytes(json.at(name)); });
  return request;
}

nlohmann::json ToJson(const ConversionResult& result) {
  return {{"run", result.run},
          {"directory", result.directory},
          {"files", FilesAsText(result.files)},
          {"lines", result.lines},
          {"steps_from_ns", result.steps_from_ns},
          {"steps_to_ns", result.steps_to_ns},
          {"newest_step", result.newest_step},
          {"step_source", result.step_source},
          {"summary_json", result.summary_json}};
}

void ReadResult(const nlohmann::json& json, ConversionResult* result) {
  result->lines = json.value("lines", std::vector<std::string>());
  result->run = json.value("run", "");
  result->directory = json.value("directory", "");
  for (const std::string& file : json.value("files", std::vector<std::string>())) {
    result->files.push_back(TextToBytes(file));
  }
  result->steps_from_ns = json.value("steps_from_ns", int64_t{-1});
  result->steps_to_ns = json.value("steps_to_ns", int64_t{-1});
  result->newest_step = json.value("newest_step", int64_t{-1});
  result->step_source = json.value("step_source", "");
  result->summary_json = json.value("summary_json", "");
}

}  // namespace tbprof
