// SPDX-License-Identifier: Apache-2.0
//
// Unwinds stack snapshots after the fact: the target copies the registers and a piece of the stack, and the unwind
// tables are read from the module files. The process of the snapshot may have ended.
//
//   Unwinder unwinder;
//   std::vector<uint64_t> pcs = unwinder.Unwind(modules, snapshot, 64);
//
// Process: the converter, the launcher. Not thread-safe; one per thread. Files are opened lazily and kept open. The
// table's result for an address is cached by module file, so the second snapshot of a process is cheap.
#ifndef TBPROF_WRITER_SYMBOLS_UNWIND_H_
#define TBPROF_WRITER_SYMBOLS_UNWIND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tbprof {

// One mapped ELF file, as the target or the launcher saw it. Hostile input: ranges may overlap, paths may be wrong.
struct Module {
  uint64_t load_bias = 0;  // added to the file's virtual addresses (link_map l_addr)
  uint64_t start = 0;      // lowest mapped address
  uint64_t end = 0;        // one past the highest mapped address
  std::string path;
  std::string build_id;  // raw bytes, empty if unknown; a file whose build id differs is not used
  uint64_t key = 0;      // identifies path and build id in caches; set by ModuleMap::Add
};

// Sorted by start, without overlaps. A later module replaces what it overlaps (dlclose, then dlopen).
class ModuleMap {
 public:
  static constexpr size_t kMaxModules = 16384;  // further ones are ignored

  void Add(Module module);
  const Module* Find(uint64_t address) const;  // null if no module covers it
  const std::vector<Module>& modules() const { return modules_; }

 private:
  std::vector<Module> modules_;
};

struct StackSnapshot {
  // x86-64: rbx rbp r12 r13 r14 r15 rsp rip; arm64: x19..x28 fp lr sp pc.
  static constexpr int kMaxRegisters = 16;
  uint64_t registers[kMaxRegisters] = {};
  int register_count = 0;
  uint64_t stack_address = 0;  // address of stack[0] in the target
  const uint8_t* stack = nullptr;
  size_t stack_size = 0;
  // Reads known memory outside `stack`: the stack on which a signal handler ran. Null: there is none.
  const std::function<bool(uint64_t address, uint64_t* value)>* memory = nullptr;
};

class Unwinder {
 public:
  Unwinder();
  ~Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  // Program counters, innermost first, at most `limit`, and at least the first one. Callers' entries are return
  // addresses (look up address - 1). An address that a signal interrupted is returned as address + 1, so that the same
  // look-up holds. Ends early where tables or stack bytes are missing; never fails, never loops. `complete`: whether
  // the last entry is the outermost frame.
  std::vector<uint64_t> Unwind(const ModuleMap& modules, const StackSnapshot& snapshot, int limit,
                               bool* complete = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_UNWIND_H_
