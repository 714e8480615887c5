// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "launcher/base/text.h"
#include "launcher/base/version.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

std::string GeneralHelp() {
  std::string text = StrCat("tbprof ", Version(),
                            ": profiles a program nobody changed, for TensorBoard\n\n"
                            "  tbprof run -- python3 train.py\n"
                            "  tensorboard --logdir ./tbprof-logs\n\n");
  for (const Command& command : Commands()) {
    std::string name(command.name);
    name.resize(std::max<size_t>(name.size(), 10), ' ');
    text += StrCat("  ", name, command.summary, "\n");
  }
  text += "\nMore: tbprof help SUBCOMMAND. Options of a subcommand: tbprof SUBCOMMAND --help\n";
  return text;
}

std::string CommandText(const Command& command, bool long_text) {
  std::string text = StrCat("usage: ", command.usage, "\n");
  text += long_text ? StrCat("\n", command.text) : StrCat("\n", command.summary, ".\n");
  const std::string options = OptionHelp(command.name, Terminal().width());
  if (!options.empty()) text += StrCat("\n", options);
  if (!long_text) text += StrCat("\nMore: tbprof help ", command.name, "\n");
  return text;
}

}  // namespace

int CommandHelp(const Options& options) {
  // `tbprof run --help`, `tbprof --help`, `tbprof help [NAME]`.
  const bool short_text = options.help && !options.subcommand.empty() && options.subcommand != "help";
  if (short_text) {
    return PrintOut(CommandText(*FindCommand(options.subcommand), false)) ? 0 : kExitUsage;
  }
  if (options.operands.empty()) return PrintOut(GeneralHelp()) ? 0 : kExitUsage;
  const std::string& name = options.operands[0];
  // The text of docs/cli.md is generated from this output.
  if (name == "options.md") return PrintOut(OptionMarkdown()) ? 0 : kExitUsage;
  const Command* command = FindCommand(name);
  if (command == nullptr) {
    std::vector<std::string> names;
    for (const Command& known : Commands()) names.emplace_back(known.name);
    const std::string near = NearestName(name, names);
    Terminal().Error(
        StrCat("no subcommand `", PrintableUtf8(name), "`", near.empty() ? "" : StrCat("; did you mean ", near, "?")));
    return kExitUsage;
  }
  return PrintOut(CommandText(*command, true)) ? 0 : kExitUsage;
}

}  // namespace tbprof
