// SPDX-License-Identifier: Apache-2.0
#include "writer/base/secrets.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "writer/base/secret_names.h"
#include "writer/base/secret_text.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr int kMaxNesting = 4;  // a shell script inside a word of another script

// Programs with a one-letter option for a password.
struct SecretOption {
  std::string_view programs;    // separated and enclosed by blanks
  std::string_view option;      // `-p`
  bool glued, separate;         // `-pPASSWORD`, `-p PASSWORD`
  std::string_view subcommand;  // only after this word
};
constexpr SecretOption kSecretOptions[] = {
    {" mysql mysqldump mysqladmin mysqlimport mysqlcheck mariadb mariadb-dump mariadb-admin ", "-p", true, false, ""},
    {" sshpass ", "-p", true, true, ""},
    {" redis-cli valkey-cli ", "-a", true, true, ""},
    {" 7z 7za 7zr rar unrar ", "-p", true, false, ""},
    {" rar unrar ", "-hp", true, false, ""},
    {" zip unzip mosquitto_pub mosquitto_sub sqlcmd bcp isql ", "-P", true, true, ""},
    {" ldapsearch ldapmodify ldapadd ldapdelete ldappasswd ldapwhoami ", "-w", true, true, ""},
    {" mongo mongosh mongodump mongorestore mongoexport mongoimport ", "-p", true, true, ""},
    {" docker podman nerdctl skopeo buildah helm az oc crane ", "-p", true, true, "login"},
    {" openssl ", "-k", false, true, ""},
    {" openssl ", "-K", false, true, ""},
    {" xfreerdp xfreerdp3 wlfreerdp ", "/p:", true, false, ""},
    {" wandb ", "login", false, true, ""},
    {" keytool jarsigner ", "-storepass", false, true, ""},
};

bool IsKnownProgram(std::string_view program) {
  const std::string word = StrCat(" ", program, " ");
  return program.find(' ') == std::string_view::npos &&
         std::any_of(std::begin(kSecretOptions), std::end(kSecretOptions),
                     [&](const SecretOption& option) { return option.programs.find(word) != std::string_view::npos; });
}

bool IsShell(std::string_view program) {
  for (const std::string_view shell : {"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "su", "runuser"}) {
    if (program == shell) return true;
  }
  return false;
}

// `-c`, `-lc`, `-ec`, `--command`.
bool TakesScript(std::string_view option) {
  return option == "--command" ||
         (option.size() >= 2 && option.size() <= 5 && option[0] == '-' && option[1] != '-' && option.ends_with("c"));
}

bool HasBlank(std::string_view word) { return word.find_first_of(" \t\n") != std::string_view::npos; }

std::string MaskScript(const std::string& script, int nesting);

// One pass over the words of a command.
class WordMasker {
 public:
  WordMasker(bool script, int nesting) : script_(script), nesting_(nesting) {}

  std::string Mask(const std::string& word) {
    std::string masked = MaskedWord(word);
    previous_ = word;
    return masked;
  }

 private:
  std::string MaskedWord(const std::string& word) {
    const SecretKind kind = std::exchange(next_, SecretKind::kNone);
    const bool user_follows = std::exchange(user_follows_, false);
    const bool option = word.starts_with("-");
    if (kind != SecretKind::kNone && !option && IsSecretValue(kind, word) && !(script_ && IsReference(word))) {
      return std::string(kMask);
    }
    const std::string_view name = BaseName(word);
    if (!option && (program_.empty() || IsKnownProgram(name))) {
      program_ = name;
      subcommand_ = false;
    }
    if (word == "login") subcommand_ = true;
    if (std::string masked; MaskOfProgram(word, &masked)) return masked;
    if (std::string masked; MaskUser(word, user_follows, &masked)) return masked;
    if (kind == SecretKind::kNone || option) LookAhead(word);
    if (TakesScript(previous_) && IsShell(program_) && nesting_ < kMaxNesting) return MaskScript(word, nesting_ + 1);
    std::string masked = MaskText(word, script_ ? TextKind::kWordOfScript : TextKind::kWord);
    const bool code = previous_ == "-c" && program_.starts_with("python");
    // A word that contains words: `ssh host "prog --db-pass x"`.
    if (HasBlank(masked) && !code && nesting_ < kMaxNesting) masked = MaskScript(masked, nesting_ + 1);
    return masked;
  }

  // Masks the password option of a program in the table.
  bool MaskOfProgram(const std::string& word, std::string* masked) {
    const std::string program = StrCat(" ", program_, " ");
    for (const SecretOption& option : kSecretOptions) {
      if (option.programs.find(program) == std::string_view::npos) continue;
      if (!option.subcommand.empty() && !subcommand_) continue;
      if (word == option.option) {
        if (option.separate) next_ = SecretKind::kPassword;
        return false;
      }
      if (option.glued && word.starts_with(option.option) && !word.starts_with("--")) {
        *masked = StrCat(option.option, kMask);
        return true;
      }
    }
    return false;
  }

  // `-u me:pw`, `-ume:pw`, `--user=me:pw`, `--creds me:pw`, and `me:pw@host` anywhere.
  bool MaskUser(const std::string& word, bool user_follows, std::string* masked) {
    size_t begin = 0, end = 0;
    size_t skip = 0;
    bool host_follows = false;
    if (!user_follows) {
      const size_t equals = word.find('=');
      const bool named = equals != std::string::npos && IsUserOption(std::string_view(word).substr(0, equals));
      if (named) {
        skip = equals + 1;
      } else if (word.size() > 2 && (word.starts_with("-u") || word.starts_with("-U")) && word[2] != '=') {
        skip = 2;
      } else {
        host_follows = true;
        if (equals != std::string::npos && equals < word.find_first_of(":@")) skip = equals + 1;
      }
    }
    const std::string_view rest = std::string_view(word).substr(skip);
    if (rest.find("://") != std::string_view::npos || HasBlank(rest)) return false;
    // `-u TOKEN:` (a user without a password) is not masked.
    if (!FindPasswordOfUser(rest, host_follows, &begin, &end)) {
      const size_t percent = rest.find('%');
      if (!user_follows || percent == std::string_view::npos || program_ != "smbclient") return false;
      begin = percent + 1;
      end = rest.size();
    }
    *masked = StrCat(word.substr(0, skip + begin), kMask, word.substr(skip + end));
    return true;
  }

  static bool IsUserOption(std::string_view word) {
    for (const std::string_view option : {"-u", "-U", "--user", "--proxy-user", "--userpwd", "--login-user"}) {
      if (word == option) return true;
    }
    return false;
  }

  // Sets the state that `word` implies for the next word.
  void LookAhead(const std::string& word) {
    if (next_ != SecretKind::kNone || word.find_first_of("=: \t\n") != std::string::npos) {
      // `npm config set //registry/:_authToken X`
      if (word.find('=') != std::string::npos || HasBlank(word) || !IsSetter(previous_)) return;
    }
    if (word.starts_with("-")) {
      user_follows_ = IsUserOption(word) && !IsShellOrPython();
      if (!IsSwitchName(word)) next_ = KindOfName(word);
      return;
    }
    const SecretKind kind = IsSetter(previous_) ? KindOfName(word) : SecretKind::kNone;
    if (kind == SecretKind::kPassword || kind == SecretKind::kToken || kind == SecretKind::kKey) next_ = kind;
  }

  bool IsShellOrPython() const { return IsShell(program_) || program_.starts_with("python"); }
  static bool IsSetter(std::string_view word) {
    return word == "set" || word == "config" || word == "put" || word == "--global" || word == "--add";
  }

  bool script_;
  int nesting_;
  std::string previous_, program_;
  bool subcommand_ = false;
  bool user_follows_ = false;
  SecretKind next_ = SecretKind::kNone;
};

struct ScriptWord {
  size_t begin = 0, end = 0;
  std::string text;  // without quotes
  bool starts_command = false;
};

// The words of a shell script. A quote that is not closed extends to the end.
std::vector<ScriptWord> WordsOf(std::string_view script) {
  std::vector<ScriptWord> words;
  bool starts_command = true;
  for (size_t at = 0; at < script.size();) {
    if (std::string_view(" \t\n\r;|&()<>").find(script[at]) != std::string_view::npos) {
      starts_command |= std::string_view("\n;|&(").find(script[at]) != std::string_view::npos;
      ++at;
      continue;
    }
    ScriptWord word;
    word.begin = at;
    word.starts_command = std::exchange(starts_command, false);
    char quote = '\0';
    for (; at < script.size(); ++at) {
      const char c = script[at];
      if (quote == '\0' && std::string_view(" \t\n\r;|&()<>").find(c) != std::string_view::npos) break;
      if (c == quote && quote != '\0') {
        quote = '\0';
      } else if (quote == '\0' && (c == '"' || c == '\'')) {
        quote = c;
      } else if (c == '\\' && quote != '\'' && at + 1 < script.size()) {
        word.text += script[++at];
      } else {
        word.text += c;
      }
    }
    word.end = at;
    words.push_back(std::move(word));
  }
  return words;
}

// The word, quoted as it was in the script.
std::string Quoted(std::string_view word, char quote) {
  if (quote != '"' && quote != '\'') return std::string(word);
  std::string quoted(1, quote);
  for (const char c : word) {
    if (quote == '\'' && c == quote) {
      quoted += "'\\''";
      continue;
    }
    if (quote == '"' && (c == quote || c == '\\')) quoted += '\\';
    quoted += c;
  }
  return quoted + quote;
}

std::string MaskScript(const std::string& script, int nesting) {
  const std::string text = MaskText(script, TextKind::kScript);
  std::string masked;
  size_t copied = 0;
  WordMasker masker(true, nesting);
  for (const ScriptWord& word : WordsOf(text)) {
    if (word.starts_command) masker = WordMasker(true, nesting);
    std::string shown = masker.Mask(word.text);
    if (shown == word.text) continue;
    StrAppend(&masked, text.substr(copied, word.begin - copied), Quoted(shown, text[word.begin]));
    copied = word.end;
  }
  return masked + text.substr(copied);
}

}  // namespace

std::vector<std::string> MaskSecrets(const std::vector<std::string>& arguments) {
  std::vector<std::string> masked;
  masked.reserve(arguments.size());
  WordMasker masker(false, 0);
  for (const std::string& argument : arguments) masked.push_back(masker.Mask(argument));
  return masked;
}

}  // namespace tbprof
