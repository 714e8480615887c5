// SPDX-License-Identifier: Apache-2.0
#include "writer/base/secret_text.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "writer/base/secret_names.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr size_t kMaxBlanks = 8;  // between a name, its `:` or `=`, and the value
constexpr size_t kLongestHarmless = 4096;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool IsQuote(char c) { return c == '"' || c == '\'' || c == '`'; }
bool IsLetterOrDigit(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }
bool IsDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
}

// Copies `text` and replaces the ranges that were given to `Mask`.
class Masked {
 public:
  explicit Masked(std::string_view text) : text_(text) {}
  void Mask(size_t begin, size_t end) {
    if (begin < copied_) return;
    StrAppend(&out_, text_.substr(copied_, begin - copied_), kMask);
    copied_ = end;
  }
  std::string Take() {
    StrAppend(&out_, text_.substr(copied_));
    return std::move(out_);
  }

 private:
  const std::string_view text_;
  std::string out_;
  size_t copied_ = 0;
};

// `scheme://user:password@host`. A password may contain characters that should have been escaped: `/`, `?`, `#`, `@`.
std::string MaskUserInfo(std::string_view text) {
  Masked masked(text);
  size_t stop = 0, next_sign = 0;  // for the last address examined; often valid for the next one
  for (size_t at = 0; (at = text.find("://", at)) != std::string_view::npos; ++at) {
    const size_t begin = at + 3;
    stop = std::max(stop, begin);
    while (stop < text.size() && !IsBlank(text[stop]) && !IsQuote(text[stop]) && text[stop] != '<') ++stop;
    const size_t authority = std::min(text.find_first_of("/?#", begin), stop);
    size_t sign = text.substr(begin, authority - begin).rfind('@');
    if (sign == std::string_view::npos) {
      // `me:p/w@host`: `p` is not a port.
      const size_t colon = text.substr(begin, authority - begin).rfind(':');
      if (colon == std::string_view::npos || IsDigits(text.substr(begin + colon + 1, authority - begin - colon - 1)) ||
          begin + colon + 1 == authority || text[begin] == '[') {
        continue;
      }
      if (next_sign < begin) next_sign = std::min(text.find('@', begin), text.size());
      if (next_sign >= stop) continue;
      sign = next_sign - begin;
    }
    const size_t end = begin + sign;
    const size_t colon = text.find(':', begin);
    if (colon < end) {
      if (colon + 1 < end) masked.Mask(colon + 1, end);
    } else if (LooksRandom(text.substr(begin, sign))) {
      masked.Mask(begin, end);  // `https://TOKEN@host`
    }
    at = end;
  }
  return masked.Take();
}

// URLs whose path is the secret.
std::string MaskSecretPaths(std::string_view text) {
  constexpr std::string_view kPrefixes[] = {"/hooks.slack.com/services/", "/discord.com/api/webhooks/",
                                            "/discordapp.com/api/webhooks/", "/api.telegram.org/bot"};
  Masked masked(text);
  for (size_t at = 0; (at = text.find('/', at)) != std::string_view::npos; ++at) {
    const auto prefix = std::find_if(std::begin(kPrefixes), std::end(kPrefixes),
                                     [&](std::string_view known) { return text.substr(at).starts_with(known); });
    if (prefix == std::end(kPrefixes)) continue;
    size_t end = at += prefix->size();
    while (end < text.size() && !IsBlank(text[end]) && !IsQuote(text[end])) ++end;
    masked.Mask(at, end);
  }
  return masked.Take();
}

std::string MaskKnownTokens(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN ", kKey = "PRIVATE KEY-----";
  Masked masked(text);
  for (size_t at = 0; at < text.size(); ++at) {
    if (at > 0 && (IsLetterOrDigit(text[at - 1]) || text[at - 1] == '_')) continue;
    if (text.substr(at).starts_with(kBegin) && text.substr(at, 64).find(kKey) != std::string_view::npos) {
      const size_t end = text.find("-----END ", at);
      masked.Mask(at, end == std::string_view::npos ? text.size() : end);
      at = end == std::string_view::npos ? text.size() : end;
    } else if (const size_t length = LengthOfKnownToken(text.substr(at)); length > 0) {
      masked.Mask(at, at + length);
      at += length - 1;
    }
  }
  return masked.Take();
}

bool StartsWithScheme(std::string_view text) {
  for (const std::string_view scheme : {"bearer ", "basic ", "token ", "digest ", "apikey ", "negotiate "}) {
    if (absl::StartsWithIgnoreCase(absl::string_view(text.data(), text.size()),
                                   absl::string_view(scheme.data(), scheme.size()))) {
      return true;
    }
  }
  return false;
}

// `Bearer abc123...` without a name before it.
std::string MaskBearers(std::string_view text) {
  constexpr size_t kShortest = 8;
  Masked masked(text);
  for (size_t at = 0; at + kShortest < text.size(); ++at) {
    if ((text[at] != 'B' && text[at] != 'b') || (at > 0 && IsLetterOrDigit(text[at - 1]))) continue;
    const std::string_view rest = text.substr(at);
    const bool bearer = rest.starts_with("Bearer ") || rest.starts_with("bearer ");
    if (!bearer && !rest.starts_with("Basic ")) continue;
    const size_t begin = at + rest.find(' ') + 1;
    size_t end = begin;
    while (end < text.size() && !IsBlank(text[end]) && !IsQuote(text[end])) ++end;
    const std::string_view value = text.substr(begin, end - begin);
    const bool odd = value.find_first_of("0123456789=_.") != std::string_view::npos;
    if (value.size() >= kShortest && odd && value[0] != '$') masked.Mask(begin, end);
    at = begin;
  }
  return masked.Take();
}

// `name=value`, `name: value`, `"name": "value"`, `["name"] = "value"`.
struct Pair {
  size_t name_begin = 0, name_end = 0;
  size_t sign = 0;           // the `=` or `:`
  char lead = '\0';          // the character before the name (and its quote); 0 at the beginning of the text
  char quote = '\0';         // the quote around the name
  bool starts_text = false;  // the name, with its leading dashes, begins the text
};

bool IsNameCharacter(char c) { return IsLetterOrDigit(c) || c == '_' || c == '-' || c == '.'; }

bool FindName(std::string_view text, size_t sign, Pair* pair) {
  size_t end = sign;
  for (size_t blanks = 0; end > 0 && IsBlank(text[end - 1]) && blanks < kMaxBlanks; ++blanks) --end;
  const bool blank = end < sign;
  if (end > 0 && text[end - 1] == ']') --end;
  if (end > 0 && IsQuote(text[end - 1])) {
    pair->quote = text[--end];
    if (end > 0 && text[end - 1] == '\\') --end;
  }
  size_t begin = end;
  while (begin > 0 && IsNameCharacter(text[begin - 1])) --begin;
  if (begin == end || (blank && pair->quote == '\0' && text[sign] == ':')) return false;
  pair->name_begin = begin;
  pair->name_end = end;
  pair->sign = sign;
  size_t before = begin;
  if (pair->quote != '\0' && before > 0 && text[before - 1] == pair->quote) {
    --before;
    if (before > 0 && text[before - 1] == '\\') --before;
  }
  while (before > 0 && text[before - 1] == ' ' && before + kMaxBlanks > begin && before > 1 &&
         (text[before - 2] == ';' || text[before - 2] == ' ')) {
    --before;  // `Server=x; Password=y`
  }
  pair->lead = before > 0 ? text[before - 1] : '\0';
  pair->starts_text = begin == 0;
  return true;
}

// The end of a quoted value. `begin` is the position after the opening quote.
size_t EndOfQuoted(std::string_view text, size_t begin, char quote, bool escaped) {
  for (size_t i = begin; i < text.size(); ++i) {
    if (!escaped && text[i] == '\\' && quote != '\'') {
      ++i;
    } else if (text[i] == quote && !escaped) {
      return i;
    } else if (escaped && text[i] == '\\' && i + 1 < text.size()) {
      if (text[i + 1] == quote) return i;
      ++i;
      if (text[i] == '\\' && i + 2 < text.size()) i += 2;  // `\\\"` is a quote inside the value
    }
  }
  return text.size();
}

// The characters that end an unquoted value. They depend on the character before the name.
std::string_view EndsOfValue(const Pair& pair, bool script) {
  if (script) return pair.lead == '?' || pair.lead == '&' ? "&# \t\n\r\"'`;|)" : " \t\n\r\"'`;|&<>)";
  switch (pair.lead) {
    case '?':
    case '&':
      return "&# \t\n\r\"'`";
    case ';':
      return ";\"'`\n";
    case ',':
    case '{':
    case '[':
    case '(':
      return ", \t\n\r\"'`}])";
    case '=':
    case '\0':
      return pair.starts_text ? "" : "\n";
    case '"':
    case '\'':
      return "\"'`\n";
    default:
      return " \t\n\r\"'`&;,|)}]>";
  }
}

// Finds the value without its quotes. Returns false for a comparison (`==`, `=~`), and if the value begins like
// `//host` of a URL.
bool FindValue(std::string_view text, const Pair& pair, SecretKind kind, bool script, size_t* begin, size_t* end) {
  size_t at = pair.sign + 1;
  const bool colon = text[pair.sign] == ':';
  if (colon && at < text.size() && text[at] == '=') ++at;  // `:=`
  if (!colon && at < text.size() && (text[at] == '=' || text[at] == '~')) return false;
  const bool blank_before = pair.name_end < pair.sign && IsBlank(text[pair.sign - 1]);
  size_t value = at;
  while (value < text.size() && IsBlank(text[value]) && value < at + kMaxBlanks) ++value;
  const bool quoted_after = value < text.size() && IsQuote(text[value]);
  if (colon || blank_before || (quoted_after && value == at)) at = value;
  if (colon && text.substr(at).starts_with("//")) return false;
  size_t opening = at;
  while (opening < text.size() && opening < at + 2 &&
         std::string_view("fbruFBRU").find(text[opening]) != std::string_view::npos) {
    ++opening;  // Python's f"..."
  }
  const bool escaped = opening + 1 < text.size() && text[opening] == '\\' && IsQuote(text[opening + 1]);
  if (escaped || (opening < text.size() && IsQuote(text[opening]))) {
    const size_t mark = opening + (escaped ? 1 : 0);
    *begin = mark + 1;
    *end = EndOfQuoted(text, *begin, text[mark], escaped);
    // A shell joins adjacent strings: 'a'"b".
    const size_t more = *end + (escaped ? 2 : 1);
    const size_t tail = text.substr(std::min(more, text.size())).find_first_of(" \t\n\r;|&<>,)}]\\:");
    const size_t stop = tail == std::string_view::npos ? text.size() : more + tail;
    if (script && stop > more) *end = stop;
    return true;
  }
  *begin = at;
  if (pair.starts_text && !script) {
    *end = text.size();
    return true;
  }
  if (colon && kind != SecretKind::kMaybe && pair.quote == '\0' && StartsWithScheme(text.substr(at))) {
    *end = std::min(text.find_first_of("\"'`\n", at), text.size());
    return true;
  }
  if (StartsWithScheme(text.substr(at))) at = text.find(' ', at) + 1;
  const std::string_view ends = EndsOfValue(pair, script);
  *end = ends.empty() ? text.size() : std::min(text.find_first_of(ends, at), text.size());
  return true;
}

std::string MaskPairs(std::string_view text, TextKind text_kind) {
  const bool script = text_kind == TextKind::kScript;
  Masked masked(text);
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '=' && text[at] != ':') continue;
    Pair pair;
    if (!FindName(text, at, &pair)) continue;
    // `/run/secret:/run/secret` is a path, `https:` a scheme, `a::b` a name.
    const bool colon = text[at] == ':';
    if (colon && (pair.lead == '/' || pair.lead == ':')) continue;
    const std::string_view name = text.substr(pair.name_begin, pair.name_end - pair.name_begin);
    const bool in_query = pair.lead == '?' || pair.lead == '&';
    const SecretKind kind = in_query ? KindOfQueryName(name) : KindOfName(name);
    if (kind == SecretKind::kNone) continue;
    // A value that is not a secret is searched again for pairs inside it, so the search must not extend to the end of a
    // long text.
    size_t begin = 0, end = 0;
    if (!FindValue(text.substr(0, at + kLongestHarmless), pair, kind, script, &begin, &end)) continue;
    const std::string_view value = text.substr(begin, end - begin);
    if (value.empty() && (colon || !pair.starts_text)) continue;
    if (text_kind != TextKind::kWord && IsReference(value)) continue;
    const bool cut = end == at + kLongestHarmless;
    if (!IsSecretValue(kind, value) && !(cut && kind != SecretKind::kMaybe)) continue;
    if (cut) FindValue(text, pair, kind, script, &begin, &end);
    masked.Mask(begin, end);
    at = std::max(at, end == 0 ? at : end - 1);
  }
  return masked.Take();
}

}  // namespace

bool IsReference(std::string_view value) {
  if (!value.starts_with("$")) return false;
  const bool braces = value.starts_with("${") && value.ends_with("}");
  const std::string_view name = braces ? value.substr(2, value.size() - 3) : value.substr(1);
  return name.size() > 1 && std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isupper(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '_';
         });
}

bool FindPasswordOfUser(std::string_view text, bool host_follows, size_t* begin, size_t* end) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon + 1 == text.size()) return false;
  const std::string_view user = text.substr(0, colon);
  if (user.find_first_of("/@ \t'\"") != std::string_view::npos) return false;
  *begin = colon + 1;
  *end = text.size();
  if (!host_follows) {
    // Not a password: a user and a group as numbers, a path, an address.
    return !(IsDigits(user) && IsDigits(text.substr(colon + 1))) && text[colon + 1] != '/';
  }
  for (const std::string_view scheme : {"mailto", "sip", "sips", "xmpp", "acct"}) {
    if (user == scheme) return false;
  }
  const size_t sign = text.rfind('@');
  if (user.empty() || sign == std::string_view::npos || sign <= colon + 1 || sign + 1 == text.size()) return false;
  if (text.find_first_of(" \t'\"=(){}[],", colon) < sign || text.substr(colon + 1, sign - colon).find("/") == 0) {
    return false;
  }
  if (text.substr(sign + 1).starts_with("sha256:")) return false;  // an image and its digest
  *end = sign;
  return true;
}

std::string MaskText(std::string text, TextKind kind) {
  text = MaskUserInfo(text);
  text = MaskSecretPaths(text);
  text = MaskKnownTokens(text);
  text = MaskPairs(text, kind);
  return MaskBearers(text);
}

}  // namespace tbprof
