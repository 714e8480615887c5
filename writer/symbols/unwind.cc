// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/unwind.h"

#include <libunwind.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <utility>

#include "writer/symbols/elf_file.h"
#include "writer/symbols/frame_entry.h"

// Exported by every libunwind-<arch>, but declared in none of its headers (tools that unwind from dumps do the same).
extern "C" int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t, unw_word_t, unw_dyn_info_t*, unw_proc_info_t*, int,
                                                  void*);

namespace tbprof {
namespace {

#if defined(__x86_64__)
constexpr unw_regnum_t kUnwindRegister[] = {UNW_X86_64_RBX, UNW_X86_64_RBP, UNW_X86_64_R12, UNW_X86_64_R13,
                                            UNW_X86_64_R14, UNW_X86_64_R15, UNW_X86_64_RSP, UNW_X86_64_RIP};
constexpr int kFramePointer = 1;
constexpr int kStackPointer = 6;
constexpr int kProgramCounter = 7;
constexpr int kLinkRegister = -1;
#elif defined(__aarch64__)
constexpr unw_regnum_t kUnwindRegister[] = {UNW_AARCH64_X19, UNW_AARCH64_X20, UNW_AARCH64_X21, UNW_AARCH64_X22,
                                            UNW_AARCH64_X23, UNW_AARCH64_X24, UNW_AARCH64_X25, UNW_AARCH64_X26,
                                            UNW_AARCH64_X27, UNW_AARCH64_X28, UNW_AARCH64_X29, UNW_AARCH64_X30,
                                            UNW_AARCH64_SP,  UNW_AARCH64_PC};
constexpr int kFramePointer = 10;
constexpr int kLinkRegister = 11;
constexpr int kStackPointer = 12;
constexpr int kProgramCounter = 13;
#endif
constexpr int kRegisters = std::size(kUnwindRegister);
static_assert(kRegisters <= StackSnapshot::kMaxRegisters);

using Registers = std::array<uint64_t, kRegisters>;

// arm64 may sign return addresses in the bits above the address space.
uint64_t CodeAddress(uint64_t value) {
#if defined(__aarch64__)
  return value & ((uint64_t{1} << 48) - 1);
#else
  return value;
#endif
}

// The result of the tables for one address, in the form of nearly all rows: the canonical frame address (the caller's
// stack pointer) is a register plus a constant, and registers are kept or saved at constant offsets from it.
struct Rule {
  enum Kind : uint8_t {
    kConstant,   // the fields below are valid
    kEvaluate,   // call libunwind each time (signal frames, realigned stacks)
    kOutermost,  // the table states that there is no caller
    kMissing,    // no usable table
  };
  static constexpr int32_t kSame = INT32_MIN;
  static constexpr int32_t kUnknown = INT32_MIN + 1;
  static constexpr int32_t kRegister = INT32_MIN + 2;  // kRegister + n: held in register n
  static constexpr int32_t kFirstOffset = INT32_MIN + 64;

  Kind kind = kMissing;
  bool signal_frame = false;
  uint8_t frame_register = kStackPointer;
  int32_t frame_offset = 0;
  std::array<int32_t, kRegisters> saved = {};
};

struct ModuleFile {
  std::unique_ptr<ElfFile> file;
  FrameTable table;
};

bool ReadCopy(const StackSnapshot& snapshot, uint64_t address, uint64_t* value) {
  if (address < snapshot.stack_address) return false;
  const uint64_t at = address - snapshot.stack_address;
  if (snapshot.stack_size < sizeof(*value) || at > snapshot.stack_size - sizeof(*value)) return false;
  memcpy(value, snapshot.stack + at, sizeof(*value));
  return true;
}

bool ReadStack(const StackSnapshot& snapshot, uint64_t address, uint64_t* value) {
  return ReadCopy(snapshot, address, value) || (snapshot.memory != nullptr && (*snapshot.memory)(address, value));
}

// libunwind reads a file's tables through the same callback as the stack: only addresses near the frame can be stack.
bool ReadNear(const StackSnapshot& snapshot, uint64_t stack_pointer, uint64_t address, uint64_t* value) {
  constexpr uint64_t kReach = 64 << 10;
  const bool is_near = address - stack_pointer + kReach < 2 * kReach;
  return is_near ? ReadStack(snapshot, address, value) : ReadCopy(snapshot, address, value);
}

// One call of unw_step: registers in, registers out. Code addresses are those of the file (bias 0).
//
// With `snapshot` null it is a probe. Each register holds a base far from all others, and memory near a base returns
// its own address, marked. So the results show where they came from.
struct Step {
  static constexpr uint64_t kProbeBase = uint64_t{1} << 46;
  static constexpr int kProbeShift = 40;
  static constexpr uint64_t kProbeMark = uint64_t{1} << 45;
  static constexpr int64_t kProbeReach = int64_t{1} << 28;
  // libunwind reads every byte of a table through the accessors, so the reads can be limited.
  static constexpr int kMaxReads = 200000;

  static uint64_t Probe(int index) { return kProbeBase + (uint64_t(index) << kProbeShift); }

  // The register whose base is near `value`, or -1. `offset` is set to the distance from the base.
  static int NearestProbe(uint64_t value, int32_t* offset) {
    const uint64_t shifted = value - kProbeBase + kProbeReach;
    const uint64_t index = shifted >> kProbeShift;
    if (index >= kRegisters) return -1;
    const auto distance = static_cast<int64_t>(value - Probe(static_cast<int>(index)));
    if (distance >= kProbeReach || distance < -kProbeReach) return -1;
    *offset = static_cast<int32_t>(distance);
    return static_cast<int>(index);
  }

  ModuleFile* module = nullptr;
  FrameEntry entry;
  const StackSnapshot* snapshot = nullptr;
  Registers registers = {};
  int reads_left = kMaxReads;
  bool missed = false;  // libunwind requested an address that is neither in the stack nor in the file
};

int FindProcInfo(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t* info, int need_unwind_info, void* argument) {
  const Step& step = *static_cast<Step*>(argument);
  unw_dyn_info_t tables = {};
  tables.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  tables.start_ip = 0;
  tables.end_ip = UINT64_MAX;
  // Passes only the entry that was checked: in an unsorted table, libunwind's search may find another one.
  tables.u.rti.segbase = step.module->table.header;
  tables.u.rti.table_data = step.entry.table_entry;
  tables.u.rti.table_len = 1;  // in words; one entry is one word
  return UNW_OBJ(dwarf_search_unwind_table)(space, ip, &tables, info, need_unwind_info, argument);
}

void PutUnwindInfo(unw_addr_space_t, unw_proc_info_t*, void*) {}

int GetDynInfoListAddr(unw_addr_space_t, unw_word_t*, void*) { return -UNW_ENOINFO; }

int AccessMemory(unw_addr_space_t, unw_word_t address, unw_word_t* value, int write, void* argument) {
  auto* step = static_cast<Step*>(argument);
  if (write != 0 || --step->reads_left < 0) return -UNW_EINVAL;
  if (step->snapshot == nullptr) {
    int32_t offset;
    if (Step::NearestProbe(address, &offset) >= 0) {
      *value = address ^ Step::kProbeMark;
      return 0;
    }
  } else if (ReadNear(*step->snapshot, step->registers[kStackPointer], address, value)) {
    return 0;
  }
  if (step->module->file->ReadAddressPadded(address, value, sizeof(*value))) return 0;
  step->missed = true;
  return -UNW_EINVAL;
}

int AccessRegister(unw_addr_space_t, unw_regnum_t number, unw_word_t* value, int write, void* argument) {
  if (write != 0) return -UNW_EREADONLYREG;
  for (int i = 0; i < kRegisters; ++i) {
    if (kUnwindRegister[i] != number) continue;
    *value = static_cast<Step*>(argument)->registers[i];
    return 0;
  }
  return -UNW_EBADREG;
}

int AccessFloat(unw_addr_space_t, unw_regnum_t, unw_fpreg_t*, int, void*) { return -UNW_EBADREG; }

int Resume(unw_addr_space_t, unw_cursor_t*, void*) { return -UNW_EINVAL; }

int GetProcName(unw_addr_space_t, unw_word_t, char*, size_t, unw_word_t*, void*) { return -UNW_ENOINFO; }

enum class StepResult { kCaller, kOutermost, kFailed };

// `known`: which of the resulting registers have a value.
StepResult RunStep(unw_addr_space_t space, Step* step, Registers* result, std::array<bool, kRegisters>* known) {
  unw_cursor_t cursor;
  if (unw_init_remote(&cursor, space, step) != 0) return StepResult::kFailed;
  const int status = unw_step(&cursor);
  // If a rule leads outside the copied stack, libunwind on x86-64 continues with a guess from the frame pointer.
  if (status < 0 || step->missed) return StepResult::kFailed;
  if (status == 0) return StepResult::kOutermost;
  for (int i = 0; i < kRegisters; ++i) {
    const unw_regnum_t number = i == kProgramCounter ? UNW_REG_IP : kUnwindRegister[i];
    unw_word_t value = 0;
    (*known)[i] = unw_get_reg(&cursor, number, &value) == 0;
    (*result)[i] = (*known)[i] ? value : 0;
  }
  if (!(*known)[kProgramCounter] || !(*known)[kStackPointer]) return StepResult::kFailed;
  return StepResult::kCaller;
}

Rule MakeRule(unw_addr_space_t space, ModuleFile* module, uint64_t pc) {
  Rule rule;
  Step step;
  if (module->file == nullptr || module->table.count == 0 || !module->file->IsExecutable(pc) ||
      !FindFrameEntry(*module->file, module->table, pc, &step.entry)) {
    return rule;
  }
  rule.signal_frame = step.entry.signal_frame;
  step.module = module;
  for (int i = 0; i < kRegisters; ++i) step.registers[i] = Step::Probe(i);
  step.registers[kProgramCounter] = pc;
  Registers caller;
  std::array<bool, kRegisters> known;
  switch (RunStep(space, &step, &caller, &known)) {
    case StepResult::kCaller:
      break;
    case StepResult::kOutermost:
      rule.kind = Rule::kOutermost;
      return rule;
    case StepResult::kFailed:
      // A rule that follows a saved pointer finds no memory there. If no rule followed a pointer, the tables are
      // broken.
      rule.kind = step.missed && step.reads_left > 0 ? Rule::kEvaluate : Rule::kMissing;
      return rule;
  }
  rule.kind = Rule::kEvaluate;
  const uint64_t frame = caller[kStackPointer];
  const int base = Step::NearestProbe(frame, &rule.frame_offset);
  if (base < 0 || base == kProgramCounter || rule.signal_frame) return rule;
  rule.frame_register = static_cast<uint8_t>(base);
  for (int i = 0; i < kRegisters; ++i) {
    int32_t offset;
    int holder;
    if (i == kStackPointer) {
      rule.saved[i] = Rule::kSame;
    } else if (!known[i]) {
      rule.saved[i] = Rule::kUnknown;
    } else if ((holder = Step::NearestProbe(caller[i], &offset)) >= 0) {
      if (offset != 0) return rule;
      rule.saved[i] = holder == i ? Rule::kSame : Rule::kRegister + holder;
    } else if (Step::NearestProbe(caller[i] ^ Step::kProbeMark, &offset) == base) {
      rule.saved[i] = offset - rule.frame_offset;
    } else {
      return rule;
    }
  }
  if (rule.saved[kProgramCounter] == Rule::kSame) return rule;
  rule.kind = Rule::kConstant;
  return rule;
}

bool ApplyRule(const Rule& rule, const StackSnapshot& snapshot, Registers* registers) {
  Registers caller;
  const uint64_t frame = (*registers)[rule.frame_register] + static_cast<uint64_t>(int64_t{rule.frame_offset});
  for (int i = 0; i < kRegisters; ++i) {
    const int32_t saved = rule.saved[i];
    if (saved == Rule::kSame) {
      caller[i] = (*registers)[i];
    } else if (saved >= Rule::kFirstOffset) {
      if (!ReadStack(snapshot, frame + static_cast<uint64_t>(int64_t{saved}), &caller[i])) {
        if (i == kProgramCounter) return false;
        caller[i] = 0;
      }
    } else {
      caller[i] = saved >= Rule::kRegister ? (*registers)[saved - Rule::kRegister] : 0;
    }
  }
  caller[kStackPointer] = frame;
  *registers = caller;
  return true;
}

// Without tables (generated code, a removed file): uses the frame pointer if it looks like one.
bool FollowFramePointer(const ModuleMap& modules, const StackSnapshot& snapshot, Registers* registers) {
  constexpr uint64_t kSameRegion = uint64_t{64} << 20;  // generated code calls code nearby
  const uint64_t frame = (*registers)[kFramePointer];
  uint64_t saved_frame, return_address;
  if (frame % 8 != 0 || frame < (*registers)[kStackPointer] || !ReadStack(snapshot, frame, &saved_frame) ||
      !ReadStack(snapshot, frame + 8, &return_address)) {
    return false;
  }
  return_address = CodeAddress(return_address);
  if (return_address == 0) return false;
  if (modules.Find(return_address - 1) == nullptr) {
    const uint64_t pc = (*registers)[kProgramCounter];
    const uint64_t distance = std::max(pc, return_address) - std::min(pc, return_address);
    uint64_t next;
    if (modules.Find(pc) != nullptr || distance > kSameRegion || saved_frame <= frame ||
        !ReadStack(snapshot, saved_frame, &next)) {
      return false;
    }
  }
  (*registers)[kFramePointer] = saved_frame;
  (*registers)[kStackPointer] = frame + 16;
  (*registers)[kProgramCounter] = return_address;
  if constexpr (kLinkRegister >= 0) (*registers)[kLinkRegister] = return_address;
  return true;
}

// Rules by (module file, address), in a hash table that is cleared when it would grow too large.
class RuleCache {
 public:
  RuleCache() : slots_(kFirstSize) {}

  const Rule* Find(uint64_t key, uint64_t pc) const {
    for (size_t at = Hash(key, pc);; ++at) {
      const Slot& slot = slots_[at & (slots_.size() - 1)];
      if (!slot.used) return nullptr;
      if (slot.key == key && slot.pc == pc) return &slot.rule;
    }
  }

  const Rule* Insert(uint64_t key, uint64_t pc, const Rule& rule) {
    if (++used_ > slots_.size() / 2) Grow();
    return Place({key, pc, true, rule});
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint64_t pc = 0;
    bool used = false;
    Rule rule;
  };
  static constexpr size_t kFirstSize = size_t{1} << 12;
  static constexpr size_t kMaxSize = size_t{1} << 19;

  static size_t Hash(uint64_t key, uint64_t pc) {
    const uint64_t mixed = (key ^ pc) * 0x9e3779b97f4a7c15U;
    return mixed ^ (mixed >> 32);
  }

  const Rule* Place(const Slot& added) {
    for (size_t at = Hash(added.key, added.pc);; ++at) {
      Slot& slot = slots_[at & (slots_.size() - 1)];
      if (slot.used) continue;
      slot = added;
      return &slot.rule;
    }
  }

  void Grow() {
    std::vector<Slot> old;
    old.swap(slots_);
    if (old.size() >= kMaxSize) {
      slots_.resize(kMaxSize);
      used_ = 1;
      return;
    }
    slots_.resize(old.size() * 2);
    for (const Slot& slot : old) {
      if (slot.used) Place(slot);
    }
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

}  // namespace

void ModuleMap::Add(Module module) {
  if (module.start >= module.end || modules_.size() + 2 > kMaxModules) return;
  const size_t path_hash = std::hash<std::string>()(module.path);
  const size_t build_hash = std::hash<std::string>()(module.build_id);
  module.key = path_hash * 0x9e3779b97f4a7c15U ^ build_hash;
  // Overlapping modules are neighbours, as the ranges are sorted and disjoint.
  auto first = std::partition_point(modules_.begin(), modules_.end(),
                                    [&module](const Module& old) { return old.end <= module.start; });
  auto last = first;
  std::vector<Module> replacement;
  for (; last != modules_.end() && last->start < module.end; ++last) {
    if (last->start < module.start) {
      replacement.push_back(*last);
      replacement.back().end = module.start;
    }
    if (last->end > module.end) {
      Module rest = *last;
      rest.start = module.end;
      replacement.push_back(std::move(rest));
    }
  }
  const bool before = !replacement.empty() && replacement.front().end == module.start;
  replacement.insert(replacement.begin() + (before ? 1 : 0), std::move(module));
  first = modules_.erase(first, last);
  modules_.insert(first, std::make_move_iterator(replacement.begin()), std::make_move_iterator(replacement.end()));
}

const Module* ModuleMap::Find(uint64_t address) const {
  const auto module =
      std::partition_point(modules_.begin(), modules_.end(), [address](const Module& m) { return m.end <= address; });
  return module != modules_.end() && module->start <= address ? &*module : nullptr;
}

struct Unwinder::State {
  static constexpr size_t kMaxOpenFiles = 200;

  State() {
    unw_accessors_t accessors = {};
    accessors.find_proc_info = FindProcInfo;
    accessors.put_unwind_info = PutUnwindInfo;
    accessors.get_dyn_info_list_addr = GetDynInfoListAddr;
    accessors.access_mem = AccessMemory;
    accessors.access_reg = AccessRegister;
    accessors.access_fpreg = AccessFloat;
    accessors.resume = Resume;
    accessors.get_proc_name = GetProcName;
    space = unw_create_addr_space(&accessors, 0);
    // libunwind's cache is keyed by address only; RuleCache is also keyed by module file.
    if (space != nullptr) unw_set_caching_policy(space, UNW_CACHE_NONE);
  }
  ~State() {
    if (space != nullptr) unw_destroy_addr_space(space);
  }

  ModuleFile* FileFor(const Module& module) {
    const auto found = files.find(module.key);
    if (found != files.end()) return &found->second;
    if (files.size() >= kMaxOpenFiles) files.clear();
    ModuleFile& added = files[module.key];
    added.file = OpenModuleFile(module.path, module.build_id);
    if (added.file != nullptr && !FindFrameTable(*added.file, &added.table)) added.table = {};
    return &added;
  }

  const Rule* RuleFor(const Module& module, uint64_t pc) {
    const Rule* rule = rules.Find(module.key, pc);
    if (rule != nullptr) return rule;
    return rules.Insert(module.key, pc, MakeRule(space, FileFor(module), pc));
  }

  bool Evaluate(const Module& module, uint64_t pc, const StackSnapshot& snapshot, Registers* registers) {
    Step step;
    step.module = FileFor(module);
    if (step.module->file == nullptr || step.module->table.count == 0 ||
        !FindFrameEntry(*step.module->file, step.module->table, pc, &step.entry)) {
      return false;
    }
    step.snapshot = &snapshot;
    step.registers = *registers;
    step.registers[kProgramCounter] = pc;
    Registers caller;
    std::array<bool, kRegisters> known;
    if (RunStep(space, &step, &caller, &known) != StepResult::kCaller) return false;
    *registers = caller;
    return true;
  }

  unw_addr_space_t space = nullptr;
  std::unordered_map<uint64_t, ModuleFile> files;
  RuleCache rules;
};

Unwinder::Unwinder() : state_(std::make_unique<State>()) {}

Unwinder::~Unwinder() = default;

std::vector<uint64_t> Unwinder::Unwind(const ModuleMap& modules, const StackSnapshot& snapshot, int limit,
                                       bool* complete) {
  bool ignored;
  bool& is_complete = complete != nullptr ? *complete : ignored;
  is_complete = false;
  Registers registers = {};
  const int given = std::clamp(snapshot.register_count, 0, kRegisters);
  std::copy_n(snapshot.registers, given, registers.begin());
  std::vector<uint64_t> pcs = {registers[kProgramCounter]};
  if (given < kRegisters || (snapshot.stack == nullptr && snapshot.memory == nullptr) || state_->space == nullptr)
    return pcs;
  pcs.reserve(static_cast<size_t>(std::clamp(limit, 1, 64)));

  const Module* module = nullptr;
  bool exact = true;  // not a return address
  while (pcs.size() < static_cast<size_t>(std::max(limit, 1))) {
    const uint64_t stack_before = registers[kStackPointer];
    const uint64_t pc = registers[kProgramCounter] - (exact ? 0 : 1);
    if (module == nullptr || pc < module->start || pc >= module->end) module = modules.Find(pc);
    Rule rule;
    if (module != nullptr) rule = *state_->RuleFor(*module, pc - module->load_bias);
    bool stepped = false;
    switch (rule.kind) {
      case Rule::kConstant:
        stepped = ApplyRule(rule, snapshot, &registers);
        break;
      case Rule::kEvaluate:
        stepped = state_->Evaluate(*module, pc - module->load_bias, snapshot, &registers);
        break;
      case Rule::kMissing:
        stepped = FollowFramePointer(modules, snapshot, &registers);
        break;
      case Rule::kOutermost:
        is_complete = true;
        break;
    }
    if (!stepped) break;
    uint64_t& caller = registers[kProgramCounter];
    caller = CodeAddress(caller);
    const uint64_t stack_after = registers[kStackPointer];
    // A leaf function of arm64 has no frame of its own; every other frame must be nearer to the stack's base.
    const bool leaf = kLinkRegister >= 0 && exact && stack_after == stack_before;
    // The stack of a signal handler may have any address.
    const bool elsewhere = rule.signal_frame && snapshot.memory != nullptr;
    if (caller == 0) is_complete = true;
    if (caller == 0 || (stack_after <= stack_before && !leaf && !elsewhere)) break;
    exact = rule.signal_frame;
    pcs.push_back(exact ? caller + 1 : caller);
  }
  return pcs;
}

}  // namespace tbprof

#if defined(__x86_64__)
// libunwind's archive for remote unwinding refers to this function of its archive for local unwinding, from a path that
// only resuming a live thread takes. Linking that archive would bring a second _Unwind_Resume into the program.
extern "C" [[noreturn]] void _Ux86_64_setcontext();
extern "C" void _Ux86_64_setcontext() { abort(); }
#endif
