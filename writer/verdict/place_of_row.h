// SPDX-License-Identifier: Apache-2.0
//
// The place in the program at which a row of an account was spent.
//
// Process: converter. Pure function of the timeline.
#ifndef TBPROF_WRITER_VERDICT_PLACE_OF_ROW_H_
#define TBPROF_WRITER_VERDICT_PLACE_OF_ROW_H_

#include <cstdint>
#include <optional>

#include "writer/verdict/account.h"

namespace tbprof {

// `of_ps`: the time of which the row is a share. Nothing if the row has neither a line nor a call to show.
std::optional<Where> PlaceOfRow(const Timeline& timeline, const PythonTags& tags, WhereRole role, uint32_t thread,
                                const AccountRow& row, int64_t of_ps);

// Of the longest rows that have a place, apart from collectives: what other ranks show when they wait for this one.
std::vector<Where> BusiestPlaces(const Timeline& timeline, const PythonTags& tags, uint32_t thread,
                                 const Account& account, int64_t of_ps);

}  // namespace tbprof

#endif  // TBPROF_WRITER_VERDICT_PLACE_OF_ROW_H_
