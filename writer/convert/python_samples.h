// SPDX-License-Identifier: Apache-2.0
//
// From the sampled Python stacks of a spool to Timeline::python: checks each entry, finds its thread, cuts it to the
// window, adds it up by stack, and makes runs and spans. The sampling status of each process and its problems are added
// to the timeline, too.
//
//   PythonSamples python(&window, &facts, &model, &stacks, &timeline);
//   python.Take(frame);             // each frame of the second pass
//   python.Finish(bytes_left);      // once
//
// Process: converter, one thread. Untrusted: all of a frame. Memory: kMostPythonRuns, beyond which samples are only
// added up, and the budget of spans.
#ifndef TBPROF_WRITER_CONVERT_PYTHON_SAMPLES_H_
#define TBPROF_WRITER_CONVERT_PYTHON_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/conservation.h"
#include "writer/convert/process_model.h"
#include "writer/convert/python_last_stacks.h"
#include "writer/convert/python_stacks.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr size_t kMostPythonRuns = 2u << 20;

class PythonSamples {
 public:
  // All must outlive this. `most_runs`: kMostPythonRuns except in tests.
  PythonSamples(const CaptureWindow* window, const SpoolFacts* facts, ProcessModel* model, PythonStacks* stacks,
                Conservation* conservation, Timeline* timeline, size_t most_runs = kMostPythonRuns)
      : window_(*window),
        facts_(*facts),
        model_(*model),
        conservation_(*conservation),
        timeline_(*timeline),
        stacks_(*stacks),
        most_runs_(most_runs) {}

  // Ignores frames that are neither samples nor names of threads.
  void Take(const Frame& frame);
  // `most_bytes`: limit of the spans in the xplane file. Returns the bytes that they take.
  uint64_t Finish(uint64_t most_bytes);

 private:
  struct RawRun {
    uint64_t first = 0, last = 0;  // ticks
    uint32_t interval_us = 0;
    uint32_t stack = 0, samples = 0, on_cpu = 0;
    bool collecting = false;  // garbage was collected in all samples that were on CPU
  };
  struct Line {
    std::vector<RawRun> runs;
    absl::flat_hash_map<uint32_t, PythonTally> tallies;  // by stack
  };

  void TakeSamples(const Frame& frame);
  void TakeName(const Frame& frame);
  void TakeSample(const PythonProcessFacts& process, uint32_t owner, const PythonSample& sample, bool collecting);
  // Returns false if none of its samples lies in the window.
  bool CutToWindow(RawRun* run) const;
  void RemoveOverlaps(std::vector<RawRun>* runs);
  void FinishThread(uint32_t thread, Line* line);
  // Names the threads to which the program gave no system name.
  void NameThreads();
  // `wall_ps`: the time that the run's samples stand for.
  void Count(const RawRun& run, int64_t wall_ps, Line* line);
  void AddProcesses();
  void AddNotes();

  const CaptureWindow& window_;
  const SpoolFacts& facts_;
  ProcessModel& model_;
  Conservation& conservation_;
  Timeline& timeline_;
  PythonStacks& stacks_;
  std::map<uint32_t, Line> lines_;                             // by index into Timeline::threads
  std::map<uint32_t, uint64_t> taken_;                         // number of samples, by index into Timeline::processes
  std::map<uint32_t, PythonLastSample> last_;                  // by index into Timeline::threads
  std::map<std::pair<uint32_t, int32_t>, std::string> names_;  // by index into Timeline::processes and tid
  size_t most_runs_, runs_ = 0;
  uint64_t corrupt_ = 0, left_out_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PYTHON_SAMPLES_H_
