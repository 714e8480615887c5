// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "schema_check.h"

namespace tbprof::integration {
namespace {

bool HasType(const nlohmann::json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "integer") return value.is_number_integer();
  return type == "number" && value.is_number();
}

void CheckObject(const nlohmann::json& schema, const nlohmann::json& value, const std::string& place,
                 std::vector<std::string>* faults) {
  const nlohmann::json properties = schema.value("properties", nlohmann::json::object());
  const nlohmann::json additional = schema.value("additionalProperties", nlohmann::json(false));
  if (!schema.contains("additionalProperties")) faults->push_back(place + ": the schema lets unknown fields pass");
  std::set<std::string> required;
  for (const auto& name : schema.value("required", nlohmann::json::array())) required.insert(name.get<std::string>());
  for (const auto& [name, property] : properties.items()) {
    // The schema promises that every field is always present.
    if (required.count(name) == 0) faults->push_back(place + "." + name + ": not required");
  }
  for (const std::string& name : required) {
    if (!value.contains(name)) faults->push_back(place + "." + name + ": missing");
  }
  for (const auto& [name, member] : value.items()) {
    const std::string at = place + "." + name;
    if (properties.contains(name)) {
      for (std::string& fault : SchemaFaults(properties[name], member, at)) faults->push_back(std::move(fault));
    } else if (additional.is_object()) {
      for (std::string& fault : SchemaFaults(additional, member, at)) faults->push_back(std::move(fault));
    } else {
      faults->push_back(at + ": not in the schema");
    }
  }
}

}  // namespace

std::vector<std::string> SchemaFaults(const nlohmann::json& schema, const nlohmann::json& value,
                                      const std::string& place) {
  static const std::set<std::string> kKnown = {
      "$schema", "$id",  "title", "description", "type",   "properties", "required", "additionalProperties",
      "items",   "enum", "const", "minimum",     "maximum"};
  std::vector<std::string> faults;
  for (const auto& [keyword, argument] : schema.items()) {
    if (kKnown.count(keyword) == 0) faults.push_back(place + ": unknown keyword " + keyword);
  }
  const nlohmann::json type = schema.value("type", nlohmann::json(""));
  const nlohmann::json types = type.is_array() ? type : nlohmann::json::array({type});
  if (std::none_of(types.begin(), types.end(), [&](const auto& named) { return HasType(value, named); })) {
    faults.push_back(place + ": " + value.dump().substr(0, 80) + " is no " + types.dump());
    return faults;
  }
  if (value.is_null()) return faults;
  if (schema.contains("const") && value != schema["const"]) faults.push_back(place + ": is " + value.dump());
  if (schema.contains("enum") &&
      std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end()) {
    faults.push_back(place + ": " + value.dump() + " is not in the list");
  }
  if (schema.contains("minimum") && value < schema["minimum"]) faults.push_back(place + ": below, " + value.dump());
  if (schema.contains("maximum") && value > schema["maximum"]) faults.push_back(place + ": above, " + value.dump());
  if (value.is_object()) CheckObject(schema, value, place, &faults);
  if (value.is_array() && schema.contains("items")) {
    for (size_t i = 0; i < value.size(); ++i) {
      for (std::string& fault : SchemaFaults(schema["items"], value[i], place + "[" + std::to_string(i) + "]")) {
        faults.push_back(std::move(fault));
      }
    }
  }
  return faults;
}

}  // namespace tbprof::integration
