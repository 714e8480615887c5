// SPDX-License-Identifier: Apache-2.0
//
// Samples the Python stacks of all recorded processes. Runs in its own thread, and emits frames of the spool.
//
//   StackSampler sampler({.clock = clock, .rate = 100}, emit);   // see sampler.h
//
// The stack of a thread that has not run since the last sample is not read again. If sampling uses more than
// `max_cpu_share` of the machine's CPU, the rate is lowered, and raised again later. Only the read of a page of the
// target may wait for the target.
//
// Process: launcher. Only the sampler's thread calls `emit`.
#ifndef TBPROF_LAUNCHER_SAMPLING_STACK_SAMPLER_H_
#define TBPROF_LAUNCHER_SAMPLING_STACK_SAMPLER_H_

#include "launcher/sampling/sampled_process.h"
#include "launcher/sampling/sampler.h"

namespace tbprof {

class StackSampler : public Sampler {
 public:
  StackSampler(const SamplerOptions& options, EmitFrame emit);
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_STACK_SAMPLER_H_
