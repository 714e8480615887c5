// SPDX-License-Identifier: Apache-2.0
//
// Encodes the protobuf wire format by hand: a growing buffer and the few field forms that XSpace needs. Building
// message objects first costs over ten times the time and memory per event.
//
// Process: converter. Allocates; a failed allocation ends the process, as everywhere in the writer.
#ifndef TBPROF_WRITER_BASE_PROTO_ENCODER_H_
#define TBPROF_WRITER_BASE_PROTO_ENCODER_H_

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace tbprof {

// A contiguous buffer that grows by realloc: large blocks are moved by remapping, and unused capacity is never
// resident.
class ByteBuffer {
 public:
  ByteBuffer() = default;
  ~ByteBuffer() { std::free(data_); }
  ByteBuffer(ByteBuffer&& other) noexcept { *this = std::move(other); }
  ByteBuffer& operator=(ByteBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;

  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }
  size_t size() const { return size_; }
  uint8_t* at(size_t offset) { return data_ + offset; }

  // Reserves room for `more` bytes and returns where to write them. Commit sets the end of the written bytes.
  uint8_t* Reserve(size_t more) {
    if (capacity_ - size_ < more) Grow(more);
    return data_ + size_;
  }
  void Commit(const uint8_t* end) { size_ = static_cast<size_t>(end - data_); }
  void Release() { *this = ByteBuffer(); }

  // One length-delimited field. Open reserves one byte for the length; Close sets the length of the bytes appended
  // since `start`.
  size_t Open(uint8_t tag) {
    uint8_t* p = Reserve(2);
    p[0] = tag;
    size_ += 2;
    return size_;
  }
  void Close(size_t start);

 private:
  void Grow(size_t more) {
    size_t capacity = capacity_ + capacity_ / 2;
    if (capacity < size_ + more) capacity = size_ + more + 256;
    void* grown = std::realloc(data_, capacity);
    if (grown == nullptr) throw std::bad_alloc();
    data_ = static_cast<uint8_t*>(grown);
    capacity_ = capacity;
  }

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

inline constexpr size_t kMaxVarint = 10;

inline uint8_t* PutVarint(uint8_t* p, uint64_t value) {
  while (value > 0x7F) {
    *p++ = static_cast<uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *p++ = static_cast<uint8_t>(value);
  return p;
}

inline constexpr size_t VarintSize(uint64_t value) { return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7; }

// Tags of field numbers below 16: one byte.
inline constexpr uint8_t VarintTag(int field) { return static_cast<uint8_t>(field << 3); }
inline constexpr uint8_t Fixed64Tag(int field) { return static_cast<uint8_t>(field << 3 | 1); }
inline constexpr uint8_t BytesTag(int field) { return static_cast<uint8_t>(field << 3 | 2); }

inline void ByteBuffer::Close(size_t start) {
  const size_t length = size_ - start;
  if (length <= 0x7F) {
    data_[start - 1] = static_cast<uint8_t>(length);
    return;
  }
  const size_t extra = VarintSize(length) - 1;
  Reserve(extra);
  std::memmove(data_ + start + extra, data_ + start, length);
  PutVarint(data_ + start - 1, length);
  size_ += extra;
}

inline void PutVarintField(ByteBuffer& out, int field, uint64_t value) {
  uint8_t* p = out.Reserve(1 + kMaxVarint);
  *p++ = VarintTag(field);
  out.Commit(PutVarint(p, value));
}

inline void PutDoubleField(ByteBuffer& out, int field, double value) {
  uint8_t* p = out.Reserve(9);
  *p++ = Fixed64Tag(field);
  std::memcpy(p, &value, sizeof(value));  // little-endian, as both supported architectures are
  out.Commit(p + sizeof(value));
}

inline void PutTextField(ByteBuffer& out, int field, std::string_view text) {
  uint8_t* p = out.Reserve(1 + kMaxVarint + text.size());
  *p++ = BytesTag(field);
  p = PutVarint(p, text.size());
  if (!text.empty()) std::memcpy(p, text.data(), text.size());
  out.Commit(p + text.size());
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_PROTO_ENCODER_H_
