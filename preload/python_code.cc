// SPDX-License-Identifier: Apache-2.0
// Rules: RULES.md.
#include "preload/python_code.h"

#include "preload/record.h"
#include "preload/seccomp.h"
#include "wire/python_text.h"

namespace tbprof {

PythonCodeSet g_python_codes[kPythonCodeSets];

namespace {

constexpr uint32_t kMaxTextBytes = 1024;  // of a name or a path: the converter keeps no more
constexpr uint32_t kMaxTableBytes = 8 * 1024;
// If more than a quarter of the first objects are not code objects, the layout is a different one.
constexpr uint32_t kCodesToCheck = 64;
uint32_t g_checked, g_wrong;

bool IsPointer(uint64_t value) { return value >= kPage && value % 8 == 0 && value >> 48 == 0; }

// The characters of a unicode object, cut to the recorded length.
struct Text {
  uint64_t data;
  uint32_t units, unit_bytes;
  uint32_t bytes;  // of UTF-8
};

uint32_t UnitAt(const Text& text, uint32_t at) {
  const uint64_t address = text.data + uint64_t{at} * text.unit_bytes;
  if (text.unit_bytes == 1) return LoadAt<uint8_t>(address);
  return text.unit_bytes == 2 ? LoadAt<uint16_t>(address) : LoadAt<uint32_t>(address);
}

__attribute__((noinline)) bool FindText(const PythonLayout& layout, uint64_t object, uint32_t second, Text* text) {
  if (!IsPointer(object) || !IsReadable(object, layout.text_compact + 8u, second)) return false;
  const PythonTextState state(LoadAt<uint32_t>(object + layout.text_state));
  const auto length = LoadAt<int64_t>(object + layout.text_length);
  if (!state.valid() || length < 0 || length > 1 << 20) return false;
  text->unit_bytes = state.unit_bytes;
  text->data = object + (state.ascii ? layout.text_ascii : layout.text_compact);
  if (!state.compact) text->data = LoadAt<uint64_t>(object + layout.text_data);
  const auto units = static_cast<uint32_t>(length < kMaxTextBytes ? length : kMaxTextBytes);
  if (units != 0 && !IsReadable(text->data, uint64_t{units} * text->unit_bytes, second)) return false;
  text->units = text->bytes = 0;
  for (; text->units < units; ++text->units) {
    char bytes[4];
    const auto more = static_cast<uint32_t>(PutUtf8(UnitAt(*text, text->units), bytes));
    if (text->bytes + more > kMaxTextBytes) break;
    text->bytes += more;
  }
  return true;
}

__attribute__((noinline)) char* PutText(const Text& text, char* out) {
  for (uint32_t i = 0; i < text.units; ++i) {
    char bytes[4];
    const size_t count = PutUtf8(UnitAt(text, i), bytes);
    for (size_t j = 0; j < count; ++j) *out++ = bytes[j];
  }
  return out;
}

void Remember(uint64_t code, uint64_t print) {
  PythonCodeSet* const set = PythonCodeSetOf(code);
  PythonKnownCode* place = &set->ways[(print >> 32) % kPythonCodeWays];
  for (PythonKnownCode& way : set->ways) {
    const uint64_t there = __atomic_load_n(&way.code, __ATOMIC_RELAXED);
    if (there != code && there != 0) continue;
    place = &way;
    break;
  }
  __atomic_store_n(&place->print, print, __ATOMIC_RELEASE);
  __atomic_store_n(&place->code, code, __ATOMIC_RELEASE);
}

// False: not a code object.
__attribute__((noinline)) bool Record(ThreadState* thread, const PythonInterpreter& python, uint64_t code,
                                      uint32_t second, uint64_t print) {
  const PythonLayout& layout = python.layout;
  Text name, file;
  const uint64_t name_at =
      LoadAt<uint64_t>(code + (layout.code_qualname == kNoPythonMember ? layout.code_name : layout.code_qualname));
  if (!FindText(layout, name_at, second, &name)) return false;
  if (!FindText(layout, LoadAt<uint64_t>(code + layout.code_file), second, &file)) return false;
  const auto table = LoadAt<uint64_t>(code + layout.code_table);
  if (!IsPointer(table) || !IsReadable(table, layout.bytes_data, second)) return false;
  const auto table_bytes = LoadAt<int64_t>(table + layout.bytes_size);
  const auto first_line = LoadAt<int32_t>(code + layout.code_first_line);
  if (table_bytes < 0 || table_bytes > 1 << 28 || first_line < 0) return false;
  const bool with_table = table_bytes <= kMaxTableBytes;
  const auto kept = static_cast<uint32_t>(with_table ? table_bytes : 0);
  if (kept != 0 && !IsReadable(table + layout.bytes_data, kept, second)) return false;

  Reservation reservation;
  const uint32_t slots = 2 + SlotsFor(uint64_t{name.bytes} + file.bytes + kept);
  if (!BeginRecord(g_attachment.segment, &thread->writer, slots, &reservation)) return true;
  auto* const record = reinterpret_cast<PythonCodeRecord*>(reservation.slots);
  record->ticks = Ticks();
  record->code = code;
  record->first_line = first_line;
  record->minor = layout.minor;
  record->flags = with_table ? 0 : kPythonRecordNoTable;
  record->name_bytes = name.bytes;
  record->file_bytes = file.bytes;
  record->table_bytes = kept;
  record->reserved = 0;
  record->reserved1[0] = record->reserved1[1] = 0;
  char* out = PutText(file, PutText(name, reinterpret_cast<char*>(record + 1)));
  const char* const from = reinterpret_cast<const char*>(table + layout.bytes_data);
  for (uint32_t i = 0; i < kept; ++i) *out++ = from[i];
  CommitRecord(g_attachment.segment, &thread->writer, reservation, RecordKind::kPythonCode, 0, 0);
  // If a signal handler forked here, the child's record is the parent's, and exists only if the parent returned, too.
  if (reservation.process_serial == thread->writer.process_serial) Remember(code, print);
  return true;
}

void Check(ThreadState* thread, bool right) {
  if (__atomic_load_n(&g_checked, __ATOMIC_RELAXED) >= kCodesToCheck) return;
  const uint32_t wrong = __atomic_add_fetch(&g_wrong, right ? 0 : 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&g_checked, 1, __ATOMIC_RELAXED);
  if (wrong <= kCodesToCheck / 4) return;
  DisablePython(thread, g_has_filter ? "a system call filter of the program forbids what they need"
                                     : "its frames are not laid out as in this release");
}

}  // namespace

__attribute__((noinline)) uint64_t RecordPythonCode(ThreadState* thread, const PythonInterpreter& python, uint64_t code,
                                                    uint32_t second) {
  const PythonLayout& layout = python.layout;
  constexpr uint32_t kCodeBytes = 256;  // covers all members that are read
  bool right = IsPointer(code) && IsReadable(code, kCodeBytes, second) &&
               LoadAt<uint64_t>(code + layout.object_type) == python.code_type;
  const uint64_t print = right ? PrintOf(layout, code) : 0;
  right = right && Record(thread, python, code, second, print);
  Check(thread, right);
  return right ? print : 0;
}

}  // namespace tbprof
