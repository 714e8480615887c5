// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/thread_names.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/sampling/python_text.h"

namespace tbprof {
namespace {

constexpr std::string_view kName = "_name";
// Py_TPFLAGS_INLINE_VALUES (3.13), Py_TPFLAGS_MANAGED_DICT (3.12 and later; the same bit in 3.11).
constexpr uint64_t kInlineValues = 1 << 2, kManagedDictionary = 1 << 4;
constexpr uint8_t kGeneralKeys = 0;  // their entries begin with a hash
constexpr uint64_t kMostIndexBytes = 1 << 16;

bool Has(uint16_t member) { return member != kNoObjectMember; }

}  // namespace

ThreadNames::ThreadNames(const PythonLayout& layout, ReadMemory read) : layout_(layout), read_(std::move(read)) {
  for (const PythonObjectLayout& objects : kPythonObjectLayouts) {
    if (objects.minor == layout.minor) objects_ = &objects;
  }
}

bool ThreadNames::Load(uint64_t address, void* out, size_t size) const { return ReadAt(read_, address, out, size); }

uint64_t ThreadNames::LoadPointer(uint64_t address) const {
  uint64_t value = 0;
  return Load(address, &value, sizeof(value)) && IsPointer(value) ? value : 0;
}

std::string ThreadNames::Read(uint64_t frame) const {
  if (objects_ == nullptr) return "";
  const uint64_t self = LoadPointer(frame + objects_->frame_locals);
  const std::optional<Attributes> attributes = self == 0 ? std::nullopt : AttributesOf(self);
  if (!attributes) return "";
  const uint64_t text = ValueOf(*attributes);
  if (text == 0) return "";
  return ReadPythonText(layout_, text, kMostNameBytes,
                        [this](uint64_t from, void* out, size_t size) { return Load(from, out, size); })
      .value_or("");
}

std::optional<ThreadNames::Attributes> ThreadNames::AttributesOf(uint64_t object) const {
  const uint64_t type = LoadPointer(object + layout_.object_type);
  uint64_t flags = 0;
  if (type == 0 || !Load(type + objects_->type_flags, &flags, sizeof(flags))) return std::nullopt;
  if (!Has(objects_->dict_before) || (flags & kManagedDictionary) == 0) {
    int64_t offset = 0;
    if (!Load(type + objects_->type_dict_offset, &offset, sizeof(offset)) || offset <= 0 || offset > 1 << 20) {
      return std::nullopt;
    }
    return AttributesOfDictionary(LoadPointer(object + static_cast<uint64_t>(offset)));
  }
  const uint64_t keys = LoadPointer(type + objects_->type_keys);
  if (Has(objects_->values_within) && (flags & kInlineValues) != 0) {
    const uint64_t values = object + objects_->values_within;
    uint8_t valid = 0;
    if (!Load(values + objects_->values_valid, &valid, sizeof(valid))) return std::nullopt;
    if (valid != 0 && keys != 0) return Attributes{keys, values};
  }
  if (Has(objects_->values_before)) {
    uint64_t values = 0;
    if (!Load(object - objects_->values_before, &values, sizeof(values))) return std::nullopt;
    if (objects_->values_before == objects_->dict_before) {
      values = (values & 1) != 0 ? values + 1 : 0;
    }
    if (keys != 0 && IsPointer(values)) return Attributes{keys, values};
  }
  return AttributesOfDictionary(LoadPointer(object - objects_->dict_before));
}

std::optional<ThreadNames::Attributes> ThreadNames::AttributesOfDictionary(uint64_t dictionary) const {
  if (dictionary == 0) return std::nullopt;
  const Attributes attributes = {LoadPointer(dictionary + objects_->dict_keys),
                                 LoadPointer(dictionary + objects_->dict_values)};
  return attributes.keys == 0 ? std::nullopt : std::optional(attributes);
}

// The address of the value of the attribute kName; 0: none.
uint64_t ThreadNames::ValueOf(const Attributes& attributes) const {
  int64_t count = 0;
  uint64_t index_bytes = 0;
  bool has_hash = true;
  if (!Load(attributes.keys + objects_->keys_count, &count, sizeof(count)) || count <= 0) return 0;
  if (Has(objects_->keys_kind)) {
    uint8_t log = 0, kind = 0;
    if (!Load(attributes.keys + objects_->keys_size, &log, 1) || log > 16) return 0;
    if (!Load(attributes.keys + objects_->keys_kind, &kind, 1)) return 0;
    index_bytes = uint64_t{1} << log;
    has_hash = kind == kGeneralKeys;
  } else {
    uint64_t size = 0;
    if (!Load(attributes.keys + objects_->keys_size, &size, sizeof(size)) || size > kMostIndexBytes / 2) return 0;
    index_bytes = size <= 0xff ? size : size * 2;
  }
  const uint64_t words = has_hash ? 3 : 2;  // hash, key, value
  std::vector<uint64_t> entries(std::min<uint64_t>(static_cast<uint64_t>(count), kMostEntries) * words);
  if (!Load(attributes.keys + objects_->keys_index + index_bytes, entries.data(), entries.size() * 8)) return 0;
  const auto load = [this](uint64_t from, void* out, size_t size) { return Load(from, out, size); };
  for (size_t i = 0; i < entries.size() / words; ++i) {
    const uint64_t key = entries[i * words + words - 2];
    if (ReadPythonText(layout_, key, kName.size() + 1, load) != kName) continue;
    const uint64_t value = attributes.values == 0 ? entries[i * words + words - 1]
                                                  : LoadPointer(attributes.values + objects_->values_first + 8 * i);
    return IsPointer(value) ? value : 0;
  }
  return 0;
}

}  // namespace tbprof
