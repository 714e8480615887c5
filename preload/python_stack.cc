// SPDX-License-Identifier: Apache-2.0
// The walk over the frames of the calling thread. Rules: RULES.md.
#include "preload/python.h"
#include "preload/python_code.h"
#include "preload/record.h"

namespace tbprof {
namespace {

// Follows the frames of a thread, the innermost first. What is followed lies in the thread's state, in its chunks of
// the data stack, on its C stack, or in a page that can be read: frames of generators, and up to 3.10 all of them.
class FrameWalk {
 public:
  FrameWalk(const PythonInterpreter& python, const ThreadState* thread, const uint8_t* state, uint32_t second)
      : layout_(python.layout), thread_(thread), second_(second) {
    const auto at = reinterpret_cast<uint64_t>(state);
    frame_ = LoadAt<uint64_t>(at + layout_.thread_frame);
    if (layout_.cframe_frame != kNoPythonMember && frame_ != 0) {
      // On the C stack, or in the state itself.
      const bool in_state = frame_ - at < layout_.thread_chunk;
      frame_ = in_state || IsOutside(frame_, layout_.cframe_frame + 8u)
                   ? LoadAt<uint64_t>(frame_ + layout_.cframe_frame)
                   : kBroken;
    }
    if (layout_.thread_chunk != kNoPythonMember) SetChunk(LoadAt<uint64_t>(at + layout_.thread_chunk));
  }

  // False: there are no more, or the next one cannot be trusted.
  inline __attribute__((always_inline)) bool Next(uint64_t* code, int64_t* unit) {
    while (frame_ != 0) {
      if (__builtin_expect(frame_ - chunk_ >= chunk_span_, 0) && !IsElsewhere()) {
        frame_ = kBroken;
        return false;
      }
      const uint64_t frame = frame_;
      frame_ = LoadAt<uint64_t>(frame + layout_.frame_previous);
      if (layout_.frame_owner != kNoPythonMember &&
          !PythonFrameRunsCode(LoadAt<uint8_t>(frame + layout_.frame_owner))) {
        if (++shims_ > kMaxShims) frame_ = kBroken;
        continue;
      }
      *code = LoadAt<uint64_t>(frame + layout_.frame_code);
      if (layout_.minor >= kPythonFirstTaggedMinor) *code &= ~kPythonReferenceTags;
      if (layout_.code_instructions == kNoPythonMember) {
        const int64_t last = LoadAt<int32_t>(frame + layout_.frame_instruction);
        *unit = layout_.minor == 10 ? last : last >> 1;
      } else {
        *unit = static_cast<int64_t>(LoadAt<uint64_t>(frame + layout_.frame_instruction) - *code -
                                     layout_.code_instructions) >>
                1;
      }
      return true;
    }
    return false;
  }
  bool is_broken() const { return frame_ == kBroken; }
  bool has_more() const { return frame_ != 0; }

 private:
  static constexpr uint64_t kBroken = 1;
  static constexpr uint32_t kMaxShims = 2 * kMaxPythonFrames;

  void SetChunk(uint64_t chunk) {
    chunk_span_ = 0;
    if (chunk == 0 || chunk % 8 != 0) return;
    const uint64_t size = LoadAt<uint64_t>(chunk + offsetof(PythonChunk, size));
    if (size <= layout_.frame_size || size > uint64_t{1} << 32) return;
    chunk_ = chunk;
    chunk_span_ = size - layout_.frame_size;
  }

  // On the C stack above us, or in a page that can be read.
  bool IsOutside(uint64_t address, uint64_t bytes) const {
    if (address % 8 != 0) return false;
    const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
    if (here >= thread_->stack_low && here < address && address + bytes <= thread_->stack_top) return true;
    return IsReadable(address, bytes, second_);
  }

  __attribute__((noinline)) bool IsElsewhere() {
    if (frame_ % 8 != 0) return false;
    if (chunk_span_ != 0) {
      const uint64_t saved = chunk_, saved_span = chunk_span_;
      SetChunk(LoadAt<uint64_t>(chunk_ + offsetof(PythonChunk, previous)));
      if (frame_ - chunk_ < chunk_span_) return true;
      chunk_ = saved;
      chunk_span_ = saved_span;
    }
    return IsOutside(frame_, layout_.frame_size);
  }

  const PythonLayout& layout_;
  const ThreadState* thread_;
  uint64_t frame_;
  uint64_t chunk_ = 0, chunk_span_ = 0;  // a frame that begins that far into it ends in it
  uint32_t second_;
  uint32_t shims_ = 0;
};

// The first interpreter of the list is the latest one.
bool HasSeveralInterpreters(const PythonInterpreter& python, const uint8_t* state) {
  const auto runtime = reinterpret_cast<uint64_t>(python.runtime);
  return LoadAt<uint64_t>(reinterpret_cast<uint64_t>(state) + python.layout.thread_interpreter) !=
         LoadAt<uint64_t>(runtime + python.layout.runtime_interpreters);
}

__attribute__((noinline)) uint32_t RecordStack(ThreadState* thread, FrameWalk* walk, uint32_t frames, uint16_t flags,
                                               uint64_t hash, KnownPythonStack* known) {
  Reservation reservation;
  if (!BeginRecord(g_attachment.segment, &thread->writer, 1 + SlotsFor(sizeof(PythonFrameWord) * frames),
                   &reservation)) {
    return 0;
  }
  auto* const record = reinterpret_cast<PythonStackRecord*>(reservation.slots);
  auto* const words = reinterpret_cast<PythonFrameWord*>(record + 1);
  uint64_t code = 0;
  int64_t unit = 0;
  for (uint32_t i = 0; i < frames; ++i) words[i] = walk->Next(&code, &unit) ? PackPythonFrame(code, unit) : 0;
  const auto number = static_cast<uint32_t>(FetchAddThisThread(&thread->python_stack_count, 1) + 1);
  const uint64_t ticks = Ticks();
  record->ticks = ticks;
  record->number = number;
  record->frames = static_cast<uint16_t>(frames);
  record->flags = flags;
  record->reserved = 0;
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kPythonStack, 0, 0);
  // A signal handler that interrupts this finds no hash, or all of it.
  known->hash = 0;
  SignalFence();
  known->number = number;
  known->ticks = ticks;
  SignalFence();
  known->hash = hash;
  return number;
}

}  // namespace

uint32_t ReadPythonStack(ThreadState* thread, const PythonInterpreter& python) {
  if (python.is_finalizing() != 0) return 0;
  const uint8_t* const state = python.own_state();
  if (state == nullptr) return 0;
  if (python.layout.minor < 12 && HasSeveralInterpreters(python, state)) return 0;
  const uint64_t ticks = Ticks();
  const auto second = static_cast<uint32_t>(ticks >> python.second_shift);
  // In a fork child the same stack has another hash: what its parent recorded is not the child's.
  uint64_t hash = (uint64_t{thread->writer.process_serial} << 32 | 1) * 0x9e3779b97f4a7c15;
  uint32_t frames = 0;
  uint16_t flags = 0;
  FrameWalk walk(python, thread, state, second);
  uint64_t code;
  int64_t unit;
  while (walk.Next(&code, &unit)) {
    const uint64_t print = KnowPythonCode(thread, python, code, second);
    if (__builtin_expect(print == 0, 0)) {
      flags |= kPythonStackCut;
      break;
    }
    hash = (hash + (PackPythonFrame(code, unit) * 0xd6e8feb86659fd93 ^ print)) * 0xda942042e4dd58b5;
    if (__builtin_expect(++frames == kMaxPythonFrames, 0)) {
      if (walk.has_more()) flags |= kPythonStackDeep;
      break;
    }
  }
  if (walk.is_broken()) flags = kPythonStackCut;
  if (frames == 0) return 0;
  hash = (hash ^ hash >> 32) + flags;
  KnownPythonStack* const known = &thread->python_stacks[hash >> 60];
  if (known->hash == hash && (ticks - known->ticks) >> python.second_shift == 0) return known->number;
  FrameWalk again(python, thread, state, second);
  return RecordStack(thread, &again, frames, flags, hash, known);
}

}  // namespace tbprof
