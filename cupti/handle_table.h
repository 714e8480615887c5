// SPDX-License-Identifier: Apache-2.0
//
// Tables of handles that threads fill without a lock. A place is never freed.
//
// Process: target, any thread.
#ifndef TBPROF_CUPTI_HANDLE_TABLE_H_
#define TBPROF_CUPTI_HANDLE_TABLE_H_

#include <stdint.h>

namespace tbprof::cupti {

inline uint64_t Scatter(uint64_t handle) { return handle * 0x9e3779b97f4a7c15 >> 32; }

// The place of `handle` in a table; *is_new: it was taken by this call. Null: the 64 places it may have are all taken.
template <typename Place, uint32_t size>
Place* PlaceOf(Place (&table)[size], uint64_t handle, bool* is_new) {
  *is_new = false;
  for (uint32_t i = 0; i < 64; ++i) {
    Place* const place = &table[(Scatter(handle) + i) % size];
    uint64_t found = __atomic_load_n(&place->handle, __ATOMIC_ACQUIRE);
    if (found == 0 &&
        __atomic_compare_exchange_n(&place->handle, &found, handle, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      *is_new = true;
      return place;
    }
    if (found == handle) return place;
  }
  return nullptr;
}

}  // namespace tbprof::cupti

#endif  // TBPROF_CUPTI_HANDLE_TABLE_H_
