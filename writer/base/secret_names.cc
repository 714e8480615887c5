// SPDX-License-Identifier: Apache-2.0
#include "writer/base/secret_names.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"

namespace tbprof {
namespace {

constexpr size_t kMaxName = 128;

template <size_t N>
bool IsOneOf(const std::string_view (&words)[N], std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

bool IsLower(char c) { return absl::ascii_islower(static_cast<unsigned char>(c)); }
bool IsUpper(char c) { return absl::ascii_isupper(static_cast<unsigned char>(c)); }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }
bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// `dbPass`, `DB_PASS` and `--db-pass2` are all {db, pass}.
std::vector<std::string> PartsOf(std::string_view name) {
  if (name.size() > kMaxName) name.remove_prefix(name.size() - kMaxName);
  std::vector<std::string> parts;
  std::string part;
  const auto close = [&] {
    while (!part.empty() && IsDigit(part.back())) part.pop_back();
    if (!part.empty()) parts.push_back(std::move(part));
    part.clear();
  };
  for (size_t i = 0; i < name.size(); ++i) {
    if (!IsAlnum(name[i])) {
      close();
      continue;
    }
    const bool starts_word =
        i > 0 && IsUpper(name[i]) && (IsLower(name[i - 1]) || (i + 1 < name.size() && IsLower(name[i + 1]) && i > 1));
    if (starts_word) close();
    part += static_cast<char>(absl::ascii_tolower(static_cast<unsigned char>(name[i])));
  }
  close();
  return parts;
}

// A name with such an ending describes a secret and does not contain it.
constexpr std::string_view kDescribing[] = {
    "file",   "files",    "filename", "path",   "paths",   "dir",    "directory", "folder",  "type",     "mode",
    "url",    "uri",      "endpoint", "host",   "length",  "len",    "size",      "policy",  "expiry",   "expires",
    "ttl",    "timeout",  "prompt",   "stdin",  "helper",  "format", "env",       "var",     "variable", "name",
    "names",  "field",    "label",    "class",  "through", "rate",   "jar",       "manager", "backend",  "provider",
    "engine", "required", "enabled",  "method", "count",   "store",  "version",   "list"};

// With one of these words, `token` means a token of a language model.
constexpr std::string_view kTextTokens[] = {
    "max",    "min",     "num",     "n",     "per",   "limit", "id",        "ids",       "pad",  "eos",   "bos",
    "unk",    "sep",     "cls",     "mask",  "stop",  "start", "end",       "image",     "text", "audio", "video",
    "next",   "special", "first",   "last",  "word",  "batch", "budget",    "level",     "dim",  "drop",  "dropout",
    "prefix", "class",   "classes", "total", "types", "embed", "embedding", "embeddings"};

// With one of these words, `pass` means a pass over something.
constexpr std::string_view kRunsOverSomething[] = {"single",   "one", "two",  "multi",  "first",   "second",   "num",
                                                   "n",        "max", "min",  "render", "by",      "low",      "high",
                                                   "band",     "all", "per",  "each",   "forward", "backward", "every",
                                                   "compiler", "opt", "fast", "third"};
constexpr std::string_view kWordsInPass[] = {"bypass",    "compass",    "encompass", "surpass",  "trespass", "overpass",
                                             "underpass", "singlepass", "multipass", "lowpass",  "highpass", "bandpass",
                                             "allpass",   "onepass",    "twopass",   "fastpass", "subpass",  "prepass",
                                             "postpass",  "renderpass", "firstpass"};

constexpr std::string_view kPasswords[] = {"password", "passwd",   "passphrase", "passwort",
                                           "kennwort", "passcode", "secret"};
constexpr std::string_view kPasswordParts[] = {"pw", "psw", "pswd", "passw", "pat", "jwt", "otp", "creds", "cred"};
constexpr std::string_view kTokenParts[] = {"auth", "oauth", "authorization", "bearer"};

// Words before `key`, with or without a separator.
constexpr std::string_view kKeyOwners[] = {
    "api",         "access",     "private",   "wandb",     "account",      "storage",  "auth",        "signing",
    "encryption",  "decryption", "master",    "shared",    "license",      "licence",  "service",     "app",
    "application", "client",     "consumer",  "openai",    "subscription", "hf",       "huggingface", "comet",
    "neptune",     "clearml",    "github",    "gitlab",    "slack",        "stripe",   "sendgrid",    "mailgun",
    "twilio",      "datadog",    "sentry",    "aws",       "azure",        "gcp",      "google",      "cohere",
    "mistral",     "groq",       "replicate", "anthropic", "together",     "pinecone", "hmac",        "webhook",
    "admin",       "root",       "deploy",    "session",   "vault",        "unseal",   "recovery",    "security",
    "crypt"};

bool IsPass(const std::vector<std::string>& parts) {
  const std::string& last = parts.back();
  if (last == "passin" || last == "passout") return true;
  if (!last.ends_with("pass") || IsOneOf(kWordsInPass, last)) return false;
  return parts.size() < 2 || !IsOneOf(kRunsOverSomething, parts[parts.size() - 2]);
}

SecretKind KindOfTokenName(const std::vector<std::string>& parts) {
  const std::string& last = parts.back();
  const bool counts =
      std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return IsOneOf(kTextTokens, part); });
  if (counts) return SecretKind::kNone;
  if (last.ends_with("token")) return SecretKind::kToken;
  if (last == "tokens" && parts.size() > 1 && IsOneOf(kKeyOwners, parts[parts.size() - 2])) return SecretKind::kToken;
  for (const std::string& part : parts) {
    if (part == "tokens" || part.ends_with("token")) return SecretKind::kMaybe;
  }
  return SecretKind::kNone;
}

// `session-id`, `SESSIONID`; a shared access signature; a PIN, but not the pinning of threads to processors.
bool IsShortSecret(const std::vector<std::string>& parts, std::string_view joined) {
  const std::string& last = parts.back();
  if (joined.ends_with("sessionid") || last == "sessid" || last == "sas") return true;
  constexpr std::string_view kOwners[] = {"user", "card", "login", "device", "wallet", "secret"};
  return last == "pin" && (parts.size() == 1 || IsOneOf(kOwners, parts[parts.size() - 2]));
}

// `KAGGLE_KEY`: an environment variable.
bool IsKeyVariable(std::string_view name) {
  return name.size() > 4 && name.ends_with("_KEY") && std::none_of(name.begin(), name.end(), IsLower);
}

SecretKind KindOfKeyName(const std::vector<std::string>& parts, std::string_view joined) {
  for (const std::string_view owner : kKeyOwners) {
    const std::string whole = std::string(owner) + "key";
    const size_t at = joined.find(whole);
    if (at == std::string::npos) continue;
    // After the key name, only words that qualify the key may follow: `AWS_ACCESS_KEY_ID`, `API_KEY_PROD`.
    if (at == 0 || owner.size() > 3 || parts.size() > 1) return SecretKind::kKey;
  }
  if (joined.find("credential") != std::string_view::npos) return SecretKind::kKey;
  const std::string& last = parts.back();
  if (last == "cookie" || last == "cookies") return SecretKind::kKey;
  return last.ends_with("key") || last.ends_with("keys") || last == "sig" || last == "signature" ? SecretKind::kMaybe
                                                                                                 : SecretKind::kNone;
}

bool NamesAFile(std::string_view value) {
  constexpr std::string_view kEndings[] = {".pem", ".key", ".json", ".crt", ".cer",  ".pub", ".p12", ".pfx", ".txt",
                                           ".yml", ".ini", ".yaml", ".cfg", ".toml", ".env", ".jks", ".gpg", ".asc"};
  const bool ends = std::any_of(std::begin(kEndings), std::end(kEndings),
                                [&](std::string_view ending) { return value.ends_with(ending); });
  const bool begins =
      value.starts_with("/") || value.starts_with("./") || value.starts_with("~/") || value.starts_with("../");
  return ends || (begins && value.find_first_of("=+") == std::string_view::npos);
}

bool IsSettingOfASwitch(std::string_view value) {
  constexpr std::string_view kSettings[] = {"true", "false", "none", "null", "yes", "no", "on", "off", "0", "1"};
  return IsOneOf(kSettings, absl::AsciiStrToLower(absl::string_view(value.data(), value.size())));
}

bool IsScheme(std::string_view value) {
  constexpr std::string_view kSchemes[] = {"basic",  "digest", "ntlm",      "negotiate", "bearer",  "oauth",
                                           "oauth2", "ldap",   "kerberos",  "gssapi",    "md5",     "scram",
                                           "sasl",   "token",  "anonymous", "auto",      "default", "sha256"};
  return IsOneOf(kSchemes, absl::AsciiStrToLower(absl::string_view(value.data(), value.size())));
}

}  // namespace

SecretKind KindOfName(std::string_view name) {
  if (name == "PWD" || name == "OLDPWD") return SecretKind::kNone;
  const std::vector<std::string> parts = PartsOf(name);
  if (parts.empty()) return SecretKind::kNone;
  const std::string& last = parts.back();
  if (IsOneOf(kDescribing, last) || last.ends_with("file") || last.ends_with("path") || last.ends_with("dir")) {
    return SecretKind::kNone;
  }
  std::string joined;
  for (const std::string& part : parts) joined += part;
  for (const std::string_view word : kPasswords) {
    if (joined.find(word) != std::string::npos) return SecretKind::kPassword;
  }
  if (IsOneOf(kPasswordParts, last)) return SecretKind::kPassword;
  if (last == "pwd" || last.ends_with("pwd")) return SecretKind::kKey;  // also: a working directory
  if (IsPass(parts)) return SecretKind::kToken;
  if (const SecretKind kind = KindOfTokenName(parts); kind != SecretKind::kNone) return kind;
  if (IsOneOf(kTokenParts, last)) return SecretKind::kToken;
  if (IsShortSecret(parts, joined)) return SecretKind::kToken;
  if (IsKeyVariable(name)) return SecretKind::kKey;
  return KindOfKeyName(parts, joined);
}

SecretKind KindOfQueryName(std::string_view name) {
  const SecretKind kind = KindOfName(name);
  if (kind != SecretKind::kMaybe && kind != SecretKind::kNone) return kind;
  const std::vector<std::string> parts = PartsOf(name);
  if (parts.empty()) return SecretKind::kNone;
  return parts.back() == "sig" || parts.back() == "signature" ? SecretKind::kToken : kind;
}

bool IsSwitchName(std::string_view name) {
  constexpr std::string_view kFirst[] = {"ask",     "no",       "use",   "prompt", "require", "enable",
                                         "disable", "with",     "show",  "hide",   "skip",    "allow",
                                         "without", "generate", "reset", "is",     "has",     "verify"};
  const std::vector<std::string> parts = PartsOf(name);
  return parts.size() > 1 && IsOneOf(kFirst, parts.front());
}

bool IsSecretValue(SecretKind kind, std::string_view value) {
  switch (kind) {
    case SecretKind::kNone:
      return false;
    case SecretKind::kMaybe:
      return LooksRandom(value);
    case SecretKind::kKey:
      return !IsSettingOfASwitch(value) && !NamesAFile(value);
    case SecretKind::kToken:
      return !IsSettingOfASwitch(value) && !IsScheme(value) && !(value.size() == 1 && IsDigit(value[0]));
    case SecretKind::kPassword:
      return true;
  }
  return true;
}

bool LooksRandom(std::string_view value) {
  constexpr size_t kLongRun = 16, kSwitches = 3;
  size_t run = 0, switches = 0, hex = 0, dashes = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const bool is_hex = IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    hex = is_hex || c == '-' ? hex + 1 : 0;
    dashes = hex == 0 ? 0 : dashes + (c == '-' ? 1 : 0);
    if (hex == 36 && dashes == 4) return true;  // a UUID
    if (!IsAlnum(c)) {
      run = switches = 0;
      continue;
    }
    if (run > 0 && IsDigit(c) != IsDigit(value[i - 1])) ++switches;
    ++run;
    if (run >= kLongRun && switches >= kSwitches) return true;
  }
  return false;
}

size_t LengthOfKnownToken(std::string_view text) {
  struct Prefix {
    std::string_view text;
    size_t behind;  // at least this many characters follow
    bool plain;     // only letters and digits follow; else also `-`, `_` and `.`
  };
  constexpr Prefix kPrefixes[] = {
      {"hf_", 16, true},        {"ghp_", 16, true},         {"gho_", 16, true},         {"ghu_", 16, true},
      {"ghs_", 16, true},       {"ghr_", 16, true},         {"github_pat_", 16, false}, {"glpat-", 16, false},
      {"gldt-", 16, false},     {"glrt-", 16, false},       {"sk-ant-", 12, false},     {"sk-proj-", 12, false},
      {"sk-or-", 12, false},    {"sk-svcacct-", 12, false}, {"sk-lf-", 12, false},      {"sk-", 17, true},
      {"sk_live_", 12, true},   {"sk_test_", 12, true},     {"rk_live_", 12, true},     {"xoxb-", 15, false},
      {"xoxp-", 15, false},     {"xoxa-", 15, false},       {"xoxr-", 15, false},       {"xoxs-", 15, false},
      {"xapp-", 15, false},     {"AKIA", 16, true},         {"ASIA", 16, true},         {"AIza", 30, false},
      {"ya29.", 15, false},     {"eyJ", 17, false},         {"npm_", 30, true},         {"pypi-AgE", 20, false},
      {"SG.", 30, false},       {"whsec_", 16, true},       {"nvapi-", 16, false},      {"r8_", 20, true},
      {"gsk_", 20, true},       {"dckr_pat_", 16, false},   {"shpat_", 16, true},       {"glsa_", 16, false},
      {"hvs.", 16, false},      {"dop_v1_", 16, true},      {"api_org_", 16, true},     {"lin_api_", 16, true},
      {"wandb_v1_", 12, false}, {"tskey-", 12, false}};
  for (const Prefix& prefix : kPrefixes) {
    if (!text.starts_with(prefix.text)) continue;
    size_t end = prefix.text.size();
    while (end < text.size() && (IsAlnum(text[end]) || (!prefix.plain && std::string_view("-_.=").find(text[end]) !=
                                                                             std::string_view::npos))) {
      ++end;
    }
    if (end < prefix.text.size() + prefix.behind) continue;
    // A word that only begins like a plain token: `hf_transfer_enabled_dataset`, `sk-learn-pipeline`.
    if (prefix.plain && end < text.size() && (text[end] == '_' || text[end] == '-')) continue;
    return end;
  }
  return 0;
}

}  // namespace tbprof
