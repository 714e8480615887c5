// SPDX-License-Identifier: Apache-2.0
//
// Text in a buffer of fixed size, without libc's formatting, which allocates and takes locks.
//
// Process: target. No allocation.
#ifndef TBPROF_CUPTI_TEXT_H_
#define TBPROF_CUPTI_TEXT_H_

#include <stddef.h>
#include <stdint.h>

namespace tbprof::cupti {

inline uint32_t TextLength(const char* text, uint32_t limit = UINT32_MAX) {
  uint32_t length = 0;
  while (length < limit && text[length] != '\0') ++length;
  return length;
}

inline bool StartsWith(const char* text, const char* with) {
  while (*with != '\0' && *text == *with) ++text, ++with;
  return *with == '\0';
}

// Where `part` begins in `text`; null: nowhere.
inline const char* FindText(const char* text, const char* part) {
  for (; *text != '\0'; ++text) {
    if (StartsWith(text, part)) return text;
  }
  return nullptr;
}

// Always null-terminated; text that does not fit is truncated.
template <uint32_t size>
class Text {
 public:
  Text& Add(const char* text) { return Add(text, text == nullptr ? 0 : TextLength(text)); }
  Text& Add(const char* text, uint32_t length) {
    for (uint32_t i = 0; i < length && length_ + 1 < size; ++i) data_[length_++] = text[i];
    data_[length_] = '\0';
    return *this;
  }
  Text& Add(uint64_t number) {
    char digits[20];
    uint32_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    while (count > 0) Add(&digits[--count], 1);
    return *this;
  }
  const char* get() const { return data_; }
  uint32_t length() const { return length_; }

 private:
  char data_[size] = {};
  uint32_t length_ = 0;
};

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_TEXT_H_
