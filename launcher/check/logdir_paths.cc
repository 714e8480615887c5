// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/logdir_paths.h"

#include <algorithm>
#include <cstring>

#include "launcher/base/text.h"
#include "launcher/cli/options.h"
#include "writer/base/utf8.h"

namespace tbprof {

bool IsNear(std::string_view word, std::string_view name) {
  if (word.size() > name.size() + 4) return false;  // fast path for most directories
  return LowerCase(word) == name || !NearestName(LowerCase(word), {std::string(name)}).empty();
}

size_t PatternEnd(std::string_view path) {
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    for (size_t open = component.find('['); open != std::string_view::npos; open = component.find('[', open + 1)) {
      size_t at = open + 1;
      if (at < component.size() && component[at] == '!') ++at;
      if (component.find(']', at + 1) != std::string_view::npos)
        return end;  // a `]` directly after `[` belongs to the
                     // class
    }
    begin = end + 1;
  }
  return std::string_view::npos;
}

size_t HiddenEnd(std::string_view path) {
  const size_t valid = ValidUtf8Prefix(path);
  const size_t bytes = valid == path.size() ? std::string_view::npos : std::min(path.find('/', valid), path.size());
  return std::min(bytes, PatternEnd(path));
}

std::string PlainName(std::string_view name) {
  std::string plain = ValidUtf8(Replace(Replace(name, '[', '('), ']', ')'));
  for (char& c : plain) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '/' || c == '\\') c = '_';
  }
  return plain;
}

std::string HostOf(std::string_view file_name) {
  if (file_name.starts_with('.')) return "";  // the plugin's glob does not match hidden files
  // The plugin's pattern does not match across a newline; the host is then the whole name.
  if (file_name.find('\n') != std::string_view::npos) return std::string(file_name);
  for (std::string_view suffix : {".xplane.pb", ".xplane.riegeli"}) {
    if (file_name.ends_with(suffix)) return std::string(file_name.substr(0, file_name.size() - suffix.size()));
  }
  return "";
}

std::string HostFor(std::string_view file_name, std::string_view own) {
  std::string host(file_name.substr(0, LowerCase(file_name).find("xplane")));
  if (host.size() == file_name.size()) host.clear();  // a name such as `trace.pb`
  while (host.ends_with('.')) host.pop_back();
  while (host.starts_with('.')) host.erase(0, 1);
  if (host.empty() || IsOddHost(host)) host = std::string(own);
  const bool good = !host.empty() && !IsOddHost(host) && host.find('/') == std::string::npos && host.size() <= 200;
  return good ? host : "localhost";
}

bool IsOddHost(std::string_view host) {
  if (host == "ALL_HOSTS" || host == "NO_HOST" || host == "NO_MODULE" || ValidUtf8(host) != host) return true;
  return std::any_of(host.begin(), host.end(), [](char c) {
    return std::strchr(",:\"'<>&?#%*\\", c) != nullptr || static_cast<unsigned char>(c) < 0x20;
  });
}

}  // namespace tbprof
