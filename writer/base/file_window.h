// SPDX-License-Identifier: Apache-2.0
//
// Reads a file that another program wrote or is still writing, in pieces. The file is never mapped: if a mapped file
// shrinks, the process ends with SIGBUS. Also reads the protobuf wire format in such a piece.
//
//   FileWindow file(fd, size);
//   std::string_view header = file.Read(offset, 12);   // shorter at the end of the file or at an error
//
//   FieldReader reader(bytes, length);   // `bytes`: the beginning of a message of `length` bytes
//   while (reader.Next()) if (reader.number() == 5) ...
//
// Process: launcher. Not thread-safe.
#ifndef TBPROF_WRITER_BASE_FILE_WINDOW_H_
#define TBPROF_WRITER_BASE_FILE_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tbprof {

class FileWindow {
 public:
  static constexpr size_t kMaxRead = 1 << 20;

  // The caller keeps ownership of `fd`. Bytes beyond `size` are ignored.
  FileWindow(int fd, uint64_t size) : fd_(fd), size_(size) {}

  uint64_t size() const { return size_; }
  uint64_t bytes_read() const { return bytes_read_; }
  int error() const { return error_; }  // errno of a read that failed, 0 if none did

  // At most kMaxRead bytes from `offset`; valid until the next call.
  std::string_view Read(uint64_t offset, size_t size);

 private:
  int fd_;
  uint64_t size_;
  uint64_t bytes_read_ = 0;
  int error_ = 0;
  std::vector<char> buffer_;
  uint64_t start_ = 0;  // position of the buffer in the file
  size_t filled_ = 0;
};

// Reads the fields of one message. If a field extends past the available bytes, only its beginning is returned, and it
// is the last field.
class FieldReader {
 public:
  FieldReader(std::string_view bytes, uint64_t length) : bytes_(bytes.substr(0, length)), length_(length) {}
  explicit FieldReader(std::string_view bytes) : FieldReader(bytes, bytes.size()) {}

  bool Next();  // false: the end, or malformed bytes
  bool malformed() const { return malformed_; }

  uint32_t number() const { return number_; }
  int type() const { return type_; }                 // 0 varint, 1 fixed64, 2 bytes, 5 fixed32
  uint64_t value() const { return value_; }          // for the numeric types
  double number_as_double() const;                   // for fixed64
  std::string_view bytes() const { return field_; }  // for type 2
  uint64_t length() const { return value_length_; }  // for type 2: the length given in the message
  size_t position() const { return at_; }            // after the field, or after its header if the field is cut

  // Decodes LEB128. Returns false if the bytes end early or contain no such number.
  static bool Varint(std::string_view bytes, size_t* at, uint64_t* value);

 private:
  bool Fail() {
    malformed_ = true;
    return false;
  }

  std::string_view bytes_;
  uint64_t length_;
  size_t at_ = 0;
  bool malformed_ = false;
  bool cut_ = false;
  uint32_t number_ = 0;
  int type_ = 0;
  uint64_t value_ = 0;
  uint64_t value_length_ = 0;
  std::string_view field_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_FILE_WINDOW_H_
