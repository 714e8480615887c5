// SPDX-License-Identifier: Apache-2.0
//
// A summary.json that has each field that `tbprof report` reads.
#ifndef TBPROF_TESTS_UNIT_LAUNCHER_REPORT_MAKER_H_
#define TBPROF_TESTS_UNIT_LAUNCHER_REPORT_MAKER_H_

#include <nlohmann/json.hpp>
#include <string>

#include "launcher/report/report_reader.h"

namespace tbprof {

inline nlohmann::json MakeSummary() {
  return nlohmann::json::parse(R"json({
    "schema_version": 1, "tbprof_version": "0.1.0", "host": "vm", "run": "r1", "logdir": "/l", "window": "auto",
    "command": {"line": "python train.py --api-key=hunter2 --epochs=3", "running": false, "exit_code": 0,
                "exit_signal": null},
    "rank": 1, "complete": true, "wall_s": 6.6, "totals_wall_s": null, "process_count": 1,
    "missing_ranks": [], "ranks": [0, 1],
    "by_rank": [
      {"rank": 0, "host": "vm_r0", "state": "ended", "exit_code": 0, "exit_signal": null, "pid": 7,
       "steps": {"count": 60, "irregular": 2, "source": "Optimizer.step", "confidence": 0.9, "median_s": 0.02},
       "wait_s": 1.5, "wait_sites": [{"operation": "poll", "call_site": "f (a.c:1)", "calls": 3, "total_s": 1.5,
       "longest_s": 1.0}], "heap_peak_bytes": 1000, "verdict": "85 % of the step: waits for collectives",
       "cause": "collectives", "collectives_share": 0.85,
       "busiest": {"file": "/a/train.py", "line": 7, "function": "fill"}},
      {"rank": 1, "host": "vm", "state": "running", "exit_code": null, "exit_signal": 9, "pid": 8, "steps": null,
       "wait_s": 2.5, "wait_sites": [], "heap_peak_bytes": null}],
    "verdict": {"text": "62 % of the step: waits for a thread that prepares its data, at train.py:41 main",
      "cause": "prefetch_thread", "problem": true, "part": "input", "share": 0.62, "unknown_because": null,
      "blocker": "thread prefetch, in sleep at data.py:17 fetch", "next": "start more of these threads",
      "where": [
        {"role": "spends", "file": "/x/train.py", "line": 41, "function": "main", "doing": "queue.get", "share": 0.6,
         "pid": 8, "thread": null, "callers": [{"file": "/x/train.py", "line": 90, "function": "run"}]},
        {"role": "waited_for", "file": "/x/data.py", "line": 17, "function": "fetch", "doing": "sleep", "share": 0.9,
         "pid": 8, "thread": "prefetch", "callers": []}],
      "facts": ["that thread is busy for 98 % of the wait"],
      "split": {"basis": "steps", "steps": 60, "steps_s": 3.1, "parts": [{"part": "input", "share": 0.62, "s": 1.9},
        {"part": "python", "share": 0.3, "s": 0.9}, {"part": "gil", "share": 0.01, "s": 0.03}],
        "limits": ["CPU time of the thread: not known"]}},
    "steps": {"known": true, "unknown_because": null, "count": 60, "irregular": 2, "source": "Optimizer.step",
      "confidence": 0.95, "median_s": 0.0521, "shortest_s": 0.05, "longest_s": 0.07, "input_wait_share": 0.6},
    "python": {"processes": [{"pid": 8, "state": "sampled", "reason": ""}, {"pid": 9, "state": "refused",
      "reason": "ptrace is denied"}],
      "groups": [
        {"process": "train.py", "forked": false, "main": false, "threads": "idle", "thread_count": 4, "samples": 90,
         "wall_s": 9.0, "on_cpu_s": 0.01, "top_lines": [], "phases": null},
        {"process": "train.py", "forked": false, "main": true, "threads": "main", "thread_count": 1, "samples": 600,
         "wall_s": 6.0, "on_cpu_s": 5.0, "top_lines": [],
         "phases": [{"phase": "steps", "samples": 500, "wall_s": 5.0, "on_cpu_s": 4.5, "top_lines": [
           {"file": "/x/train.py", "line": 41, "function": "main", "self_samples": 300, "self_s": 3.0,
            "self_on_cpu_s": 2.0, "total_s": 4.0},
           {"file": "/x/we,ird \"name\".py", "line": null, "function": "f|g`h", "self_samples": 10, "self_s": 0.1,
            "self_on_cpu_s": 0.1, "total_s": 0.1}]}]}],
      "gil": [
        {"process": "train.py", "pid": 8, "samples": 200, "held_s": 2.0, "thread_count": 2,
         "top_threads": [{"samples": 150}, {"samples": 50}],
         "top_lines": [{"file": "/lib/heapq.py", "line": 1, "function": "nlargest", "samples": 120, "held_s": 1.2}],
         "top_own_lines": [{"file": "/x/nms.py", "line": 5, "function": "nms", "samples": 130, "held_s": 1.2}]},
        {"process": "data.py", "pid": 9, "samples": 100, "held_s": 1.0, "thread_count": 2,
         "top_threads": [{"samples": 99}, {"samples": 1}],
         "top_lines": [{"file": "/x/alone.py", "line": 7, "function": "alone", "samples": 99, "held_s": 0.99}]}]},
    "native": {"processes": [{"pid": 8, "state": "sampled", "reason": ""}],
      "groups": [{"process": "train.py", "forked": false, "main": true, "threads": "main", "thread_count": 1,
        "samples": 300, "cpu_s": 3.0, "top_self": [{"function": "sgemm_kernel", "module": "libblas.so",
        "self_samples": 200, "self_cpu_s": 2.0, "total_cpu_s": 2.1}], "phases": null}]},
    "wait_sites": [
      {"operation": "sem_wait", "call_site": "PyThread_acquire_lock (t.h:4)", "python": "train.py:41 main", "calls": 60,
       "total_s": 3.1, "longest_s": 0.2},
      {"operation": "pthread_cond_wait", "call_site": "blas_thread_server (libscipy_openblas64_.so)", "python": null,
       "calls": 1, "total_s": 5.9, "longest_s": 5.9}],
    "gpus": [{"number": 0, "name": "H100", "busy_s": 2.0, "busy_share": 0.3, "busy_share_in_steps": 0.4, "kernels": 500,
      "kernel_s": 1.9, "collective_s": 0.1, "peak_bytes": 4096, "top_kernels": [{"name": "gemm", "calls": 500,
      "total_s": 1.9}], "copies": [{"name": "HtoD", "calls": 5, "total_s": 0.1, "bytes": 1024}]}],
    "memory": {"unreleased_bytes": 77, "text": ["grows by 1.00 MiB a step", "peak 3.00 GiB of heap"]},
    "allocation_sites": [{"frames": ["malloc_it (a.c:2)"], "samples": 2, "bytes_estimate": 500.5, "python": null},
      {"frames": ["grow (b.c:3)"], "samples": 1, "bytes_estimate": 9000, "python": "train.py:50 load"},
      {"frames": ["grow2 (b.c:4)"], "samples": 1, "bytes_estimate": 1000, "python": "train.py:50 load"}],
    "processes": [{"pid": 8, "name": "train.py", "allocator": {"allocations": 10, "allocated_bytes": 20000,
      "live_bytes": 300, "peak_bytes": 9999}}],
    "records": {"dropped": {"segment full": 12}},
    "unrecorded": [{"path": "/bin/static", "reason": "static program"}],
    "errors": ["one error"], "warnings": ["one warning"], "notes": ["one note"]
  })json");
}

inline absl::StatusOr<Report> ReportOf(const nlohmann::json& summary, std::optional<int64_t> rank = std::nullopt) {
  ReportSource source;
  source.path = "/l/plugins/profile/r1/summary.json";
  source.run = "/l/plugins/profile/r1";
  source.summaries = {source.path};
  return ReportOfText(summary.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), source, rank);
}

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_LAUNCHER_REPORT_MAKER_H_
