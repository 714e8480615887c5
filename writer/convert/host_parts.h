// SPDX-License-Identifier: Apache-2.0
//
// The parts of the conversion that build the host lines, in one struct for code that adds events to them.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_HOST_PARTS_H_
#define TBPROF_WRITER_CONVERT_HOST_PARTS_H_

#include "writer/convert/call_totals.h"
#include "writer/convert/conservation.h"
#include "writer/convert/event_types.h"
#include "writer/convert/host_events.h"
#include "writer/convert/process_model.h"
#include "writer/convert/process_modules.h"

namespace tbprof {

// All must outlive their users.
struct HostParts {
  EventTypes* types;
  ProcessModel* model;
  ProcessModules* modules;
  CallTotals* totals;
  HostEvents* events;
  Conservation* conservation;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_HOST_PARTS_H_
