// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/rust_names.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tbprof {
namespace {

constexpr size_t kLongestText = 4096;
// References inside of a name could make it endless.
constexpr int kDeepest = 100, kMostParts = 10'000;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view BasicType(char tag) {
  constexpr std::pair<char, std::string_view> kTypes[] = {
      {'a', "i8"},    {'b', "bool"},  {'c', "char"}, {'d', "f64"}, {'e', "str"},  {'f', "f32"},  {'h', "u8"},
      {'i', "isize"}, {'j', "usize"}, {'l', "i32"},  {'m', "u32"}, {'n', "i128"}, {'o', "u128"}, {'s', "i16"},
      {'t', "u16"},   {'u', "()"},    {'v', "..."},  {'x', "i64"}, {'y', "u64"},  {'z', "!"},    {'p', "_"}};
  const auto* const found = std::ranges::find(kTypes, tag, &std::pair<char, std::string_view>::first);
  return found == std::end(kTypes) ? "" : found->second;
}

// A parser of RFC 2603. `text_` gets what is printed; a part that is skipped is parsed with `skip_` > 0.
class Parser {
 public:
  explicit Parser(std::string_view name) : in_(name) {}

  bool Parse() {
    Path();
    // The crate that instantiated a generic function.
    if (good_ && at_ < in_.size() && in_[at_] >= 'A' && in_[at_] <= 'Z') Skipped([&] { Path(); });
    return good_ && (at_ == in_.size() || in_[at_] == '.' || in_[at_] == '$') && !text_.empty();
  }
  std::string Take() { return std::move(text_); }

 private:
  char Peek() const { return at_ < in_.size() ? in_[at_] : '\0'; }
  char Next() {
    if (at_ >= in_.size()) good_ = false;
    return good_ ? in_[at_++] : '\0';
  }
  bool Eat(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void Print(std::string_view text) {
    if (skip_ > 0) return;
    if (text_.size() + text.size() > kLongestText) good_ = false;
    if (good_) text_ += text;
  }
  template <typename Part>
  void Skipped(Part&& part) {
    ++skip_;
    part();
    --skip_;
  }
  // One level deeper; false: too deep, too much, or wrong before.
  template <typename Part>
  void Deeper(Part&& part) {
    if (++depth_ > kDeepest || ++parts_ > kMostParts) good_ = false;
    if (good_) part();
    --depth_;
  }

  uint64_t Decimal() {
    uint64_t value = 0;
    if (!IsDigit(Peek())) good_ = false;
    if (Eat('0')) return 0;
    while (good_ && IsDigit(Peek())) {
      value = value * 10 + static_cast<uint64_t>(Next() - '0');
      if (value > in_.size()) good_ = false;
    }
    return value;
  }
  uint64_t Base62() {
    if (Eat('_')) return 0;
    uint64_t value = 0;
    while (good_ && !Eat('_')) {
      const char c = Next();
      const bool is_lower = c >= 'a' && c <= 'z', is_upper = c >= 'A' && c <= 'Z';
      if (!IsDigit(c) && !is_lower && !is_upper) good_ = false;
      const int digit = IsDigit(c) ? c - '0' : is_lower ? c - 'a' + 10 : c - 'A' + 36;
      value = value * 62 + static_cast<uint64_t>(digit);  // a hash of a crate has 64 bits
    }
    return value + 1;
  }
  void Disambiguator() {
    if (Eat('s')) Base62();
  }
  std::string_view Identifier() {
    Eat('u');  // Punycode stays as it is
    const uint64_t length = Decimal();
    Eat('_');
    if (!good_ || length > in_.size() - at_) {
      good_ = false;
      return {};
    }
    const std::string_view name = in_.substr(at_, length);
    at_ += length;
    return name;
  }

  // Follows a reference to an earlier place, unless its text is not needed.
  template <typename Part>
  void Reference(Part&& part) {
    const size_t from = at_ - 1;
    const uint64_t to = Base62();
    if (to >= from) good_ = false;
    if (!good_ || skip_ > 0) return;
    const size_t back = std::exchange(at_, static_cast<size_t>(to));
    part();
    at_ = back;
  }

  void Path() {
    Deeper([&] { PathOf(Next()); });
  }
  void PathOf(char tag) {
    switch (tag) {
      case 'C':
        Disambiguator();
        return Print(Identifier());
      case 'M':
      case 'X':
        Disambiguator();
        Skipped([&] { Path(); });
        Type();
        if (tag == 'X') Skipped([&] { Path(); });
        return;
      case 'Y':
        Type();
        return Skipped([&] { Path(); });
      case 'N':
        return Nested();
      case 'I':
        Path();
        return Skipped([&] {
          while (good_ && !Eat('E')) GenericArgument();
        });
      case 'B':
        return Reference([&] { Path(); });
      default:
        good_ = false;
    }
  }
  void Nested() {
    const char space = Next();
    Path();
    Disambiguator();
    const std::string_view name = Identifier();
    if (space >= 'A' && space <= 'Z') {
      Print(space == 'C' ? "::{closure}" : space == 'S' ? "::{shim}" : "::{}");
    } else if (!name.empty()) {
      Print("::");
      Print(name);
    }
  }
  void GenericArgument() {
    if (Eat('L')) {
      Base62();
    } else if (Eat('K')) {
      Constant();
    } else {
      Type();
    }
  }

  void Type() {
    Deeper([&] { TypeOf(Next()); });
  }
  void TypeOf(char tag) {
    if (const std::string_view basic = BasicType(tag); !basic.empty()) return Print(basic);
    switch (tag) {
      case 'A':
      case 'S':
        // Brackets at the beginning mean a function without a name.
        Print(tag == 'A' ? "array" : "slice");
        return Skipped([&] {
          Type();
          if (tag == 'A') Constant();
        });
      case 'T':
        Print("(");
        for (bool first = true; good_ && !Eat('E'); first = false) {
          if (!first) Print(", ");
          Type();
        }
        return Print(")");
      case 'R':
      case 'Q':
        if (Eat('L')) Base62();
        Print("&");
        return Type();
      case 'P':
      case 'O':
        Print("*");
        return Type();
      case 'F':
        Print("fn");
        return Skipped([&] { Function(); });
      case 'D':
        return Dynamic();
      case 'B':
        return Reference([&] { Type(); });
      default:
        PathOf(tag);
    }
  }
  void Binder() {
    if (Eat('G')) Base62();
  }
  void Function() {
    Binder();
    Eat('U');
    if (Eat('K') && !Eat('C')) Identifier();
    while (good_ && !Eat('E')) Type();
    Type();
  }
  void Dynamic() {
    Print("dyn ");
    Binder();
    for (bool first = true; good_ && !Eat('E'); first = false) {
      if (!first) Print(" + ");
      Path();
      Skipped([&] {
        while (good_ && Eat('p')) {
          Identifier();
          Type();
        }
      });
    }
    if (Next() != 'L') good_ = false;
    Base62();
  }
  // Always skipped.
  void Constant() {
    Deeper([&] {
      const char tag = Next();
      if (tag == 'p') return;
      if (tag == 'B') return Reference([&] { Constant(); });
      // Newer compilers have values of structures; few names contain any.
      if (BasicType(tag).empty()) good_ = false;
      Eat('n');
      while (good_ && !Eat('_')) Next();
    });
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string text_;
  int skip_ = 0, depth_ = 0, parts_ = 0;
  bool good_ = true;
};

// Replaces `$LT$`, `$u20$` and the like, and `..`.
std::string Decoded(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kCodes[] = {
      {"$SP$", "@"}, {"$BP$", "*"}, {"$RF$", "&"}, {"$LT$", "<"}, {"$GT$", ">"},
      {"$LP$", "("}, {"$RP$", ")"}, {"$C$", ","},  {"..", "::"},  {"_$u7b$$u7b$", "{{"}};
  std::string out;
  while (!name.empty()) {
    const auto* const code = std::ranges::find_if(kCodes, [&](const auto& row) { return name.starts_with(row.first); });
    if (code != std::end(kCodes)) {
      out += code->second;
      name.remove_prefix(code->first.size());
      continue;
    }
    // `$u7b$`: a printable character.
    const auto digit = [&](size_t at) { return IsDigit(name[at]) ? name[at] - '0' : name[at] - 'a' + 10; };
    const auto is_hex = [&](size_t at) { return IsDigit(name[at]) || (name[at] >= 'a' && name[at] <= 'f'); };
    if (name.size() >= 5 && name.starts_with("$u") && is_hex(2) && is_hex(3) && name[4] == '$') {
      const int value = digit(2) * 16 + digit(3);
      if (value >= 0x20 && value < 0x7f) {
        out += static_cast<char>(value);
        name.remove_prefix(5);
        continue;
      }
    }
    out += name[0];
    name.remove_prefix(1);
  }
  return out;
}

// The end of the part in angle brackets that begins at `from`; an arrow ends none. npos: there is none.
size_t EndOfBrackets(std::string_view name, size_t from) {
  int depth = 0;
  for (size_t i = from; i < name.size(); ++i) {
    depth += name[i] == '<';
    if (name[i] == '>' && (i == 0 || name[i - 1] != '-') && --depth == 0) return i;
  }
  return std::string_view::npos;
}

// `<app::Row<T> as app::Sum>::add<T>` gives `app::Row::add`.
std::string WithoutGenerics(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const size_t end = name[i] == '<' ? EndOfBrackets(name, i) : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += name[i];
      continue;
    }
    if (i == 0) {
      std::string_view type = name.substr(1, end - 1);
      int depth = 0;
      for (size_t at = 0; at < type.size(); ++at) {
        depth += type[at] == '<' ? 1 : type[at] == '>' && type[at - 1] != '-' ? -1 : 0;
        if (depth == 0 && type.substr(at).starts_with(" as ")) type = type.substr(0, at);
      }
      out = WithoutGenerics(type);
      if (out.starts_with('[')) out = "slice";
    } else if (out.ends_with("::")) {
      out.resize(out.size() - 2);  // of a turbofish
    }
    i = end;
  }
  return out;
}

}  // namespace

std::optional<std::string> RustName(std::string_view mangled) {
  if (!mangled.starts_with("_R") || mangled.size() > kLongestText) return std::nullopt;
  Parser parser(mangled.substr(2));
  if (!parser.Parse()) return std::nullopt;
  return parser.Take();
}

std::optional<std::string> OldRustName(std::string_view name) {
  constexpr std::string_view kBefore = "::h";
  constexpr size_t kDigits = 16;
  if (name.size() <= kBefore.size() + kDigits || name.size() > kLongestText) return std::nullopt;
  const size_t digits = name.size() - kDigits, before = digits - kBefore.size();
  if (name.substr(before, kBefore.size()) != kBefore ||
      name.find_first_not_of("0123456789abcdef", digits) != std::string_view::npos) {
    return std::nullopt;
  }
  name = name.substr(0, before);
  if (name.starts_with("_$")) name.remove_prefix(1);
  std::string text = WithoutGenerics(Decoded(name));
  for (size_t at; (at = text.find("{{")) != std::string::npos;) text.erase(at, 1);
  for (size_t at; (at = text.find("}}")) != std::string::npos;) text.erase(at, 1);
  return text;
}

}  // namespace tbprof
