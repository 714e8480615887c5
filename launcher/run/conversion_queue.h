// SPDX-License-Identifier: Apache-2.0
//
// Runs the conversions of a run's windows, two at a time: starts them, handles their results, and publishes to a local
// directory if the log directory does not respond.
//
//   ConversionQueue queue(&context, &logdir, &session, &captures);
//   queue.CloseAndConvert(window);
//   while (...) { queue.AppendWatched(&fds); ppoll(...); queue.TakeResults(); }
//
// Process: launcher, main thread.
#ifndef TBPROF_LAUNCHER_RUN_CONVERSION_QUEUE_H_
#define TBPROF_LAUNCHER_RUN_CONVERSION_QUEUE_H_

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "launcher/capture/capture_manager.h"
#include "launcher/convert/conversion.h"
#include "launcher/run/run_context.h"
#include "launcher/run/run_logdir.h"
#include "launcher/session/session.h"

namespace tbprof {

class ConversionQueue {
 public:
  ConversionQueue(RunContext* context, RunLogdir* logdir, Session* session, CaptureManager* captures)
      : context_(*context),
        options_(context->options),
        terminal_(context->terminal),
        logdir_(*logdir),
        session_(session),
        captures_(captures) {}

  // Converts `window` with all records made until now.
  void Convert(uint32_t window);
  void CloseAndConvert(uint32_t window);
  // Converts `window` with the records that are in the spool now.
  void Enqueue(uint32_t window);
  // The profile of the run's own window shows only these steps.
  void ShowSteps(int64_t first, int64_t last) { first_step_ = first, last_step_ = last; }
  // Finds these steps in the records of the run's own window so far. False: the conversion could not be started.
  bool FindSteps(int64_t first, int64_t last, std::function<void(const ConversionResult&)> found);

  void AppendWatched(std::vector<pollfd>* fds) const;
  void TakeResults();
  bool empty() const { return conversions_.empty(); }
  bool Has(pid_t pid) const;
  size_t UnwrittenCaptures() const;
  const Conversion& first() const { return *conversions_.front(); }

  // The command has ended: raises running conversions to the launcher's priority and drops searches for steps.
  void RaisePriorities();
  // Kills all conversions without waiting for them: some may hang in the kernel.
  void Abandon();
  // Kills all conversions and drops those that have not begun.
  void Stop();

  const ConversionResult& summary() const { return summary_; }
  void PrintSummary();
  bool printed_summary() const { return printed_summary_; }
  void Fail(const absl::Status& status);
  bool failed() const { return failed_; }

 private:
  static bool IsOfRun(uint32_t window) { return window == 0 || window == kEndWindow; }
  static bool IsLookForSteps(const ConversionRequest& request);
  void FlushBeforeConversion();
  void StartConversions();
  void SetSpool(ConversionRequest* request);
  void SetRanks(ConversionRequest* request) const;
  void AddWarnings(ConversionRequest* request);
  void StartConversion(uint32_t window);
  void NotConverted(const ConversionRequest& request, const absl::Status& status);
  void TakeResult(const ConversionRequest& request, const ConversionResult& result);
  void PublishLocally(ConversionRequest request);

  RunContext& context_;
  const Options& options_;
  Terminal& terminal_;
  RunLogdir& logdir_;
  Session* const session_;
  CaptureManager* const captures_;
  std::list<std::unique_ptr<Conversion>> conversions_;
  std::deque<uint32_t> waiting_;  // windows whose conversion has not begun
  std::function<void(const ConversionResult&)> found_steps_;
  int64_t first_step_ = -1, last_step_ = -1;
  ConversionResult summary_;
  bool printed_summary_ = false;
  bool failed_ = false;
  uint64_t printed_not_kept_ = 0;
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_RUN_CONVERSION_QUEUE_H_
