// SPDX-License-Identifier: Apache-2.0
//
// Finds out which build of PyTorch a process has loaded, among the builds whose layouts are known.
//
// Process: target, any thread, in its turn (torch_turns.h). Rules: RULES.md.
#ifndef TBPROF_PRELOAD_TORCH_BUILD_H_
#define TBPROF_PRELOAD_TORCH_BUILD_H_

#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/state.h"

namespace tbprof {

// Which of libstdc++'s two std::string types a build has: members behind a string have different offsets.
enum class TorchStrings : uint8_t { kOld, kNew };

// A release, or one build of it, that scripts/torch_builds.sh has run. A wheel has version.py beside its libraries; its
// version is compared up to the `+`. A distribution's build is identified by its build id.
struct TorchBuild {
  const char* version;
  const char* build_id;  // in hexadecimal digits; null: by version.py
  TorchStrings strings;
  // Offsets in an at::RecordFunction: sequence_nr_, fwd_thread_id_, step_callbacks_.thread_id_.
  uint16_t sequence, forward_thread, thread;
  uint16_t sizes;  // offset in a c10::TensorImpl: sizes_and_strides_
};

// In all builds inputs_ is this many bytes behind sequence_nr_, and is_async_ behind fwd_thread_id_ (after handle_).
inline constexpr uint16_t kInputs = 8, kAsynchronous = 16;

// Whether the object's file name begins with `name`.
bool IsNamed(const link_map* object, const char* name);

// The library called `name` that has called the allocator at `frame`, by the return addresses on this thread's stack.
// Null: no return address is in it.
const link_map* LibraryOnStack(const ThreadState* thread, const void* frame, const char* name);

// Null: the build is not in the table. `version` is set if it is known.
const TorchBuild* FindTorchBuild(const link_map* object, char* version, size_t room);

}  // namespace tbprof

#endif  // TBPROF_PRELOAD_TORCH_BUILD_H_
