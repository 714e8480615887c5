// SPDX-License-Identifier: Apache-2.0
#include "writer/base/file_window.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tbprof {

std::string_view FileWindow::Read(uint64_t offset, size_t size) {
  if (offset >= size_) return {};
  size = static_cast<size_t>(std::min<uint64_t>({size, kMaxRead, size_ - offset}));
  if (offset < start_ || offset + size > start_ + filled_) {
    // A caller that skips most of a file needs few bytes after each skip.
    const bool onward = offset >= start_ && offset <= start_ + filled_;
    const size_t wanted =
        static_cast<size_t>(std::min<uint64_t>(std::max<size_t>(size, onward ? 128 << 10 : 16 << 10), size_ - offset));
    if (buffer_.size() < wanted) buffer_.resize(wanted);
    start_ = offset;
    filled_ = 0;
    while (filled_ < wanted) {
      const ssize_t got = pread(fd_, buffer_.data() + filled_, wanted - filled_, static_cast<off_t>(offset + filled_));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) error_ = errno;
      if (got <= 0) break;
      filled_ += static_cast<size_t>(got);
      bytes_read_ += static_cast<size_t>(got);
    }
    size = std::min(size, filled_);
  }
  return {buffer_.data() + (offset - start_), size};
}

bool FieldReader::Varint(std::string_view bytes, size_t* at, uint64_t* value) {
  uint64_t result = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (*at >= bytes.size()) return false;
    const uint8_t byte = static_cast<uint8_t>(bytes[(*at)++]);
    if (shift < 64) result |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return false;
}

bool FieldReader::Next() {
  if (malformed_ || cut_ || at_ >= length_) return false;
  const bool whole = bytes_.size() == length_;
  if (at_ >= bytes_.size()) return false;  // the rest is not available
  uint64_t tag;
  size_t at = at_;
  if (!Varint(bytes_, &at, &tag)) return whole || bytes_.size() - at_ > 10 ? Fail() : false;
  number_ = static_cast<uint32_t>(tag >> 3);
  type_ = static_cast<int>(tag & 7);
  if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return Fail();
  field_ = {};
  value_ = 0;
  value_length_ = 0;
  const size_t left = bytes_.size() - at;
  switch (type_) {
    case 0:
      if (!Varint(bytes_, &at, &value_)) return whole || left > 10 ? Fail() : false;
      break;
    case 1:
    case 5: {
      const size_t width = type_ == 1 ? 8 : 4;
      if (left < width) return whole ? Fail() : false;
      std::memcpy(&value_, bytes_.data() + at, width);  // little-endian, as both supported architectures are
      at += width;
      break;
    }
    case 2: {
      if (!Varint(bytes_, &at, &value_length_)) return whole || left > 10 ? Fail() : false;
      if (value_length_ > length_ - at) return Fail();
      field_ = bytes_.substr(at, static_cast<size_t>(std::min<uint64_t>(value_length_, bytes_.size() - at)));
      cut_ = field_.size() < value_length_;
      if (!cut_) at += field_.size();
      break;
    }
    default:  // no message that is read here contains groups
      return Fail();
  }
  at_ = at;
  return true;
}

double FieldReader::number_as_double() const {
  double number;
  std::memcpy(&number, &value_, sizeof(number));
  return number;
}

}  // namespace tbprof
