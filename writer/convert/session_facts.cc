// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/session_facts.h"

#include <concepts>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "writer/base/secrets.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/convert/timeline_builder.h"
#include "writer/spool/spool.h"
#include "writer/steps/step_markers.h"

namespace tbprof {
namespace {

constexpr size_t kMaxWindows = 10'000;

std::string Valid(const std::string& text) { return ValidUtf8(text); }
std::vector<std::string> Valid(std::vector<std::string> texts) {
  for (std::string& text : texts) text = ValidUtf8(std::move(text));
  return texts;
}
template <typename Number>
Number Valid(Number number) {
  return number;
}

// Returns whether the value has the field's type and fits; otherwise the field is unchanged.
bool Read(const nlohmann::json& value, bool* field) {
  if (value.is_boolean()) *field = value.get<bool>();
  return value.is_boolean();
}
bool Read(const nlohmann::json& value, double* field) {
  if (value.is_number()) *field = value.get<double>();
  return value.is_number();
}
template <std::integral Number>
bool Read(const nlohmann::json& value, Number* field) {
  const bool fits = value.is_number_unsigned()  ? std::in_range<Number>(value.get<uint64_t>())
                    : value.is_number_integer() ? std::in_range<Number>(value.get<int64_t>())
                                                : false;
  if (fits) *field = value.get<Number>();
  return fits;
}
bool Read(const nlohmann::json& value, std::string* field) {
  if (value.is_string()) *field = value.get<std::string>();
  return value.is_string();
}
bool Read(const nlohmann::json& value, std::vector<std::string>* field) {
  if (!value.is_array()) return false;
  for (const auto& text : value) {
    if (text.is_string()) field->push_back(text.get<std::string>());
  }
  return true;
}

}  // namespace

std::string FormatSession(const SessionFacts& facts) {
  nlohmann::json json;
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) json[#name] = Valid(facts.name);
#define TBPROF_RECORD_OPTION(type, name, preset, absent, option, meaning) json[#name] = Valid(facts.name);
#define TBPROF_RECORD(type, name, absent, meaning) json[#name] = Valid(facts.name);
#include "wire/settings.def"
  return json.dump();
}

absl::StatusOr<SessionFacts> ParseSession(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError("the spool's description of the session is unreadable");
  SessionFacts facts;
  const auto read = [&json](const char* name, auto* field) {
    const auto found = json.find(name);
    return found != json.end() && Read(*found, field);
  };
  const auto is_within = [](uint64_t number, uint64_t low, uint64_t high) { return number >= low && number <= high; };
#define TBPROF_OPTION(type, name, preset, absent, low, high, option, meaning) \
  if (!read(#name, &facts.name) || !is_within(facts.name, low, high)) facts.name = absent;
#define TBPROF_RECORD_OPTION(type, name, preset, absent, option, meaning) \
  facts.name = absent;                                                    \
  read(#name, &facts.name);
#define TBPROF_RECORD(type, name, absent, meaning) read(#name, &facts.name);
#include "wire/settings.def"
  if (!(facts.ticks_per_ns > 0.001 && facts.ticks_per_ns < 1000)) facts.ticks_per_ns = 1.0;
  if (!CheckStepMarker(facts.step_marker).ok()) facts.step_marker.clear();
  facts.command = MaskSecrets(facts.command);
  return facts;
}

absl::StatusOr<SpoolSummary> ReadSpoolSummary(const std::string& path) {
  auto reader = SpoolReader::Open(path);
  if (!reader.ok()) return reader.status();
  Frame frame;
  SpoolSummary summary;
  bool found = false;
  while ((*reader)->Next(&frame)) {
    WindowFact window;
    if (frame.part != 0) break;  // everything that is needed is in the main file
    if (frame.type == FrameType::kWindow && frame.Read(&window)) {
      if (window.event == WindowEvent::kOpened && summary.windows.size() < kMaxWindows) {
        summary.windows.push_back({window.number});
      }
      for (auto& known : summary.windows) {
        if (known.number != window.number) continue;
        known.published |= window.event == WindowEvent::kPublished;
        known.replaced |= window.event == WindowEvent::kReplaced;
      }
      continue;
    }
    if (frame.type != FrameType::kSession || found) continue;
    absl::StatusOr<SessionFacts> facts = ParseSession(frame.payload);
    if (!facts.ok()) break;
    found = true;
    summary.logdir = std::move(facts->logdir);
    summary.run = std::move(facts->run);
    summary.host = std::move(facts->host);
    summary.run_exclusive = facts->run_exclusive;
    summary.launcher_pid = facts->launcher_pid;
    summary.start_unix_ns = facts->start_unix_ns;
    summary.max_profile_size = facts->max_profile_size;
    summary.also = std::move(facts->also);
  }
  if (found) return summary;
  return absl::DataLossError(StrCat(path, ": the spool has no readable beginning"));
}

}  // namespace tbprof
