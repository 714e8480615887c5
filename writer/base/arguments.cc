// SPDX-License-Identifier: Apache-2.0
#include "writer/base/arguments.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "writer/base/text.h"

namespace tbprof {
namespace {

bool IsPython(std::string_view executable) { return BaseName(executable).substr(0, 6) == "python"; }

// `from multiprocessing.spawn import spawn_main; ...` gives `multiprocessing.spawn`; empty for other code.
std::string_view StarterModule(std::string_view code) {
  constexpr std::string_view kFrom = "from ", kImport = " import ";
  if (!code.starts_with(kFrom)) return {};
  code.remove_prefix(kFrom.size());
  const bool is_starter =
      code.starts_with("multiprocess") || code.starts_with("joblib.") || code.starts_with("billiard.");
  return is_starter ? code.substr(0, code.find(kImport)) : std::string_view();
}

}  // namespace

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
      if (argument == "-c") {
        const std::string_view starter =
            i + 1 < arguments.size() ? StarterModule(arguments[i + 1]) : std::string_view();
        return starter.empty() ? StrCat(BaseName(executable), " -c") : std::string(starter);
      }
      if (argument == "-W" || argument == "-X") {
        ++i;
        continue;
      }
      if (argument.substr(0, 1) != "-") return std::string(BaseName(argument));
    }
  }
  if (!executable.empty()) return std::string(BaseName(executable));
  return arguments.empty() ? "process" : std::string(BaseName(arguments[0]));
}

namespace {

// {"cluster": {"chief": ["host:port"], "worker": [...]}, "task": {"type": "worker", "index": 1}}: the chief is rank 0,
// workers follow, parameter servers and evaluators have no rank.
void ReadTfConfig(const std::string& text, RankFacts* facts) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("task") || !json["task"].is_object()) return;
  const nlohmann::json& task = json["task"];
  const auto size = [&](const char* type) -> int {
    if (!json.contains("cluster") || !json["cluster"].is_object() || !json["cluster"].contains(type)) return 0;
    const nlohmann::json& hosts = json["cluster"][type];
    return hosts.is_array() ? static_cast<int>(hosts.size()) : 0;
  };
  const auto type = task.find("type");
  const auto index = task.find("index");
  if (type == task.end() || !type->is_string() || index == task.end()) return;
  int number = -1;
  if (index->is_number_unsigned() && *index < 1 << 30) number = index->get<int>();
  if (index->is_string()) number = ranks_internal::Number(index->get<std::string>().c_str());
  if (number < 0) return;
  const int chiefs = size("chief") + size("master");
  if (*type == "chief" || *type == "master") {
    facts->rank = number;
  } else if (*type == "worker") {
    facts->rank = chiefs + number;
  } else {
    return;
  }
  if (const int world = chiefs + size("worker"); world > 0) facts->world_size = world;
  facts->scheduler = kRankSchedulerCount;  // past the rows of the scheduler table
}

}  // namespace

RankFacts RankOf(const std::map<std::string, std::string>& variables) {
  RankFacts facts = ReadRank([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  const auto tf_config = variables.find("TF_CONFIG");
  if (facts.rank < 0 && tf_config != variables.end()) ReadTfConfig(tf_config->second, &facts);
  return facts;
}

std::string RankList(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    StrAppend(&text, text.empty() ? "" : ",", ranks[i]);
    if (last > i) StrAppend(&text, last == i + 1 ? "," : "-", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace tbprof
