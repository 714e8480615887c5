// SPDX-License-Identifier: Apache-2.0
//
// Decides whether steps that were found in a program's calls can be those of a training. Compilers, test suites,
// servers and scripts also repeat their calls, but each repetition starts programs, opens and writes files, serves
// sockets, or does different work.
//
// Process: converter.
#ifndef TBPROF_WRITER_STEPS_STEP_EVIDENCE_H_
#define TBPROF_WRITER_STEPS_STEP_EVIDENCE_H_

#include <cstdint>
#include <string_view>

#include "writer/steps/step_detector.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

// Measurements of the regular steps. Shares are of the number of steps, unless the comment names another base.
struct StepEvidence {
  double covered = 0;         // the steps' share of the time from the process's first recorded call to its last
  double dense = 0;           // the steps' share of the time from the first step to the last
  double with_processes = 0;  // steps that start or await a program
  double with_files = 0;      // steps that open a file
  double with_writes = 0;     // steps that write to anything but standard output and error, or wait for a disk
  double with_reads = 0;      // steps that read
  double with_sockets = 0;    // steps that accept, send, receive or wait for descriptors
  double waiting = 0;         // share of the steps' time: the main thread waits for input, output, a clock or a child
  double meeting = 0;         // steps in which two or more threads wait at a barrier
  double alike = -1;          // median share of large allocations and reads in common with the step before; -1: none
  double numeric = -1;        // steps in which NumPy allocates; -1: most have no recorded allocation of a Python line
  NumericLibrary library = NumericLibrary::kNone;
};
StepEvidence MeasureSteps(const Timeline& timeline, uint32_t process, const StepDetection& found);

// Why steps that were found in calls are not shown.
enum class StepDoubt : uint8_t {
  kNone,           // they are shown
  kProcesses,      // programs are started
  kFiles,          // files are opened, read or written
  kSockets,        // the steps wait for sockets, pipes or other descriptors
  kWaits,          // the main thread mostly waits
  kOtherEachTime,  // each step does something else
  kSmallPart,      // the loop is a small part of the recorded time
  kAnyLoop,        // nothing that trains is loaded or used, and no threads meet
};
StepDoubt DoubtOf(const StepEvidence& evidence);

// Text for the user, behind `steps unknown: `.
std::string_view TextOf(StepDoubt doubt);

// Classifies a library by the name of its file, as the process has loaded it.
NumericLibrary NumericLibraryOf(std::string_view path);

}  // namespace tbprof

#endif  // TBPROF_WRITER_STEPS_STEP_EVIDENCE_H_
