// SPDX-License-Identifier: Apache-2.0
#include "launcher/attach/attached_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "launcher/sampling/thread_ids.h"

namespace tbprof {
namespace {

constexpr uint32_t kSerial = 1;  // of the segment's only process
// Updates between two readings of the mapped code: libraries are loaded seldom.
constexpr uint32_t kUpdatesOfModules = 20;
constexpr size_t kMaxArguments = 256, kMaxText = 4096;

template <typename T>
void Publish(T* word, T value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

std::string ThreadName(pid_t pid, pid_t tid) {
  std::string name = ReadText(StrCat("/proc/", pid, "/task/", tid, "/comm"));
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachedProcess>> AttachedProcess::Make(const RunningProcess& process,
                                                                       const Config& config) {
  std::unique_ptr<AttachedProcess> attached(new AttachedProcess(process, config));
  if (const absl::Status made = attached->MakeSegment(); !made.ok()) return made;
  attached->FillHeader();
  attached->FillProcessSlot();
  attached->Update();
  attached->RecordFacts();
  return attached;
}

absl::Status AttachedProcess::MakeSegment() {
  const uint64_t bytes = LayoutFor(kMinChunks).bytes;
  ScopedFd file(memfd_create("tbprof", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool sized = file.valid() && ftruncate(file.get(), static_cast<off_t>(bytes)) == 0 &&
                     fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  if (sized) {
    mapping_ =
        ScopedMapping(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0), bytes);
  }
  if (!mapping_.valid()) {
    return Unavailable(StrCat("no memory for the records of process ", process_.pid, ": ", strerror(errno)));
  }
  segment_ = SegmentAt(mapping_.data(), kMinChunks);
  InitialiseSegment(segment_, bytes);
  introduction_.pid = process_.pid;
  introduction_.uid = process_.user;
  introduction_.inner_pid = process_.inner_pid;
  introduction_.segment = std::move(file);
  introduction_.segment_bytes = bytes;
  return absl::OkStatus();
}

void AttachedProcess::FillHeader() {
  SegmentHeader* const header = segment_.header;
  header->clock_kind = static_cast<uint32_t>(config_.clock);
  header->nonce = config_.nonce;
  header->pid = process_.inner_pid;
  header->attach_ticks = Now();
  header->attach_monotonic_ns = ReadMonotonic();
}

void AttachedProcess::FillProcessSlot() {
  ProcessSlot* const slot = &segment_.process_slots[0];
  slot->serial = kSerial;
  slot->pid = process_.inner_pid;
  slot->parent_pid = process_.parent;
  slot->flags = kProcessAttached;
  slot->start_ticks = Now();
  segment_.header->next_process_serial = kSerial + 1;
  Publish(&slot->state, static_cast<uint32_t>(SlotState::kLive));
  Publish(&segment_.header->process_high, 1u);
}

ThreadSlot* AttachedProcess::ClaimThreadSlot() {
  for (uint32_t tried = 0; tried < kThreadSlots; ++tried) {
    const uint32_t at = next_slot_++ % kThreadSlots;
    ThreadSlot* const slot = &segment_.thread_slots[at];
    // The session zeroes a slot before it frees it.
    if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != static_cast<uint32_t>(SlotState::kFree)) continue;
    if (at >= segment_.header->thread_high) Publish(&segment_.header->thread_high, at + 1);
    return slot;
  }
  return nullptr;
}

void AttachedProcess::AddThread(pid_t tid) {
  ThreadSlot* const slot = ClaimThreadSlot();
  if (slot == nullptr) return;
  slot->serial = segment_.header->next_thread_serial++;
  slot->process_serial = kSerial;
  bool nested = false;
  const int32_t inner = InnermostId(StrCat("/proc/", process_.pid, "/task/", tid, "/status"), &nested);
  slot->tid = inner > 0 ? inner : tid;
  slot->start_ticks = Now();
  // A thread starts with its creator's name: one like the first thread's is none.
  const std::string name = tid == process_.pid ? "" : ThreadName(process_.pid, tid);
  if (name != ThreadName(process_.pid, process_.pid)) {
    name.copy(slot->name, sizeof(slot->name) - 1);
  }
  Publish(&slot->state, static_cast<uint32_t>(SlotState::kLive));
  threads_[tid] = {slot};
}

void AttachedProcess::EndThread(ThreadSlot* slot) {
  slot->end_ticks = Now();
  Publish(&slot->state, static_cast<uint32_t>(SlotState::kExited));
  __atomic_fetch_add(&segment_.header->threads_exited, 1, __ATOMIC_RELEASE);
}

void AttachedProcess::Update() {
  for (auto& [tid, thread] : threads_) thread.seen = false;
  for (const pid_t tid : ThreadsOf(process_.pid, kMaxThreads)) {
    const auto known = threads_.find(tid);
    if (known != threads_.end()) {
      known->second.seen = true;
    } else {
      AddThread(tid);
    }
  }
  for (auto at = threads_.begin(); at != threads_.end();) {
    // The first thread ends with the process, whose end the session sees.
    if (at->second.seen || at->first == process_.pid) {
      ++at;
      continue;
    }
    EndThread(at->second.slot);
    at = threads_.erase(at);
  }
  if (++updates_ % kUpdatesOfModules == 0) RecordModules();
}

void AttachedProcess::RecordInfo(ProcessInfoKey key, std::string_view text) {
  const std::string_view kept = text.substr(0, kMaxText);
  Reservation reservation;
  if (!BeginRecord(segment_, &writer_, 1 + static_cast<uint32_t>(SlotsFor(kept.size())), &reservation)) return;
  auto* const record = reinterpret_cast<ProcessInfoRecord*>(reservation.slots);
  record->ticks = Now();
  record->text_length = text.size();
  memcpy(record + 1, kept.data(), kept.size());
  CommitRecord(segment_, &writer_, reservation, RecordKind::kProcessInfo, 0, static_cast<uint16_t>(key));
}

void AttachedProcess::RecordFacts() {
  const auto first = threads_.find(process_.pid);
  if (first == threads_.end()) return;
  ThreadSlot* const slot = first->second.slot;
  ResetChunkWriter(&writer_, slot, static_cast<uint32_t>(slot - segment_.thread_slots), kSerial);
  RecordInfo(ProcessInfoKey::kExecutable, process_.executable);
  if (config_.record_arguments) {
    const size_t count = std::min(process_.arguments.size(), kMaxArguments);
    for (size_t i = 0; i < count; ++i) RecordInfo(ProcessInfoKey::kArgument, process_.arguments[i]);
  }
  for (const std::string& variable : process_.rank_variables) RecordInfo(ProcessInfoKey::kRank, variable);
  RecordModules();
}

void AttachedProcess::RecordModules() {
  if (writer_.thread == nullptr) return;
  modules_.Read();
  for (const Module& module : modules_.map().modules()) {
    if (recorded_modules_.emplace(module.start, module.path).second) RecordModule(module);
  }
}

void AttachedProcess::RecordModule(const Module& module) {
  const std::string_view path = std::string_view(module.path).substr(0, kMaxText);
  Reservation reservation;
  if (!BeginRecord(segment_, &writer_, 3 + SlotsFor(path.size()), &reservation)) return;
  auto* const record = reinterpret_cast<ModuleRecord*>(reservation.slots);
  record->ticks = Now();
  record->load_bias = module.load_bias;
  record->start = module.start;
  record->end = module.end;
  record->build_id_length = 0;  // not known: the file is the one that is mapped
  record->path_length = static_cast<uint32_t>(path.size());
  memcpy(record + 1, path.data(), path.size());
  CommitRecord(segment_, &writer_, reservation, RecordKind::kModule, 0, 0);
}

}  // namespace tbprof
