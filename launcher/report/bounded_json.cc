// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/bounded_json.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "launcher/base/text.h"
#include "writer/base/file_window.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

absl::Status Broken(const std::string& path, uint64_t byte, std::string_view what) {
  return absl::DataLossError(StrCat(PrintableUtf8(path), ": byte ", byte, ": ", what));
}

// Checks brackets and quotes before anything is stored: the parser's own memory grows with a long text.
class Outline {
 public:
  explicit Outline(const JsonLimits& limits) : limits_(limits) {}

  // False at the first fault.
  bool Take(std::string_view bytes) {
    for (const char byte : bytes) {
      ++at_;
      if (in_text_) {
        if (++text_bytes_ > limits_.text_bytes) return Fail(StrCat("a text of over ", limits_.text_bytes, " bytes"));
        if (escaped_) {
          escaped_ = false;
        } else if (byte == '\\') {
          escaped_ = true;
        } else if (byte == '"') {
          in_text_ = false;
        }
        continue;
      }
      // Limits numbers as well: a number may be as long as the file.
      const bool in_word = byte > ' ' && strchr("\"{}[],:", byte) == nullptr;
      word_bytes_ = in_word ? word_bytes_ + 1 : 0;
      if (word_bytes_ > kMostWordBytes) return Fail(StrCat("a number or word of over ", kMostWordBytes, " bytes"));
      if (byte == '"') {
        in_text_ = true;
        text_bytes_ = 0;
      } else if (byte == '{' || byte == '[') {
        if (++depth_ > limits_.depth) return Fail(StrCat("nested deeper than ", limits_.depth, " levels"));
      } else if ((byte == '}' || byte == ']') && depth_ > 0) {
        --depth_;
      }
    }
    return true;
  }

  uint64_t at() const { return at_; }
  const std::string& fault() const { return fault_; }

 private:
  static constexpr size_t kMostWordBytes = 1024;
  bool Fail(std::string what) {
    fault_ = std::move(what);
    return false;
  }

  const JsonLimits& limits_;
  uint64_t at_ = 0;
  size_t depth_ = 0, text_bytes_ = 0, word_bytes_ = 0;
  bool in_text_ = false, escaped_ = false;
  std::string fault_;
};

// Builds the document. Values beyond the limit of an array are read and left out.
class Maker : public nlohmann::json_sax<Json> {
 public:
  Maker(const std::string& path, uint64_t size, const JsonLimits& limits) : path_(path), size_(size), limits_(limits) {}

  absl::Status TakeStatus() { return std::move(status_); }
  Json TakeJson() { return std::move(root_); }

  bool null() override { return Put(nullptr) != kFull; }
  bool boolean(bool value) override { return Put(value) != kFull; }
  bool number_integer(number_integer_t value) override { return Put(value) != kFull; }
  bool number_unsigned(number_unsigned_t value) override { return Put(value) != kFull; }
  bool number_float(number_float_t value, const string_t&) override { return Put(value) != kFull; }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override { return TakeText(&value) && Put(std::move(value)) != kFull; }
  bool key(string_t& value) override {
    if (levels_.back().value == nullptr) return true;
    if (!TakeText(&value)) return false;
    levels_.back().key = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const bool early = position > size_;
    const bool number = error.id == 406;
    status_ = Broken(path_, std::min<uint64_t>(position, size_),
                     early    ? "it ends too early: no whole JSON"
                     : number ? "a number that is too large"
                              : "it is no JSON from here on");
    return false;
  }

 private:
  enum Result { kKept, kLeftOut, kFull };
  struct Level {
    Json* value;  // nullptr: left out
    std::string key;
  };

  Result Put(Json&& value) {
    placed_ = nullptr;
    if (!levels_.empty() && levels_.back().value == nullptr) return kLeftOut;
    if (++values_ > limits_.values) {
      status_ = absl::ResourceExhaustedError(StrCat(PrintableUtf8(path_), ": over ", limits_.values, " values"));
      return kFull;
    }
    if (levels_.empty()) {
      root_ = std::move(value);
      placed_ = &root_;
      return kKept;
    }
    Level& level = levels_.back();
    if (level.value->is_object()) {
      placed_ = &((*level.value)[level.key] = std::move(value));
      return kKept;
    }
    if (level.value->size() >= limits_.array_values) return kLeftOut;
    level.value->push_back(std::move(value));
    placed_ = &level.value->back();
    return kKept;
  }

  bool TakeText(std::string* text) {
    if (text->size() > limits_.kept_text_bytes) text->resize(limits_.kept_text_bytes);
    text_bytes_ += text->size();
    if (text_bytes_ <= limits_.all_text_bytes) return true;
    status_ =
        absl::ResourceExhaustedError(StrCat(PrintableUtf8(path_), ": over ", limits_.all_text_bytes, " bytes of text"));
    return false;
  }

  bool Open(Json&& empty) {
    const Result result = Put(std::move(empty));
    levels_.push_back({placed_, ""});
    return result != kFull;
  }
  bool Close() {
    levels_.pop_back();
    return true;
  }

  const std::string& path_;
  uint64_t size_;
  const JsonLimits& limits_;
  Json root_;
  Json* placed_ = nullptr;
  std::vector<Level> levels_;
  size_t values_ = 0, text_bytes_ = 0;
  absl::Status status_;
};

template <typename Input>
absl::StatusOr<Json> Parse(Input&& input, const std::string& path, uint64_t size, const JsonLimits& limits) {
  Maker maker(path, size, limits);
  if (!Json::sax_parse(std::forward<Input>(input), &maker)) {
    absl::Status status = maker.TakeStatus();
    return status.ok() ? Broken(path, 0, "it is no JSON") : status;
  }
  return maker.TakeJson();
}

}  // namespace

absl::StatusOr<Json> ParseBoundedJson(std::string_view text, const std::string& path, const JsonLimits& limits) {
  if (text.size() > limits.file_bytes) {
    return absl::ResourceExhaustedError(StrCat(PrintableUtf8(path), ": over ", limits.file_bytes >> 20, " MiB"));
  }
  Outline outline(limits);
  if (!outline.Take(text)) return Broken(path, outline.at(), outline.fault());
  return Parse(text, path, text.size(), limits);
}

absl::StatusOr<Json> ReadBoundedJson(int fd, const std::string& path, const JsonLimits& limits) {
  struct stat facts;
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(StrCat(PrintableUtf8(path), ": no regular file"));
  }
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (size == 0) return Broken(path, 0, "the file is empty");
  if (size > limits.file_bytes) {
    return absl::ResourceExhaustedError(
        StrCat(PrintableUtf8(path), ": ", size >> 20, " MiB; a summary has at most ", limits.file_bytes >> 20));
  }
  Outline outline(limits);
  FileWindow window(fd, size);
  for (uint64_t at = 0; at < size;) {
    const std::string_view bytes = window.Read(at, 64 << 10);
    if (bytes.empty()) break;
    if (!outline.Take(bytes)) return Broken(path, outline.at(), outline.fault());
    at += bytes.size();
  }
  if (window.error() != 0) {
    return absl::UnavailableError(StrCat(PrintableUtf8(path), ": cannot be read: ", strerror(window.error())));
  }
  const int copy = dup(fd);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(copy < 0 ? nullptr : fdopen(copy, "r"), fclose);
  if (file == nullptr || fseek(file.get(), 0, SEEK_SET) != 0) {
    if (file == nullptr && copy >= 0) close(copy);
    return absl::UnavailableError(StrCat(PrintableUtf8(path), ": cannot be read: ", strerror(errno)));
  }
  return Parse(file.get(), path, size, limits);
}

}  // namespace tbprof
