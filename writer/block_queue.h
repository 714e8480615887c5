// SPDX-License-Identifier: Apache-2.0
//
// Blocks of checked frames on their way from the thread that reads a spool ahead (Obtain, HandOver, Finish) to the one
// that converts it (Take, Stop). Blocks go round, so that there are never more of them than kBlocks, nor more bytes
// than those of kBlocks blocks, but for frames that are longer than a block.
//
// Process: converter, two threads.
#ifndef TBPROF_WRITER_BLOCK_QUEUE_H_
#define TBPROF_WRITER_BLOCK_QUEUE_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

namespace tbprof {

// When a spool is read ahead, and in what steps.
struct ReadAheadOptions {
  uint64_t least_bytes = 8u << 20;  // of the files together
  size_t block_bytes = 1u << 20;
  int least_processors = 2;
};

// How far a reader has come.
struct ReadState {
  uint64_t position = 0;
  uint64_t damaged = 0;
  uint32_t missing = 0;
  bool truncated = false;
};

struct CheckedFrame {
  uint16_t type = 0;
  uint32_t segment = 0;
  uint32_t part = 0;
  size_t offset = 0, size = 0;  // of the payload in its block
  ReadState state{};            // behind the frame
};

struct FrameBlock {
  std::vector<char> bytes;
  std::vector<CheckedFrame> frames;
};

class BlockQueue {
 public:
  explicit BlockQueue(size_t block_bytes) : block_bytes_(block_bytes) { free_.reserve(kBlocks); }

  // A block of at least `bytes` bytes and no frames, when there is room for one. False: stopped.
  bool Obtain(size_t bytes, FrameBlock* block);
  void HandOver(FrameBlock block);
  // The last block, which may be without frames.
  void Finish(FrameBlock block, const ReadState& state, std::exception_ptr error);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  // Exchanges a block that was read for the next one. False: there is none any more. Throws what ended the reading.
  bool Take(FrameBlock* block);
  const ReadState& last_state() const { return last_state_; }  // when Take has returned false
  void Stop();

 private:
  static constexpr size_t kBlocks = 4;
  void Add(FrameBlock block);

  const size_t block_bytes_;
  std::mutex mutex_;
  std::condition_variable has_block_, has_room_;
  // The next is at first_. No list that grows: what ended the reading may be that there is no more memory.
  std::array<FrameBlock, kBlocks> ready_;
  size_t first_ = 0, count_ = 0;
  std::vector<FrameBlock> free_;
  size_t away_ = 0, away_bytes_ = 0;  // handed over, and not given back
  bool has_one_ = false;              // whoever takes them
  bool finished_ = false;
  std::atomic<bool> stopped_{false};
  ReadState last_state_;
  std::exception_ptr error_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_BLOCK_QUEUE_H_
