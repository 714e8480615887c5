// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/frame_entry.h"

#include <dwarf.h>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

namespace tbprof {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kReturnColumn = 16;
constexpr uint64_t kMaxRegister = 16;
constexpr uint64_t kMaxSaved = 16;
#else
constexpr uint64_t kReturnColumn = 30;
constexpr uint64_t kMaxRegister = 31;
constexpr uint64_t kMaxSaved = 95;  // v8 to v15 are saved by callees
#endif
constexpr size_t kMaxEntry = size_t{1} << 20;
constexpr uint8_t kFormatMask = 0x0f;
constexpr uint8_t kApplicationMask = 0x70;

class Reader {
 public:
  Reader(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  size_t left() const { return static_cast<size_t>(end_ - at_); }
  bool ok() const { return ok_; }

  uint8_t Byte() {
    if (left() == 0) return Fail();
    return *at_++;
  }
  uint64_t Leb() {  // the sign does not matter here
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return Fail();
  }
  void Skip(uint64_t size) {
    if (size > left()) {
      Fail();
    } else {
      at_ += size;
    }
  }
  std::string_view String() {
    const auto* zero = static_cast<const uint8_t*>(memchr(at_, 0, left()));
    if (zero == nullptr) {
      Fail();
      return {};
    }
    const std::string_view text(reinterpret_cast<const char*>(at_), static_cast<size_t>(zero - at_));
    at_ = zero + 1;
    return text;
  }
  Reader Part(uint64_t size) {
    const uint8_t* begin = at_;
    Skip(size);
    return ok_ ? Reader(begin, at_) : Reader(end_, end_);
  }
  uint8_t Fail() {
    ok_ = false;
    at_ = end_;
    return 0;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  bool ok_ = true;
};

// Size of a pointer with this encoding; 0 if the encoding is not accepted.
size_t PointerSize(uint8_t encoding) {
  const uint8_t application = encoding & kApplicationMask;
  if (application != DW_EH_PE_absptr && application != DW_EH_PE_pcrel) return 0;
  switch (encoding & kFormatMask) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
      return 8;
    case DW_EH_PE_udata4:
    case DW_EH_PE_sdata4:
      return 4;
    case DW_EH_PE_udata2:
    case DW_EH_PE_sdata2:
      return 2;
    default:
      return 0;
  }
}

// Accepts no branch, no division, and no reference to debug information.
bool CheckExpression(Reader code) {
  while (code.left() > 0 && code.ok()) {
    const uint8_t operation = code.Byte();
    if (operation >= DW_OP_lit0 && operation <= DW_OP_lit31) continue;
    if (operation >= DW_OP_breg0 && operation <= DW_OP_breg31) {
      if (operation - DW_OP_breg0 > static_cast<int>(kMaxRegister)) return false;
      code.Leb();
      continue;
    }
    switch (operation) {
      case DW_OP_const1u:
      case DW_OP_const1s:
        code.Skip(1);
        break;
      case DW_OP_const2u:
      case DW_OP_const2s:
        code.Skip(2);
        break;
      case DW_OP_const4u:
      case DW_OP_const4s:
        code.Skip(4);
        break;
      case DW_OP_const8u:
      case DW_OP_const8s:
      case DW_OP_addr:
        code.Skip(8);
        break;
      case DW_OP_constu:
      case DW_OP_consts:
      case DW_OP_plus_uconst:
        code.Leb();
        break;
      case DW_OP_bregx:
        if (code.Leb() > kMaxRegister) return false;
        code.Leb();
        break;
      case DW_OP_deref:
      case DW_OP_dup:
      case DW_OP_drop:
      case DW_OP_over:
      case DW_OP_swap:
      case DW_OP_abs:
      case DW_OP_and:
      case DW_OP_minus:
      case DW_OP_mul:
      case DW_OP_neg:
      case DW_OP_not:
      case DW_OP_or:
      case DW_OP_plus:
      case DW_OP_shl:
      case DW_OP_shr:
      case DW_OP_shra:
      case DW_OP_xor:
      case DW_OP_eq:
      case DW_OP_ge:
      case DW_OP_gt:
      case DW_OP_le:
      case DW_OP_lt:
      case DW_OP_ne:
      case DW_OP_nop:
        break;
      default:
        return false;
    }
  }
  return code.ok();
}

bool CheckInstructions(Reader code) {
  // libunwind allocates memory for each remembered state.
  int remembered = 0;
  while (code.left() > 0 && code.ok()) {
    const uint8_t instruction = code.Byte();
    switch (instruction & 0xc0) {
      case DW_CFA_advance_loc:
        continue;
      case DW_CFA_offset:
        code.Leb();
        [[fallthrough]];
      case DW_CFA_restore:
        if ((instruction & 0x3f) > kMaxSaved) return false;
        continue;
      default:
        break;
    }
    uint64_t number = 0;
    switch (instruction) {
      case DW_CFA_nop:
#if defined(__aarch64__)
      case DW_CFA_AARCH64_negate_ra_state:
#endif
        break;
      case DW_CFA_remember_state:
        if (++remembered > 64) return false;
        break;
      case DW_CFA_restore_state:
        if (--remembered < 0) return false;
        break;
      case DW_CFA_advance_loc1:
        code.Skip(1);
        break;
      case DW_CFA_advance_loc2:
        code.Skip(2);
        break;
      case DW_CFA_advance_loc4:
        code.Skip(4);
        break;
      case DW_CFA_def_cfa_offset:
      case DW_CFA_def_cfa_offset_sf:
      case DW_CFA_GNU_args_size:
        code.Leb();
        break;
      case DW_CFA_restore_extended:
      case DW_CFA_undefined:
      case DW_CFA_same_value:
        number = code.Leb();
        break;
      case DW_CFA_def_cfa_register:
        if (code.Leb() > kMaxRegister) return false;
        break;
      case DW_CFA_offset_extended:
      case DW_CFA_offset_extended_sf:
      case DW_CFA_val_offset:
      case DW_CFA_val_offset_sf:
      case DW_CFA_GNU_negative_offset_extended:
        number = code.Leb();
        code.Leb();
        break;
      case DW_CFA_def_cfa:
      case DW_CFA_def_cfa_sf:
        if (code.Leb() > kMaxRegister) return false;
        code.Leb();
        break;
      case DW_CFA_register:
        number = code.Leb();
        if (code.Leb() > kMaxRegister) return false;
        break;
      case DW_CFA_expression:
      case DW_CFA_val_expression:
        number = code.Leb();
        [[fallthrough]];
      case DW_CFA_def_cfa_expression:
        if (!CheckExpression(code.Part(code.Leb()))) return false;
        break;
      default:
        return false;
    }
    if (number > kMaxSaved) return false;
  }
  return code.ok();
}

// Reads the bytes after the length word of the CIE or FDE at `address`.
bool ReadEntry(ElfFile& file, uint64_t address, std::vector<uint8_t>* bytes) {
  uint32_t length;
  if (!file.ReadAddress(address, &length, sizeof(length)) || length < 4 || length > kMaxEntry) {
    return false;
  }
  bytes->resize(length);
  return file.ReadAddress(address + sizeof(length), bytes->data(), length);
}

uint32_t FirstWord(const std::vector<uint8_t>& bytes) {
  uint32_t word;
  memcpy(&word, bytes.data(), sizeof(word));
  return word;
}

struct Common {
  bool has_augmentation_data = false;
  bool signal_frame = false;
  uint8_t pointer_encoding = DW_EH_PE_absptr;
};

bool CheckCommon(const std::vector<uint8_t>& bytes, Common* common) {
  Reader reader(bytes.data() + 4, bytes.data() + bytes.size());
  if (FirstWord(bytes) != 0) return false;
  const uint8_t version = reader.Byte();
  if (version != 1 && version != 3) return false;
  const std::string_view augmentation = reader.String();
  reader.Leb();  // code alignment
  reader.Leb();  // data alignment
  const uint64_t column = version == 1 ? reader.Byte() : reader.Leb();
  if (!reader.ok() || column != kReturnColumn) return false;
  if (augmentation.empty()) return CheckInstructions(reader);
  if (augmentation[0] != 'z') return false;
  common->has_augmentation_data = true;
  Reader data = reader.Part(reader.Leb());
  for (const char letter : augmentation.substr(1)) {
    switch (letter) {
      case 'R':
        common->pointer_encoding = data.Byte();
        if ((common->pointer_encoding & DW_EH_PE_indirect) != 0) return false;
        break;
      case 'P': {
        const size_t size = PointerSize(data.Byte());
        if (size == 0) return false;
        data.Skip(size);
        break;
      }
      case 'L': {
        const uint8_t encoding = data.Byte();
        if (encoding != DW_EH_PE_omit && PointerSize(encoding) == 0) return false;
        break;
      }
      case 'S':
        common->signal_frame = true;
        break;
      case 'B':
        break;
      default:
        return false;
    }
  }
  return data.ok() && reader.ok() && PointerSize(common->pointer_encoding) != 0 && CheckInstructions(reader);
}

}  // namespace

bool FindFrameTable(ElfFile& file, FrameTable* table) {
  uint8_t bytes[12];
  const uint64_t header = file.eh_frame_header();
  if (header == 0 || !file.ReadAddress(header, bytes, sizeof(bytes))) return false;
  // version, encodings of the .eh_frame pointer, of the count and of the table
  if (bytes[0] != 1 || bytes[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) || bytes[2] != DW_EH_PE_udata4 ||
      bytes[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4)) {
    return false;
  }
  uint32_t count;
  memcpy(&count, &bytes[8], sizeof(count));
  if (count == 0 || uint64_t{count} * 8 > file.size()) return false;
  *table = {header, header + sizeof(bytes), count};
  return true;
}

bool FindFrameEntry(ElfFile& file, const FrameTable& table, uint64_t pc, FrameEntry* found) {
  uint64_t low = 0, high = table.count;  // the wanted entry is the last one not above pc
  int32_t entry[2];
  const auto offset = static_cast<int64_t>(pc - table.header);
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    if (!file.ReadAddress(table.entries + middle * 8, entry, sizeof(entry))) return false;
    (entry[0] <= offset ? low : high) = middle;
  }
  if (!file.ReadAddress(table.entries + low * 8, entry, sizeof(entry)) || entry[0] > offset) {
    return false;
  }
  const uint64_t address = table.header + static_cast<uint64_t>(int64_t{entry[1]});
  std::vector<uint8_t> function, common_bytes;
  if (!ReadEntry(file, address, &function) || FirstWord(function) == 0 ||
      !ReadEntry(file, address + 4 - FirstWord(function), &common_bytes)) {
    return false;
  }
  Common common;
  if (!CheckCommon(common_bytes, &common)) return false;
  Reader reader(function.data() + 4, function.data() + function.size());
  reader.Skip(2 * PointerSize(common.pointer_encoding));
  if (common.has_augmentation_data) reader.Skip(reader.Leb());
  *found = {table.entries + low * 8, common.signal_frame};
  return reader.ok() && CheckInstructions(reader);
}

}  // namespace tbprof
