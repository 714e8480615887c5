// SPDX-License-Identifier: Apache-2.0
//
// The launcher's reading of a buffer of the kernel's perf events. Where the records begin comes first.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "launcher/sampling/perf_events.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kRing = 4096;
  if (size < 4) return 0;
  uint16_t begin, length;
  memcpy(&begin, data, sizeof(begin));
  memcpy(&length, data + 2, sizeof(length));
  std::vector<uint8_t> ring(kRing), scratch;
  for (size_t i = 4; i < size && i - 4 < kRing; ++i) ring[(begin + i - 4) % kRing] = data[i];
  uint64_t corrupt = 0;
  uint8_t sum = 0;
  const uint64_t end = tbprof::ReadPerfRing(ring, begin, uint64_t{begin} + length, &scratch, &corrupt,
                                            [&](const tbprof::PerfRecord& record) {
                                              const tbprof::StackSnapshot& snapshot = record.snapshot;
                                              if (snapshot.register_count > snapshot.kMaxRegisters) abort();
                                              for (size_t i = 0; i < snapshot.stack_size; ++i) sum ^= snapshot.stack[i];
                                              if (record.path.size() > kRing) abort();
                                            });
  if (end != uint64_t{begin} + length || (sum == 1 && corrupt == UINT64_MAX)) abort();
  return 0;
}
