// SPDX-License-Identifier: Apache-2.0
#include "writer/outputs/summary_heap.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "writer/base/saturating.h"
#include "writer/base/utf8.h"
#include "writer/outputs/native_place.h"
#include "writer/outputs/python_line_totals.h"

namespace tbprof {
namespace {

// The Python line comes first, if there is one.
std::string PlaceOf(const Timeline& timeline, StringId python, const std::string& native) {
  return python == 0 ? native : StrCat(PrintableUtf8(timeline.strings.Get(python)), ", via ", native);
}

// Threads add their counts to the process's counts about every 64 KiB, so smaller peaks are inexact.
std::string PeakText(int64_t bytes) {
  return bytes < 64 * 1024 ? "under 64 KiB" : HumanBytes(static_cast<double>(bytes));
}

std::string ProcessLabel(const Process& process) {
  return StrCat(PrintableUtf8(process.name.empty() ? process.executable : process.name), " (", process.pid, ")");
}

// The peak of the whole process. It includes blocks from before the window, which belong to no place.
std::string PeakOf(const Process& process) {
  const ExactHeap& heap = process.exact_heap;
  const AllocatorTotals& totals = process.allocator;
  const auto bytes = [](int64_t count) { return HumanBytes(static_cast<double>(std::max<int64_t>(count, 0))); };
  if (!totals.is_absolute) return StrCat("peak at least ", bytes(heap.peak_bytes), " (without older blocks)");
  if (totals.begin_bytes <= 0) return StrCat("peak ", bytes(heap.peak_bytes));
  int64_t peak = totals.begin_bytes;
  AddSaturating(&peak, heap.peak_bytes);
  return StrCat("peak ", bytes(peak), " (", bytes(heap.peak_bytes), " since the start)");
}

// The results of --malloc=exact for the process with the largest heap.
void AddExactHeap(const Timeline& timeline, size_t columns, Section* out) {
  const Process* largest = nullptr;
  size_t recorded = 0;
  for (const Process& process : timeline.processes) {
    if (!process.exact_heap.recorded) continue;
    ++recorded;
    if (largest == nullptr || process.exact_heap.peak_bytes > largest->exact_heap.peak_bytes) largest = &process;
  }
  if (largest == nullptr) return;
  const ExactHeap& heap = largest->exact_heap;
  const auto bytes = [](int64_t count) { return HumanBytes(static_cast<double>(std::max<int64_t>(count, 0))); };
  const bool known = heap.lost == 0;
  std::string heading =
      StrCat("each block", recorded > 1 ? StrCat(" of ", FitColumns(ProcessLabel(*largest), 30)) : "", "  ");
  if (known) {
    StrAppend(&heading, PeakOf(*largest), " at ", HumanTime(heap.peak_ps), ", ",
              Plural(heap.live_blocks, "block", "blocks"), " left, ", HumanCount(heap.temporary), " temporary");
  } else {
    StrAppend(&heading, "incomplete, ", HumanCount(heap.lost), " or more records lost: peaks and blocks left unknown");
  }
  if (heap.ambiguous > 0) StrAppend(&heading, ", ", heap.ambiguous, " ambiguous");
  if (heap.not_followed > 0) StrAppend(&heading, ", ", heap.not_followed, " not followed");
  out->push_back({std::move(heading), known ? Style::kHeading : Style::kWarning});
  out->push_back({known ? "       at peak      left     calls  temporary  place"
                        : "       at peak      left  calls >=  temporary  place",
                  Style::kColumns});
  const std::vector<HeapSite> sites = HeapByPythonLine(heap, /*all=*/true);
  for (size_t i = 0; i < std::min(kTopRows, sites.size()); ++i) {
    const HeapSite& site = sites[i];
    const double share = site.calls > 0 ? static_cast<double>(site.temporary) / static_cast<double>(site.calls) : 0;
    std::string numbers = absl::StrFormat("    %10s%10s%10s%11s  ", known ? bytes(site.peak_bytes) : "?",
                                          known ? bytes(site.live_bytes) : "?", HumanCount(site.calls),
                                          known ? HumanPercent(share) : "?");
    const size_t used = Utf8Columns(numbers);
    const std::string native = PrintableUtf8(ShortFrame(timeline.strings.Get(site.site)));
    out->push_back({StrCat(numbers, FitColumns(PlaceOf(timeline, site.python, native),
                                               columns > used ? columns - used : 1, /*keep_end=*/false))});
  }
}

std::string HeapLevelText(const Process& process) {
  const AllocatorTotals& heap = process.allocator;
  if (!heap.is_absolute) {
    return StrCat("live bytes not known: its start was not recorded; peak at least ", PeakText(heap.window_peak_bytes));
  }
  const bool was_there = process.start_ps <= 0 && heap.begin_bytes > 0;
  return StrCat("live at the end ", HumanBytes(static_cast<double>(heap.live_bytes)), "; peak ",
                was_there ? "in this window " : "", PeakText(heap.window_peak_bytes),
                was_there ? StrCat(", since its start ", PeakText(heap.peak_bytes)) : "");
}

}  // namespace

Section HeapSection(const Timeline& timeline, size_t columns) {
  Section out;
  AllocatorTotals all;
  const Process* largest = nullptr;
  size_t counted = 0;
  for (const Process& process : timeline.processes) {
    all.allocations += process.allocator.allocations;
    all.frees += process.allocator.frees;
    all.allocated_bytes += process.allocator.allocated_bytes;
    const bool called = process.allocator.allocations + process.allocator.frees > 0;
    if (!called && (!process.allocator.is_absolute || process.allocator.live_bytes == 0)) continue;
    ++counted;
    const auto peak = [](const Process& of) {
      return std::max(of.allocator.window_peak_bytes, of.allocator.live_bytes);
    };
    if (largest == nullptr || peak(process) > peak(*largest)) largest = &process;
  }
  if (largest == nullptr) return out;
  constexpr size_t kNameColumns = 30;
  out.push_back(
      {StrCat("heap  ", Plural(all.allocations, "allocation", "allocations"), ", ",
              HumanBytes(static_cast<double>(all.allocated_bytes)), " in all, ", Plural(all.frees, "free", "frees"),
              ", by ",
              counted == 1 ? FitColumns(ProcessLabel(*largest), kNameColumns) : StrCat("all ", counted, " processes"),
              OfRank(timeline, " of rank ")),
       Style::kHeading});
  out.push_back(
      {StrCat("      ", counted == 1 ? "" : StrCat("largest: ", FitColumns(ProcessLabel(*largest), kNameColumns), ": "),
              HeapLevelText(*largest))});
  AddExactHeap(timeline, columns, &out);
  // Different allocator frames below one place are one line here; summary.json lists them separately.
  struct Place {
    std::string key, text;
    double bytes;
  };
  std::vector<Place> places;
  for (const AllocationSiteTotal& site : timeline.allocation_sites) {
    if (site.frames.empty()) continue;
    const std::string native = NativePlace(timeline, site.frames);
    // Sites are sorted: the site with the most bytes supplies the native function of a line.
    std::string key = site.python == 0 ? native : timeline.strings.Get(site.python);
    const auto known = std::find_if(places.begin(), places.end(), [&](const Place& place) { return place.key == key; });
    if (known != places.end()) {
      known->bytes += site.bytes;
    } else {
      places.push_back({std::move(key), PlaceOf(timeline, site.python, native), site.bytes});
    }
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.bytes > b.bytes; });
  if (!places.empty())
    out.push_back(
        {"        estimate   share  allocated at (estimated from samples of all allocated bytes)", Style::kColumns});
  const size_t last = out.size() + kTopRows;
  for (const auto& [key, place, bytes] : places) {
    if (out.size() >= last) break;
    std::string numbers = absl::StrFormat("      %10s", HumanBytes(bytes));
    if (all.allocated_bytes > 0) {
      // An estimate from samples can exceed the whole.
      const double share = std::min(1.0, bytes / static_cast<double>(all.allocated_bytes));
      absl::StrAppendFormat(&numbers, "%8s", HumanPercent(share));
    }
    const size_t used = Utf8Columns(numbers) + 2;
    out.push_back({StrCat(numbers, "  ", FitColumns(place, columns > used ? columns - used : 1, /*keep_end=*/false))});
  }
  return out;
}

}  // namespace tbprof
