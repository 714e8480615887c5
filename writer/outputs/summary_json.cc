// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <nlohmann/json.hpp>

#include "writer/base/json_values.h"
#include "writer/base/utf8.h"
#include "writer/convert/rank_json.h"
#include "writer/outputs/python_line_totals.h"
#include "writer/outputs/summary.h"
#include "writer/outputs/summary_amounts.h"
#include "writer/outputs/summary_conservation.h"
#include "writer/outputs/summary_core.h"
#include "writer/outputs/summary_memory.h"
#include "writer/outputs/summary_native.h"
#include "writer/outputs/summary_python.h"
#include "writer/outputs/summary_steps.h"
#include "writer/outputs/summary_verdict.h"
#include "writer/outputs/usage_sums.h"
#include "writer/timeline/python_place.h"
#include "writer/timeline/summary_limits.h"
#include "writer/verdict/job_crowd.h"

namespace tbprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxFrames = 32;
constexpr size_t kMaxProcesses = 1000;

std::string_view StateName(ProcessState state) {
  switch (state) {
    case ProcessState::kRecorded:
      return "recorded";
    case ProcessState::kRecordedWithoutAllocator:
      return "recorded_without_allocator";
    case ProcessState::kInert:
      return "inert";
    case ProcessState::kNotLoaded:
      return "not_loaded";
  }
  return "unknown";
}

std::string TypeName(const Timeline& timeline, uint16_t type) {
  return type < timeline.types.size() ? ValidUtf8(timeline.types[type].name) : "";
}

Json Texts(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push_back(ValidUtf8(text));
  return out;
}

// Null if allocations were not counted: their family is not traced, or the allocator is not visible.
Json AllocatorJson(const Timeline& timeline, const Process& process) {
  const AllocatorTotals& totals = process.allocator;
  if (!timeline.counts_allocator || process.state != ProcessState::kRecorded) return nullptr;
  const auto level = [&](int64_t bytes) { return KnownOrNull(totals.is_absolute, bytes); };
  return {{"allocations", totals.allocations},
          {"frees", totals.frees},
          {"allocated_bytes", totals.allocated_bytes},
          {"freed_bytes", totals.freed_bytes},
          {"change_bytes", static_cast<int64_t>(totals.allocated_bytes - totals.freed_bytes)},
          {"begin_bytes", level(totals.begin_bytes)},
          {"live_bytes", level(totals.live_bytes)},
          {"window_peak_bytes", level(totals.window_peak_bytes)},
          {"peak_bytes", level(totals.peak_bytes)},
          {"window_peak_at_least_bytes", totals.window_peak_bytes}};
}

// `train.py:42 remember`
void AddPythonLine(const Timeline& timeline, StringId python, Json* out) {
  (*out)["python"] = KnownOrNull(python != 0, timeline.strings.Get(python));
}

void AddHeapNumbers(const HeapSite& site, bool known, Json* out) {
  (*out)["calls"] = site.calls;
  (*out)["bytes"] = site.bytes;
  (*out)["temporary"] = KnownOrNull(known, site.temporary);
  (*out)["live_blocks"] = KnownOrNull(known, site.live_blocks);
  (*out)["live_bytes"] = KnownOrNull(known, site.live_bytes);
  (*out)["peak_bytes"] = KnownOrNull(known, site.peak_bytes);
}

Json ExactHeapJson(const Timeline& timeline, const ExactHeap& heap) {
  if (!heap.recorded) return nullptr;
  // If records are missing, `allocations`, `releases`, `calls` and `bytes` are lower bounds.
  const bool known = heap.lost == 0;
  Json sites = Json::array();
  for (size_t i = 0; i < std::min(kSummaryRows, heap.sites.size()); ++i) {
    const HeapSite& site = heap.sites[i];
    sites.push_back({{"call_site", timeline.strings.Get(site.site)}});
    AddHeapNumbers(site, known, &sites.back());
    AddPythonLine(timeline, site.python, &sites.back());
  }
  Json out = {{"complete", known},
              {"lost_at_least", heap.lost},
              {"allocations", heap.allocations},
              {"releases", heap.releases},
              {"releases_of_earlier_blocks", KnownOrNull(known, heap.earlier)},
              {"ambiguous", heap.ambiguous},
              {"not_followed", heap.not_followed},
              {"temporary", KnownOrNull(known, heap.temporary)},
              {"live_blocks", KnownOrNull(known, heap.live_blocks)},
              {"live_bytes", KnownOrNull(known, heap.live_bytes)},
              {"peak_bytes", KnownOrNull(known, heap.peak_bytes)},
              {"peak_s", KnownOrNull(known, Seconds(heap.peak_ps))},
              {"time_error_s", Seconds(heap.widest_ps)},
              {"site_count", heap.sites.size()},
              {"sites", std::move(sites)}};
  Json lines = Json::array();
  for (const HeapSite& line : HeapByPythonLine(heap, /*all=*/false)) {
    if (lines.size() == kSummaryRows) break;
    lines.push_back({{"python", timeline.strings.Get(line.python)}});
    AddHeapNumbers(line, known, &lines.back());
  }
  out["python_lines"] = std::move(lines);
  return out;
}

Json GpuJson(const Timeline& timeline, const GpuDevice& device) {
  const double whole = static_cast<double>(timeline.totals_ps > 0 ? timeline.totals_ps : timeline.duration_ps);
  Json kernels = Json::array();
  for (size_t i = 0; i < std::min(kSummaryRows, device.kernel_totals.size()); ++i) {
    const GpuKernelTotal& kernel = device.kernel_totals[i];
    const auto mangled = timeline.mangled_names.find(kernel.name);
    kernels.push_back(
        {{"name", timeline.strings.Get(kernel.name)},
         {"mangled", timeline.strings.Get(mangled == timeline.mangled_names.end() ? kernel.name : mangled->second)},
         {"calls", kernel.calls},
         {"total_s", Seconds(kernel.total_ps)},
         {"mean_s", Seconds(kernel.total_ps) / static_cast<double>(std::max<uint64_t>(kernel.calls, 1))},
         {"longest_s", Seconds(kernel.longest_ps)}});
  }
  Json copies = Json::array();
  for (const GpuCopyTotal& copy : device.copy_totals) {
    const double seconds = Seconds(copy.total_ps);
    copies.push_back(
        {{"name", copy.name},
         {"calls", copy.calls},
         {"bytes", copy.bytes},
         {"total_s", seconds},
         {"bytes_per_s", KnownOrNull(seconds > 0, seconds > 0 ? static_cast<double>(copy.bytes) / seconds : 0.0)}});
  }
  Json unified = Json::array();
  for (const GpuUnifiedTotal& total : device.unified_totals) {
    unified.push_back({{"name", total.name},
                       {"calls", total.calls},
                       {"bytes", KnownOrNull(total.is_bytes, total.value)},
                       {"count", KnownOrNull(!total.is_bytes, total.value)},
                       {"total_s", Seconds(total.total_ps)}});
  }
  return {{"number", device.number},
          {"name", ValidUtf8(device.name)},
          {"uuid", KnownOrNull(!device.uuid.empty(), device.uuid)},
          {"partition", device.is_partition},
          {"memory_bytes", KnownOrNull(device.has_facts, device.memory_bytes)},
          {"multiprocessors", KnownOrNull(device.has_facts, device.multiprocessors)},
          {"compute_capability", KnownOrNull(device.has_facts, std::to_string(device.compute_major) + "." +
                                                                   std::to_string(device.compute_minor))},
          {"busy_s", Seconds(device.busy_ps)},
          {"busy_share", whole > 0 ? static_cast<double>(device.busy_ps) / whole : 0.0},
          {"busy_share_in_steps", KnownOrNull(device.busy_in_steps_share >= 0, device.busy_in_steps_share)},
          {"kernels", device.kernels},
          {"kernel_s", Seconds(device.kernel_ps)},
          {"collective_s", Seconds(device.collective_ps)},
          {"kernel_names", device.kernel_totals.size()},
          {"top_kernels", std::move(kernels)},
          {"copies", std::move(copies)},
          {"unified_memory", std::move(unified)},
          {"graphs", device.graphs},
          {"waits", device.waits},
          {"waited_s", Seconds(device.waited_ps)},
          {"peak_bytes", device.peak_bytes},
          {"live_bytes", device.live_bytes},
          {"untimed", device.untimed},
          {"unfinished", device.unfinished},
          {"uncertain", device.uncertain}};
}

Json ProcessGpuJson(const ProcessGpu& gpu) {
  std::string_view state;
  switch (gpu.recording) {
    case GpuRecording::kNotUsed:
      return nullptr;
    case GpuRecording::kRecorded:
      state = "recorded";
      break;
    case GpuRecording::kPaused:
      state = "recorded_with_gaps";
      break;
    case GpuRecording::kUnavailable:
      state = "unavailable";
      break;
  }
  Json gaps = Json::array();
  for (const GpuGap& gap : gpu.gaps) {
    gaps.push_back({{"start_s", Seconds(gap.start_ps)},
                    {"end_s", Seconds(gap.end_ps)},
                    {"reason", ValidUtf8(gap.reason)},
                    {"first_call", ValidUtf8(gap.first_call)},
                    {"caller_module", ValidUtf8(gap.caller_module)},
                    {"left", gap.left},
                    {"remedy", gap.remedy}});
  }
  return {{"state", state},
          {"reason", ValidUtf8(gpu.reason)},
          {"library", ValidUtf8(gpu.library)},
          {"versions", ValidUtf8(gpu.versions)},
          {"tried", Texts(gpu.tried)},
          {"missing_kinds", Texts(gpu.missing_kinds)},
          {"approximate", ValidUtf8(gpu.approximate)},
          {"gaps", std::move(gaps)},
          {"host_page_faults", gpu.host_page_faults},
          {"launches", gpu.launches},
          {"records", gpu.records},
          {"dropped", gpu.dropped},
          {"unknown", gpu.unknown},
          {"unread_bytes", gpu.unread_bytes},
          {"lost_at_end_s", KnownOrNull(gpu.lost_at_end_ps >= 0, Seconds(gpu.lost_at_end_ps))}};
}

Json ProcessJson(const Timeline& timeline, const Process& process) {
  Json operations = Json::array();
  for (const OperationTotal& total : process.operations) {
    Json operation = {{"operation", TypeName(timeline, total.type)},
                      {"calls", total.calls},
                      {"recorded", total.recorded},
                      {"total_s", Seconds(total.total_ps)},
                      {"longest_s", Seconds(total.longest_ps)},
                      {"self_s", KnownOrNull(total.self_ps >= 0, Seconds(total.self_ps))},
                      {"estimated", total.estimated}};
    operations.push_back(std::move(operation));
  }
  Json torch;
  if (const TorchSampled& sampled = process.torch; sampled.recorded + sampled.skipped > 0) {
    const auto all = static_cast<double>(sampled.recorded + sampled.skipped);
    torch = {{"recorded", sampled.recorded},
             {"skipped", sampled.skipped},
             {"skipped_is_estimated", true},
             {"recorded_share", static_cast<double>(sampled.recorded) / all}};
  }
  return {{"pid", process.pid},
          {"parent", KnownOrNull(process.parent >= 0, process.parent)},
          {"name", ValidUtf8(process.name)},
          {"executable", ValidUtf8(process.executable)},
          {"arguments", Texts(process.arguments)},
          {"is_command", process.is_command},
          {"forked", process.forked},
          {"replaced_by_exec", process.replaced},
          {"start_s", Seconds(process.start_ps)},
          {"end_s", Seconds(process.end_ps)},
          {"started_ticks", KnownOrNull(process.started_ticks != 0, process.started_ticks)},
          {"exit_code", KnownOrNull(process.exit_code >= 0, process.exit_code)},
          {"exit_signal", KnownOrNull(process.exit_signal != 0, process.exit_signal)},
          {"rank", KnownOrNull(process.rank >= 0, process.rank)},
          {"local_rank", KnownOrNull(process.local_rank >= 0, process.local_rank)},
          {"world_size", KnownOrNull(process.world_size >= 0, process.world_size)},
          {"state", StateName(process.state)},
          {"reason", ValidUtf8(process.reason)},
          {"records", process.records},
          {"allocator", AllocatorJson(timeline, process)},
          {"exact_heap", ExactHeapJson(timeline, process.exact_heap)},
          {"gpu", ProcessGpuJson(process.gpu)},
          {"pytorch_operations", std::move(torch)},
          {"operations", std::move(operations)}};
}

Json WaitSites(const Timeline& timeline) {
  Json out = Json::array();
  for (size_t i = 0; i < std::min(kSummaryRows, timeline.wait_sites.size()); ++i) {
    const CallSiteTotal& site = timeline.wait_sites[i];
    out.push_back({{"call_site", timeline.strings.Get(site.site)},
                   {"operation", TypeName(timeline, site.type)},
                   {"calls", site.calls},
                   {"total_s", Seconds(site.total_ps)},
                   {"longest_s", Seconds(site.longest_ps)}});
    AddPythonLine(timeline, site.python, &out.back());
  }
  return out;
}

Json AllocationSites(const Timeline& timeline) {
  Json out = Json::array();
  for (size_t i = 0; i < std::min(kSummaryRows, timeline.allocation_sites.size()); ++i) {
    const AllocationSiteTotal& site = timeline.allocation_sites[i];
    Json frames = Json::array();
    for (size_t frame = 0; frame < std::min(kMaxFrames, site.frames.size()); ++frame) {
      frames.push_back(timeline.strings.Get(site.frames[frame]));
    }
    out.push_back({{"frames", std::move(frames)}, {"samples", site.samples}, {"bytes_estimate", site.bytes}});
    AddPythonLine(timeline, site.python, &out.back());
    Json& stack = out.back()["python_stack"];
    if (site.python_stack != 0) stack = Json::array();
    for (uint32_t at = site.python_stack; at != 0 && stack.size() < kMaxFrames;
         at = timeline.python.stacks[at].parent) {
      stack.push_back(PythonFrameText(timeline, timeline.python.stacks[at]));
    }
  }
  return out;
}

// Tables by Python line; empty if no lines are known.
void AddPythonLines(const Timeline& timeline, Json* out) {
  Json waits = Json::array();
  for (const PythonLineWait& line : WaitsByPythonLine(timeline)) {
    if (waits.size() == kSummaryRows) break;
    waits.push_back({{"python", timeline.strings.Get(line.python)},
                     {"calls", line.calls},
                     {"total_s", Seconds(line.total_ps)},
                     {"longest_s", Seconds(line.longest_ps)}});
  }
  (*out)["waits_by_python_line"] = std::move(waits);
  Json allocations = Json::array();
  for (const PythonLineAllocations& line : AllocationsByPythonLine(timeline)) {
    if (allocations.size() == kSummaryRows) break;
    allocations.push_back(
        {{"python", timeline.strings.Get(line.python)}, {"samples", line.samples}, {"bytes_estimate", line.bytes}});
  }
  (*out)["allocations_by_python_line"] = std::move(allocations);
}

// The command, where it ran, and when.
void AddRun(const Timeline& timeline, const SummaryOptions& options, Json* out) {
  (*out)["schema_version"] = kSummarySchemaVersion;
  (*out)["tbprof_version"] = KnownOrNull(!options.version.empty(), options.version);
  (*out)["command"] = {
      {"line", ValidUtf8(timeline.command_line)},
      {"running", timeline.Runs() && !timeline.command_ended},
      {"attached", timeline.attached},
      {"exit_code", KnownOrNull(timeline.exit_code >= 0 && timeline.exit_signal == 0, timeline.exit_code)},
      {"exit_signal", KnownOrNull(timeline.exit_signal != 0, timeline.exit_signal)}};
  (*out)["host"] = ValidUtf8(timeline.host);
  (*out)["run"] = ValidUtf8(timeline.run);
  (*out)["logdir"] = ValidUtf8(options.logdir);
  (*out)["window"] = ValidUtf8(timeline.window);
  (*out)["rank"] = KnownOrNull(timeline.rank >= 0, timeline.rank);
  (*out)["ranks"] = timeline.ranks;
  (*out)["world_size"] = KnownOrNull(timeline.world_size >= 0, timeline.world_size);
  (*out)["ranks_recorded"] = ValidUtf8(timeline.ranks_recorded);
  (*out)["missing_ranks"] =
      KnownOrNull(timeline.world_size >= 0 || timeline.by_rank.empty(), Json(timeline.missing_ranks));
  (*out)["by_rank"] = Json::array();
  for (const RankReport& report : timeline.by_rank) (*out)["by_rank"].push_back(RankReportJson(report));
  (*out)["complete"] = timeline.IsWhole() && timeline.errors.empty();
  (*out)["start_unix_ns"] = timeline.origin_unix_ns;
  (*out)["wall_s"] = Seconds(timeline.duration_ps);
  // The time that the totals cover, if the timeline shows only the end of it.
  (*out)["totals_wall_s"] = KnownOrNull(timeline.totals_ps > 0, Seconds(timeline.totals_ps));
  (*out)["user_cpu_s"] = KnownOrNull(timeline.user_cpu_seconds >= 0, timeline.user_cpu_seconds);
  (*out)["system_cpu_s"] = KnownOrNull(timeline.system_cpu_seconds >= 0, timeline.system_cpu_seconds);
  const double cpus = CpusOf(timeline.cpu_limits);
  (*out)["cpus_allowed"] = KnownOrNull(cpus > 0, cpus);
  const double others_wait_s = static_cast<double>(timeline.cpu_of_others.run_delay_ps) / 1e12;
  (*out)["cpu_wait_s"] = KnownOrNull(!timeline.usage.empty(), SumsOfThreads(timeline).wait_s + others_wait_s);
}

void AddFiles(const std::vector<PublishedFile>& files, Json* out) {
  (*out)["published"] = !files.empty();
  (*out)["files"] = Json::array();
  for (const PublishedFile& file : files) {
    (*out)["files"].push_back({{"path", ValidUtf8(file.path)},
                               {"bytes", file.bytes},
                               {"verified", KnownOrNull(!file.verified.empty(), file.verified)}});
  }
}

// How much was recorded, how much of it is drawn, and the cost of recording.
void AddRecords(const Timeline& timeline, const SummaryOptions& options, Json* out) {
  uint64_t drawn = 0;
  for (const Thread& thread : timeline.threads) drawn += thread.events.size();
  for (const GpuStream& stream : timeline.gpu_streams) drawn += stream.events.size();
  Json dropped = Json::object();
  for (const DropCount& drop : timeline.drops) {
    Json& count = dropped[ValidUtf8(drop.cause)];
    count = (count.is_null() ? uint64_t{0} : count.get<uint64_t>()) + drop.records;
  }
  (*out)["records"] = {{"decoded", timeline.records},
                       {"drawn", drawn},
                       {"over_budget", timeline.events_over_budget},
                       {"corrupt", timeline.corrupt_records},
                       {"not_kept", timeline.records_not_kept},
                       {"dropped", std::move(dropped)}};
  (*out)["budget"] = {{"shortest_drawn_s", Seconds(timeline.shortest_shown_ps)},
                      {"all_drawn_from_s", Seconds(timeline.all_shown_from_ps)},
                      {"shortest_on_gpu_drawn_s", Seconds(timeline.shortest_gpu_shown_ps)},
                      {"all_on_gpu_drawn_from_s", Seconds(timeline.all_gpu_shown_from_ps)},
                      {"full_detail_from_s", Seconds(timeline.full_detail.start_ps)},
                      {"full_detail_to_s", Seconds(timeline.full_detail.end_ps)}};
  (*out)["overhead"] = {{"cpu_s", timeline.own_cost_seconds},
                        {"before_command_s", KnownOrNull(options.seconds_before >= 0, options.seconds_before)},
                        {"after_command_s", KnownOrNull(options.seconds_after >= 0, options.seconds_after)}};
}

void AddDiagnostics(const Timeline& timeline, Json* out) {
  (*out)["errors"] = Texts(timeline.errors);
  (*out)["unrecorded"] = Json::array();
  for (const UnrecordedProgram& program : timeline.unrecorded) {
    (*out)["unrecorded"].push_back({{"path", ValidUtf8(program.path)},
                                    {"state", StateName(program.state)},
                                    {"reason", ValidUtf8(program.reason)},
                                    {"count", program.count},
                                    {"pids", program.pids}});
  }
  (*out)["warnings"] = Texts(timeline.rank_warnings);
  for (const std::string& text : timeline.warnings) (*out)["warnings"].push_back(ValidUtf8(text));
  (*out)["notes"] = Texts(timeline.notes);
}

}  // namespace

std::string SummaryJson(const Timeline& timeline, const std::vector<PublishedFile>& files,
                        const SummaryOptions& options) {
  Json out;
  AddRun(timeline, options, &out);
  out["machine"] = MachineJson(timeline);
  AddFiles(files, &out);
  AddRecords(timeline, options, &out);
  out["verdict"] = VerdictJson(timeline);
  out["conservation"] = ConservationJson(timeline);
  out["steps"] = StepsJson(timeline);
  out["step_counts"] = StepCountsJson(timeline);
  out["operations"] = StepOperationsJson(timeline);
  out["gpus"] = Json::array();
  for (const GpuDevice& device : timeline.gpu_devices) out["gpus"].push_back(GpuJson(timeline, device));
  out["python"] = PythonJson(timeline);
  out["native"] = NativeJson(timeline);
  out["cores"] = CoresJson(timeline);
  out["wait_sites"] = WaitSites(timeline);
  out["allocation_sites"] = AllocationSites(timeline);
  AddPythonLines(timeline, &out);
  out["memory"] = MemoryJson(timeline);

  out["threads"] = timeline.ThreadCount();
  out["process_count"] = timeline.ProcessCount();
  out["processes"] = Json::array();
  for (size_t i = 0; i < std::min(kMaxProcesses, timeline.processes.size()); ++i) {
    if (timeline.processes[i].is_unrecorded) continue;
    out["processes"].push_back(ProcessJson(timeline, timeline.processes[i]));
  }
  AddDiagnostics(timeline, &out);
  return out.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tbprof
