// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <charconv>

#include "launcher/base/control_messages.h"
#include "launcher/base/text.h"
#include "launcher/cli/option_gate.h"
#include "launcher/cli/option_values.h"
#include "launcher/cli/options.h"
#include "wire/name_number.h"
#include "wire/ranks.h"
#include "writer/base/utf8.h"
#include "writer/steps/step_markers.h"

namespace tbprof {
namespace {

template <typename T>
absl::Status Assign(T& field, absl::StatusOr<T> value) {
  if (!value.ok()) return value.status();
  field = *std::move(value);
  return absl::OkStatus();
}

absl::StatusOr<bool> ParseSwitch(std::string_view text) {
  for (std::string_view word : {"true", "1", "yes", "on"}) {
    if (LowerCase(text) == word) return true;
  }
  for (std::string_view word : {"false", "0", "no", "off"}) {
    if (LowerCase(text) == word) return false;
  }
  return Expected("true or false");
}

template <bool Options::*field>
absl::Status SetSwitch(Options& options, std::string_view value) {
  return Assign(options.*field, ParseSwitch(value));
}

template <bool Options::*field>
absl::Status SetInverseSwitch(Options& options, std::string_view value) {
  absl::StatusOr<bool> on = ParseSwitch(value);
  if (!on.ok()) return on.status();
  options.*field = !*on;
  return absl::OkStatus();
}

template <std::string Options::*field>
absl::Status SetPath(Options& options, std::string_view value) {
  if (value.find('\0') != std::string_view::npos) return Expected("a path without NUL");
  options.*field = std::string(value);
  return absl::OkStatus();
}

template <auto field, uint64_t minimum, uint64_t maximum>
absl::Status SetSize(Options& options, std::string_view value) {
  absl::StatusOr<uint64_t> size = ParseSize(value);
  if (!size.ok()) return size.status();
  if (*size < minimum || *size > maximum) {
    return Expected(StrCat("a size from ", minimum, " to ", maximum, " bytes"));
  }
  options.*field = *size;
  return absl::OkStatus();
}

template <auto field, uint64_t minimum, uint64_t maximum>
absl::Status SetNumber(Options& options, std::string_view value) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < minimum || number > maximum) {
    return Expected(StrCat("a number from ", minimum, " to ", maximum));
  }
  options.*field = static_cast<std::remove_reference_t<decltype(options.*field)>>(number);
  return absl::OkStatus();
}

absl::Status SetRank(Options& options, std::string_view value) {
  options.rank = -1;
  return value.empty() ? absl::OkStatus() : SetNumber<&Options::rank, 0, 1'000'000'000>(options, value);
}

absl::Status SetRun(Options& options, std::string_view value) {
  if (value.empty()) {
    options.run.clear();
    return absl::OkStatus();
  }
  // The writer checks the same rules, but only after the program has run.
  if (value.size() > 128 || value.front() == '.' || value.find('/') != std::string_view::npos ||
      value.find('[') != std::string_view::npos || PrintableUtf8(value) != value) {
    // xprof reads `[` as a pattern and finds no files below the directory.
    return Expected("the name of one directory: at most 128 printable bytes, no slash, no `[`, no leading dot");
  }
  options.run = std::string(value);
  return absl::OkStatus();
}

absl::Status SetWindow(Options& options, std::string_view value) {
  const absl::Status expected = Expected(
      "auto, all, none, last=TIME such as last=30s, DELAY+DURATION such as 10s+5s, steps=A:B, "
      "nvtx:NAME or cuda-profiler");
  Window window;
  if (value == "auto") {
    window.kind = Window::Kind::kAuto;
  } else if (value == "all") {
    window.kind = Window::Kind::kAll;
  } else if (value == "none") {
    window.kind = Window::Kind::kNone;
  } else if (value.starts_with("last=")) {
    absl::StatusOr<absl::Duration> duration = ParseDuration(value.substr(5));
    if (!duration.ok()) return expected;
    if (*duration < absl::Milliseconds(100) || *duration > absl::Hours(24)) {
      return Expected("last=TIME with a time from 100ms to 24h");
    }
    window = {Window::Kind::kLast, absl::ZeroDuration(), *duration};
  } else if (value.starts_with("steps=")) {
    const std::string_view range = value.substr(6);
    const size_t colon = range.find(':');
    const auto number = [](std::string_view text, int64_t* step) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *step);
      return error == std::errc() && end == text.data() + text.size() && *step >= 0;
    };
    window.kind = Window::Kind::kSteps;
    if (colon == std::string_view::npos || !number(range.substr(0, colon), &window.first_step) ||
        !number(range.substr(colon + 1), &window.last_step) || window.first_step > window.last_step) {
      return Expected("steps=A:B with two numbers of steps, A not above B");
    }
  } else if (value.starts_with("nvtx:")) {
    window.kind = Window::Kind::kNvtx;
    window.range = std::string(value.substr(5));
    if (window.range.empty() || window.range.size() > kMaxAnnotationName) {
      return Expected(StrCat("nvtx:NAME with the name of a range, of at most ", kMaxAnnotationName, " bytes"));
    }
  } else if (value == "cuda-profiler") {
    window.kind = Window::Kind::kCudaProfiler;
  } else {
    const size_t plus = value.find('+');
    if (plus == std::string_view::npos) return expected;
    absl::StatusOr<absl::Duration> delay = ParseDuration(value.substr(0, plus));
    absl::StatusOr<absl::Duration> duration = ParseDuration(value.substr(plus + 1));
    if (!delay.ok() || !duration.ok() || *duration <= absl::ZeroDuration()) return expected;
    window = {Window::Kind::kRange, *delay, *duration};
  }
  options.window = window;
  return absl::OkStatus();
}

template <absl::Duration Options::*field>
absl::Status SetWindowLength(Options& options, std::string_view value) {
  absl::StatusOr<absl::Duration> duration = ParseDuration(value);
  if (!duration.ok()) return duration.status();
  if (*duration < absl::Milliseconds(1) || *duration > absl::Nanoseconds(kMaxWindowNs)) {
    return Expected("a duration from 1ms to 10m");
  }
  options.*field = *duration;
  return absl::OkStatus();
}

absl::Status SetDelay(Options& options, std::string_view value) {
  absl::StatusOr<absl::Duration> delay = ParseDuration(value);
  if (!delay.ok()) return delay.status();
  if (*delay > absl::Hours(1)) return Expected("a duration of at most 1h");
  options.capture_delay = *delay;
  return absl::OkStatus();
}

struct FamilyName {
  std::string_view name;
  uint32_t bit;
};
constexpr FamilyName kFamilies[] = {
    {"thread", kFamilyThread},   {"lock", kFamilyLock},     {"sleep", kFamilySleep}, {"io", kFamilyIo},
    {"process", kFamilyProcess}, {"malloc", kFamilyMalloc}, {"gpu", kFamilyGpu},     {"annotation", kFamilyAnnotation}};

template <auto field>
absl::Status SetRanks(Options& options, std::string_view value) {
  const std::string text(value);
  RankChoice choice;
  if (!ParseRankChoice(text.c_str(), &choice) || text.size() != value.size()) {
    return Expected("auto, all, numbers (0,8,16 or 0-7), every:8, node-first or random:2%SEED");
  }
  options.*field = text;
  return absl::OkStatus();
}

absl::Status SetPrintRanks(Options& options, std::string_view value) {
  options.print_ranks.clear();
  return value.empty() ? absl::OkStatus() : SetRanks<&Options::print_ranks>(options, value);
}

absl::Status SetRankWait(Options& options, std::string_view value) {
  return Assign(options.rank_wait, ParseDuration(value));
}

absl::Status SetPublishTimeout(Options& options, std::string_view value) {
  absl::StatusOr<absl::Duration> limit = ParseDuration(value);
  if (!limit.ok()) return limit.status();
  if (*limit < absl::Milliseconds(100)) return Expected("at least 100ms");
  options.publish_timeout = *limit;
  return absl::OkStatus();
}

absl::Status SetTrace(Options& options, std::string_view value) {
  uint32_t families = 0;
  std::vector<std::string> names = {"all", "none"};
  std::string families_text;
  for (const FamilyName& family : kFamilies) {
    names.emplace_back(family.name);
    families_text += StrCat(families_text.empty() ? "" : ", ", family.name);
  }
  const std::vector<std::string_view> words = Split(value, ',');
  for (std::string_view word : words) {
    word = Strip(word);
    if (word == "all") {
      families |= kFamilyAll;
      continue;
    }
    if (word == "none" && words.size() == 1) continue;
    bool known = false;
    for (const FamilyName& family : kFamilies) {
      if (word != family.name) continue;
      families |= family.bit;
      known = true;
    }
    if (known) continue;
    const std::string near = NearestName(word, names);
    return Expected(StrCat("a list of ", families_text, "; or all; or none",
                           near.empty() ? "" : StrCat(" (did you mean ", near, "?)")));
  }
  options.families = families;
  return absl::OkStatus();
}

absl::Status SetStepMarker(Options& options, std::string_view value) {
  options.step_marker = value;
  if (const absl::Status status = CheckStepMarker(options.step_marker); !status.ok()) {
    return Expected(std::string(status.message()));
  }
  return absl::OkStatus();
}

absl::Status SetMalloc(Options& options, std::string_view value) {
  if (value != "sampled" && value != "exact" && value != "off") return Expected("sampled, exact or off");
  options.malloc = value == "sampled" ? MallocMode::kSampled : value == "exact" ? MallocMode::kExact : MallocMode::kOff;
  return absl::OkStatus();
}

// Sets a member from one of a few words.
template <auto member, typename Value, size_t count>
absl::Status SetWord(Options& options, std::string_view value, const std::pair<std::string_view, Value> (&words)[count],
                     std::string_view expected) {
  for (const auto& [word, meaning] : words) {
    if (value != word) continue;
    options.*member = meaning;
    return absl::OkStatus();
  }
  return Expected(expected);
}

absl::Status SetCuda(Options& options, std::string_view value) {
  static constexpr std::pair<std::string_view, Cuda> kWays[] = {
      {"auto", Cuda::kAuto}, {"cupti", Cuda::kCupti}, {"hooks", Cuda::kHooks}, {"off", Cuda::kOff}};
  return SetWord<&Options::cuda>(options, value, kWays, "auto, cupti, hooks or off");
}

absl::Status SetTorch(Options& options, std::string_view value) {
  static constexpr std::pair<std::string_view, Torch> kLevels[] = {
      {"ops", Torch::kOperations}, {"all", Torch::kAll}, {"steps", Torch::kSteps}, {"off", Torch::kOff}};
  return SetWord<&Options::torch>(options, value, kLevels, "ops, all, steps or off");
}

absl::Status SetCudaGraphs(Options& options, std::string_view value) {
  if (value != "node" && value != "graph") return Expected("node or graph");
  options.whole_cuda_graphs = value == "graph";
  return absl::OkStatus();
}

absl::Status SetWaitThreshold(Options& options, std::string_view value) {
  const absl::StatusOr<absl::Duration> threshold = ParseDuration(value);
  if (!threshold.ok()) return threshold.status();
  options.wait_threshold_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(*threshold));
  return absl::OkStatus();
}

absl::Status SetSpoolLimit(Options& options, std::string_view value) {
  return value.empty() ? absl::OkStatus() : Assign(options.spool_limit, ParseSize(value));
}

absl::Status SetSummaryJson(Options& options, std::string_view value) {
  options.summary_json.clear();
  options.summary_json_fd = -1;
  if (!value.starts_with("fd:")) return SetPath<&Options::summary_json>(options, value);
  const std::string_view digits = value.substr(3);
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0) {
    return Expected("a path or fd:N, N being the number of an open descriptor");
  }
  options.summary_json_fd = number;
  return absl::OkStatus();
}

absl::Status SetFollow(Options& options, std::string_view value) {
  if (value == "children") {
    options.follow = Follow::kChildren;
  } else if (value == "all") {
    options.follow = Follow::kAll;
  } else if (value == "none") {
    options.follow = Follow::kNone;
  } else {
    return Expected("children, all or none");
  }
  return absl::OkStatus();
}

absl::Status SetSummary(Options& options, std::string_view value) {
  if (value != "short" && value != "full") return Expected("short or full");
  options.full_summary = value == "full";
  return absl::OkStatus();
}

absl::Status SetOnError(Options& options, std::string_view value) {
  if (value != "stop" && value != "run") return Expected("stop or run");
  options.on_error = value == "stop" ? OnError::kStop : OnError::kRun;
  return absl::OkStatus();
}

absl::Status SetCaptureSignal(Options& options, std::string_view value) {
  if (value == "USR1" || value == "SIGUSR1") {
    options.capture_signal = SIGUSR1;
  } else if (value == "USR2" || value == "SIGUSR2") {
    options.capture_signal = SIGUSR2;
  } else if (value == "none") {
    options.capture_signal = 0;
  } else {
    return Expected("USR1, USR2 or none");
  }
  return absl::OkStatus();
}

absl::Status SetPort(Options& options, std::string_view value) {
  options.port = -1;
  if (value.empty() || value == "none") return absl::OkStatus();
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), options.port);
  if (error != std::errc() || end != value.data() + value.size() || options.port < 0 || options.port > 65535) {
    return Expected("a port from 1 to 65535, 0 for one that is free, or none");
  }
  return absl::OkStatus();
}

absl::Status SetListen(Options& options, std::string_view value) {
  options.listen.clear();
  for (std::string_view word : Split(value, ',')) {
    word = Strip(word);
    if (word == "localhost") {
      options.listen.insert(options.listen.end(), {"127.0.0.1", "::1"});
    } else if (word == "all") {
      options.listen.insert(options.listen.end(), {"0.0.0.0", "::"});
    } else if (!word.empty()) {
      options.listen.emplace_back(word);
    }
  }
  return options.listen.empty() ? Expected("localhost, all, or a list of IPv4 and IPv6 addresses") : absl::OkStatus();
}

absl::Status SetPortUsers(Options& options, std::string_view value) {
  return Assign(options.port_users, ParsePortUsers(value));
}

absl::Status SetAlso(Options& options, std::string_view value) {
  options.also.clear();
  for (std::string_view word : Split(value, ',')) {
    if (!Strip(word).empty()) options.also.emplace_back(Strip(word));
  }
  return absl::OkStatus();
}

template <std::vector<std::string> Options::*field>
absl::Status SetTexts(Options& options, std::string_view value) {
  (options.*field).clear();
  for (const std::string_view text : Split(value, kBetweenValues)) (options.*field).emplace_back(text);
  return absl::OkStatus();
}

// Conditions for values from ./tbprof.toml.
bool RecordsWholeRun(const Options& options) {
  return options.window.kind == Window::Kind::kAuto || options.window.kind == Window::Kind::kAll;
}
bool RecordsTorchOperations(const Options& options) {
  return options.torch == Torch::kOperations || options.torch == Torch::kAll;
}
bool RecordsMalloc(const Options& options) { return options.malloc != MallocMode::kOff; }
bool SamplesStacks(const Options& options) { return options.sample_rate >= kDefaultSampleRate; }

// Nothing to set: the files are read before the rows are applied.
absl::Status SetConfig(Options&, std::string_view) { return absl::OkStatus(); }

constexpr uint64_t kNoLimit = uint64_t{1} << 62;
constexpr uint32_t kForOutput = kForRun | kForConvert | kForRecover | kForAttach;
constexpr uint32_t kForAll = kForOutput | kForConfig;

constexpr OptionRow kRows[] = {
    {"logdir", "DIR", "./tbprof-logs", "Directory that TensorBoard is pointed at; made if missing",
     kForOutput | kForCheck | kForConfig | kForDoctor | kForCapture | kForMerge | kForReport | kForCompare | kForAb |
         kForBaseline,
     SetPath<&Options::logdir>, InProject::kOnlyBelow},
    {"run", "NAME", "", "Name of the run in TensorBoard; without it, the job's number or the local time",
     kForOutput | kForConfig | kForCapture | kForMerge | kForReport, SetRun, InProject::kAllowed},
    {"ranks", "WHICH", "auto",
     "Ranks recorded: all, 0,8,16, 0-7, every:8, node-first, random:2%SEED; auto: all up to 16", kForRun | kForConfig,
     SetRanks<&Options::ranks>},
    {"print-ranks", "WHICH", "", "With a tbprof per rank: ranks whose tbprof prints; without it, the lowest recorded",
     kForRun | kForConfig, SetPrintRanks},
    {"rank-wait", "TIME", "5s",
     "With a tbprof per rank: how long the one that prints waits at its end for the others' files",
     kForRun | kForConfig, SetRankWait},
    {"publish-timeout", "TIME", "30s",
     "If a file server does not answer for this long, the profile goes to a local log directory; a local disk has ten "
     "times as long",
     kForRun | kForAttach | kForConfig, SetPublishTimeout},
    {"window", "WHEN", "auto",
     "What is recorded: auto (all; the first 30 s and the 20 s from 2 minutes on get profiles of their own; of "
     "a run too large for one profile the last 30 s follow at its end), all, none, last=TIME (last=30s), "
     "DELAY+DURATION (10s+5s), steps=A:B (steps=10:20, as the profile numbers "
     "them), nvtx:NAME (each time the program is in an NVTX range of that name) or cuda-profiler (from "
     "cudaProfilerStart to cudaProfilerStop)",
     kForRun | kForConfig, SetWindow, InProject::kOnlyMore, RecordsWholeRun},
    {"window-duration", "TIME", "3s", "Length of a capture that a signal starts", kForRun | kForConfig,
     SetWindowLength<&Options::window_duration>},
    {"duration", "TIME", "2s", "Length of the capture; attach: how long it samples, 10s without it",
     kForCapture | kForAttach, SetWindowLength<&Options::capture_duration>},
    {"delay", "TIME", "0", "From now to the start of the window, the same for all workers", kForCapture, SetDelay},
    {"retries", "N", "3", "Further attempts if a worker is unreachable or busy", kForCapture,
     SetNumber<&Options::retries, 0, 100>},
    {"cuda", "HOW", "auto",
     "How GPU work is recorded: cupti; hooks, with approximate device times; auto (CUPTI, else hooks); off",
     kForRun | kForConfig, SetCuda},
    {"cuda-graphs", "LEVEL", "node", "Record a CUDA graph as its nodes (node) or as a whole (graph), which costs less",
     kForRun | kForConfig, SetCudaGraphs},
    {"cuda-unified-memory", "", "false",
     "Record page faults and migrations of unified (managed) memory, which costs time", kForRun | kForConfig,
     SetSwitch<&Options::cuda_unified_memory>, InProject::kAllowed},
    {"require-gpu", "", "false", "Exit 3 when no GPU kernel was recorded though the command succeeded",
     kForRun | kForConfig, SetSwitch<&Options::require_gpu>},
    {"xla-annotations", "", "false",
     "Record XLA's own annotations (NVTX domain TSL); the program's own jax.profiler then misses them",
     kForRun | kForConfig, SetSwitch<&Options::xla_annotations>},
    {"torch", "LEVEL", "ops",
     "What is recorded of PyTorch, in tested releases: ops (steps and operations; operations are sampled to keep "
     "their cost under 1 %), all (every operation), steps (optimizers, data loaders and named ranges) or off",
     kForRun | kForConfig, SetTorch, InProject::kOnlyMore, RecordsTorchOperations},
    {"torch-shapes", "", "false", "Record the input shapes of PyTorch operations, at a cost for each",
     kForRun | kForConfig, SetSwitch<&Options::torch_shapes>, InProject::kAllowed},
    {"trace", "LIST", "all", "What to record: thread, lock, sleep, io, process, malloc, gpu, annotation; all; none",
     kForRun | kForConfig, SetTrace},
    {"malloc", "MODE", "sampled",
     "Allocator: sampled (stacks of sampled bytes; all calls are counted), exact (every block is recorded) or off",
     kForRun | kForConfig, SetMalloc, InProject::kOnlyMore, RecordsMalloc},
    {"malloc-interval", "SIZE", "512KiB", "Mean number of bytes that a thread allocates between two samples",
     kForRun | kForConfig, SetSize<&Options::malloc_interval, 1, OptionMaximum::malloc_interval>},
    {"malloc-stamp-every", "N", "16", "--malloc=exact: every Nth call of a thread gets a timestamp; 1: all",
     kForRun | kForConfig, SetNumber<&Options::malloc_stamp_every, 1, OptionMaximum::malloc_stamp_every>},
    {"sample-rate", "HZ", "100",
     "Python stack samples per thread and second, and native stack samples per second of CPU time; 0, or "
     "--trace=none: none; at most 1000; attach: 250 without it",
     kForRun | kForAttach | kForConfig, SetNumber<&Options::sample_rate, 0, 1000>, InProject::kOnlyMore, SamplesStacks},
    {"wait-threshold", "TIME", "1us", "Waits and calls shorter than this are counted but not drawn",
     kForRun | kForConfig, SetWaitThreshold},
    {"max-profile-size", "SIZE", "64MiB",
     "Largest profile file of each rank; above it the shortest events are counted but not drawn", kForAll,
     SetSize<&Options::max_profile_size, 64 << 10, kNoLimit>},
    {"step-marker", "REGEX", "",
     "Annotations (NVTX), else kernels, whose names match are the steps, else a loop with that line of Python "
     "(train.py:42); by default annotations like `step 12`",
     kForOutput | kForConfig | kForCapture, SetStepMarker, InProject::kAllowed},
    {"spool-dir", "DIR", "", "Where raw records are kept until they are converted; by default, tbprof chooses",
     kForRun | kForAttach | kForConfig | kForDoctor, SetPath<&Options::spool_dir>},
    {"spool-limit", "SIZE", "",
     "Largest spool, all parts together; by default half of the free space, at most 2 GiB with --window=auto, at most "
     "256 MiB in memory",
     kForRun | kForAttach | kForConfig, SetSpoolLimit},
    {"spool-rate", "SIZE", "100MiB",
     "Spool per minute to aim at: beyond it the allocator is sampled less often (totals stay exact); 0: no limit",
     kForRun | kForConfig, SetSize<&Options::spool_rate, 0, kNoLimit>},
    {"keep-spool", "", "false", "Keep the raw records after conversion", kForAll, SetSwitch<&Options::keep_spool>},
    {"summary-json", "PATH", "", "Write summary.json (docs/summary.md) there too; fd:N for an open descriptor", kForAll,
     SetSummaryJson},
    {"follow", "WHICH", "children", "Processes recorded: children, all (daemons too) or none (the command alone)",
     kForRun | kForAttach | kForConfig, SetFollow},
    {"summary", "WHAT", "short", "Lines at the end: short (verdict first, at most 16) or full (all tables)", kForAll,
     SetSummary},
    {"quiet", "", "false", "Print errors only",
     kForAll | kForCapture | kForMerge | kForReport | kForCompare | kForAb | kForBaseline, SetSwitch<&Options::quiet>},
    {"log-file", "FILE", "", "Append every line of tbprof to this file as well", kForAll | kForCapture | kForMerge,
     SetPath<&Options::log_file>},
    {"on-error", "WHAT", "stop", "When profiling can't be set up: stop (exit 125) or run (unprofiled)",
     kForRun | kForConfig, SetOnError},
    {"capture-signal", "SIGNAL", "USR1", "Signal that asks for a capture: USR1, USR2 or none", kForRun | kForConfig,
     SetCaptureSignal},
    {"port", "N", "",
     "Serve captures to TensorBoard's Capture profile, tf.profiler's client and `tbprof capture` at this port; 0: a "
     "free one, printed at the start",
     kForRun | kForConfig, SetPort},
    {"listen", "LIST", "localhost",
     "Addresses of the port: localhost, all, or IP addresses; whoever reaches them may take a profile",
     kForRun | kForConfig, SetListen},
    {"port-users", "LIST", "same",
     "Users of this machine that the port serves: same (the user of the job, and root), any, or numbers of users who "
     "are served as well",
     kForRun | kForConfig, SetPortUsers},
    {"tls-cert", "FILE", "", "Certificate (PEM) of the port: other addresses than loopback then need TLS",
     kForRun | kForConfig, SetPath<&Options::tls_cert>},
    {"tls-key", "FILE", "", "Private key (PEM) of --tls-cert, that no other user can read", kForRun | kForConfig,
     SetPath<&Options::tls_key>},
    {"tls-ca", "FILE", "",
     "Certificates (PEM) that a port may have; all addresses but loopback are then connected to by TLS", kForCapture,
     SetPath<&Options::tls_ca>},
    {"also", "LIST", "", "Further outputs: perfetto; of sampled stacks: folded, speedscope, flamegraph", kForAll,
     SetAlso, InProject::kAllowed},
    {"no-argv", "", "false", "Keep command lines out of the profile", kForRun | kForAttach | kForConfig,
     SetInverseSwitch<&Options::record_argv>, InProject::kOnlyOn},
    {"strict", "", "false",
     "Exit 125 when the profile could not be written though the command succeeded; doctor: 1 for a note or a warning",
     kForAll | kForDoctor, SetSwitch<&Options::strict>},
    {"buffer-size", "SIZE", "256MiB",
     "Memory shared with each recorded program for records in flight; by default at most 5 % of a container's limit",
     kForRun | kForConfig | kForDoctor,
     SetSize<&Options::segment_size, uint64_t{kMinChunks} * kChunkBytes, uint64_t{kMaxChunks} * kChunkBytes>},
    {"python", "PATH", "", "Python in which TensorBoard is looked for; by default the command's, else the active one",
     kForDoctor, SetPath<&Options::python>},
    {"base", "WHAT", "",
     "compare: a profile, summary.json, run (directory or name), log directory (all its runs) or baseline:NAME, "
     "repeatable; ab: the command",
     kForCompare | kForAb, SetTexts<&Options::base_runs>, InProject::kNever, nullptr, true},
    {"new", "WHAT", "", "The new side, likewise", kForCompare | kForAb, SetTexts<&Options::new_runs>, InProject::kNever,
     nullptr, true},
    {"margin", "SHARE", "3%",
     "The largest change of the step time that may be equivalent; a significant one is worse or better",
     kForCompare | kForAb | kForRun, SetMargin},
    {"pairs", "N", "40", "Most runs of each command", kForAb, SetNumber<&Options::pairs, kFewestPairs, kMostPairs>},
    {"max-time", "DURATION", "", "Start no pair that would not end within this time", kForAb, SetMaxTime},
    {"baseline", "NAME", "", "Compare the run with this baseline; exit 3 if it is worse", kForRun, SetBaseline},
    {"fail-on", "RULE", "", "Exit 1 (run: 3) if this rule fails; repeatable: 'step_time>+3%', 'kernels_per_step!=0%'",
     kForCompare | kForAb | kForRun, SetTexts<&Options::fail_on>, InProject::kNever, nullptr, true},
    {"unclear", "HOW", "",
     "Exit status of `cannot tell`: fail (2, the default) or pass (0); run: fail (3), pass without it",
     kForCompare | kForAb | kForRun, SetUnclear},
    {"any-program", "", "false", "Compare runs of different programs, too", kForCompare | kForRun,
     SetSwitch<&Options::any_program>},
    {"annotations", "", "false", "Print annotations for GitHub Actions", kForCompare | kForAb,
     SetSwitch<&Options::annotations>},
    {"json", "", "false", "Print the result as JSON",
     kForCheck | kForDoctor | kForStatus | kForReport | kForCompare | kForAb | kForBaseline, SetSwitch<&Options::json>},
    {"store", "PATH", ".tbprof-baselines",
     "Where baselines are kept: a directory with one file each, or one file for all if PATH ends in .json",
     kForBaseline | kForCompare | kForRun, SetPath<&Options::store>},
    {"add", "", "false", "Add the runs to those that the baseline has", kForBaseline, SetSwitch<&Options::add>},
    {"keep", "N", "100", "Keep the N runs that were saved last", kForBaseline, SetNumber<&Options::keep, 1, 100>},
    {"csv", "", "false", "Print all tables as one table of comma-separated values", kForReport,
     SetSwitch<&Options::csv>},
    {"md", "", "false", "Print Markdown; report: of at most --tokens tokens", kForReport | kForCompare | kForAb,
     SetSwitch<&Options::markdown>},
    {"tokens", "N", "2000", "--md: most tokens, counted as 3 bytes each", kForReport,
     SetNumber<&Options::tokens, 100, 1'000'000>},
    {"rank", "N", "", "The rank whose details are shown; without it, the one that the terminal shows",
     kForReport | kForCompare | kForBaseline, SetRank},
    {"config", "FILE", "", "Read options from this file (TOML) before ./tbprof.toml",
     kForAll | kForCheck | kForDoctor | kForCapture | kForStatus | kForMerge | kForReport | kForCompare | kForBaseline,
     SetConfig},
};

}  // namespace

absl::Span<const OptionRow> OptionRows() { return kRows; }

std::string FamilyNames(uint32_t families) {
  if ((families & kFamilyAll) == kFamilyAll) return "all";
  std::string names;
  for (const FamilyName& family : kFamilies) {
    if ((families & family.bit) != 0) names += StrCat(names.empty() ? "" : ",", family.name);
  }
  return names.empty() ? "none" : names;
}

}  // namespace tbprof
