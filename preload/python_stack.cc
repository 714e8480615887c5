// SPDX-License-Identifier: Apache-2.0
// Walks the Python frames of the calling thread. Rules: RULES.md.
#include "preload/python.h"

#include <utility>

#include "preload/python_code.h"
#include "preload/python_state.h"
#include "preload/record.h"
#include "wire/python_current.h"

namespace tbprof {
namespace {

constexpr int kRows = sizeof(kPythonLayouts) / sizeof(kPythonLayouts[0]);
constexpr int kNoRow = -1;

// The memory in which frames are followed: the thread's chunks of the data stack, its C stack, and readable pages
// (frames of generators, and up to 3.10 all frames).
//
// With the constant offsets of one row of the layouts a walk takes half the time.
template <int kRow>
class FrameSpace {
 public:
  FrameSpace(const PythonInterpreter& python, const ThreadState* thread, uint32_t second)
      : python_(python), thread_(thread), second_(second) {}

  void Begin(const PythonThread& own) {
    if (layout().thread_chunk != kNoPythonMember) SetChunk(own.chunk, own.frame);
  }

  inline __attribute__((always_inline)) bool Has(uint64_t frame) {
    if (layout().thread_chunk != kNoPythonMember && __builtin_expect(frame - chunk_ < chunk_span_, 1)) return true;
    return (frame % 8 == 0 && IsKnownPage(frame, layout().frame_size, second_)) || HasElsewhere(frame);
  }

  inline __attribute__((always_inline)) const PythonLayout& layout() const {
    if constexpr (kRow == kNoRow) {
      return python_.layout;
    } else {
      return kPythonLayouts[kRow];
    }
  }

 private:
  // If `frame` is the innermost frame in the chunk, the part of the chunk behind it is ignored.
  inline __attribute__((always_inline)) void SetChunk(uint64_t chunk, uint64_t frame) {
    constexpr uint64_t kMostBytes = 1 << 20;  // in a larger chunk each frame is probed
    chunk_span_ = 0;
    if (chunk == 0 || chunk % 8 != 0 || !IsReadable(chunk, sizeof(PythonChunk), second_)) return;
    uint64_t size = LoadAt<uint64_t>(chunk + offsetof(PythonChunk, size));
    if (size <= layout().frame_size) return;
    if (frame - chunk < size - layout().frame_size) size = frame - chunk + 8 + layout().frame_size;
    if (size > kMostBytes || !IsReadable(chunk, size, second_)) return;
    chunk_ = chunk;
    chunk_span_ = size - layout().frame_size;
  }

  __attribute__((noinline)) bool HasElsewhere(uint64_t frame) {
    if (frame % 8 != 0) return false;
    if (chunk_span_ != 0) {
      const uint64_t saved = chunk_, saved_span = chunk_span_;
      SetChunk(LoadAt<uint64_t>(chunk_ + offsetof(PythonChunk, previous)), 0);
      if (frame - chunk_ < chunk_span_) return true;
      chunk_ = saved;
      chunk_span_ = saved_span;
    }
    return IsOnStackOrReadable(thread_, frame, layout().frame_size, second_);
  }

  const PythonInterpreter& python_;
  const ThreadState* thread_;
  uint64_t chunk_ = 0, chunk_span_ = 0;  // a frame that begins less than chunk_span_ into the chunk also ends in it
  uint32_t second_;
};

// Reads the code and the instruction of *frame and steps to its caller. False: *frame is 0 or kBrokenFrame.
template <int kRow>
inline __attribute__((always_inline)) bool TakeFrame(FrameSpace<kRow>* space, uint64_t* frame, uint64_t* code,
                                                     int64_t* unit) {
  constexpr uint32_t kMaxShims = 64;  // consecutive frames without code
  const PythonLayout& layout = space->layout();
  for (uint32_t shims = 0; *frame != 0; ++shims) {
    const uint64_t at = *frame;
    if (!space->Has(at) || shims == kMaxShims) {
      *frame = kBrokenFrame;
      return false;
    }
    *frame = LoadAt<uint64_t>(at + layout.frame_previous);
    if (layout.frame_owner != kNoPythonMember &&
        __builtin_expect(!PythonFrameRunsCode(LoadAt<uint8_t>(at + layout.frame_owner)), 0)) {
      continue;
    }
    *code = LoadAt<uint64_t>(at + layout.frame_code);
    if (layout.minor >= kPythonFirstTaggedMinor) *code &= ~kPythonReferenceTags;
    if (layout.code_instructions == kNoPythonMember) {
      const int64_t last = LoadAt<int32_t>(at + layout.frame_instruction);
      *unit = layout.minor == 10 ? last : last >> 1;
    } else {
      const auto instruction = LoadAt<uint64_t>(at + layout.frame_instruction);
      *unit = static_cast<int64_t>(instruction - *code - layout.code_instructions) >> 1;
    }
    return true;
  }
  return false;
}

template <int kRow>
__attribute__((noinline)) uint32_t RecordStack(ThreadState* thread, FrameSpace<kRow>* space, uint64_t frame,
                                               uint32_t frames, uint16_t flags, uint64_t hash, uint64_t now) {
  Reservation reservation;
  CountMade(thread, kCountedPythonStack);
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1 + SlotsFor(sizeof(PythonFrameWord) * frames),
                   &reservation)) {
    CountNoRoom(thread, kCountedPythonStack);
    return 0;
  }
  auto* const record = reinterpret_cast<PythonStackRecord*>(reservation.slots);
  auto* const words = reinterpret_cast<PythonFrameWord*>(record + 1);
  uint64_t code = 0;
  int64_t unit = 0;
  for (uint32_t i = 0; i < frames; ++i) {
    words[i] = TakeFrame(space, &frame, &code, &unit) ? PackPythonFrame(code, unit) : 0;
  }
  const auto number = static_cast<uint32_t>(FetchAddThisThread(&thread->python_stack_count, 1) + 1);
  record->ticks = Ticks();  // later than the times of the code objects
  record->number = number;
  record->frames = static_cast<uint16_t>(frames);
  record->flags = flags;
  record->reserved = 0;
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kPythonStack, 0, 0);
  // A signal handler that interrupts these stores finds no hash, or the complete entry.
  KnownPythonStack* const known = &thread->python_stacks[hash >> 59];
  known->hash = 0;
  SignalFence();
  known->number = number;
  known->ticks = now;
  SignalFence();
  known->hash = hash;
  return number;
}

template <int kRow>
uint32_t ReadStack(ThreadState* thread, const PythonInterpreter& python, uint64_t ticks) {
  const auto second = static_cast<uint32_t>(ticks >> python.second_shift);
  // In a fork child the same stack has another hash: the parent's records are not valid for the child.
  uint64_t hash = (uint64_t{thread->writer.process_serial} << 32 | 1) * 0x9e3779b97f4a7c15;
  uint32_t frames = 0;
  uint16_t flags = 0;
  FrameSpace<kRow> space(python, thread, second);
  PythonThread own;
  if (!TakePythonThread(thread, python, space.layout(), second, &own)) return 0;
  space.Begin(own);
  uint64_t frame = own.frame;
  uint64_t code;
  int64_t unit;
  while (TakeFrame(&space, &frame, &code, &unit)) {
    const uint64_t print = KnowPythonCode(thread, python, space.layout(), code, second);
    if (__builtin_expect(print == 0, 0)) {
      flags |= kPythonStackCut;
      break;
    }
    hash = (hash + (static_cast<uint64_t>(unit) * 0xd6e8feb86659fd93 ^ print)) * 0xda942042e4dd58b5;
    if (__builtin_expect(++frames == kMaxPythonFrames, 0)) {
      if (frame != 0) flags |= kPythonStackDeep;
      break;
    }
  }
  if (frame == kBrokenFrame) flags = kPythonStackCut;
  if (frames == 0) return 0;
  hash = (hash ^ hash >> 32) + flags;
  const KnownPythonStack& known = thread->python_stacks[hash >> 59];
  if (known.hash == hash && (ticks - known.ticks) >> python.second_shift == 0) return known.number;
  space.Begin(own);
  return RecordStack(thread, &space, own.frame, frames, flags, hash, ticks);
}

using Read = uint32_t (*)(ThreadState*, const PythonInterpreter&, uint64_t);
template <int... kRow>
constexpr Read ReadOfRow(int row, std::integer_sequence<int, kRow...>) {
  constexpr Read kReads[] = {ReadStack<kRow>...};
  return row == kNoRow ? ReadStack<kNoRow> : kReads[row];
}

}  // namespace

uint32_t ReadPythonStack(ThreadState* thread, const PythonInterpreter& python, uint64_t ticks) {
  // Recording a new code object takes 1 KiB of stack, twice the limit of other hooks: this must not happen on the small
  // stack of a signal handler.
  constexpr uint64_t kStackNeeded = 8 * 1024;
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  if (here < thread->stack_low + kStackNeeded || here >= thread->stack_top) return 0;
  return ReadOfRow(python.row, std::make_integer_sequence<int, kRows>())(thread, python, ticks);
}

__attribute__((noinline)) void NoteCurrentPythonStackSlow(ThreadState* thread) {
  const uint32_t number = PythonStackOf(thread, Ticks());
  if (number == thread->current_python_stack) return;
  Reservation reservation;
  CountMade(thread, kCountedPythonStack);
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1, &reservation)) {
    return CountNoRoom(thread, kCountedPythonStack);  // the next block tries again
  }
  auto* const record = reinterpret_cast<PythonStackRecord*>(reservation.slots);
  record->ticks = Ticks();
  record->number = number;
  record->frames = 0;
  record->flags = kPythonStackCurrent;
  record->reserved = 0;
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kPythonStack, 0, 0);
  thread->current_python_stack = number;
}

}  // namespace tbprof
