// SPDX-License-Identifier: Apache-2.0
#include "writer/arguments.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "writer/text.h"

namespace tbprof {
namespace {

constexpr std::string_view kSecretWords[] = {"password",   "passwd",     "secret",      "token",
                                             "api_key",    "apikey",     "api-key",     "credential",
                                             "access_key", "access-key", "private_key", "private-key"};

bool NamesSecret(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(std::begin(kSecretWords), std::end(kSecretWords),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

std::string_view Basename(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsPython(std::string_view executable) { return Basename(executable).substr(0, 6) == "python"; }

}  // namespace

std::vector<std::string> MaskSecrets(const std::vector<std::string>& arguments) {
  std::vector<std::string> masked;
  bool mask_next = false;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (mask_next && argument.substr(0, 1) != "-") {
      masked.push_back("***");
    } else if (equals != std::string::npos && NamesSecret(std::string_view(argument).substr(0, equals))) {
      masked.push_back(argument.substr(0, equals + 1) + "***");
    } else {
      masked.push_back(argument);
    }
    mask_next = equals == std::string::npos && argument.substr(0, 1) == "-" && NamesSecret(argument);
  }
  return masked;
}

std::string CommandLine(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) {
    if (!line.empty()) line += ' ';
    const bool plain = !argument.empty() && argument.find_first_not_of(
                                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                "0123456789_-./=:,+@%*") == std::string::npos;
    if (plain) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) {
      if (c == '\'') {
        line += "'\\''";
      } else {
        line += c;
      }
    }
    line += '\'';
  }
  return line;
}

std::string ProcessName(const std::string& executable, const std::vector<std::string>& arguments) {
  if (IsPython(executable)) {
    for (size_t i = 1; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      if (argument == "-m" && i + 1 < arguments.size()) return StrCat("-m ", arguments[i + 1]);
      if (argument == "-c") return StrCat(Basename(executable), " -c");
      if (argument == "-W" || argument == "-X") {
        ++i;
        continue;
      }
      if (argument.substr(0, 1) != "-") return std::string(Basename(argument));
    }
  }
  if (!executable.empty()) return std::string(Basename(executable));
  return arguments.empty() ? "process" : std::string(Basename(arguments[0]));
}

int RankOf(const std::map<std::string, std::string>& variables, RankKind kind) {
  static constexpr std::string_view kRanks[] = {"RANK",           "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK",
                                                "PMI_RANK",       "PALS_RANKID",          "PMIX_RANK",
                                                "HOROVOD_RANK",   "SLURM_PROCID",         "FLUX_TASK_RANK",
                                                "JAX_PROCESS_ID", "JOB_COMPLETION_INDEX"};
  static constexpr std::string_view kLocalRanks[] = {
      "LOCAL_RANK",        "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK",
      "MPI_LOCALRANKID",   "HOROVOD_LOCAL_RANK",         "SLURM_LOCALID",
      "FLUX_TASK_LOCAL_ID"};
  static constexpr std::string_view kWorldSizes[] = {"WORLD_SIZE",       "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
                                                     "PMI_SIZE",         "HOROVOD_SIZE",         "SLURM_NTASKS",
                                                     "JAX_NUM_PROCESSES"};
  const auto read = [&](const auto& names) {
    for (const std::string_view name : names) {
      const auto found = variables.find(std::string(name));
      if (found == variables.end()) continue;
      int value = -1;
      const std::string& text = found->second;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error == std::errc() && end == text.data() + text.size() && value >= 0) return value;
    }
    return -1;
  };
  switch (kind) {
    case kRank:
      return read(kRanks);
    case kLocalRank:
      return read(kLocalRanks);
    case kWorldSize:
      return read(kWorldSizes);
  }
  return -1;
}

}  // namespace tbprof
