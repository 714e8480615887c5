// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/torch_shapes.h"

namespace tbprof {
namespace {

// c10::IValue, in all releases from 1.13 on.
struct Value {
  const char* tensor;
  uint32_t tag;
  uint32_t unused;
};
static_assert(sizeof(Value) == 16 && offsetof(Value, tag) == 8);
constexpr uint32_t kTensorTag = 1;
constexpr size_t kMostValues = 1u << 16;

// c10::TensorImpl from sizes_and_strides_ on: the rank, room for five sizes and strides or a pointer to more, the
// offset in the storage, the number of elements, and after the type and the device the bits.
constexpr uint64_t kInlineRank = 5, kMostRank = 64;
constexpr size_t kSizes = 8, kElements = 96, kPolicy = 110, kPolicyShift = 2;
constexpr uint8_t kPolicyMask = 3;
constexpr uint8_t kCustomSizes = 2;  // nested, symbolic or defined by Python: the sizes in the object are not its shape

// The sizes of the first tensors are compared with PyTorch's own function. Until then only sizes inside the object are
// read, and no pointer is followed.
constexpr uint32_t kTensorsToCompare = 64;
uint32_t g_to_compare = kTensorsToCompare;
bool g_wrong;

template <typename Field>
Field Load(const char* at) {
  Field field;
  __builtin_memcpy(&field, at, sizeof(field));
  return field;
}

struct Text {
  char* at;
  char* end;
};

bool Put(Text* text, const char* word, size_t length) {
  if (static_cast<size_t>(text->end - text->at) < length) return false;
  __builtin_memcpy(text->at, word, length);
  text->at += length;
  return true;
}

bool PutNumber(Text* text, uint64_t number) {
  char digits[20];
  size_t first = sizeof(digits);
  do {
    digits[--first] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return Put(text, digits + first, sizeof(digits) - first);
}

// Whether a tensor with these sizes has this number of elements.
bool IsShape(const char* sizes, uint64_t rank, int64_t elements) {
  int64_t product = 1;
  bool empty = false;
  for (uint64_t i = 0; i < rank; ++i) {
    const auto size = Load<int64_t>(sizes + 8 * i);
    if (size < 0) return false;
    empty |= size == 0;
    if (!empty && __builtin_mul_overflow(product, size, &product)) return false;
  }
  return elements == (empty ? 0 : product);
}

bool IsAsReported(const TorchShapes& torch, const Value* value, const char* sizes, uint64_t rank) {
  for (uint64_t i = 0; i < rank; ++i) {
    if (torch.size(value, static_cast<int64_t>(i)) != Load<int64_t>(sizes + 8 * i)) return false;
  }
  return true;
}

// False: there is no room, or the layout is wrong (g_wrong).
__attribute__((noinline)) bool PutTensor(const TorchShapes& torch, const Value* value, Text* text) {
  const char* const tensor = value->tensor;
  if (tensor == torch.undefined) return Put(text, "[]", 2);
  const char* const at = tensor + torch.sizes;
  if ((Load<uint8_t>(at + kPolicy) >> kPolicyShift & kPolicyMask) >= kCustomSizes) return Put(text, "[?]", 3);
  const auto rank = Load<uint64_t>(at);
  if (rank > kMostRank) {
    __atomic_store_n(&g_wrong, true, __ATOMIC_RELAXED);
    return false;
  }
  const uint32_t to_compare = __atomic_load_n(&g_to_compare, __ATOMIC_RELAXED);
  if (rank > kInlineRank && to_compare > 0) return Put(text, "[?]", 3);
  const char* const sizes = rank > kInlineRank ? Load<const char*>(at + kSizes) : at + kSizes;
  if (!IsShape(sizes, rank, Load<int64_t>(at + kElements)) ||
      (to_compare > 0 && !IsAsReported(torch, value, sizes, rank))) {
    __atomic_store_n(&g_wrong, true, __ATOMIC_RELAXED);
    return false;
  }
  // A tensor without dimensions does not show where the sizes are.
  if (to_compare > 0 && rank > 0) __atomic_store_n(&g_to_compare, to_compare - 1, __ATOMIC_RELAXED);
  if (!Put(text, "[", 1)) return false;
  for (uint64_t i = 0; i < rank; ++i) {
    if (i > 0 && !Put(text, ", ", 2)) return false;
    if (!PutNumber(text, Load<uint64_t>(sizes + 8 * i))) return false;
  }
  return Put(text, "]", 1);
}

}  // namespace

bool TorchShapesAreWrong() { return __atomic_load_n(&g_wrong, __ATOMIC_RELAXED); }

size_t WriteTorchShapes(const TorchShapes& torch, const void* function, char* text, size_t room) {
  const char* const inputs = static_cast<const char*>(function) + torch.inputs;
  const auto* value = Load<const Value*>(inputs);
  const auto given = Load<size_t>(inputs + 8);
  if (given == 0) return 0;
  const size_t count = torch.count(function);
  if (given < count || given > kMostValues || reinterpret_cast<uint64_t>(value) % alignof(Value) != 0) {
    __atomic_store_n(&g_wrong, true, __ATOMIC_RELAXED);
    return 0;
  }
  // The arguments may be on a stack with other values below them.
  value += given - count;
  constexpr char kRest[] = ", ...]";
  Text out{text, text + room - sizeof(kRest)};
  (void)Put(&out, "[", 1);
  for (size_t i = 0; i < count; ++i) {
    char* const before = out.at;
    if ((i == 0 || Put(&out, ", ", 2)) &&
        (value[i].tag == kTensorTag ? PutTensor(torch, &value[i], &out) : Put(&out, "[]", 2))) {
      continue;
    }
    if (TorchShapesAreWrong()) return 0;
    out.at = before;
    out.end += sizeof(kRest) - 1;
    (void)Put(&out, i == 0 ? "..." : ", ...", i == 0 ? 3 : 5);
    break;
  }
  out.end = text + room - 1;
  (void)Put(&out, "]", 1);
  *out.at = '\0';
  return static_cast<size_t>(out.at - text);
}

}  // namespace tbprof
