// SPDX-License-Identifier: Apache-2.0
#include "writer/spool/record_facts.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace tbprof {
namespace {

constexpr size_t kMaxThreads = 4u << 20;
constexpr size_t kMaxArguments = 1024;
constexpr size_t kMaxSamplingFacts = 1u << 20;  // of a process: ten per second for a day
constexpr size_t kMaxModules = 65536;
constexpr size_t kMaxAnnotationText = 32u << 20;
constexpr size_t kMaxExecs = 200'000;

// `NAME=VALUE`
void AddVariable(std::string_view text, std::map<std::string, std::string>* variables) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || variables->size() >= kMaxArguments) return;
  (*variables)[std::string(text.substr(0, equals))] = text.substr(equals + 1);
}

}  // namespace

void RecordFacts::Take(const Identity& process, const Identity& thread, const RecordView& record, bool has_copy) {
  const uint32_t slots = FixedSlots(record.tag.kind);
  if (slots == 0) {
    ++facts_.unknown_records;
    return;
  }
  if (record.tag.slots < slots) {
    ++facts_.corrupt_records;
    return;
  }
  if (has_copy && IsFact(record.tag.kind)) return;
  // No default: a kind without a mapping does not compile (-Werror=switch).
  switch (record.tag.kind) {
    case RecordKind::kThreadStart:
      return TakeThreadStart(thread, record);
    case RecordKind::kThreadExit: {
      ThreadExitRecord exit;
      if (record.Read(&exit)) facts_.threads[thread].end_ticks = exit.ticks;
      return;
    }
    case RecordKind::kThreadName:
      return TakeThreadName(thread, record);
    case RecordKind::kProcessInfo:
      return TakeProcessInfo(process, record);
    case RecordKind::kModule:
      return TakeModule(process, record);
    case RecordKind::kExec:
      return TakeExec(process, thread, record);
    case RecordKind::kAnnotationName:
      return TakeAnnotationName(process, record);
    case RecordKind::kPythonCode:
      return TakePythonCode(process, record);
    case RecordKind::kGpuDevice:
    case RecordKind::kGpuContext:
    case RecordKind::kGpuName:
    case RecordKind::kGpuClock:
    case RecordKind::kGpuInfo:
      if (!facts_.gpus[process].Take(record)) ++facts_.corrupt_records;
      return;
    case RecordKind::kPad:
    case RecordKind::kChunkBegin:
    case RecordKind::kSpan:
    case RecordKind::kCompactSpan:
    case RecordKind::kAnnotation:
    case RecordKind::kTensorMemory:
    case RecordKind::kAllocationSample:
    case RecordKind::kAllocation:
    case RecordKind::kSampledFree:
    case RecordKind::kGpuKernel:
    case RecordKind::kGpuCopy:
    case RecordKind::kGpuApi:
    case RecordKind::kGpuSpan:
    case RecordKind::kGpuMemory:
    case RecordKind::kGpuUnifiedMemory:
    case RecordKind::kGpuGraphNode:
    case RecordKind::kPythonStack:
      ++facts_.corrupt_records;
      return;
  }
}

void RecordFacts::TakeSummarized(const Identity& process, const Identity& thread, const RecordView& record) {
  SpanRecord span;
  ChunkBeginRecord begin;
  if (record.tag.kind == RecordKind::kChunkBegin && record.Read(&begin)) {
    TakeBegin(process, thread, begin);
  } else if ((record.tag.flags & kRecordFailed) != 0 && record.ReadSpan(&span) &&
             IsExec(thread.segment, record.tag.aux) && facts_.exec_returns.size() < kMaxExecs) {
    facts_.exec_returns.push_back({thread, 0, span.start});
  }
}

void RecordFacts::TakeBegin(const Identity& process, const Identity& thread, const ChunkBeginRecord& begin) {
  ThreadFacts& known = facts_.threads[thread];
  known.process_serial = process.serial;
  if (known.tid == 0) known.tid = begin.tid;
  if (known.start_ticks == 0) known.start_ticks = begin.ticks;
  ProcessFacts& owner = facts_.processes[process];
  if (owner.pid == 0) owner.pid = begin.pid;
  if (owner.start_ticks == 0) owner.start_ticks = begin.ticks;
  known.last_ticks = std::max(known.last_ticks, begin.ticks);
}

void RecordFacts::TakeThreadStart(const Identity& thread, const RecordView& record) {
  ThreadStartRecord start;
  if (!record.Read(&start)) return;
  ThreadFacts& known = facts_.threads[thread];
  known.start_ticks = start.ticks;
  known.creator_serial = start.creator_serial;
  known.created_ticks = start.created_ticks;
  known.tid = start.tid;
  known.is_own = (record.tag.flags & kRecordOwn) != 0;
}

void RecordFacts::TakeThreadName(const Identity& thread, const RecordView& record) {
  ThreadNameRecord name;
  if (!record.Read(&name)) return;
  const std::string_view text = record.Text(sizeof(name), name.text_length);
  if (name.thread_serial != 0 || name.tid == 0) {
    const uint32_t serial = name.thread_serial != 0 ? name.thread_serial : thread.serial;
    SetName(&facts_.threads[{thread.segment, serial}], name.ticks, text);
  } else if (names_by_others_.size() < kMaxThreads) {
    names_by_others_.push_back({thread.segment, name.tid, name.ticks, std::string(text)});
  }
}

void RecordFacts::TakeProcessInfo(const Identity& process, const RecordView& record) {
  ProcessInfoRecord info;
  if (!record.Read(&info)) return;
  ProcessFacts& owner = facts_.processes[process];
  const std::string_view text = record.Text(sizeof(info), info.text_length);
  switch (static_cast<ProcessInfoKey>(record.tag.aux)) {
    case ProcessInfoKey::kExecutable:
      owner.executable = text;
      return;
    case ProcessInfoKey::kArgument:
      if (owner.arguments.size() < kMaxArguments) owner.arguments.emplace_back(text);
      return;
    case ProcessInfoKey::kRank:
      return AddVariable(text, &owner.ranks);
    case ProcessInfoKey::kInterposer:
      return AddVariable(text, &owner.interposers);
    case ProcessInfoKey::kStopped:
      owner.stopped = text;
      return;
    case ProcessInfoKey::kTorch:
      owner.torch = text;
      return;
    case ProcessInfoKey::kPython:
      owner.python = text;
      return;
    case ProcessInfoKey::kTorchShapes:
      owner.torch_shapes = text;
      return;
    case ProcessInfoKey::kTorchSampling: {
      TorchSamplingAt at{info.ticks, {}};
      if (text.size() != sizeof(at.fact) || owner.torch_sampling.size() >= kMaxSamplingFacts) return;
      memcpy(&at.fact, text.data(), sizeof(at.fact));
      owner.torch_sampling.push_back(at);
      return;
    }
    default:
      return;
  }
}

void RecordFacts::TakePythonCode(const Identity& process, const RecordView& record) {
  PythonCodeRecord found;
  if (!record.Read(&found)) return;
  const std::string_view texts =
      record.Text(sizeof(found), uint64_t{found.name_bytes} + found.file_bytes + found.table_bytes);
  const uint64_t before_table = uint64_t{found.name_bytes} + found.file_bytes;
  if (found.code == 0 || texts.size() != before_table + found.table_bytes || found.table_bytes > kLongestPythonTable) {
    ++facts_.corrupt_records;
    return;
  }
  if (python_codes_ >= kMostPythonCodes || python_bytes_ + texts.size() > kMostPythonText) return;
  ++python_codes_;
  python_bytes_ += texts.size();
  PythonCode code;
  code.name = texts.substr(0, std::min<size_t>(found.name_bytes, kLongestPythonText));
  code.file = texts.substr(found.name_bytes, std::min<size_t>(found.file_bytes, kLongestPythonText));
  code.table = texts.substr(before_table);
  code.first_line = found.first_line;
  code.minor = found.minor;
  std::vector<PythonCodeAt>& known = facts_.processes[process].python_codes[found.code];
  const auto later = std::upper_bound(known.begin(), known.end(), found.ticks,
                                      [](uint64_t ticks, const PythonCodeAt& at) { return ticks < at.ticks; });
  known.insert(later, {found.ticks, std::move(code)});
}

void RecordFacts::TakeModule(const Identity& process, const RecordView& record) {
  ModuleRecord found;
  if (!record.Read(&found) || found.start >= found.end) {
    ++facts_.corrupt_records;
    return;
  }
  Module module;
  module.load_bias = found.load_bias;
  module.start = found.start;
  module.end = found.end;
  module.path = record.Text(sizeof(found), found.path_length);
  module.build_id.assign(reinterpret_cast<const char*>(found.build_id),
                         std::min<size_t>(found.build_id_length, sizeof(found.build_id)));
  std::vector<Module>& modules = facts_.processes[process].modules;
  if (modules.size() < kMaxModules) modules.push_back(std::move(module));
}

void RecordFacts::TakeExec(const Identity& process, const Identity& thread, const RecordView& record) {
  ExecRecord exec;
  if (!record.Read(&exec)) return;
  const bool spawned = (record.tag.flags & kRecordSpawned) != 0;
  const int32_t pid = spawned ? exec.pid : 0;
  if ((record.tag.flags & kRecordFailed) != 0) {
    if (facts_.exec_returns.size() < kMaxExecs) facts_.exec_returns.push_back({thread, pid, exec.ticks});
    return;
  }
  if (facts_.execs.size() >= kMaxExecs) return;
  ExecFacts started{process, thread, exec.ticks, exec.ticks, pid, spawned, false, ""};
  started.environment_lost = (record.tag.flags & kRecordEnvironmentLost) != 0;
  started.path = record.Text(sizeof(exec), exec.text_length);
  // The record has the time after the call; the child has attached during the call.
  if (spawned && !IsExec(thread.segment, record.tag.aux)) {
    started.started_ticks = facts_.processes[process].start_ticks;
  }
  facts_.execs.push_back(std::move(started));
}

void RecordFacts::TakeAnnotationName(const Identity& process, const RecordView& record) {
  AnnotationNameRecord name;
  if (!record.Read(&name)) return;
  AnnotationFacts& known = facts_.annotations;
  const std::string_view text = record.Text(sizeof(name), name.text_length);
  const auto add = [&](auto* texts, const auto& key) {
    if (texts->find(key) != texts->end()) return;
    if (known.text_bytes > kMaxAnnotationText) {
      known.left_out = true;
      return;
    }
    texts->emplace(key, text);
    known.text_bytes += text.size() + sizeof(std::string);
  };
  switch (static_cast<AnnotationNameKey>(record.tag.aux)) {
    case AnnotationNameKey::kName:
      return add(&known.names, name.number);
    case AnnotationNameKey::kDomain:
      return add(&known.domains, std::make_pair(process, name.number));
    case AnnotationNameKey::kCategory:
      return add(&known.categories, std::make_pair(process, name.number));
  }
}

void RecordFacts::Finish() {
  if (names_by_others_.empty()) return;
  std::map<std::pair<uint32_t, int32_t>, std::vector<ThreadFacts*>> by_tid;
  for (auto& [identity, thread] : facts_.threads) by_tid[{identity.segment, thread.tid}].push_back(&thread);
  for (const NameByOther& name : names_by_others_) {
    // The tid may have been used again: takes the first thread that had not ended by then; it need not have begun.
    ThreadFacts* named = nullptr;
    for (ThreadFacts* thread : by_tid[{name.segment, name.tid}]) {
      if (thread->end_ticks != 0 && thread->end_ticks < name.ticks) continue;
      if (named == nullptr || thread->start_ticks < named->start_ticks) named = thread;
    }
    if (named != nullptr) SetName(named, name.ticks, name.name);
  }
}

bool RecordFacts::IsExec(uint32_t segment, uint16_t operation) const {
  const auto found = facts_.segments.find(segment);
  if (found == facts_.segments.end() || operation >= found->second.operations.size()) return false;
  const std::string_view name = found->second.operations[operation].name;
  return name.starts_with("exec") || name == "fexecve";
}

void RecordFacts::SetName(ThreadFacts* thread, uint64_t ticks, std::string_view name) {
  if (ticks < thread->name_ticks) return;
  thread->name = name;
  thread->name_ticks = ticks;
}

}  // namespace tbprof
