// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/gpu_facts.h"

#include <algorithm>
#include <cstring>

#include "writer/base/parse_number.h"
#include "writer/base/saturating.h"

namespace tbprof {
namespace {

constexpr size_t kMaxDevices = 512;
constexpr size_t kMaxContexts = 1u << 16;
constexpr size_t kMaxStreams = 1u << 18;
constexpr size_t kMaxNames = 1u << 18;
constexpr uint64_t kMaxNameBytes = 64u << 20;
constexpr size_t kMaxNameLength = 4096;
constexpr size_t kMaxChanges = 10'000;
constexpr size_t kMaxCuptiUses = 50'000;
constexpr size_t kMaxCallName = 64;
constexpr size_t kMaxTexts = 64;

}  // namespace

bool GpuDeviceFacts::has_uuid() const {
  return std::any_of(std::begin(record.uuid), std::end(record.uuid), [](uint8_t byte) { return byte != 0; });
}

bool GpuFacts::Take(const RecordView& record) {
  switch (record.tag.kind) {
    case RecordKind::kGpuDevice: {
      GpuDeviceFacts device;
      if (!record.Read(&device.record)) return false;
      if (devices.size() >= kMaxDevices && devices.find(record.tag.aux) == devices.end()) return false;
      device.name = record.Text(sizeof(device.record), device.record.name_length);
      devices[record.tag.aux] = std::move(device);
      return true;
    }
    case RecordKind::kGpuContext: {
      GpuContextRecord context;
      if (!record.Read(&context)) return false;
      if (context.is_stream != 0) {
        if (streams.size() >= kMaxStreams) return false;
        streams[context.stream] = {context.context, context.priority, context.stream_flags};
      } else {
        if (contexts.size() >= kMaxContexts) return false;
        contexts[context.context] = {record.tag.aux, context.stream};
      }
      return true;
    }
    case RecordKind::kGpuName:
      return TakeName(record);
    case RecordKind::kGpuClock: {
      GpuClockRecord pair;
      if (!record.Read(&pair) || pair.ticks_after < pair.ticks_before) return false;
      clock.Add(pair);
      return true;
    }
    case RecordKind::kGpuInfo:
      return TakeInfo(record);
    default:
      return false;
  }
}

bool GpuFacts::TakeName(const RecordView& record) {
  GpuNameRecord name;
  if (!record.Read(&name)) return false;
  const std::string_view text = record.Text(sizeof(name), std::min<uint64_t>(name.text_length, kMaxNameLength));
  if (names_.size() >= kMaxNames || name_bytes_ + text.size() > kMaxNameBytes) {
    ++names_left_out;
    return true;
  }
  name_bytes_ += text.size();
  names_[{record.tag.aux, name.id}] = text;
  return true;
}

const std::string* GpuFacts::Name(GpuNameKind kind, uint64_t id) const {
  const auto found = names_.find({static_cast<uint16_t>(kind), id});
  return found == names_.end() || found->second.empty() ? nullptr : &found->second;
}

bool GpuFacts::TakeLeft(uint64_t ticks, std::string_view bytes) {
  CuptiLeftFact fact;
  if (bytes.size() < sizeof(fact)) return false;
  std::memcpy(&fact, bytes.data(), sizeof(fact));
  const std::string_view name = bytes.substr(sizeof(fact));
  if (fact.left > CuptiLeft::kOtherCopy || name.size() > kMaxCallName) return false;
  // Gaps after the last kept use have no cause.
  if (cupti_uses.size() < kMaxCuptiUses) cupti_uses.push_back({ticks, fact.left, fact.caller, std::string(name)});
  return true;
}

bool GpuFacts::TakeInfo(const RecordView& record) {
  GpuInfoRecord info;
  if (!record.Read(&info)) return false;
  const std::string text(record.Text(sizeof(info), info.text_length));
  const auto change = [&](GpuStateChange::Kind kind) {
    if (changes.size() < kMaxChanges) {
      const bool paused = kind == GpuStateChange::kPaused;
      changes.push_back({info.ticks, kind, text, paused ? ParsePauseCause(text) : PauseCause::kOther});
      return;
    }
    if (changes_left_out++ == 0) left_out_from_ticks = info.ticks;
    last_left_out = kind;
  };
  const auto add = [&](std::vector<std::string>* texts) {
    if (texts->size() < kMaxTexts && std::find(texts->begin(), texts->end(), text) == texts->end()) {
      texts->push_back(text);
    }
  };
  switch (static_cast<GpuInfoKey>(record.tag.aux)) {
    case GpuInfoKey::kLibrary:
      library = text;
      return true;
    case GpuInfoKey::kVersions:
      versions = text;
      return true;
    case GpuInfoKey::kRecording:
      change(GpuStateChange::kRecording);
      return true;
    case GpuInfoKey::kPaused:
      change(GpuStateChange::kPaused);
      return true;
    case GpuInfoKey::kUnavailable:
      change(GpuStateChange::kUnavailable);
      return true;
    case GpuInfoKey::kTried:
      add(&tried);
      return true;
    case GpuInfoKey::kDropped:
      AddSaturating(&dropped, LeadingNumber<uint64_t>(text).value_or(0));
      return true;
    case GpuInfoKey::kUnknown:
      AddSaturating(&unknown, LeadingNumber<uint64_t>(text).value_or(0));
      return true;
    case GpuInfoKey::kMissingKind:
      add(&missing_kinds);
      return true;
    case GpuInfoKey::kByHooks:
      by_hooks = text;
      return true;
    case GpuInfoKey::kUnread:
      AddSaturating(&unread_bytes, LeadingNumber<uint64_t>(text).value_or(0));
      if (unread_cause.empty()) unread_cause = text.substr(std::min(text.size(), text.find(' ') + 1));
      return true;
    case GpuInfoKey::kLeft:
      return TakeLeft(info.ticks, text);
  }
  return false;
}

}  // namespace tbprof
