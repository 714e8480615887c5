// SPDX-License-Identifier: Apache-2.0
//
// `tbprof compare`: compares two sides of recorded runs; the exit status is for a CI job.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/base/text.h"
#include "launcher/cli/commands.h"
#include "launcher/cli/terminal.h"
#include "launcher/gate/compare.h"
#include "launcher/gate/gate_end.h"
#include "launcher/gate/sides.h"
#include "writer/base/utf8.h"
#include "writer/logdir/logdir.h"

namespace tbprof {
namespace {

int Fail(std::string_view line) {
  Terminal().Error(line);
  return kExitGateFailed;
}

}  // namespace

int CommandCompare(const Options& options) {
  std::vector<std::string> base = options.base_runs, now = options.new_runs;
  if (!options.operands.empty()) {
    if (options.operands.size() != 2 || !base.empty() || !now.empty()) {
      return Fail(
          "compare takes two operands, BASE and NEW, or --base=PATH and --new=PATH, each as often as there are runs");
    }
    base = {options.operands[0]};
    now = {options.operands[1]};
  }
  if (base.empty() || now.empty()) {
    return Fail("compare needs two sides: tbprof compare BASE NEW, or --base=PATH … --new=PATH …");
  }
  Terminal terminal(options);
  if (!CanEndGate(options, &terminal)) return kExitGateFailed;
  const std::optional<int64_t> rank = options.rank >= 0 ? std::optional(options.rank) : std::nullopt;
  const absl::StatusOr<std::string> logdir = NormaliseLogdir(options.logdir, WorkingDirectory());
  if (!logdir.ok()) return Fail(std::string(logdir.status().message()));
  absl::StatusOr<Side> base_side = ReadSide(base, rank, options.store, *logdir);
  if (!base_side.ok()) return Fail(PrintableUtf8(std::string(base_side.status().message())));
  absl::StatusOr<Side> new_side = ReadSide(now, rank, options.store, *logdir);
  if (!new_side.ok()) return Fail(PrintableUtf8(std::string(new_side.status().message())));
  CompareOptions compare;
  compare.margin = options.margin;
  compare.any_program = options.any_program;
  Comparison comparison = Compare(*std::move(base_side), *std::move(new_side), compare);
  return EndGate(options, std::move(comparison), &terminal);
}

}  // namespace tbprof
