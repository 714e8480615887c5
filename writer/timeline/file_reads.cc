// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/file_reads.h"

#include <algorithm>
#include <string_view>

namespace tbprof {
namespace {

std::string_view WithoutUnderscores(std::string_view name) {
  const size_t first = name.find_first_not_of('_');
  return first == std::string_view::npos ? name : name.substr(first);
}

bool IsOpen(const EventType& type) {
  return type.family == EventFamily::kIo && WithoutUnderscores(type.name).starts_with("open");
}

}  // namespace

FileReads::Kind FileReads::KindOf(const EventType& type) {
  if (type.family != EventFamily::kIo) return Kind::kNone;
  const std::string_view name = WithoutUnderscores(type.name);
  if (name.starts_with("pread") || name.starts_with("fread")) return Kind::kFileRead;
  if (name.starts_with("read")) return Kind::kDescriptorRead;
  for (const std::string_view beginning : {"open", "fopen", "lseek", "stat"}) {
    if (name.starts_with(beginning)) return Kind::kAccess;
  }
  return Kind::kNone;
}

FileReads::FileReads(const Timeline& timeline, uint32_t process) {
  std::vector<bool> opens;
  for (const EventType& type : timeline.types) {
    kinds_.push_back(KindOf(type));
    opens.push_back(IsOpen(type));
  }
  for (const Thread& thread : timeline.threads) {
    if (thread.process != process) continue;
    for (const Event& event : thread.events) {
      if (!opens[event.type] || (event.flags & Event::kFailed) != 0 || event.value < 0) continue;
      const auto [at, added] = opened_ps_.try_emplace(static_cast<uint64_t>(event.value), event.start_ps);
      if (!added) at->second = std::min(at->second, event.start_ps);
    }
  }
}

bool FileReads::IsRead(const Event& event) const {
  switch (kinds_[event.type]) {
    case Kind::kFileRead:
      return true;
    case Kind::kDescriptorRead: {
      const auto opened = opened_ps_.find(event.object);
      return opened != opened_ps_.end() && opened->second <= event.start_ps;
    }
    case Kind::kNone:
    case Kind::kAccess:
      return false;
  }
  return false;
}

bool FileReads::IsAccess(const Event& event) const { return kinds_[event.type] == Kind::kAccess || IsRead(event); }

}  // namespace tbprof
