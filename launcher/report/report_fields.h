// SPDX-License-Identifier: Apache-2.0
//
// Reads members of an untrusted JSON value by their types: an absent or null member is unknown, a member of another
// type is a fault with its place. Texts are made printable and bounded.
//
//   std::string fault;
//   const Fields root(json, "$", &fault);
//   const std::optional<double> median = root.Object("steps").Number("median_s");
//   if (!fault.empty()) ...   // `$.steps.median_s: a number expected, found a text`
//
// Process: launcher. Content is untrusted.
#ifndef TBPROF_LAUNCHER_REPORT_REPORT_FIELDS_H_
#define TBPROF_LAUNCHER_REPORT_REPORT_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tbprof {

class Fields {
 public:
  // `json` and `fault` must outlive the object. Keeps the first fault.
  Fields(const nlohmann::json& json, std::string path, std::string* fault);

  bool present() const { return json_ != nullptr; }  // the value is an object
  bool Has(const char* name) const { return Find(name) != nullptr; }

  Fields Object(const char* name) const;
  std::vector<Fields> Objects(const char* name) const;  // elements of an array of objects
  std::vector<std::string> Texts(const char* name) const;
  std::vector<double> Numbers(const char* name) const;
  std::string Text(const char* name) const;  // empty: unknown
  std::optional<double> Number(const char* name) const;
  std::optional<int64_t> Integer(const char* name) const;
  std::optional<uint64_t> Count(const char* name) const;
  std::optional<bool> Flag(const char* name) const;
  double Seconds(const char* name) const { return Number(name).value_or(0); }
  // All members that are numbers and whose names end with `suffix`, named without it: `live` for `live_bytes`.
  std::vector<std::pair<std::string, double>> NumbersEnding(std::string_view suffix) const;

 private:
  Fields(const nlohmann::json* json, std::string path, std::string* fault)
      : json_(json), path_(std::move(path)), fault_(fault) {}
  const nlohmann::json* Find(const char* name) const;  // nullptr: absent or null
  void Fail(const std::string& place, std::string_view expected, const nlohmann::json& found) const;
  // Calls `take(element)` for each element of an array; false: the element is not of the expected kind.
  template <typename Take>
  void ForEachElement(const char* name, const char* expected, Take&& take) const;

  const nlohmann::json* json_;  // nullptr: absent
  std::string path_;
  std::string* fault_;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_REPORT_REPORT_FIELDS_H_
