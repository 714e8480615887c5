// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/outputs.h"

#include "writer/outputs/flamegraph.h"
#include "writer/outputs/folded.h"
#include "writer/outputs/perfetto.h"
#include "writer/outputs/speedscope.h"
#include "writer/outputs/xplane.h"

namespace tbprof {
namespace {

constexpr Output kOutputs[] = {
    {"xplane", "%h.xplane.pb", /*by_default=*/true, /*limited=*/true, WriteXplane, VerifyXplane},
    {"perfetto", "%h.trace.json.gz", /*by_default=*/false, /*limited=*/false, WritePerfetto, VerifyPerfetto},
    {"folded", "%h.folded", /*by_default=*/false, /*limited=*/false, WriteFolded, VerifyFolded},
    {"speedscope", "%h.speedscope.json", /*by_default=*/false, /*limited=*/false, WriteSpeedscope, VerifySpeedscope},
    {"flamegraph", "%h.flamegraph.html", /*by_default=*/false, /*limited=*/false, WriteFlamegraph, VerifyFlamegraph},
};

}  // namespace

absl::Span<const Output> Outputs() { return kOutputs; }

const Output* FindOutput(std::string_view name) {
  for (const Output& output : kOutputs) {
    if (output.name == name) return &output;
  }
  return nullptr;
}

}  // namespace tbprof
