// SPDX-License-Identifier: Apache-2.0
//
// What the GPU part of the conversion needs of the host's lines.
//
// Process: converter, one thread.
#ifndef TBPROF_WRITER_CONVERT_HOST_LINES_H_
#define TBPROF_WRITER_CONVERT_HOST_LINES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "writer/spool/spool_facts.h"
#include "writer/timeline/timeline.h"

namespace tbprof {

inline constexpr uint32_t kNoLine = UINT32_MAX;
inline constexpr uint32_t kNoProcess = UINT32_MAX;
inline constexpr uint16_t kNoType = 65535;

// Of the profile, in ticks; the totals may begin earlier.
struct GpuWindow {
  uint64_t open = 0, close = 0, totals_open = 0;
};

// What the builder of the host's lines does for it.
class HostLines {
 public:
  virtual ~HostLines() = default;
  // 65535: there are too many.
  virtual uint16_t TypeOf(std::string_view name, ObjectKind object, ValueKind value) = 0;
  virtual void CountCalls(const Identity& process, uint32_t owner, uint16_t type, uint64_t calls, uint64_t ticks,
                          uint64_t longest) = 0;
  // Index of the thread's line, made if need be; kNoLine: there are too many.
  virtual uint32_t ThreadOf(const Identity& process, uint32_t owner, int32_t tid, uint64_t ticks) = 0;
  // An Event::call_site for the code before `address`.
  virtual uint32_t SiteOf(const Identity& process, uint16_t type, uint64_t address) = 0;
  // The file name of the module that a call at the return address is in; empty: not known.
  virtual std::string ModuleOf(const Identity& process, uint64_t return_address) = 0;
  // A line that is no thread's.
  virtual uint32_t LineOf(uint32_t owner, const std::string& name) = 0;
  virtual void KeepCall(uint32_t line, const Event& event) = 0;
  // A device event was added: too many of all, and some have to go.
  virtual void DeviceEventKept() = 0;
  virtual int64_t PsOf(uint64_t ticks) const = 0;  // within the window
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_CONVERT_HOST_LINES_H_
