// SPDX-License-Identifier: Apache-2.0
#include "writer/base/nearly_sorted.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace tbprof {
namespace {

struct Span {
  int64_t start, length;
  friend bool operator==(const Span& a, const Span& b) { return a.start == b.start && a.length == b.length; }
};

// A span comes before the spans that it contains.
struct Earlier {
  uint64_t* comparisons;
  bool operator()(const Span& a, const Span& b) const {
    ++*comparisons;
    return a.start != b.start ? a.start < b.start : a.length > b.length;
  }
};

// Returns the comparisons per element, and checks the order.
double Sort(std::vector<Span> spans) {
  uint64_t comparisons = 0, others = 0;
  std::vector<Span> expected = spans;
  std::stable_sort(expected.begin(), expected.end(), Earlier{&others});
  SortNearlySorted(&spans, Earlier{&comparisons});
  EXPECT_TRUE(spans == expected);
  return static_cast<double>(comparisons) / static_cast<double>(std::max<size_t>(spans.size(), 1));
}

// Spans in the order of their ends: `parents` spans with `children` spans each, and one span around all.
std::vector<Span> Nested(int parents, int children) {
  std::vector<Span> spans;
  int64_t now = 0;
  for (int parent = 0; parent < parents; ++parent) {
    const int64_t start = now;
    for (int child = 0; child < children; ++child, now += 10) spans.push_back({now + 1, 8});
    spans.push_back({start, now - start});
  }
  spans.push_back({0, now});
  return spans;
}

// Cuts `spans` into pieces of `length` elements, and shuffles each group of `round` pieces.
std::vector<Span> Shuffled(const std::vector<Span>& spans, size_t length, size_t round, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Span> result;
  for (size_t begin = 0; begin < spans.size(); begin += length * round) {
    std::vector<size_t> pieces;
    for (size_t at = begin; at < std::min(begin + length * round, spans.size()); at += length) pieces.push_back(at);
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (const size_t at : pieces) {
      result.insert(result.end(), spans.begin() + static_cast<ptrdiff_t>(at),
                    spans.begin() + static_cast<ptrdiff_t>(std::min(at + length, spans.size())));
    }
  }
  return result;
}

std::vector<Span> Ascending(int64_t count) {
  std::vector<Span> spans;
  for (int64_t i = 0; i < count; ++i) spans.push_back({i * 10, 5});
  return spans;
}

TEST(NearlySorted, SortedInput_IsReadOnce) {
  EXPECT_LT(Sort({}), 1);
  EXPECT_LT(Sort({{1, 2}}), 1);
  EXPECT_LE(Sort(Ascending(100'000)), 1);
}

TEST(NearlySorted, SpansInOrderOfTheirEnds_AreSortedCheaply) {
  for (const int children : {1, 3, 70, 2000, 50'000})
    EXPECT_LT(Sort(Nested(200'000 / children, children)), 8) << children;
}

TEST(NearlySorted, OlderChunksBehindNewerOnes_AreSortedCheaply) {
  for (const size_t length : {300u, 1000u, 2000u}) {
    for (const size_t round : {2u, 5u, 90u})
      EXPECT_LT(Sort(Shuffled(Ascending(300'000), length, round, 1)), 4) << length;
  }
}

// A thread's own records and CUPTI's records of the same thread: two ascending sequences that interleave.
TEST(NearlySorted, TwoInterleavedSequences_AreSortedCheaply) {
  std::vector<Span> spans;
  for (const int64_t first : {0, 1}) {
    for (int64_t i = 0; i < 100'000; ++i) spans.push_back({2 * i + first, 1});
  }
  EXPECT_LT(Sort(spans), 60);
}

TEST(NearlySorted, RandomOrder_IsSorted) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const size_t count = random() % 3000;
    std::vector<Span> spans;
    for (size_t i = 0; i < count; ++i) spans.push_back({static_cast<int64_t>(random() % (1 + random() % 5000)), 3});
    Sort(spans);
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.start > b.start; });
    Sort(spans);
    Sort(Shuffled(Nested(1 + static_cast<int>(random() % 40), static_cast<int>(random() % 100)), 1 + random() % 200,
                  1 + random() % 20, static_cast<uint32_t>(round)));
  }
}

}  // namespace
}  // namespace tbprof
