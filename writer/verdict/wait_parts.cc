// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/wait_parts.h"

namespace tbprof {
namespace {

StepPart PartOfTag(PythonTag tag) {
  switch (tag) {
    case PythonTag::kLoader:
    case PythonTag::kQueueGet:
    case PythonTag::kProcessGet:
    case PythonTag::kFuture:
      return StepPart::kInput;
    case PythonTag::kBarrier:
    case PythonTag::kCollective:
      return StepPart::kCollectives;
    case PythonTag::kChild:
      return StepPart::kChild;
    case PythonTag::kNetwork:
    case PythonTag::kServe:
      return StepPart::kNetwork;
    case PythonTag::kCompile:
      return StepPart::kCompile;
    case PythonTag::kWorkers:
      return StepPart::kLocks;
    case PythonTag::kNone:
    case PythonTag::kQueuePut:
    case PythonTag::kThread:
    case PythonTag::kLogging:
    case PythonTag::kCheckpoint:
    case PythonTag::kModelLoad:
    case PythonTag::kImport:
      break;
  }
  return StepPart::kRest;
}

bool IsForThread(PythonTag tag) {
  return tag == PythonTag::kQueueGet || tag == PythonTag::kFuture || tag == PythonTag::kThread ||
         tag == PythonTag::kWorkers;
}

StepPart PartOfClass(WaitClass kind) {
  switch (kind) {
    case WaitClass::kLock:
    case WaitClass::kBarrier:
      return StepPart::kLocks;
    case WaitClass::kGil:
      return StepPart::kGil;
    case WaitClass::kPool:
      return StepPart::kOperations;
    case WaitClass::kSleep:
      return StepPart::kSleep;
    case WaitClass::kFile:
    case WaitClass::kFileRead:
    case WaitClass::kFileSync:
    case WaitClass::kTerminal:
      return StepPart::kDisk;
    case WaitClass::kSocket:
      return StepPart::kNetwork;
    case WaitClass::kPipe:
    case WaitClass::kChild:
      return StepPart::kChild;
    case WaitClass::kGpuLaunch:
    case WaitClass::kGpuMemory:
    case WaitClass::kGpuOther:
    case WaitClass::kGpuWait:
      return StepPart::kLaunch;
    case WaitClass::kGpuCopy:
    case WaitClass::kGpuCopyAsync:
      return StepPart::kCopies;
    case WaitClass::kCollective:
      return StepPart::kCollectives;
    case WaitClass::kPoll:
      break;
  }
  return StepPart::kRest;
}

StepPart PartOfBlockedKind(BlockedIn kind) {
  switch (kind) {
    case BlockedIn::kPageFault:
      return StepPart::kReclaim;
    case BlockedIn::kFile:
    case BlockedIn::kTerminal:
      return StepPart::kDisk;
    case BlockedIn::kSocket:
      return StepPart::kNetwork;
    case BlockedIn::kPipe:
    case BlockedIn::kChild:
      return StepPart::kChild;
    case BlockedIn::kSleep:
      return StepPart::kSleep;
    case BlockedIn::kFileLock:
      return StepPart::kLocks;
    case BlockedIn::kGil:
      return StepPart::kGil;
    // pthread locks are recorded, so this lock belongs to native code with threads of its own.
    case BlockedIn::kFutex:
      return StepPart::kOperations;
    case BlockedIn::kPoll:
    case BlockedIn::kStopped:
    case BlockedIn::kOther:
      break;
  }
  return StepPart::kRest;
}

}  // namespace

StepPart PartOfBlocked(const PythonTags& tags, uint32_t stack, BlockedIn kind) {
  if (kind == BlockedIn::kPageFault) return StepPart::kReclaim;
  const PythonTag tag = tags.TagOf(stack);
  const StepPart part = PartOfTag(tag);
  if (part != StepPart::kRest) return part;
  // It began before the window, so that its lock is not recorded.
  const bool is_lock = kind == BlockedIn::kFutex && (IsForThread(tag) || tag == PythonTag::kQueuePut);
  return is_lock ? StepPart::kLocks : PartOfBlockedKind(kind);
}

StepPart PartOfWait(const PythonTags& tags, const WaitSlice& wait) {
  const StepPart part = PartOfTag(tags.TagOf(wait.stack));
  // A wait for another thread ends with one for the GIL, which that thread may still have.
  if (wait.kind == WaitClass::kGil) {
    if (!IsForThread(tags.TagOf(wait.stack))) return StepPart::kGil;
    return part != StepPart::kRest ? part : StepPart::kLocks;
  }
  return part != StepPart::kRest ? part : PartOfClass(wait.kind);
}

bool IsOfStdin(const std::vector<WaitSlice>& waits) {
  constexpr uint64_t kStdin = 0;
  int64_t all = 0, of_stdin = 0;
  for (const WaitSlice& wait : waits) {
    all += wait.end_ps - wait.start_ps;
    // The object of a poll is no descriptor.
    if (wait.kind == WaitClass::kPipe && !wait.is_poll && wait.object == kStdin)
      of_stdin += wait.end_ps - wait.start_ps;
  }
  return of_stdin > all / 2;
}

}  // namespace tbprof
