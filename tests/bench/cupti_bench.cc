// SPDX-License-Identifier: Apache-2.0
//
// tbprof's own code on the way of a CUPTI record: the pool of buffers and the decoder, over buffers as a CUPTI of CUDA
// 13.0 fills them. Neither CUPTI's own work is in the times, nor what the launcher does with a chunk.
//
//   Kernels, AllKinds   the decoder alone, records per second
//   Launch              all that is ours for a launch: its kernel, the calls of runtime and driver, and their part in
//                       handing buffers on and zeroing them
#include <benchmark/benchmark.h>
#include <time.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cupti/buffers.h"
#include "cupti/decode.h"
#include "tests/unit/wire/segment_maker.h"

namespace tbprof::cupti {
namespace {

constexpr uint32_t kVersion = 130001;
constexpr uint32_t kChunks = 256;
// Bytes of a record there.
constexpr size_t kKernelBytes = 216, kCopyBytes = 96, kPeerBytes = 120, kSetBytes = 88, kCallBytes = 40,
                 kWaitBytes = 56, kOverheadBytes = 56, kGraphBytes = 56, kMemoryBytes = 128;
constexpr uint32_t kLaunchCall = 211, kDriverLaunchCall = 307;

Result CallbackName(uint32_t, uint32_t, const char** name) {
  *name = "cudaLaunchKernel_v7000";
  return kSuccess;
}

// As a model has: some dozens of kernels, with the long names of templates.
const std::vector<std::string>& Names() {
  static const auto* names = [] {
    auto* made = new std::vector<std::string>;
    for (int i = 0; i < 40; ++i) {
      made->push_back("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE" +
                      std::string(100, 'x') + std::to_string(i));
    }
    return made;
  }();
  return *names;
}

class Filler {
 public:
  explicit Filler(uint8_t* buffer) : buffer_(buffer) {}

  template <typename Record>
  bool Add(const Record& record, size_t bytes) {
    if (at_ + bytes > Buffers::kBufferBytes) return false;
    memset(buffer_ + at_, 0, bytes);
    memcpy(buffer_ + at_, &record, std::min(sizeof(record), bytes));
    starts_.push_back(at_);
    at_ += bytes;
    return true;
  }
  bool AddKernel() {
    Kernel kernel{};
    kernel.kind = kActivityConcurrentKernel;
    kernel.start = 1000 * ++count_;
    kernel.end = kernel.start + 900;
    kernel.context = 1;
    kernel.stream = 7;
    kernel.grid_x = kernel.block_x = 128;
    kernel.correlation = static_cast<uint32_t>(count_);
    kernel.name = Names()[count_ * 7 % Names().size()].c_str();
    return Add(kernel, kKernelBytes);
  }
  bool AddCall(ActivityKind kind, uint32_t callback) {
    Api call{};
    call.kind = kind;
    call.callback = callback;
    call.start = 1000 * ++count_;
    call.end = call.start + 500;
    call.thread = 100;
    call.correlation = static_cast<uint32_t>(count_);
    return Add(call, kCallBytes);
  }
  bool AddLaunch() {
    return AddKernel() && AddCall(kActivityRuntime, kLaunchCall) && AddCall(kActivityDriver, kDriverLaunchCall);
  }
  bool AddOneOfEach() {
    Memcpy copy{};
    copy.kind = kActivityMemcpy;
    copy.copy_kind = 1;
    copy.start = 1000;
    copy.end = 2000;
    MemcpyPeer peer{};
    peer.kind = kActivityMemcpy2;
    Memset set{};
    set.kind = kActivityMemset;
    Synchronization wait{};
    wait.kind = kActivitySynchronization;
    wait.type = 3;
    Overhead overhead{};
    overhead.kind = kActivityOverhead;
    GraphTrace graph{};
    graph.kind = kActivityGraphTrace;
    Memory memory{};
    memory.kind = kActivityMemory2;
    memory.operation = 1;
    memory.memory_kind = 3;
    return AddLaunch() && Add(copy, kCopyBytes) && Add(peer, kPeerBytes) && Add(set, kSetBytes) &&
           Add(wait, kWaitBytes) && Add(overhead, kOverheadBytes) && Add(graph, kGraphBytes) &&
           Add(memory, kMemoryBytes);
  }

  const std::vector<size_t>& starts() const { return starts_; }
  size_t bytes() const { return at_; }

 private:
  uint8_t* buffer_;
  size_t at_ = 0;
  uint64_t count_ = 0;
  std::vector<size_t> starts_;
};

struct Target {
  Target() : segment(kChunks), writer(segment.get(), 0) {
    decoder->Start(segment.get(), &writer.writer, kVersion, CallbackName);
    decoder->KeepDriverCall(kDriverLaunchCall);
    buffers->Start(true);
  }
  // As the launcher does beside it, without its cost.
  void Drain() {
    for (uint32_t i = 0; i < kChunks; ++i) {
      ChunkReadResult read;
      while (ReadChunk(segment.get(), i, false, kSlotsPerChunk, &readers[i], &read)) {
        if (FinishChunk(segment.get(), i, read) || read.count == 0) break;
      }
    }
  }
  uint64_t dropped() const { return writer.dropped(); }

  GuardedSegment segment;
  NumberedWriter writer;
  std::unique_ptr<Decoder> decoder = std::make_unique<Decoder>();
  std::unique_ptr<Buffers> buffers = std::make_unique<Buffers>();
  std::vector<ChunkReader> readers = std::vector<ChunkReader>(kChunks);
};

// CPU time: others are on this machine, too.
double Now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <typename Fill>
void Decode(benchmark::State& state, Fill fill) {
  Target target;
  uint8_t* const buffer = target.buffers->Request();
  Filler filler(buffer);
  while (fill(&filler)) {
  }
  const std::vector<size_t>& starts = filler.starts();
  for (auto _ : state) {
    const double start = Now();
    target.decoder->BeginBuffer();
    for (const size_t at : starts) target.decoder->Take(reinterpret_cast<const Activity*>(buffer + at));
    state.SetIterationTime(Now() - start);
    target.Drain();
  }
  if (target.dropped() != 0) state.SkipWithError("no room: that is another cost");
  state.counters["records/s"] =
      benchmark::Counter(static_cast<double>(starts.size()), benchmark::Counter::kIsIterationInvariantRate);
}
void Kernels(benchmark::State& state) {
  Decode(state, [](Filler* filler) { return filler->AddKernel(); });
}
void AllKinds(benchmark::State& state) {
  Decode(state, [](Filler* filler) { return filler->AddOneOfEach(); });
}

void Launch(benchmark::State& state) {
  Target target;
  std::vector<uint8_t> filled(Buffers::kBufferBytes);
  Filler filler(filled.data());
  while (filler.AddLaunch()) {
  }
  const std::vector<size_t>& starts = filler.starts();
  for (auto _ : state) {
    uint8_t* const buffer = target.buffers->Request();
    memcpy(buffer, filled.data(), filler.bytes());  // CUPTI's part
    const double start = Now();
    target.buffers->Complete(buffer, filler.bytes());
    Buffers::Filled taken;
    target.buffers->Take(&taken);
    target.decoder->BeginBuffer();
    for (const size_t at : starts) target.decoder->Take(reinterpret_cast<const Activity*>(taken.data + at));
    target.buffers->Return(taken);
    state.SetIterationTime(Now() - start);
    target.Drain();
  }
  if (target.dropped() != 0) state.SkipWithError("no room: that is another cost");
  state.counters["per launch"] =
      benchmark::Counter(static_cast<double>(starts.size()) / 3,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK(Kernels)->UseManualTime();
BENCHMARK(AllKinds)->UseManualTime();
BENCHMARK(Launch)->UseManualTime();

}  // namespace
}  // namespace tbprof::cupti
