// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_fields.h"

#include <cmath>
#include <limits>
#include <utility>

#include "launcher/base/text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostTextBytes = 2000;

std::string_view KindOf(const Json& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return "an array";
  if (json.is_string()) return "a text";
  if (json.is_boolean()) return "true or false";
  return json.is_number() ? "another number" : "null";
}

std::string Printable(const std::string& text) {
  const std::string printable = PrintableUtf8(text);
  return std::string(TruncateUtf8(printable, kMostTextBytes));
}

}  // namespace

Fields::Fields(const Json& json, std::string path, std::string* fault)
    : json_(json.is_object() ? &json : nullptr), path_(std::move(path)), fault_(fault) {
  if (json_ == nullptr) Fail(path_, "an object", json);
}

const Json* Fields::Find(const char* name) const {
  if (json_ == nullptr) return nullptr;
  const auto found = json_->find(name);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

void Fields::Fail(const std::string& place, std::string_view expected, const Json& found) const {
  if (fault_->empty()) *fault_ = StrCat(PrintableUtf8(place), ": ", expected, " expected, found ", KindOf(found));
}

Fields Fields::Object(const char* name) const {
  const Json* const found = Find(name);
  const std::string place = StrCat(path_, ".", name);
  if (found != nullptr && !found->is_object()) Fail(place, "an object", *found);
  return {found != nullptr && found->is_object() ? found : nullptr, place, fault_};
}

std::vector<Fields> Fields::Objects(const char* name) const {
  std::vector<Fields> out;
  const Json* const found = Find(name);
  if (found == nullptr) return out;
  const std::string place = StrCat(path_, ".", name);
  if (!found->is_array()) {
    Fail(place, "an array", *found);
    return out;
  }
  for (size_t i = 0; i < found->size(); ++i) out.emplace_back((*found)[i], StrCat(place, "[", i, "]"), fault_);
  return out;
}

template <typename Take>
void Fields::ForEachElement(const char* name, const char* expected, Take&& take) const {
  const Json* const found = Find(name);
  if (found == nullptr) return;
  const std::string place = StrCat(path_, ".", name);
  if (!found->is_array()) Fail(place, "an array", *found);
  for (size_t i = 0; found->is_array() && i < found->size(); ++i) {
    if (!take((*found)[i])) Fail(StrCat(place, "[", i, "]"), expected, (*found)[i]);
  }
}

std::vector<std::string> Fields::Texts(const char* name) const {
  std::vector<std::string> out;
  ForEachElement(name, "a text", [&](const Json& element) {
    if (element.is_string()) out.push_back(Printable(element.get_ref<const std::string&>()));
    return element.is_string();
  });
  return out;
}

std::vector<double> Fields::Numbers(const char* name) const {
  std::vector<double> out;
  ForEachElement(name, "a number", [&](const Json& element) {
    const bool is_number = element.is_number() && std::isfinite(element.get<double>());
    if (is_number) out.push_back(element.get<double>());
    return is_number;
  });
  return out;
}

std::string Fields::Text(const char* name) const {
  const Json* const found = Find(name);
  if (found == nullptr) return "";
  if (found->is_string()) return Printable(found->get_ref<const std::string&>());
  Fail(StrCat(path_, ".", name), "a text", *found);
  return "";
}

std::optional<double> Fields::Number(const char* name) const {
  const Json* const found = Find(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_number()) {
    const double value = found->get<double>();
    if (std::isfinite(value)) return value;
  }
  Fail(StrCat(path_, ".", name), "a number", *found);
  return std::nullopt;
}

std::optional<int64_t> Fields::Integer(const char* name) const {
  const Json* const found = Find(name);
  if (found == nullptr) return std::nullopt;
  const bool fits =
      found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (fits) return found->get<int64_t>();
  Fail(StrCat(path_, ".", name), "an integer", *found);
  return std::nullopt;
}

std::optional<uint64_t> Fields::Count(const char* name) const {
  const Json* const found = Find(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_number_unsigned()) return found->get<uint64_t>();
  Fail(StrCat(path_, ".", name), "an integer from 0 on", *found);
  return std::nullopt;
}

std::optional<bool> Fields::Flag(const char* name) const {
  const Json* const found = Find(name);
  if (found == nullptr) return std::nullopt;
  if (found->is_boolean()) return found->get<bool>();
  Fail(StrCat(path_, ".", name), "true or false", *found);
  return std::nullopt;
}

std::vector<std::pair<std::string, double>> Fields::NumbersEnding(std::string_view suffix) const {
  std::vector<std::pair<std::string, double>> out;
  if (json_ == nullptr) return out;
  for (const auto& [name, value] : json_->items()) {
    if (!name.ends_with(suffix) || !value.is_number()) continue;
    out.emplace_back(Printable(name.substr(0, name.size() - suffix.size())), value.get<double>());
  }
  return out;
}

}  // namespace tbprof
