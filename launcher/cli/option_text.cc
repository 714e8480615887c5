// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "launcher/base/text.h"
#include "launcher/cli/options.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

// Optimal string alignment: insertion, deletion, substitution, swap of neighbours.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

uint32_t CommandBit(std::string_view subcommand) {
  if (subcommand == "run") return kForRun;
  if (subcommand == "convert") return kForConvert;
  if (subcommand == "recover") return kForRecover;
  if (subcommand == "check") return kForCheck;
  if (subcommand == "report") return kForReport;
  if (subcommand == "compare") return kForCompare;
  if (subcommand == "ab") return kForAb;
  if (subcommand == "config") return kForConfig;
  if (subcommand == "doctor") return kForDoctor;
  if (subcommand == "capture") return kForCapture;
  if (subcommand == "status") return kForStatus;
  if (subcommand == "merge") return kForMerge;
  if (subcommand == "baseline") return kForBaseline;
  if (subcommand == "attach") return kForAttach;
  return 0;
}

std::string Title(const OptionRow& row) {
  return StrCat("--", row.name, row.value_name.empty() ? "" : "=", row.value_name);
}

std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  for (std::string_view word : Split(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += StrCat(lines.back().empty() ? "" : " ", word);
  }
  return lines;
}

}  // namespace

std::string EnvironmentName(std::string_view option) { return StrCat("TBPROF_", UpperCase(Replace(option, '-', '_'))); }

std::string NearestName(std::string_view word, const std::vector<std::string>& names) {
  if (word.size() > 100) return "";
  size_t best = word.size() <= 3 ? 2 : word.size() / 3 + 2;  // exclusive
  std::string nearest;
  for (const std::string& name : names) {
    size_t distance = Distance(word, name);
    if (word.size() >= 3 && name.starts_with(word)) distance = 1;  // `--win` for `--window`
    if (distance >= best) continue;
    best = distance;
    nearest = name;
  }
  return nearest;
}

std::string OptionHelp(std::string_view subcommand, int width) {
  constexpr size_t kIndent = 28;
  const size_t text_width = static_cast<size_t>(std::clamp(width, 60, 120)) - kIndent;
  std::string help;
  for (const OptionRow& row : OptionRows()) {
    if ((row.commands & CommandBit(subcommand)) == 0) continue;
    std::string text(row.help);
    if (!row.default_text.empty() && row.default_text != "false") text += StrCat(" (", row.default_text, ")");
    std::string left = StrCat("  ", Title(row));
    for (const std::string& line : Wrap(text, text_width)) {
      left.resize(std::max(kIndent - 1, left.size()), ' ');
      help += StrCat(left, " ", line, "\n");
      left.clear();
    }
  }
  return help;
}

std::string OptionMarkdown() {
  std::string table = "| option | environment | default | for | meaning |\n|---|---|---|---|---|\n";
  for (const OptionRow& row : OptionRows()) {
    std::string commands;
    for (std::string_view name : {"run", "attach", "capture", "status", "merge", "convert", "recover", "check",
                                  "report", "compare", "ab", "baseline", "config", "doctor"}) {
      if ((row.commands & CommandBit(name)) != 0) commands += StrCat(commands.empty() ? "" : ", ", name);
    }
    const std::string fallback = row.default_text.empty() ? "" : StrCat("`", row.default_text, "`");
    table += StrCat("| `", Title(row), "` | `", EnvironmentName(row.name), "` | ", fallback, " | ", commands, " | ",
                    row.help, " |\n");
  }
  return table;
}

std::string ExplainOptions(const Options& options) {
  size_t name_width = 0;
  size_t value_width = 0;
  for (size_t i = 0; i < options.values.size(); ++i) {
    name_width = std::max(name_width, OptionRows()[i].name.size());
    value_width = std::max(value_width, std::min<size_t>(options.values[i].text.size(), 40));
  }
  std::string text;
  for (size_t i = 0; i < options.values.size(); ++i) {
    std::string name(OptionRows()[i].name);
    std::string value = options.values[i].text.empty() ? "-" : PrintableUtf8(options.values[i].text);
    name.resize(std::max(name_width, name.size()), ' ');
    value.resize(std::max(value_width, value.size()), ' ');
    text += StrCat(name, "  ", value, "  ", PrintableUtf8(options.values[i].source_name), "\n");
  }
  return text;
}

}  // namespace tbprof
