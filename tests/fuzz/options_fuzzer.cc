// SPDX-License-Identifier: Apache-2.0
//
// Words, environment and configuration file of the command line. The input's parts are separated by NUL: the first is
// the file, of the others those that begin with `=` are variables without their TBPROF_, the rest are words.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "tests/fuzz/check_timeline.h"
#include "writer/base/text.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace {

using namespace tbprof;

// What the user gets to read: one line, whatever was in the input.
void CheckLine(const absl::Status& status) {
  const std::string line(status.message());
  Require(!line.empty() && line.find('\n') == std::string::npos && PrintableUtf8(line) == line);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("config", MFD_CLOEXEC);
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == 0) {
      parts.emplace_back();
    } else {
      parts.back().push_back(static_cast<char>(data[i]));
    }
  }
  Require(ftruncate(fd, 0) == 0 &&
          pwrite(fd, parts[0].data(), parts[0].size(), 0) == static_cast<ssize_t>(parts[0].size()));
  std::vector<std::string> words;
  Environment environment = {StrCat("TBPROF_CONFIG=/proc/self/fd/", fd)};
  for (size_t i = 1; i < parts.size(); ++i) {
    if (!parts[i].empty() && parts[i][0] == '=') {
      environment.push_back(StrCat("TBPROF_", parts[i].substr(1)));
    } else {
      words.push_back(parts[i]);
    }
    if (const auto duration = ParseDuration(parts[i]); !duration.ok()) CheckLine(duration.status());
    if (const auto bytes = ParseSize(parts[i]); !bytes.ok()) CheckLine(bytes.status());
    if (const auto logdir = NormaliseLogdir(parts[i], "/tmp"); !logdir.ok()) {
      CheckLine(logdir.status());
    } else {
      Require((*logdir)[0] == '/' && !(*logdir + "/").ends_with("/../"));
    }
    const std::string host = HostNameFrom(parts[i]);
    Require(!host.empty() && host.size() <= 128 && host[0] != '.' && host.find('/') == std::string::npos);
  }
  for (const char* subcommand : {"run", "convert", "config", ""}) {
    std::vector<std::string> all = words;
    if (*subcommand != '\0') all.insert(all.begin(), subcommand);
    if (strcmp(subcommand, "run") == 0) all.insert(all.end(), {"--", "true"});
    const absl::StatusOr<Options> options = ParseOptions(all, environment, "/nonexistent");
    if (!options.ok()) {
      CheckLine(options.status());
    } else {
      ExplainOptions(*options);
      OptionHelp(options->subcommand, static_cast<int>(size));
    }
  }
  return 0;
}
