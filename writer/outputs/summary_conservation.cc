// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_conservation.h"

#include <cstddef>
#include <utility>

namespace tbprof {

nlohmann::ordered_json ConservationJson(const Timeline& timeline) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const ConservedRow& row : timeline.conservation) {
    Json rest = Json::array();
    for (size_t i = 0; i < static_cast<size_t>(ConservedCause::kCauses); ++i) {
      const auto cause = static_cast<ConservedCause>(i);
      if (row.rest[i] == 0) continue;
      rest.push_back({{"cause", NameOf(cause)}, {"count", row.rest[i]}});
      const bool bounded = cause == ConservedCause::kLeft;
      rest.back()["at_most"] = bounded ? nlohmann::ordered_json(row.left_at_most) : nlohmann::ordered_json(nullptr);
    }
    rows.push_back({{"kind", NameOf(row.kind)},
                    {"made", row.made.has_value() ? Json(*row.made) : Json(nullptr)},
                    {"published", row.published},
                    {"rest", std::move(rest)},
                    {"missing", row.missing},
                    {"holds", row.holds.has_value() ? Json(*row.holds) : Json(nullptr)}});
  }
  return rows;
}

std::string ConservationStat(const Timeline& timeline) {
  return timeline.conservation.empty() ? std::string() : ConservationJson(timeline).dump();
}

}  // namespace tbprof
