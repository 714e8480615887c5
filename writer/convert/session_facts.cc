// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/session_facts.h"

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "writer/base/secrets.h"
#include "writer/base/text.h"
#include "writer/convert/timeline_builder.h"
#include "writer/spool/spool.h"
#include "writer/steps/step_markers.h"

namespace tbprof {
namespace {

constexpr size_t kMaxWindows = 10'000;

// A member of the session's description, or `otherwise` where it is absent or of another kind.
std::string TextOf(const nlohmann::json& json, const char* name, const std::string& otherwise = "") {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : otherwise;
}
template <typename Number>
Number NumberOf(const nlohmann::json& json, const char* name, Number otherwise) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<Number>() : otherwise;
}
std::vector<std::string> TextsOf(const nlohmann::json& json, const char* name) {
  std::vector<std::string> texts;
  const auto found = json.find(name);
  if (found == json.end() || !found->is_array()) return texts;
  for (const auto& text : *found) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

absl::StatusOr<SessionFacts> ParseSession(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError("the spool's description of the session is unreadable");
  SessionFacts facts;
  facts.host = TextOf(json, "host");
  facts.run = TextOf(json, "run");
  facts.window = TextOf(json, "window");
  facts.ranks = TextOf(json, "ranks");
  facts.rank = NumberOf(json, "rank", -1);
  facts.scheduler = NumberOf(json, "scheduler", -1);
  facts.ticks_per_ns = NumberOf(json, "ticks_per_ns", 1.0);
  if (!(facts.ticks_per_ns > 0.001 && facts.ticks_per_ns < 1000)) facts.ticks_per_ns = 1.0;
  facts.families = NumberOf(json, "families", 0u);
  const auto only = json.find("only_command");
  facts.only_command = only != json.end() && only->is_boolean() && only->get<bool>();
  facts.clock_cost_ns = NumberOf(json, "clock_cost_ns", 15.0);
  facts.record_cost_ns = NumberOf(json, "record_cost_ns", 5.0);
  facts.allocation_cost_ns = NumberOf(json, "allocation_cost_ns", 2.5);
  facts.page_cost_ns = NumberOf(json, "page_cost_ns", 1000.0);
  facts.wait_threshold_ns = NumberOf(json, "wait_threshold_ns", uint64_t{1000});
  facts.step_marker = TextOf(json, "step_marker");
  if (!CheckStepMarker(facts.step_marker).ok()) facts.step_marker.clear();
  facts.malloc_stamp_every = static_cast<double>(NumberOf(json, "malloc_stamp_every", uint32_t{0}));
  facts.command = MaskSecrets(TextsOf(json, "command"));
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
    if (frame.part != 0) break;  // all of this is in the main file
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
    const auto json = nlohmann::json::parse(frame.payload, nullptr, false);
    if (!json.is_object()) break;
    found = true;
    summary.logdir = TextOf(json, "logdir");
    summary.run = TextOf(json, "run");
    summary.host = TextOf(json, "host");
    const auto exclusive = json.find("run_exclusive");
    summary.run_exclusive = exclusive == json.end() || !exclusive->is_boolean() || exclusive->get<bool>();
    summary.launcher_pid = NumberOf(json, "launcher_pid", 0);
    summary.start_unix_ns = NumberOf(json, "start_unix_ns", uint64_t{0});
    summary.max_profile_size = NumberOf(json, "max_profile_size", uint64_t{0});
    summary.also = TextsOf(json, "also");
  }
  if (found) return summary;
  return absl::DataLossError(StrCat(path, ": the spool has no readable beginning"));
}

}  // namespace tbprof
