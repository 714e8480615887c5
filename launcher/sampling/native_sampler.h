// SPDX-License-Identifier: Apache-2.0
//
// Samples the native stacks of all threads of the recorded processes while they use CPU, with the kernel's perf events.
// Runs in its own thread with low priority, and emits frames of the spool.
//
//   NativeSampler sampler({.clock = clock, .rate = 100}, emit);   // see sampler.h
//
// If sampling uses more than `max_cpu_share` of the machine's CPU, the rate is lowered, and raised again later.
//
// Process: launcher. Only the sampler's thread calls `emit`.
#ifndef TBPROF_LAUNCHER_SAMPLING_NATIVE_SAMPLER_H_
#define TBPROF_LAUNCHER_SAMPLING_NATIVE_SAMPLER_H_

#include "launcher/sampling/sampled_process.h"
#include "launcher/sampling/sampler.h"

namespace tbprof {

class NativeSampler : public Sampler {
 public:
  NativeSampler(const SamplerOptions& options, EmitFrame emit);
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_NATIVE_SAMPLER_H_
