// SPDX-License-Identifier: Apache-2.0
//
// The processes and threads of the shown window, and the lines of the host: maps the identities of a spool to indices
// into the timeline. A fork child and the program that it execs are one process with one main thread.
//
// Process: converter, one thread. Untrusted: everything that processes and threads reported.
#ifndef TBPROF_WRITER_CONVERT_PROCESS_MODEL_H_
#define TBPROF_WRITER_CONVERT_PROCESS_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "writer/convert/capture_window.h"
#include "writer/convert/host_events.h"
#include "writer/convert/ranks.h"
#include "writer/spool/exec_images.h"
#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

class ProcessModel {
 public:
  // All must outlive this.
  ProcessModel(const CaptureWindow* window, SpoolFacts* facts, Timeline* timeline)
      : window_(*window), facts_(*facts), timeline_(*timeline) {}

  // Fills Timeline::processes. `wanted_rank`: see Ranks::Choose.
  void AddProcesses(int wanted_rank, Ranks* ranks);
  // Fills Timeline::threads.
  void AddThreads(HostEvents* events);

  // kNoProcess, kNoLine: not shown.
  uint32_t IndexOfProcess(const Identity& identity);
  uint32_t IndexOfThread(const Identity& identity);
  const std::map<Identity, uint32_t>& processes() const { return process_index_; }
  const absl::flat_hash_map<Identity, uint32_t>& threads() const { return thread_index_; }
  const ExecImages& images() const { return images_; }

  // A fork child that later became another program: exec discarded its heap and its threads.
  bool IsForkedImage(const Identity& identity) const {
    return facts_.processes.at(identity).forked && images_.after.contains(identity);
  }
  // Whether the thread continues on the line of such a fork child's thread.
  bool IsContinued(const Identity& thread) const { return continued_.contains(thread); }

  // Whether a thread of the program had `tid`.
  bool HasThread(uint32_t process, int32_t tid) const { return threads_of_tid_.contains({process, tid}); }
  // The thread that had `tid` at `ticks`; a separate line if none is known. kNoLine: there are too many.
  uint32_t LineOfThread(uint32_t process, int32_t tid, uint64_t ticks);
  // A line that belongs to no thread, created if needed; kNoLine: there are too many.
  uint32_t LineOf(uint32_t process, const std::string& name);

  // The process whose steps are shown: the process that used a device most; else the command, or, if that only waits
  // for a child (a shell, a launcher), the child that lived longest. `device_ps`: time on devices by process.
  uint32_t ProcessOfInterest(const std::map<uint32_t, int64_t>& device_ps) const;

 private:
  struct ThreadLife {
    uint64_t start, end;  // ticks
    uint32_t index;
  };

  Process MakeProcess(const Identity& identity, const Ranks& ranks);
  bool HasForkedImage(const Identity& identity) const;
  void MarkCommand();
  int ParentOf(const Identity& identity, uint32_t index) const;
  static bool IsMainThread(const ThreadFacts& thread, const ProcessFacts& process);
  void AddThread(const Identity& identity, HostEvents* events);
  bool ContinueThread(const Identity& identity, const Identity& owner);
  void AddLife(const Identity& identity, const Identity& owner, uint32_t index);
  int LongestChildOf(uint32_t process) const;
  uint32_t LastImageOf(uint32_t process) const;

  const CaptureWindow& window_;
  SpoolFacts& facts_;
  Timeline& timeline_;
  ExecImages images_;
  std::map<Identity, uint32_t> process_index_;
  absl::flat_hash_map<Identity, uint32_t> thread_index_;
  // The latest lookups: most lookups repeat the one before.
  std::pair<Identity, uint32_t> last_process_{{}, kNoProcess};
  std::pair<Identity, uint32_t> last_thread_{{}, kNoLine};
  std::map<Identity, uint32_t> main_threads_;  // of fork children before their exec
  std::set<Identity> continued_;
  std::map<std::pair<uint32_t, int32_t>, std::vector<ThreadLife>> threads_of_tid_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> lines_;  // that belong to no thread
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_PROCESS_MODEL_H_
