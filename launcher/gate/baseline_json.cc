// SPDX-License-Identifier: Apache-2.0
#include "launcher/gate/baseline_json.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_format.h"
#include "launcher/base/text.h"
#include "launcher/report/bounded_json.h"
#include "writer/base/secret_text.h"
#include "writer/base/utf8.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;
using Parsed = nlohmann::json;

constexpr size_t kMostNameBytes = 4096, kMostCounts = 200, kMostDevices = 256, kMostFiles = 200;
constexpr std::string_view kFormat = "tbprof baselines";

// No clock is accurate to more than seven digits; fewer digits keep the file small.
double Rounded(double value) {
  if (!std::isfinite(value)) return 0;
  return strtod(absl::StrFormat("%.7g", value).c_str(), nullptr);
}

std::string Text(std::string_view text) {
  const std::string printable = PrintableUtf8(text);
  return std::string(TruncateUtf8(printable, kMostNameBytes));
}

Json OrNull(const std::string& text) { return text.empty() ? Json(nullptr) : Json(Text(text)); }
Json OrNull(const std::optional<double>& value) {
  return value.has_value() && std::isfinite(*value) ? Json(Rounded(*value)) : Json(nullptr);
}

std::vector<double> EvenChoice(const std::vector<double>& values, size_t most) {
  if (values.size() <= most) return values;
  std::vector<double> chosen;
  for (size_t i = 0; i < most; ++i) chosen.push_back(values[i * values.size() / most]);
  return chosen;
}

Json AmountsJson(const RunNumbers& run) {
  Json out = Json::array();
  for (const AmountKind kind : kAmountKinds) {
    std::vector<const Amount*> amounts;
    for (const Amount& amount : run.amounts) {
      if (amount.kind == kind && std::isfinite(amount.per_step)) amounts.push_back(&amount);
    }
    std::ranges::stable_sort(amounts, [](const Amount* a, const Amount* b) { return a->per_step > b->per_step; });
    for (size_t i = 0; i < std::min(amounts.size(), kMostBaselineAmounts); ++i) {
      out.push_back({AmountKindName(kind), Text(amounts[i]->name), Rounded(amounts[i]->per_step)});
    }
  }
  return out;
}

Json RunJson(const RunNumbers& run) {
  const RunIdentity& identity = run.identity;
  Json devices = Json::array(), steps = Json::array(), counts = Json::array(), files = Json::array();
  for (size_t i = 0; i < std::min(identity.devices.size(), kMostDevices); ++i)
    devices.push_back(Text(identity.devices[i]));
  for (const double step : EvenChoice(run.steps_s, kMostBaselineSteps)) steps.push_back(Rounded(step));
  for (size_t i = 0; i < std::min(run.counts.size(), kMostCounts); ++i) {
    const Count& count = run.counts[i];
    // Not rounded: a rule may compare it exactly with a new run's.
    counts.push_back({Text(count.name), std::isfinite(count.per_step) ? count.per_step : 0,
                      count.basis == CountBasis::kSteps ? "steps" : "run"});
  }
  for (size_t i = 0; i < std::min(run.files.size(), kMostFiles); ++i) files.push_back(Text(run.files[i]));
  Json out = {{"path", Text(run.path)},
              {"start_unix_ns", run.start_unix_ns},
              {"command", OrNull(MaskText(identity.command, TextKind::kScript))},
              {"window", OrNull(identity.window)},
              {"cpu_model", OrNull(identity.cpu_model)},
              {"cpus", identity.cpus},
              {"devices", std::move(devices)},
              {"host", OrNull(identity.host)},
              {"python", OrNull(identity.python)},
              {"tbprof_version", OrNull(identity.tbprof_version)},
              {"steps_source", OrNull(identity.steps_source)},
              {"world_size", identity.world_size.has_value() ? Json(*identity.world_size) : Json(nullptr)},
              {"running", run.running},
              {"no_times", OrNull(run.no_times)},
              {"no_counts", OrNull(run.no_counts)},
              {"unfit", OrNull(run.unfit)},
              {"steps", std::max<uint64_t>(run.steps, steps.size())},
              {"irregular_steps", run.irregular_steps},
              {"median_step_s", Rounded(run.median_step_s)},
              {"mean_step_s", Rounded(run.mean_step_s)},
              {"split_step_s", Rounded(run.split_step_s)},
              {"memory_peak_bytes", OrNull(run.memory_peak_bytes)},
              {"wall_s", OrNull(run.wall_s)},
              {"cpus_used", OrNull(run.cpus_used)},
              {"cpu_s", OrNull(run.cpu_s)},
              {"cpus_allowed", OrNull(run.cpus_allowed)},
              {"cpu_wait_s", OrNull(run.cpu_wait_s)}};
  out["steps_s"] = std::move(steps);
  out["counts"] = std::move(counts);
  out["amounts"] = AmountsJson(run);
  out["files"] = std::move(files);
  return out;
}

std::string Line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Reads each field of an object at most once. Keeps the first fault.
class Reader {
 public:
  Reader(const Parsed& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) Fault("expected an object");
  }

  std::string TakeText(const char* name, bool nullable = true) {
    const Parsed* value = Take(name);
    if (value == nullptr) return "";
    if (value->is_string()) return Text(value->get_ref<const std::string&>());
    if (!nullable || !value->is_null()) Fault(StrCat(name, ": expected a text"));
    return "";
  }
  bool TakeFlag(const char* name) {
    const Parsed* value = Take(name);
    if (value != nullptr && !value->is_boolean()) Fault(StrCat(name, ": expected true or false"));
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  // At least 0, and at most 2^62.
  int64_t TakeCount(const char* name) {
    const Parsed* value = Take(name);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned() || value->get<uint64_t>() > uint64_t{1} << 62) {
      Fault(StrCat(name, ": expected a whole number of at least 0"));
      return 0;
    }
    return static_cast<int64_t>(value->get<uint64_t>());
  }
  std::optional<double> TakeNumber(const char* name) {
    const Parsed* value = Take(name);
    if (value == nullptr || value->is_null()) return std::nullopt;
    return NumberOf(*value, name);
  }
  double NumberOf(const Parsed& value, const std::string& name) {
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number >= 0 && std::isfinite(number)) return number;
    Fault(StrCat(name, ": expected a number of at least 0"));
    return 0;
  }
  // An empty array, with a fault, if the field is missing or invalid.
  const Parsed& TakeArray(const char* name, size_t most) {
    static const Parsed kEmpty = Parsed::array();
    const Parsed* value = Take(name);
    if (value == nullptr) return kEmpty;
    if (!value->is_array()) {
      Fault(StrCat(name, ": expected an array"));
      return kEmpty;
    }
    if (value->size() > most) {
      Fault(StrCat(name, ": over ", most, " values"));
      return kEmpty;
    }
    return *value;
  }
  std::vector<std::string> TakeTexts(const char* name, size_t most) {
    std::vector<std::string> texts;
    for (const Parsed& value : TakeArray(name, most)) {
      if (!value.is_string()) {
        Fault(StrCat(name, ": expected texts"));
        break;
      }
      texts.push_back(Text(value.get_ref<const std::string&>()));
    }
    return texts;
  }
  bool Has(const char* name) const { return object_.find(name) != object_.end(); }
  const Parsed* Take(const char* name) {
    if (!fault_.empty()) return nullptr;
    const auto found = object_.find(name);
    if (found != object_.end()) return &*found;
    Fault(StrCat("no ", name));
    return nullptr;
  }
  void Fault(const std::string& what) {
    if (fault_.empty()) fault_ = StrCat(place_.empty() ? "" : StrCat(place_, ": "), what);
  }
  const std::string& fault() const { return fault_; }

 private:
  const Parsed& object_;
  std::string place_, fault_;
};

bool IsTuple(const Parsed& value, bool with_basis) {
  return value.is_array() && value.size() == 3 && value[0].is_string() &&
         (with_basis ? value[1].is_number() && value[2].is_string() : value[1].is_string() && value[2].is_number());
}

void ReadCounts(Reader* reader, RunNumbers* run) {
  for (const Parsed& value : reader->TakeArray("counts", kMostCounts)) {
    if (!IsTuple(value, true) || (value[2] != "steps" && value[2] != "run")) {
      return reader->Fault("counts: expected [name, number, steps or run]");
    }
    run->counts.push_back({Text(value[0].get_ref<const std::string&>()), reader->NumberOf(value[1], "counts"),
                           value[2] == "steps" ? CountBasis::kSteps : CountBasis::kRun});
  }
}

void ReadAmounts(Reader* reader, RunNumbers* run) {
  for (const Parsed& value : reader->TakeArray("amounts", kMostBaselineAmounts * std::size(kAmountKinds))) {
    if (!IsTuple(value, false)) return reader->Fault("amounts: expected [kind, name, number]");
    const auto kind = std::ranges::find_if(
        kAmountKinds, [&](AmountKind one) { return AmountKindName(one) == value[0].get_ref<const std::string&>(); });
    if (kind == std::end(kAmountKinds)) return reader->Fault("amounts: a kind that is not known");
    run->amounts.push_back(
        {*kind, Text(value[1].get_ref<const std::string&>()), reader->NumberOf(value[2], "amounts")});
  }
}

std::string ReadRun(const Parsed& json, const std::string& place, RunNumbers* run) {
  Reader reader(json, place);
  RunIdentity& identity = run->identity;
  run->path = reader.TakeText("path", false);
  run->start_unix_ns = reader.TakeCount("start_unix_ns");
  identity.command = reader.TakeText("command");
  identity.window = reader.TakeText("window");
  identity.cpu_model = reader.TakeText("cpu_model");
  identity.cpus = reader.TakeCount("cpus");
  identity.devices = reader.TakeTexts("devices", kMostDevices);
  identity.host = reader.TakeText("host");
  identity.python = reader.TakeText("python");
  identity.tbprof_version = reader.TakeText("tbprof_version");
  identity.steps_source = reader.TakeText("steps_source");
  if (const Parsed* size = reader.Take("world_size"); size != nullptr && !size->is_null()) {
    identity.world_size = reader.TakeCount("world_size");
  }
  run->running = reader.TakeFlag("running");
  run->no_times = reader.TakeText("no_times");
  run->no_counts = reader.TakeText("no_counts");
  run->unfit = reader.TakeText("unfit");
  run->steps = static_cast<uint64_t>(reader.TakeCount("steps"));
  run->irregular_steps = static_cast<uint64_t>(reader.TakeCount("irregular_steps"));
  run->median_step_s = reader.TakeNumber("median_step_s").value_or(0);
  run->mean_step_s = reader.TakeNumber("mean_step_s").value_or(0);
  run->split_step_s = reader.TakeNumber("split_step_s").value_or(0);
  run->memory_peak_bytes = reader.TakeNumber("memory_peak_bytes");
  run->wall_s = reader.TakeNumber("wall_s");
  // Older baselines lack these.
  if (reader.Has("cpus_used")) run->cpus_used = reader.TakeNumber("cpus_used");
  if (reader.Has("cpu_s")) run->cpu_s = reader.TakeNumber("cpu_s");
  if (reader.Has("cpus_allowed")) run->cpus_allowed = reader.TakeNumber("cpus_allowed");
  if (reader.Has("cpu_wait_s")) run->cpu_wait_s = reader.TakeNumber("cpu_wait_s");
  for (const Parsed& step : reader.TakeArray("steps_s", kMostBaselineSteps)) {
    run->steps_s.push_back(reader.NumberOf(step, "steps_s"));
  }
  if (run->steps < run->steps_s.size()) reader.Fault("steps: less than there are times");
  ReadCounts(&reader, run);
  ReadAmounts(&reader, run);
  run->files = reader.TakeTexts("files", kMostFiles);
  return reader.fault();
}

}  // namespace

bool IsBaselineName(std::string_view name) {
  const auto is_word = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !name.empty() && name.size() <= 100 && is_word(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return is_word(c) || c == '.' || c == '_' || c == '-'; });
}

std::string BaselinesAsJson(const std::vector<Baseline>& baselines) {
  std::string text =
      StrCat("{\"format\": ", Line(kFormat), ", \"schema_version\": ", kBaselineSchemaVersion, ", \"baselines\": [");
  for (size_t i = 0; i < baselines.size(); ++i) {
    StrAppend(&text, i == 0 ? "" : ",", "\n{\"name\": ", Line(baselines[i].name),
              ", \"saved_unix_ns\": ", baselines[i].saved_unix_ns, ", \"runs\": [");
    const std::vector<RunNumbers>& runs = baselines[i].side.runs;
    for (size_t run = 0; run < runs.size(); ++run) StrAppend(&text, run == 0 ? "\n" : ",\n", Line(RunJson(runs[run])));
    text += "]}";
  }
  return text + "]}\n";
}

absl::StatusOr<std::vector<Baseline>> BaselinesFromJson(std::string_view text, const std::string& path) {
  const auto fail = [&](const std::string& what) {
    return absl::DataLossError(StrCat(PrintableUtf8(path), ": ", what));
  };
  JsonLimits limits;
  limits.file_bytes = kMostBaselineBytes;
  limits.depth = 8;
  limits.values = 2'000'000;
  absl::StatusOr<Parsed> json = ParseBoundedJson(text, path, limits);
  if (!json.ok()) return json.status();
  const auto format = json->is_object() ? json->find("format") : json->end();
  if (!json->is_object() || format == json->end() || *format != kFormat) return fail("no baselines of tbprof");
  Reader top(*json, "");
  if (const int64_t version = top.TakeCount("schema_version");
      top.fault().empty() && version != kBaselineSchemaVersion) {
    return fail(StrCat("schema version ", version, "; this tbprof reads ", kBaselineSchemaVersion));
  }
  std::vector<Baseline> baselines;
  std::set<std::string> names;
  for (const Parsed& value : top.TakeArray("baselines", kMostBaselines)) {
    const std::string place = StrCat("baseline ", baselines.size() + 1);
    Reader reader(value, place);
    Baseline baseline;
    baseline.name = reader.TakeText("name", false);
    baseline.saved_unix_ns = reader.TakeCount("saved_unix_ns");
    const Parsed& runs = reader.TakeArray("runs", kMostBaselineRuns);
    if (reader.fault().empty() && runs.empty()) reader.Fault("no runs");
    if (!reader.fault().empty()) return fail(reader.fault());
    if (!IsBaselineName(baseline.name)) return fail(StrCat(place, ": a name that none can have"));
    if (!names.insert(baseline.name).second) return fail(StrCat(place, ": ", baseline.name, " is there twice"));
    for (const Parsed& run : runs) {
      const std::string run_place = StrCat(place, ", run ", baseline.side.runs.size() + 1);
      if (const std::string fault = ReadRun(run, run_place, &baseline.side.runs.emplace_back()); !fault.empty()) {
        return fail(fault);
      }
    }
    baselines.push_back(std::move(baseline));
  }
  if (!top.fault().empty()) return fail(top.fault());
  return baselines;
}

}  // namespace tbprof
