// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline.h"

#include <utility>

#include "writer/utf8.h"

namespace tbprof {

StringId StringTable::Intern(std::string_view text) {
  std::string valid = ValidUtf8(text);
  const auto [it, inserted] = ids_.try_emplace(std::move(valid), static_cast<StringId>(texts_.size()));
  if (inserted) texts_.push_back(&it->first);
  return it->second;
}

}  // namespace tbprof
