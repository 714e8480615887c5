// SPDX-License-Identifier: Apache-2.0
#include "writer/block_queue.h"

#include <utility>

namespace tbprof {

bool BlockQueue::Obtain(size_t bytes, FrameBlock* block) {
  {
    std::unique_lock lock(mutex_);
    // One is with whoever asks.
    has_room_.wait(lock, [&] {
      return stopped() || away_ == 0 || (away_ + 1 < kBlocks && away_bytes_ + bytes <= kBlocks * block_bytes_);
    });
    if (stopped()) return false;
    if (!free_.empty()) {
      *block = std::move(free_.back());
      free_.pop_back();
    }
  }
  block->frames.clear();
  if (block->bytes.size() < bytes) block->bytes.resize(bytes);
  return true;
}

void BlockQueue::Add(FrameBlock block) {
  ++away_;
  away_bytes_ += block.bytes.size();
  ready_[(first_ + count_++) % kBlocks] = std::move(block);
  has_block_.notify_one();
}

void BlockQueue::HandOver(FrameBlock block) {
  const std::scoped_lock lock(mutex_);
  Add(std::move(block));
}

void BlockQueue::Finish(FrameBlock block, const ReadState& state, std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  Add(std::move(block));
  last_state_ = state;
  error_ = std::move(error);
  finished_ = true;
}

bool BlockQueue::Take(FrameBlock* block) {
  std::unique_lock lock(mutex_);
  if (has_one_) {
    --away_;
    away_bytes_ -= block->bytes.size();
    // What a long frame took is given back.
    if (block->bytes.size() <= block_bytes_) free_.push_back(std::move(*block));
    *block = {};
    has_one_ = false;
    has_room_.notify_one();
  }
  has_block_.wait(lock, [&] { return count_ > 0 || finished_; });
  if (count_ == 0) {
    if (error_ != nullptr) std::rethrow_exception(error_);
    return false;
  }
  *block = std::move(ready_[first_]);
  first_ = (first_ + 1) % kBlocks;
  --count_;
  has_one_ = true;
  return true;
}

void BlockQueue::Stop() {
  const std::scoped_lock lock(mutex_);
  stopped_.store(true, std::memory_order_relaxed);
  has_room_.notify_one();
}

}  // namespace tbprof
