// SPDX-License-Identifier: Apache-2.0
// Known amounts: 96 MiB by one function in small blocks, 32 MiB by another, never more than 48 MiB at once, 16 MiB
// left.
#include <thread>
#include <vector>

#include "facts.h"

namespace store {

constexpr size_t kMiB = 1 << 20;

struct Shelf {
  std::vector<char*> blocks;

  __attribute__((noinline)) void Fill(size_t bytes, size_t size) {
    blocks.reserve(bytes / size + 1);
    for (size_t done = 0; done < bytes; done += size) {
      blocks.push_back(new char[size]);  // here: fill
      blocks.back()[0] = 1;
    }
  }
  __attribute__((noinline)) void FillOther(size_t bytes, size_t size) {
    for (size_t done = 0; done < bytes; done += size) {
      blocks.push_back(static_cast<char*>(malloc(size)));
      blocks.back()[0] = 2;
    }
  }
  void ClearNew() {
    for (char* block : blocks) delete[] block;
    blocks.clear();
  }
  void ClearMalloc() {
    for (char* block : blocks) free(block);
    blocks.clear();
  }
};

}  // namespace store

int main() {
  using store::kMiB;
  static store::Shelf shelf;
  for (int i = 0; i < 2; ++i) {
    shelf.Fill(32 * kMiB, 4000);
    shelf.ClearNew();
  }
  shelf.FillOther(32 * kMiB, 2000);
  shelf.ClearMalloc();
  static store::Shelf other;
  std::thread thread([] { other.Fill(16 * kMiB, 1000); });
  thread.join();
  shelf.Fill(16 * kMiB, 8000);
  char* large = static_cast<char*>(malloc(16 * kMiB));  // here: large
  large[0] = 3;
  printf("%d\n", large[0]);
  ReportAddress("large", large);
  free(large);
  // From the other thread's heap, by this one.
  other.ClearNew();
}
