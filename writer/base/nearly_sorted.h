// SPDX-License-Identifier: Apache-2.0
//
// Sorts a sequence that is nearly in order, such as a thread's events. An event is recorded when it ends, so it follows
// the events nested in it. A chunk that the launcher reads later in its round may be older than the chunk before it.
//
//   SortNearlySorted(&events, [](const Event& a, const Event& b) { return a.start_ps < b.start_ps; });
//
// It needs one pass and one copy of the elements that are out of place; a sequence without any order goes through
// std::sort. Equal elements may change places.
//
// Process: converter. Allocates.
#ifndef TBPROF_WRITER_BASE_NEARLY_SORTED_H_
#define TBPROF_WRITER_BASE_NEARLY_SORTED_H_

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace tbprof {

template <typename Element, typename Earlier>
void SortNearlySorted(std::vector<Element>* elements, Earlier earlier) {
  // An element moves back at most this far without starting a block, whatever follows it.
  constexpr size_t kNear = 64;
  // With more moves, or more blocks, than this on average, the sequence has no usable order.
  constexpr size_t kMovesPerElement = 16;
  constexpr size_t kElementsPerBlock = 16;
  constexpr size_t kMostRounds = 12;
  std::vector<Element>& all = *elements;
  const auto place = [&all](size_t index) { return all.begin() + static_cast<ptrdiff_t>(index); };
  std::vector<size_t> blocks{0};  // the start of each block; each block is sorted
  size_t moves = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    if (!earlier(all[i], all[i - 1])) continue;
    const size_t near = i - std::min(i - blocks.back(), kNear);
    const bool is_far = near != blocks.back() && earlier(all[i], all[near]);
    // An element that contains the elements before it is followed by an element that is later than they are, or that
    // contains them as well. In an older block, the next element is older as well.
    const bool goes_on = i + 1 < all.size() && !earlier(all[i + 1], all[i]) && earlier(all[i + 1], all[i - 1]);
    if (is_far && (goes_on || moves > kMovesPerElement * all.size())) {
      blocks.push_back(i);
      if (blocks.size() * kElementsPerBlock > all.size() + kNear) break;
      continue;
    }
    const auto to = std::upper_bound(place(is_far ? blocks.back() : near), place(i), all[i], earlier);
    moves += static_cast<size_t>(place(i) - to);
    std::rotate(to, place(i), place(i + 1));
  }
  if (blocks.size() == 1) return;
  if (blocks.size() * kElementsPerBlock > all.size() + kNear) return std::sort(all.begin(), all.end(), earlier);
  // With chunks in the order 1, 3, 2, chunks 1 and 3 look like one block. It is cut where 2 begins, which may reveal
  // further such blocks.
  const auto earlier_first = [&](size_t a, size_t b) { return earlier(all[a], all[b]); };
  for (size_t looks = 0, rounds = 0, count = 0; count != blocks.size();) {
    // Two interleaved sequences reveal one block per round.
    if (++rounds > kMostRounds) return std::sort(all.begin(), all.end(), earlier);
    count = blocks.size();
    std::vector<size_t> firsts = blocks;
    std::sort(firsts.begin(), firsts.end(), earlier_first);
    for (size_t block = 0; block < count; ++block) {
      size_t from = blocks[block];
      const size_t end = block + 1 < count ? blocks[block + 1] : all.size();
      auto cut = std::upper_bound(firsts.begin(), firsts.end(), from, earlier_first);
      for (; cut != firsts.end() && earlier(all[*cut], all[end - 1]); ++cut) {
        if (++looks * kElementsPerBlock > all.size()) return std::sort(all.begin(), all.end(), earlier);
        const size_t begin = from;
        from = static_cast<size_t>(std::lower_bound(place(from), place(end), all[*cut], earlier) - all.begin());
        if (from != begin) blocks.push_back(from);
      }
    }
    std::sort(blocks.begin(), blocks.end());
  }
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return earlier(all[blocks[a]], all[blocks[b]]); });
  blocks.push_back(all.size());
  // Handles each group of blocks that change places only among themselves, so that the copy holds few blocks at a time.
  std::vector<Element> copy;
  for (size_t first = 0; first < order.size();) {
    size_t last = first, furthest = order[first];
    for (; last < furthest; furthest = std::max(furthest, order[++last])) {
    }
    if (last > first) {
      copy.clear();
      for (size_t i = first; i <= last; ++i) {
        copy.insert(copy.end(), place(blocks[order[i]]), place(blocks[order[i] + 1]));
      }
      std::copy(copy.begin(), copy.end(), place(blocks[first]));
    }
    first = last + 1;
  }
  // A block began inside another one.
  if (!std::is_sorted(all.begin(), all.end(), earlier)) std::sort(all.begin(), all.end(), earlier);
}

}  // namespace tbprof

#endif  // TBPROF_WRITER_BASE_NEARLY_SORTED_H_
