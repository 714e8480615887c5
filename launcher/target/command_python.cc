// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/command_python.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "launcher/base/proc_files.h"
#include "launcher/base/text.h"
#include "launcher/target/libraries.h"
#include "launcher/target/preflight.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

constexpr int kMaxDepth = 6;           // of nested wrappers and scripts
constexpr size_t kScriptBytes = 1024;  // read from the beginning of a script

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// `python`, `python3.11`, `pypy3`.
bool IsPythonName(std::string_view name) {
  for (const std::string_view stem : {"python", "pypy"}) {
    if (!name.starts_with(stem)) continue;
    const std::string_view version = name.substr(stem.size());
    if (version.find_first_not_of("0123456789.t") == std::string_view::npos) return true;
  }
  return false;
}

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) || c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else if (c != '"' && c != '\'') {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

class Search {
 public:
  Search(Environment environment, std::string directory)
      : environment_(std::move(environment)), directory_(std::move(directory)) {}

  std::string Find(std::vector<std::string> words, int depth = 0) {
    while (!words.empty() && IsAssignment(words[0])) {
      environment_.insert(environment_.begin(), words[0]);  // Lookup returns the first entry
      words.erase(words.begin());
    }
    if (words.empty() || depth > kMaxDepth) return "";
    const std::string_view name = BaseName(words[0]);
    if (IsPythonName(name)) return Resolve(words[0]);
    if (name == "uv" || name == "uvx") return OfUv(words, depth);
    if (name == "conda" || name == "mamba" || name == "micromamba") return OfConda(words, depth);
    if (name == "poetry" || name == "pipenv" || name == "pdm" || name == "hatch" || name == "rye") {
      const std::string python = PythonIn(StrCat(directory_, "/.venv"));
      return python.empty() ? Later(words, depth) : python;
    }
    if (const std::string python = OfScript(words[0], depth); !python.empty()) return python;
    return Later(words, depth);
  }

 private:
  static bool IsAssignment(const std::string& word) {
    const size_t equals = word.find('=');
    return equals != std::string::npos && equals > 0 && word[0] != '-' && word.find('/') > equals;
  }
  std::string Absolute(const std::string& path) const {
    return path.empty() || path[0] == '/' ? path : StrCat(directory_, "/", path);
  }
  std::string Resolve(const std::string& name) const {
    if (name.find('/') != std::string::npos) return Exists(Absolute(name)) ? Absolute(name) : "";
    return Absolute(ResolveCommand(name, environment_).path);
  }
  static std::string PythonIn(const std::string& prefix) {
    for (const char* name : {"/bin/python3", "/bin/python"}) {
      if (Exists(prefix + name)) return prefix + name;
    }
    return "";
  }

  // Supports `#!/venv/bin/python`, `#!/usr/bin/env python3`, and the form that installers write for long paths:
  // `#!/bin/sh`, then `'''exec' "/long/path/bin/python" "$0" "$@"`.
  std::string OfScript(const std::string& word, int depth) {
    const std::string path = Resolve(word);
    const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    char buffer[kScriptBytes];
    const ssize_t size = file.valid() ? pread(file.get(), buffer, sizeof(buffer), 0) : -1;
    if (size < 2 || buffer[0] != '#' || buffer[1] != '!') return "";
    const std::string_view text(buffer + 2, static_cast<size_t>(size) - 2);
    const std::string_view line = text.substr(0, text.find('\n'));
    const std::vector<std::string> words = WordsOf(line);
    if (words.empty()) return "";
    if (BaseName(words[0]).ends_with("sh") && line.size() < text.size()) {
      const std::string_view rest = text.substr(line.size() + 1);
      const std::string_view second = rest.substr(0, rest.find('\n'));
      if (second.starts_with("'''exec' ") || second.starts_with("''':'")) {
        for (const std::string& part : WordsOf(second)) {
          if (IsPythonName(BaseName(part)) && Exists(part)) return part;
        }
      }
      return "";
    }
    return Find(words, depth + 1);
  }

  // Finds Python after another program and its options: `nice -n 5 python`, `sh -c 'python x'`,
  // `setpriv --reuid=1 torchrun`.
  std::string Later(const std::vector<std::string>& words, int depth) {
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word.find_first_of(" \t\n") != std::string::npos) {
        const std::vector<std::string> inner = WordsOf(word);
        for (size_t at = 0; at < inner.size() && depth < kMaxDepth; ++at) {
          if (at > 0 && !IsPythonName(BaseName(inner[at]))) continue;
          const std::string python = Find({inner.begin() + static_cast<ptrdiff_t>(at), inner.end()}, depth + 1);
          if (!python.empty()) return python;
        }
        continue;
      }
      if (word.empty() || word[0] == '-') continue;
      if (IsAssignment(word)) {
        environment_.insert(environment_.begin(), word);
        continue;
      }
      const std::string_view name = BaseName(word);
      if (IsPythonName(name)) return Resolve(word);
      const bool wraps = name == "uv" || name == "conda" || name == "mamba" || name == "micromamba";
      if (wraps) return Find({words.begin() + static_cast<ptrdiff_t>(i), words.end()}, depth + 1);
      if (const std::string python = OfScript(word, depth); !python.empty()) return python;
    }
    return "";
  }

  // The project's environment: UV_PROJECT_ENVIRONMENT, or `.venv` in the directory or in an ancestor of it; else the
  // active environment.
  std::string OfUv(const std::vector<std::string>& words, int depth) {
    std::string at = directory_;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      const size_t equals = word.find('=');
      const std::string option = word.substr(0, equals);
      const bool has_next = equals != std::string::npos || i + 1 < words.size();
      const auto value = [&] { return equals != std::string::npos ? word.substr(equals + 1) : words[i + 1]; };
      if ((option == "--python" || option == "-p") && has_next && value().find('/') != std::string::npos) {
        return Exists(Absolute(value())) && IsPythonName(BaseName(value())) ? Absolute(value())
                                                                            : PythonIn(Absolute(value()));
      }
      if ((option == "--project" || option == "--directory") && has_next) at = Absolute(value());
    }
    const std::string_view named = Lookup(environment_, "UV_PROJECT_ENVIRONMENT").value_or("");
    if (!named.empty()) {
      const std::string prefix = named[0] == '/' ? std::string(named) : StrCat(at, "/", named);
      if (const std::string python = PythonIn(prefix); !python.empty()) return python;
    }
    for (std::string up = at;; up = up.substr(0, up.rfind('/'))) {
      if (const std::string python = PythonIn(StrCat(up, "/.venv")); !python.empty()) return python;
      if (up.empty() || up.find('/') == std::string::npos) break;
    }
    const std::string_view active = Lookup(environment_, "VIRTUAL_ENV").value_or("");
    if (const std::string python = PythonIn(std::string(active)); !active.empty() && !python.empty()) return python;
    return Later(words, depth);
  }

  // `conda run -n NAME`, or `-p PREFIX`; without these options the active environment.
  std::string OfConda(const std::vector<std::string>& words, int depth) {
    std::string name, prefix;
    for (size_t i = 1; i < words.size(); ++i) {
      const size_t equals = words[i].find('=');
      const std::string option = words[i].substr(0, equals);
      if (equals == std::string::npos && i + 1 == words.size()) break;
      const std::string value = equals != std::string::npos ? words[i].substr(equals + 1) : words[i + 1];
      if (option == "-n" || option == "--name") name = value;
      if (option == "-p" || option == "--prefix") prefix = Absolute(value);
    }
    if (!prefix.empty()) return PythonIn(prefix);
    std::vector<std::string> bases;
    const auto add = [&](std::string_view variable, std::string_view below) {
      const std::string_view value = Lookup(environment_, variable).value_or("");
      if (value.starts_with("/")) bases.push_back(StrCat(value, below));
    };
    if (!name.empty() && name != "base") {
      add("CONDA_ENVS_PATH", "");
      add("CONDA_ENVS_DIRS", "");
      add("MAMBA_ROOT_PREFIX", "/envs");
      add("CONDA_ROOT", "/envs");
      add("HOME", "/.conda/envs");
      const std::string program = ExecutableOfConda(words[0]);
      if (!program.empty()) bases.push_back(StrCat(program, "/envs"));
      for (const std::string& base : bases) {
        if (const std::string python = PythonIn(StrCat(base, "/", name)); !python.empty()) return python;
      }
      return "";
    }
    add("CONDA_PREFIX", "");
    if (!bases.empty() && name.empty()) return PythonIn(bases[0]);
    const std::string base = ExecutableOfConda(words[0]);
    return base.empty() ? Later(words, depth) : PythonIn(base);
  }

  // Returns `/opt/conda` for `/opt/conda/bin/conda` or `/opt/conda/condabin/conda`.
  std::string ExecutableOfConda(const std::string& word) const {
    std::string path(Lookup(environment_, "CONDA_EXE").value_or(""));
    if (path.empty()) path = Resolve(word);
    for (int i = 0; i < 2 && !path.empty(); ++i) path = path.substr(0, std::min(path.rfind('/'), path.size()));
    return path;
  }

  Environment environment_;
  const std::string directory_;
};

// Whether a virtual environment also imports the packages of the Python that created it.
bool SeesSystemPackages(const std::string& prefix) {
  const std::string text = ReadText(prefix + "/pyvenv.cfg");
  for (const std::string_view line : Split(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || Strip(line.substr(0, equals)) != "include-system-site-packages") continue;
    return LowerCase(Strip(line.substr(equals + 1))) == "true";
  }
  return false;
}

}  // namespace

std::string PythonOfCommand(const std::vector<std::string>& command, const Environment& environment,
                            const std::string& directory) {
  return Search(environment, directory).Find(command);
}

std::vector<std::string> PackageDirectories(const std::string& python, const Environment& environment) {
  std::vector<std::string> prefixes;
  std::string at = python;
  bool isolated = false;
  for (int depth = 0; depth < 8; ++depth) {
    const size_t bin = at.rfind('/');
    if (bin == std::string::npos) break;
    const std::string directory = at.substr(0, bin);
    if (directory.ends_with("/shims")) {
      // pyenv: `python` is a script that starts the selected version.
      const std::string root = directory.substr(0, directory.size() - 6);
      std::string version(Lookup(environment, "PYENV_VERSION").value_or(""));
      const std::string text = ReadText(StrCat(root, "/version"));
      if (version.empty()) version = std::string(Strip(text.substr(0, text.find('\n'))));
      prefixes.push_back(StrCat(root, "/versions/", version));
    } else {
      prefixes.push_back(directory.substr(0, directory.rfind('/')));
    }
    // By default, a virtual environment does not import the packages of the Python that it links to.
    if (Exists(StrCat(prefixes.back(), "/pyvenv.cfg"))) {
      isolated = !SeesSystemPackages(prefixes.back());
      if (isolated) break;
    }
    const std::string next = LinkText(at);
    if (next.empty()) break;
    at = next.starts_with("/") ? next : StrCat(directory, "/", next);
  }
  const std::string_view home = Lookup(environment, "HOME").value_or("");
  if (!isolated && home.starts_with("/")) prefixes.push_back(StrCat(home, "/.local"));
  if (!isolated && std::find(prefixes.begin(), prefixes.end(), "/usr") != prefixes.end()) {
    prefixes.push_back("/usr/local");
  }
  std::vector<std::string> directories;
  for (const std::string_view path : Split(Lookup(environment, "PYTHONPATH").value_or(""), ':')) {
    if (!path.empty()) directories.emplace_back(path);
  }
  for (const std::string& prefix : prefixes) {
    for (const char* library : {"/lib", "/lib64"}) {
      const ScopedDirectory listing(opendir(StrCat(prefix, library).c_str()));
      if (listing == nullptr) continue;
      while (const dirent* entry = readdir(listing.get())) {
        if (strncmp(entry->d_name, "python3", 7) != 0) continue;
        for (const char* packages : {"/site-packages", "/dist-packages"}) {
          directories.push_back(StrCat(prefix, library, "/", std::string_view(entry->d_name), packages));
        }
      }
    }
  }
  std::sort(directories.begin(), directories.end());
  directories.erase(std::unique(directories.begin(), directories.end()), directories.end());
  return directories;
}

std::map<std::string, std::string> PackagesOf(const std::string& python, const Environment& environment) {
  std::map<std::string, std::string> packages;
  for (const std::string& directory : PackageDirectories(python, environment)) {
    const ScopedDirectory listing(opendir(directory.c_str()));
    if (listing == nullptr) continue;
    while (const dirent* entry = readdir(listing.get())) {
      // `name-version.dist-info`
      std::string_view name = entry->d_name;
      constexpr std::string_view kSuffix = ".dist-info";
      if (!name.ends_with(kSuffix)) continue;
      name.remove_suffix(kSuffix.size());
      const size_t dash = name.find('-');
      if (dash == std::string_view::npos) continue;
      packages.emplace(Replace(LowerCase(name.substr(0, dash)), '-', '_'), name.substr(dash + 1));
    }
  }
  return packages;
}

Viewer ViewerIn(const std::map<std::string, std::string>& packages) {
  const auto has = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return packages.count(name) != 0; });
  };
  const bool xprof = has({"xprof", "xprof_nightly"});
  if (has({"tensorboard", "tb_nightly"}) && (xprof || has({"tensorboard_plugin_profile", "tbp_nightly"}))) {
    return Viewer::kTensorBoard;
  }
  return xprof ? Viewer::kXprofAlone : Viewer::kNone;
}

namespace {

constexpr const char* kTensorBoardProgram = "tensorboard";

// Of a file in the directory of tbprof's own executable; empty: there is none.
std::string BesideTbprof(std::string_view name) {
  std::string path = StrCat(OwnDirectory(), "/", name);
  return access(path.c_str(), X_OK) == 0 ? path : "";
}

}  // namespace

bool HasViewerBesideTbprof(const Environment& environment) {
  const std::string python = BesideTbprof("python3");
  if (python.empty() || BesideTbprof(kTensorBoardProgram).empty()) return false;
  return ViewerIn(PackagesOf(python, environment)) == Viewer::kTensorBoard;
}

std::string ViewerCommand(const Environment& environment) {
  if (!ResolveCommand(kTensorBoardProgram, environment).path.empty()) return kTensorBoardProgram;
  const std::string beside = BesideTbprof(kTensorBoardProgram);
  return beside.empty() ? kTensorBoardProgram : beside;
}

}  // namespace tbprof
