// SPDX-License-Identifier: Apache-2.0
#include "writer/convert/derived_events.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

uint16_t ThreadStartType(EventTypes* types) {
  return types->Find("thread start", EventFamily::kThread, ObjectKind::kNone, ValueKind::kFlowIn);
}

std::string EndText(const Timeline& timeline) {
  if (timeline.exit_signal != 0) return StrCat("ended by signal ", timeline.exit_signal);
  return timeline.exit_code >= 0 ? StrCat("exit status ", timeline.exit_code) : "running";
}

}  // namespace

void AddThreadStarts(const SpoolFacts& facts, const CaptureWindow& window, const HostParts& host) {
  RawEvent event;
  event.type = ThreadStartType(host.types);
  for (const auto& [identity, line] : host.model->threads()) {
    event.start = facts.threads.at(identity).start_ticks;
    if (event.start < window.open || event.start > window.close || host.model->IsContinued(identity)) continue;
    host.events->Keep(line, event);
  }
}

void AddUnrecordedCommand(const SpoolFacts& facts, const CaptureWindow& window, const std::string& command_name,
                          const std::vector<std::string>& warnings, const HostParts& host, Timeline* timeline) {
  if (!timeline->processes.empty() || !facts.processes.empty()) return;
  Process& process = timeline->processes.emplace_back();
  process.name = command_name;
  process.is_command = true;
  process.is_unrecorded = true;
  process.end_ps = timeline->duration_ps;
  const uint32_t line = host.model->LineOf(0, command_name);
  if (line == kNoLine) return;
  RawEvent event;
  const uint64_t end = facts.ended ? std::min(facts.end.ticks, window.close) : window.close;
  ClipTo(window.open, window.close, window.open, std::max(end, window.open + 1), &event);
  std::string detail = EndText(*timeline);
  event.type = host.types->Find(StrCat("command not recorded, ", detail), EventFamily::kProcess, ObjectKind::kNone,
                                ValueKind::kNone);
  for (const std::string& note : facts.notes) StrAppend(&detail, "; ", ValidUtf8(note));
  for (const std::string& note : warnings) {
    if (std::find(facts.notes.begin(), facts.notes.end(), note) == facts.notes.end()) {
      StrAppend(&detail, "; ", ValidUtf8(note));
    }
  }
  event.detail = timeline->strings.Intern(detail);
  host.events->Keep(line, event);
}

void AddOpenWaits(const SpoolFacts& facts, const CaptureWindow& window, const HostParts& host,
                  const Timeline& timeline) {
  for (const auto& [identity, line] : host.model->threads()) {
    const ThreadFacts& thread = facts.threads.at(identity);
    const uint64_t since = thread.last.wait_since;
    if (!thread.has_last || since == 0 || since >= window.close) continue;
    // The call never returned (an exception out of a handler), and the thread did other things since: it does not wait.
    if (since < thread.last_ticks && thread.last.wait_resumed == 0) continue;
    const Identity owner{identity.segment, thread.process_serial};
    const ProcessFacts& process = facts.processes.at(owner);
    uint64_t end = window.close;
    if (process.end_ticks != 0) end = std::min(end, process.end_ticks);
    if (thread.end_ticks != 0) end = std::min(end, thread.end_ticks);
    const uint16_t type = host.types->OfOperation(identity.segment, thread.last.wait_operation);
    if (end <= std::max(since, window.open) || type == kNoType) continue;
    RawEvent event;
    ClipTo(window.open, window.close, since, end, &event);
    event.object = thread.last.wait_object;
    event.type = type;
    event.flags |= Event::kClippedAtEnd | Event::kOpen;
    const uint64_t ticks = end - std::max(since, window.totals_open);
    event.site = host.totals->Count(owner, timeline.threads[line].process, type, thread.last.wait_site,
                                    {.ticks = ticks, .longest = ticks});
    host.conservation->CountOpen(identity);
    host.events->Keep(line, event);
  }
}

void LinkThreads(const SpoolFacts& facts, const HostParts& host, Timeline* timeline) {
  absl::flat_hash_map<Identity, std::vector<std::pair<uint64_t, uint64_t>>> created;  // creator -> (ticks, flow)
  for (const auto& [identity, line] : host.model->threads()) {
    const ThreadFacts& thread = facts.threads.at(identity);
    if (thread.creator_serial == 0 || thread.created_ticks == 0) continue;
    created[{identity.segment, thread.creator_serial}].emplace_back(thread.created_ticks,
                                                                    timeline->threads[line].line_id);
  }
  for (auto& [creator, children] : created) {
    const uint32_t line = host.model->IndexOfThread(creator);
    if (line == kNoLine) continue;
    std::sort(children.begin(), children.end());
    const std::vector<RawEvent>& events = host.events->Of(line);
    for (size_t i = 0; i < events.size(); ++i) {
      const RawEvent& event = events[i];
      if (timeline->types[event.type].value != ValueKind::kFlowOut) continue;
      const auto child = std::lower_bound(children.begin(), children.end(), std::make_pair(event.start, uint64_t{0}));
      if (child == children.end() || child->first != event.start) continue;
      host.events->SetValue(line, i, child->second);
      timeline->threads[child->second - 1].flow_id = child->second;
    }
  }
  const uint16_t start_type = ThreadStartType(host.types);
  for (uint32_t line = 0; line < timeline->threads.size(); ++line) {
    const uint64_t flow = timeline->threads[line].flow_id;
    if (flow == 0) continue;
    const std::vector<RawEvent>& events = host.events->Of(line);
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].type == start_type) host.events->SetValue(line, i, flow);
    }
  }
}

}  // namespace tbprof
