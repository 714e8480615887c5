// SPDX-License-Identifier: Apache-2.0
//
// A value against a JSON Schema, as far as docs/summary.schema.json uses it. A keyword that is not known is a fault: it
// would check nothing.
#ifndef TBPROF_TESTS_INTEGRATION_SCHEMA_CHECK_H_
#define TBPROF_TESTS_INTEGRATION_SCHEMA_CHECK_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tbprof::integration {

// What does not match, each with its place; empty: all does.
std::vector<std::string> SchemaFaults(const nlohmann::json& schema, const nlohmann::json& value,
                                      const std::string& place = "$");

}  // namespace tbprof::integration

#endif  // TBPROF_TESTS_INTEGRATION_SCHEMA_CHECK_H_
