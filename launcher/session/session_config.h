// SPDX-License-Identifier: Apache-2.0
//
// The configuration of a session: the options of the run that recording needs.
//
// Process: launcher. Plain data.
#ifndef TBPROF_LAUNCHER_SESSION_SESSION_CONFIG_H_
#define TBPROF_LAUNCHER_SESSION_SESSION_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "wire/rendezvous.h"
#include "writer/convert/session_facts.h"

namespace tbprof {

// The fields of SessionOptions are rows of wire/settings.def.
struct SessionConfig : SessionOptions {
  std::vector<std::string> command;
  std::string logdir;  // absolute
  int logdir_fd = -1;  // of `logdir`, open while the session lives; -1: opened by its path
  std::string run;
  bool run_exclusive = true;
  std::string host;
  std::string spool_dir;     // absolute; empty: <logdir>/.tbprof if that is on a local disk, else a local directory
  uint64_t spool_limit = 0;  // 0: half of the free space, at most 2 GiB if the run may be split
  uint64_t spool_rate = 0;   // raw bytes a minute that allocator samples are adapted to; 0: no limit
  bool keep_spool = false;   // published records stay while there is room
  bool everything = true;    // the run's own window keeps all of the run
  uint64_t split_ns = 0;     // not 0: a spool that gets too large keeps its start and the last split_ns
  uint64_t last_ns = 0;      // the run's window keeps the last last_ns; 0: not used
  uint64_t long_span_ns = 100'000;
  bool armed_at_start = true;
  bool record_arguments = true;
  bool only_command = false;  // --follow=none
  bool attached = false;      // `tbprof attach`
  int capture_signal = 0;     // handled in targets that leave it at its default; 0: none
  uint32_t gpu_options = 0;   // GpuOption
  TriggerKind trigger = TriggerKind::kNone;
  uint64_t trigger_name = 0;  // kRange: NameNumberOf of the range's name
  uint64_t segment_bytes = 256u << 20;
  std::string window;  // --window as given, for the profile
  int rank = -1;       // the launcher's own, from `scheduler`, an index of wire/ranks.h
  int scheduler = -1;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SESSION_CONFIG_H_
