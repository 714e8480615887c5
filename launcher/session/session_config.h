// SPDX-License-Identifier: Apache-2.0
//
// What a session is made of: the run's options, as far as recording needs them.
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
  int logdir_fd = -1;  // the same, open while the session lives; -1: opened by its path
  std::string run;
  bool run_exclusive = true;
  std::string host;
  std::string spool_dir;     // absolute; empty: <logdir>/.tbprof, or a directory on a disk where that is in memory
  uint64_t spool_limit = 0;  // 0: half of what is free, 2 GiB where the run may be split
  uint64_t spool_rate = 0;   // bytes a minute that allocator samples are adapted to; 0: none
  bool keep_spool = false;   // what was published stays, as long as there is room
  bool everything = true;    // the run's own window keeps all of it
  uint64_t split_ns = 0;     // not 0: when the spool gets too large, what is there and the last so much of it
  uint64_t last_ns = 0;      // it keeps the last so much; 0: no such window
  uint64_t long_span_ns = 100'000;
  bool armed_at_start = true;
  bool record_arguments = true;
  bool only_command = false;  // --follow=none
  int capture_signal = 0;     // caught in targets that leave it at its default; 0: none
  uint32_t gpu_options = 0;   // GpuOption
  TriggerKind trigger = TriggerKind::kNone;
  uint64_t trigger_name = 0;  // kRange: NameNumberOf it
  uint64_t segment_bytes = 256u << 20;
  std::string window;  // as given, for the profile
  int rank = -1;       // the launcher's own, by that scheduler of wire/ranks.h
  int scheduler = -1;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SESSION_SESSION_CONFIG_H_
