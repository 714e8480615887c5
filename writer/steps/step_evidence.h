// SPDX-License-Identifier: Apache-2.0
//
// Whether steps that were found in a program's calls can be those of a training. Compilers, test suites, servers and
// scripts repeat their calls as well; what they do in each repetition differs: they start programs, open and write
// files, serve sockets, or do something else each time.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_STEP_EVIDENCE_H_
#define TBPROF_WRITER_STEPS_STEP_EVIDENCE_H_

#include <cstdint>
#include <string_view>

#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Of the regular steps: shares are of their number, unless another base is named.
struct StepEvidence {
  double covered = 0;         // of the time from the process's first recorded call to its last
  double dense = 0;           // of the time from the first step to the last
  double with_processes = 0;  // start or await a program
  double with_files = 0;      // open a file
  double with_writes = 0;     // write to something other than standard output and error, or wait for a disk
  double with_reads = 0;      // read something
  double with_sockets = 0;    // accept, send, receive or wait for descriptors
  double waiting = 0;         // of the main thread's time: for input, output, a clock or a child
  double meeting = 0;         // two threads and more wait at a barrier
  double alike = -1;          // median share of large allocations and reads in common with the step before; -1: none
  double numeric = -1;        // NumPy takes memory; -1: no allocation of a Python line is recorded in most of them
  NumericLibrary library = NumericLibrary::kNone;
};
StepEvidence MeasureSteps(const Timeline& timeline, uint32_t process, const StepDetection& found);

// Why steps that were found in calls are not shown.
enum class StepDoubt : uint8_t {
  kNone,           // they are
  kProcesses,      // programs are started
  kFiles,          // files are opened, read or written
  kSockets,        // sockets, pipes or descriptors in general are waited for
  kWaits,          // the main thread mostly waits
  kOtherEachTime,  // each step does something else
  kSmallPart,      // the loop is a small part of the recorded time
  kAnyLoop,        // nothing that trains is loaded or used, and no threads meet
};
StepDoubt DoubtOf(const StepEvidence& evidence);

// For people, behind `steps unknown: `.
std::string_view TextOf(StepDoubt doubt);

// By the name of a library's file, as the process has loaded it.
NumericLibrary NumericLibraryOf(std::string_view path);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_STEP_EVIDENCE_H_
