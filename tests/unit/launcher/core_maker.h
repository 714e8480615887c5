// SPDX-License-Identifier: Apache-2.0
//
// Core files made by hand, and core files of live processes, independent of the machine's core_pattern.
//
//   CoreMaker core(4711);
//   core.Thread(4711, SIGSEGV, registers).Memory(0x10000, bytes).File(0x400000, 0x401000, 0, "/bin/x");
//   std::string file = core.Bytes();
//   std::string other = CoreOfProcess(pid, SIGSEGV);   // stops its threads meanwhile
#ifndef TBPROF_TESTS_UNIT_LAUNCHER_CORE_MAKER_H_
#define TBPROF_TESTS_UNIT_LAUNCHER_CORE_MAKER_H_

#include <dirent.h>
#include <elf.h>
#include <signal.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "writer/symbols/elf_file.h"

namespace tbprof {

class CoreMaker {
 public:
  explicit CoreMaker(int32_t pid) {
    elf_prpsinfo info = {};
    info.pr_pid = pid;
    Note(NT_PRPSINFO, Bytes(info));
  }

  // The first thread is the one that got the signal.
  CoreMaker& Thread(int32_t tid, int signal, const elf_gregset_t& registers) {
    elf_prstatus status = {};
    status.pr_pid = tid;
    status.pr_cursig = static_cast<short>(signal);
    memcpy(&status.pr_reg, &registers, sizeof(registers));
    return Note(NT_PRSTATUS, Bytes(status));
  }
  CoreMaker& Fault(int signal, int code, uint64_t address) {
    siginfo_t info = {};
    info.si_signo = signal;
    info.si_code = code;
    info.si_addr = reinterpret_cast<void*>(address);
    return Note(NT_SIGINFO, Bytes(info));
  }
  CoreMaker& Entry(uint64_t address) {
    Elf64_auxv_t entries[2] = {};
    entries[0].a_type = AT_ENTRY;
    entries[0].a_un.a_val = address;
    return Note(NT_AUXV, Bytes(entries));
  }
  // Call this in the order of addresses. `size`: in memory; memory behind `bytes` is not in the file.
  CoreMaker& Memory(uint64_t address, std::string bytes, uint64_t size, uint32_t flags = PF_R | PF_W) {
    Elf64_Phdr program = {};
    program.p_type = PT_LOAD;
    program.p_flags = flags;
    program.p_vaddr = address;
    program.p_filesz = bytes.size();
    program.p_memsz = size;
    programs_.push_back(program);
    memory_.push_back(std::move(bytes));
    return *this;
  }
  CoreMaker& Memory(uint64_t address, const std::string& bytes) { return Memory(address, bytes, bytes.size()); }
  CoreMaker& File(uint64_t start, uint64_t end, uint64_t offset, const std::string& path) {
    for (const uint64_t value : {start, end, offset / kPage}) Put(value, &files_);
    paths_ += path + '\0';
    ++file_count_;
    return *this;
  }

  std::string Bytes() const {
    std::string notes = notes_;
    std::string rows;
    Put(file_count_, &rows);
    Put(uint64_t{kPage}, &rows);
    AddNote(NT_FILE, rows + files_ + paths_, &notes);
    Elf64_Ehdr header = {};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ElfFile::kOrder;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_CORE;
    header.e_machine = ElfFile::kMachine;
    header.e_phoff = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<uint16_t>(programs_.size() + 1);
    Elf64_Phdr note = {};
    note.p_type = PT_NOTE;
    note.p_offset = sizeof(header) + header.e_phnum * sizeof(Elf64_Phdr);
    note.p_filesz = notes.size();
    std::string file;
    Put(header, &file);
    Put(note, &file);
    uint64_t offset = note.p_offset + notes.size();
    for (Elf64_Phdr program : programs_) {
      program.p_offset = offset;
      offset += program.p_filesz;
      Put(program, &file);
    }
    file += notes;
    for (const std::string& bytes : memory_) file += bytes;
    return file;
  }

 private:
  static constexpr uint64_t kPage = 4096;

  template <typename T>
  static void Put(const T& value, std::string* to) {
    to->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  template <typename T>
  static std::string Bytes(const T& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  static void AddNote(uint32_t type, const std::string& bytes, std::string* to) {
    const Elf64_Nhdr header = {5, static_cast<uint32_t>(bytes.size()), type};
    Put(header, to);
    to->append("CORE\0\0\0\0", 8);
    *to += bytes;
    to->append((4 - bytes.size() % 4) % 4, '\0');
  }
  CoreMaker& Note(uint32_t type, const std::string& bytes) {
    AddNote(type, bytes, &notes_);
    return *this;
  }

  std::string notes_, files_, paths_;
  uint64_t file_count_ = 0;
  std::vector<Elf64_Phdr> programs_;
  std::vector<std::string> memory_;
};

// A core file of the caller's child as the kernel writes it by default: all writable memory, and the first pages of ELF
// files. `first`: the thread that got the signal; 0: the main thread. Empty: the process cannot be read.
inline std::string CoreOfProcess(pid_t pid, int signal, pid_t first = 0) {
  const std::string proc = "/proc/" + std::to_string(pid);
  std::vector<pid_t> tids = {first != 0 ? first : pid};
  DIR* const tasks = opendir((proc + "/task").c_str());
  if (tasks == nullptr) return "";
  while (const dirent* entry = readdir(tasks)) {
    const pid_t tid = atoi(entry->d_name);
    if (tid > 0 && tid != tids[0]) tids.push_back(tid);
  }
  closedir(tasks);
  CoreMaker core(pid);
  for (const pid_t tid : tids) {
    elf_gregset_t registers = {};
    iovec range = {&registers, sizeof(registers)};
    int status = 0;
    if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0 || ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0 ||
        waitpid(tid, &status, __WALL) != tid ||
        ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(NT_PRSTATUS), &range) != 0) {
      return "";
    }
    core.Thread(tid, signal, registers);
  }
  core.Fault(signal, SEGV_MAPERR, 0);
  std::ifstream auxiliary(proc + "/auxv", std::ios::binary);
  for (Elf64_auxv_t entry; auxiliary.read(reinterpret_cast<char*>(&entry), sizeof(entry));) {
    if (entry.a_type == AT_ENTRY) core.Entry(entry.a_un.a_val);
  }
  std::ifstream maps(proc + "/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long start, end, offset, inode;
    char access[8];
    int path = 0;
    if (sscanf(line.c_str(), "%lx-%lx %7s %lx %*s %lu %n", &start, &end, access, &offset, &inode, &path) < 5) continue;
    if (line.find("[v") != std::string::npos) continue;
    const bool is_file = inode != 0;
    std::string bytes(access[1] == 'w' || !is_file || access[0] != 'r' ? end - start : offset == 0 ? 4096 : 0, '\0');
    const iovec local = {bytes.data(), bytes.size()}, remote = {reinterpret_cast<void*>(start), bytes.size()};
    if (!bytes.empty() && process_vm_readv(pid, &local, 1, &remote, 1, 0) != static_cast<ssize_t>(bytes.size())) {
      bytes.clear();
    }
    const uint32_t flags =
        (access[0] == 'r' ? PF_R : 0u) | (access[1] == 'w' ? PF_W : 0u) | (access[2] == 'x' ? PF_X : 0u);
    core.Memory(start, std::move(bytes), end - start, flags);
    if (is_file && line[static_cast<size_t>(path)] == '/') core.File(start, end, offset, line.substr(path));
  }
  for (const pid_t tid : tids) ptrace(PTRACE_DETACH, tid, nullptr, nullptr);
  return core.Bytes();
}

}  // namespace tbprof

#endif  // TBPROF_TESTS_UNIT_LAUNCHER_CORE_MAKER_H_
