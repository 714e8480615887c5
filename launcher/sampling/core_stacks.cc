// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/core_stacks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "launcher/sampling/mappings.h"
#include "launcher/sampling/python_runtime.h"
#include "launcher/sampling/thread_names.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr size_t kStackCopy = 64 << 10;

ModuleMap ModulesOf(CoreFile* core) {
  std::map<std::string_view, std::string> build_ids;
  for (const CoreFile::Mapping& mapping : core->mappings()) {
    if (mapping.offset == 0) build_ids.try_emplace(mapping.path, core->BuildIdOf(mapping));
  }
  ModuleMap modules;
  for (const CoreFile::Mapping& mapping : core->mappings()) {
    Module module;
    const ElfFile* const file = mapping.executable ? core->FileOf(mapping) : nullptr;
    if (file == nullptr) continue;
    const std::optional<uint64_t> bias = ElfFile::LoadBias(file->segments(), mapping.start, mapping.offset);
    if (!bias) continue;
    module.load_bias = *bias;
    module.start = mapping.start;
    module.end = mapping.end;
    module.path = mapping.path;
    module.build_id = build_ids[mapping.path];
    modules.Add(std::move(module));
  }
  return modules;
}

class NativeUnwinding {
 public:
  explicit NativeUnwinding(CoreFile* core) : core_(*core), modules_(ModulesOf(core)) {}

  void Unwind(const CoreFile::Thread& from, CoreStacks::Thread* to) {
    const uint64_t called = from.program_counter();
    CoreFile::Thread caller = from;
    uint8_t byte;
    // The thread called address 0 or code that is not mapped any more: unwinding starts at the caller.
    if (modules_.Find(called) != nullptr || core_.Read(called, &byte, 1) || !ReturnFromCall(&caller)) {
      to->native = UnwindFrom(from, &to->complete);
      return;
    }
    to->native = UnwindFrom(caller, &to->complete);
    ++to->native[0];
    to->native.insert(to->native.begin(), called);
  }

  // The modules that contain an address of any thread.
  std::vector<Module> ModulesIn(const std::vector<CoreStacks::Thread>& threads) const {
    std::map<uint64_t, const Module*> used;
    for (const CoreStacks::Thread& thread : threads) {
      for (size_t i = 0; i < thread.native.size(); ++i) {
        const Module* const module = modules_.Find(thread.native[i] - (i == 0 ? 0 : 1));
        if (module != nullptr) used[module->start] = module;
      }
    }
    std::vector<Module> out;
    for (const auto& [start, module] : used) out.push_back(*module);
    return out;
  }

 private:
  // Moves a thread from the first instruction of a function back to the call. False: no valid return address.
  bool ReturnFromCall(CoreFile::Thread* thread) {
    uint64_t* const registers = thread->registers;
    const int stack_pointer = thread->register_count - 2, program_counter = thread->register_count - 1;
    if (stack_pointer < 1) return false;
#if defined(__x86_64__)
    uint64_t address;
    if (!core_.Read(registers[stack_pointer], &address, sizeof(address))) return false;
    registers[stack_pointer] += sizeof(address);
#else
    const uint64_t address = registers[stack_pointer - 1];  // the link register
#endif
    if (modules_.Find(address - 1) == nullptr) return false;
    registers[program_counter] = address - 1;
    return true;
  }

  std::vector<uint64_t> UnwindFrom(const CoreFile::Thread& from, bool* complete) {
    StackSnapshot snapshot;
    snapshot.register_count = from.register_count;
    std::copy_n(from.registers, from.register_count, snapshot.registers);
    snapshot.stack_address = from.stack_pointer();
    // Halves the size until the read succeeds: the stack or the file may end earlier.
    size_t size = kStackCopy;
    stack_.resize(size);
    while (size > 0 && !core_.Read(snapshot.stack_address, stack_.data(), size)) size /= 2;
    snapshot.stack = stack_.data();
    snapshot.stack_size = size;
    snapshot.memory = &memory_;
    return unwinder_.Unwind(modules_, snapshot, kMaxCoreFrames - 1, complete);
  }

  CoreFile& core_;
  ModuleMap modules_;
  Unwinder unwinder_;
  std::vector<uint8_t> stack_;
  const std::function<bool(uint64_t, uint64_t*)> memory_ = [this](uint64_t address, uint64_t* value) {
    return core_.Read(address, value, sizeof(*value));
  };
};

// The interpreter is the program itself or a libpython library.
std::optional<PythonRuntime> FindRuntime(CoreFile* core, const ReadMemory& read) {
  std::string program;
  for (const CoreFile::Mapping& mapping : core->mappings()) {
    if (mapping.start <= core->entry() && core->entry() < mapping.end) program = mapping.path;
  }
  std::set<std::string_view> seen;
  for (const CoreFile::Mapping& mapping : core->mappings()) {
    if (!seen.insert(mapping.path).second) continue;
    if (mapping.path != program && !BaseName(mapping.path).starts_with("libpython")) continue;
    ElfFile* const file = core->FileOf(mapping);
    if (file == nullptr) continue;
    const FileMapping mapped = {mapping.start, mapping.end, mapping.offset, 0, mapping.path};
    // Opens the same file that FileOf has compared with the core file.
    if (auto python = FindRuntimeIn(StrCat("/proc/self/fd/", file->fd()), mapped, read)) return python;
  }
  return std::nullopt;
}

const CoreFile::Thread* ThreadOf(const CoreFile& core, const PythonReader::Thread& state) {
  const auto find = [&](const auto& is_it) -> const CoreFile::Thread* {
    const auto found = std::ranges::find_if(core.threads(), is_it);
    return found == core.threads().end() ? nullptr : &*found;
  };
  using Thread = CoreFile::Thread;
  // After a fork native_id may be the id of the thread that forked; pthread_self() stays the same.
  const auto* by_pointer = find(
      [&](const Thread& thread) { return thread.thread_pointer != 0 && thread.thread_pointer == state.thread_id; });
  if (by_pointer != nullptr) return by_pointer;
  const uint64_t wanted = state.native_id != 0 ? state.native_id : state.main ? static_cast<uint64_t>(core.pid()) : 0;
  return find([&](const Thread& thread) { return wanted != 0 && static_cast<uint64_t>(thread.tid) == wanted; });
}

// Python stacks by thread id.
std::map<int32_t, CoreStacks::Thread> ReadPython(CoreFile* core, CoreStacks* stacks) {
  std::map<int32_t, CoreStacks::Thread> found;
  const ReadMemory memory = core->Memory();
  const std::optional<PythonRuntime> python = FindRuntime(core, memory);
  // The sampler has already reported why this interpreter's stacks cannot be read.
  if (!python || !python->found || python->state != kPythonSampled) return found;
  stacks->python_minor = python->minor;
  PythonReader reader(python->layout, python->address, memory, /*is_still=*/true);
  const ThreadNames names(python->layout, memory);
  size_t unreadable = 0;
  if (!reader.ListThreads()) {
    stacks->shortfall = "no Python stacks: the interpreter's memory is not in it";
    return found;
  }
  // Thread states come newest first. A thread runs the newest state that has frames.
  for (PythonReader::Thread& state : reader.threads()) {
    const CoreFile::Thread* const thread = ThreadOf(*core, state);
    std::vector<PythonReader::Frame> frames;
    if (thread == nullptr || reader.ReadStack(&state, &frames) != PythonReader::Result::kRead) {
      ++unreadable;
      continue;
    }
    CoreStacks::Thread& out = found[thread->tid];
    out.in_python = true;
    if (!out.python.empty() || frames.empty()) continue;
    const uint64_t start = reader.ThreadStartFrame(frames);
    if (start != 0) out.name = names.Read(start);
    out.python = std::move(frames);
    if (found.size() >= kMaxCoreThreads) break;
  }
  stacks->codes = reader.TakeNewCodes();
  if (unreadable > 0) stacks->shortfall = StrCat("Python stacks of ", Counted(unreadable, "thread"), " not readable");
  return found;
}

}  // namespace

CoreStacks ReadCoreStacks(CoreFile* core) {
  CoreStacks stacks;
  stacks.thread_count = core->thread_count();
  NativeUnwinding native(core);
  // The most important stack first: the time limit may be reached.
  const CoreFile::Thread& signalled = core->threads().front();
  CoreStacks::Thread first;
  native.Unwind(signalled, &first);
  std::map<int32_t, CoreStacks::Thread> python = ReadPython(core, &stacks);
  std::vector<const CoreFile::Thread*> order;
  for (const CoreFile::Thread& thread : core->threads()) order.push_back(&thread);
  const auto rank = [&](const CoreFile::Thread* thread) {
    if (thread == &signalled) return 0;
    if (thread->tid == core->pid()) return 1;
    const auto found = python.find(thread->tid);
    return found != python.end() && !found->second.python.empty() ? 2 : 3;
  };
  std::ranges::stable_sort(order, {}, rank);
  order.resize(std::min(order.size(), kMaxCoreThreads));
  for (const CoreFile::Thread* thread : order) {
    CoreStacks::Thread& out = stacks.threads.emplace_back();
    if (const auto found = python.find(thread->tid); found != python.end()) out = std::move(found->second);
    out.tid = thread->tid;
    if (thread == &signalled) {
      out.native = std::move(first.native);
      out.complete = first.complete;
    } else if (!core->out_of_time()) {
      native.Unwind(*thread, &out);
    }
  }
  stacks.modules = native.ModulesIn(stacks.threads);
  if (core->out_of_time()) {
    stacks.shortfall = "reading it took over a second: some stacks are missing";
  } else if (!core->complete()) {
    stacks.shortfall =
        StrCat("it has ", core->size(), " of ", core->wanted_size(), " bytes (ulimit -c, or a full disk)");
  }
  return stacks;
}

}  // namespace tbprof
