// SPDX-License-Identifier: Apache-2.0
//
// Checks a value against a JSON Schema, with the keywords that docs/summary.schema.json uses. An unknown keyword is a
// fault: it would check nothing.
#ifndef TBPROF_TESTS_INTEGRATION_SCHEMA_CHECK_H_
#define TBPROF_TESTS_INTEGRATION_SCHEMA_CHECK_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tbprof::integration {

// The mismatches, each with its place; empty: the value matches.
std::vector<std::string> SchemaFaults(const nlohmann::json& schema, const nlohmann::json& value,
                                      const std::string& place = "$");

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_SCHEMA_CHECK_H_
