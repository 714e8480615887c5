// SPDX-License-Identifier: Apache-2.0
//
// Copies and sets of every kind, each checked for its bytes, and allocations of every kind.
#include <string.h>

#include <vector>

#include "common.h"

static const size_t kBytes = 1 << 20;

static void Expect(bool right, const char* what) {
  if (right) return;
  fprintf(stderr, "wrong bytes: %s\n", what);
  exit(1);
}

__device__ int table[256];
__managed__ int counter = 0;

int main(int argc, char** argv) {
  const long long rounds = Argument(argc, argv, 1, 1);
  long long to = 0, from = 0, within = 0, host = 0, sets = 0;
  for (long long round = 0; round < rounds; ++round) {
    std::vector<unsigned char> pageable(kBytes), back(kBytes);
    for (size_t i = 0; i < kBytes; ++i) pageable[i] = (unsigned char)(i * 7 + round);
    unsigned char *pinned, *device, *other, *managed;
    CHECK(cudaMallocHost(&pinned, kBytes));
    CHECK(cudaMalloc(&device, kBytes));
    CHECK(cudaMalloc(&other, kBytes));
    CHECK(cudaMallocManaged(&managed, kBytes));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));

    CHECK(cudaMemcpy(device, pageable.data(), kBytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(other, device, kBytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(back.data(), other, kBytes, cudaMemcpyDeviceToHost));
    Expect(back == pageable, "host, device, device, host");
    ++to, ++within, ++from;

    memcpy(pinned, pageable.data(), kBytes);
    CHECK(cudaMemsetAsync(device, 0x5a, kBytes, stream));
    CHECK(cudaMemcpyAsync(device + 4096, pinned, 4096, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(pinned, device, 8192, cudaMemcpyDefault, stream));
    CHECK(cudaStreamSynchronize(stream));
    Expect(pinned[0] == 0x5a && pinned[4096] == pageable[0] && pinned[8191] == pageable[4095], "set and copy");
    ++sets, ++to, ++from;

    size_t pitch = 0;
    unsigned char* rows;
    CHECK(cudaMallocPitch(&rows, &pitch, 100, 16));
    CHECK(cudaMemcpy2D(rows, pitch, pageable.data(), 100, 100, 16, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DAsync(back.data(), 100, rows, pitch, 100, 16, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    Expect(memcmp(back.data(), pageable.data(), 1600) == 0, "rows");
    ++to, ++from;

    int numbers[256];
    for (int i = 0; i < 256; ++i) numbers[i] = i * i;
    CHECK(cudaMemcpyToSymbol(table, numbers, sizeof(numbers)));
    int answer = 0;
    CHECK(cudaMemcpyFromSymbol(&answer, table, sizeof(int), 16 * sizeof(int)));
    Expect(answer == 256, "symbol");
    ++to, ++from, ++sets;  // its memory is cleared at the first use
    if (round > 0) --sets;

    CHECK(cudaMemcpy(back.data(), pageable.data(), kBytes, cudaMemcpyHostToHost));
    ++host;
    managed[0] = 3;
    counter = 4;
    CHECK(cudaMemset(managed, 1, kBytes));
    ++sets;
    CHECK(cudaDeviceSynchronize());
    Expect(managed[0] == 1 && counter == 4, "managed");

    void* pooled;
    CHECK(cudaMallocAsync(&pooled, 4096, stream));
    CHECK(cudaMemsetAsync(pooled, 0, 4096, stream));
    ++sets;
    CHECK(cudaFreeAsync(pooled, stream));
    cudaMemPool_t pool;
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaMemPoolDestroy(pool));
    cudaMemLocation here = {};
    here.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPrefetchAsync(managed, kBytes, here, 0, stream));
    CHECK(cudaStreamSynchronize(stream));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, pinned));
    Expect(attributes.type == cudaMemoryTypeHost, "pinned pointer");
    CHECK(cudaPointerGetAttributes(&attributes, device + 5));
    Expect(attributes.type == cudaMemoryTypeDevice, "device pointer");

    Expect(cudaMemcpy(device, pageable.data(), kBytes + 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue,
           "beyond the end");
    Expect(cudaGetLastError() == cudaErrorInvalidValue, "last error");
    size_t free_bytes = 0, total = 0;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    void* everything = nullptr;
    Expect(cudaMalloc(&everything, total) == cudaErrorMemoryAllocation, "more than there is");
    Expect(cudaGetLastError() == cudaErrorMemoryAllocation, "last error");

    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(rows));
    CHECK(cudaFree(device));
    CHECK(cudaFree(other));
    CHECK(cudaFree(managed));
    CHECK(cudaFreeHost(pinned));
  }
  Fact("copies_to_device", to);
  Fact("copies_from_device", from);
  Fact("copies_within_device", within);
  Fact("copies_on_host", host);
  Fact("sets", sets);
  return 0;
}
