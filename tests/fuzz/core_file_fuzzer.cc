// SPDX-License-Identifier: Apache-2.0
//
// The launcher's reading of a core file: the input is the file.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "launcher/sampling/core_file.h"
#include "launcher/sampling/core_stacks.h"
#include "launcher/sampling/emit_core.h"
#include "writer/spool/core_facts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tbprof;
  ScopedFd fd(memfd_create("core", MFD_CLOEXEC));
  if (write(fd.get(), data, size) != static_cast<ssize_t>(size)) return 0;
  std::string reason;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  const std::unique_ptr<CoreFile> core = CoreFile::Open(std::move(fd), until, &reason);
  if (core == nullptr) {
    if (reason.empty()) abort();
    return 0;
  }
  const CoreStacks stacks = ReadCoreStacks(core.get());
  if (stacks.threads.empty() || stacks.threads.size() > kMaxCoreThreads) abort();
  for (const CoreStacks::Thread& thread : stacks.threads) {
    if (thread.native.size() > kMaxCoreFrames || thread.python.size() > PythonReader::kMaxFrames) abort();
  }
  // What is written of it can be read.
  CoreFileFacts facts;
  CoreFact fact = {};
  fact.process_serial = 1;
  fact.state = kCoreRead;
  const auto emit = [&](FrameType type, uint32_t segment, const void* payload, size_t bytes) {
    Frame frame = {};
    frame.type = type;
    frame.segment = segment;
    frame.payload = {static_cast<const char*>(payload), bytes};
    if (bytes > kMaxFramePayload) abort();
    facts.Take(frame);
  };
  EmitCore(emit, {.segment = 1, .serial = 1}, fact, "/core", stacks.shortfall, stacks);
  if (facts.cores().size() != 1 || facts.corrupt() != 0) abort();
  return 0;
}
