// SPDX-License-Identifier: Apache-2.0
//
// `conservation` of summary.json, and the same text for the profile itself (docs/conservation.md).
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_OUTPUTS_SUMMARY_CONSERVATION_H_
#define TBPROF_WRITER_OUTPUTS_SUMMARY_CONSERVATION_H_

#include <string>

#include <nlohmann/json.hpp>

#include "writer/timeline/timeline.h"

namespace tbprof {

nlohmann::ordered_json ConservationJson(const Timeline& timeline);
// On one line; empty: there is no data.
std::string ConservationStat(const Timeline& timeline);

}  // namespace tbprof

#endif  // TBPROF_WRITER_OUTPUTS_SUMMARY_CONSERVATION_H_
