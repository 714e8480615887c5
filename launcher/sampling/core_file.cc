// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/core_file.h"

#include <elf.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "writer/base/saturating.h"
#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr uint64_t kMaxMappingBytes = 16 << 20;  // the kernel's limit is 4 MiB
constexpr size_t kMaxAuxiliary = 64;
constexpr size_t kMaxFiles = 512;  // mapped files that are open at the same time
constexpr size_t kMaxHeaders = 64;
constexpr uint64_t kMaxBuildIdNote = 4096;
constexpr uint64_t kMaxBuildId = 64;

// Copies the registers in the order of StackSnapshot::registers.
void TakeRegisters(const elf_gregset_t& raw, CoreFile::Thread* thread) {
#if defined(__x86_64__)
  user_regs_struct all;
  static_assert(sizeof(all) <= sizeof(raw));
  memcpy(&all, &raw, sizeof(all));
  const uint64_t wanted[] = {all.rbx, all.rbp, all.r12, all.r13, all.r14, all.r15, all.rsp, all.rip};
  thread->thread_pointer = all.fs_base;
#elif defined(__aarch64__)
  user_regs_struct all;
  static_assert(sizeof(all) <= sizeof(raw));
  memcpy(&all, &raw, sizeof(all));
  uint64_t wanted[14];
  std::copy_n(all.regs + 19, 12, wanted);  // x19..x28 fp lr
  wanted[12] = all.sp;
  wanted[13] = all.pc;
#endif
  thread->register_count = static_cast<int>(std::size(wanted));
  static_assert(std::size(wanted) <= StackSnapshot::kMaxRegisters);
  std::copy(std::begin(wanted), std::end(wanted), thread->registers);
}

}  // namespace

// The stack pointer is the last register but one, the program counter is the last.
uint64_t CoreFile::Thread::stack_pointer() const { return register_count < 2 ? 0 : registers[register_count - 2]; }

uint64_t CoreFile::Thread::program_counter() const { return register_count < 1 ? 0 : registers[register_count - 1]; }

std::unique_ptr<CoreFile> CoreFile::Open(ScopedFd fd, std::chrono::steady_clock::time_point until,
                                         std::string* reason) {
  struct stat status;
  if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    *reason = "it is no regular file";
    return nullptr;
  }
  std::unique_ptr<CoreFile> core(
      new CoreFile(std::move(fd), static_cast<uint64_t>(status.st_size), NanosecondsOf(status.st_mtim), until));
  return core->Parse(reason) ? std::move(core) : nullptr;
}

bool CoreFile::HasTime() {
  if (!out_of_time_ && std::chrono::steady_clock::now() >= until_) out_of_time_ = true;
  return !out_of_time_;
}

bool CoreFile::ReadFile(uint64_t offset, void* out, size_t size) {
  if (offset > size_ || size > size_ - offset) return false;
  auto* to = static_cast<uint8_t*>(out);
  while (size > 0) {
    const uint64_t index = offset / kBlock;
    Block& block = blocks_[index % kBlocks];
    if (block.index != index) {
      if (!HasTime()) return false;
      block.index = UINT64_MAX;
      block.bytes.resize(kBlock);
      ssize_t got;
      do {
        got = pread(fd_.get(), block.bytes.data(), kBlock, static_cast<off_t>(index * kBlock));
      } while (got < 0 && errno == EINTR);
      if (got <= 0) return false;
      block.bytes.resize(static_cast<size_t>(got));
      block.index = index;
    }
    const size_t at = offset % kBlock;
    if (at >= block.bytes.size()) return false;
    const size_t part = std::min(size, block.bytes.size() - at);
    memcpy(to, &block.bytes[at], part);
    to += part;
    offset += part;
    size -= part;
  }
  return true;
}

bool CoreFile::Parse(std::string* reason) {
  Elf64_Ehdr header;
  if (!ReadFile(0, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_type != ET_CORE) {
    *reason = "it is no core file";
    return false;
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ElfFile::kOrder ||
      header.e_machine != ElfFile::kMachine || header.e_phentsize != sizeof(Elf64_Phdr)) {
    *reason = "it is a core file of another kind of machine or of a 32-bit program";
    return false;
  }
  uint64_t count = header.e_phnum;
  if (count == PN_XNUM) {
    Elf64_Shdr first;
    if (!ReadFile(header.e_shoff, &first, sizeof(first))) count = 0;
    if (count != 0) count = first.sh_info;
  }
  if (count > kMaxSegments) {
    *reason = StrCat("it has more than ", kMaxSegments, " segments");
    return false;
  }
  for (uint64_t i = 0; i < count; ++i) {
    Elf64_Phdr program;
    if (!ReadFile(header.e_phoff + i * sizeof(program), &program, sizeof(program))) break;
    uint64_t end;
    if (!__builtin_add_overflow(program.p_offset, program.p_filesz, &end)) wanted_size_ = std::max(wanted_size_, end);
    if (program.p_type == PT_LOAD && !AddSegment(program)) {
      *reason = "its segments overlap";
      return false;
    }
    if (program.p_type == PT_NOTE) ParseNotes(program.p_offset, program.p_filesz);
  }
  for (Mapping& mapping : mappings_) {
    const Segment* const segment = FindSegment(mapping.start);
    mapping.executable = segment != nullptr && segment->executable;
  }
  if (threads_.empty()) {
    *reason = out_of_time_ ? "reading it took too long" : "it has no threads";
    return false;
  }
  return true;
}

// False: the segment is invalid or not in order. The kernel writes segments sorted by address.
bool CoreFile::AddSegment(const Elf64_Phdr& program) {
  uint64_t end;
  if (__builtin_add_overflow(program.p_vaddr, program.p_memsz, &end) || program.p_filesz > program.p_memsz ||
      (!segments_.empty() && program.p_vaddr < segments_.back().end)) {
    return false;
  }
  segments_.push_back({program.p_vaddr, end, program.p_offset, program.p_filesz, (program.p_flags & PF_W) != 0,
                       (program.p_flags & PF_X) != 0});
  return true;
}

void CoreFile::ParseNotes(uint64_t offset, uint64_t size) {
  const auto read = [this](uint64_t at, void* out, size_t bytes) { return ReadFile(at, out, bytes); };
  VisitElfNotes("CORE", offset, size, read, [this](uint32_t type, uint64_t at, uint64_t bytes) {
    ParseNote(type, at, bytes);
    return true;
  });
}

void CoreFile::ParseNote(uint32_t type, uint64_t offset, uint64_t size) {
  switch (type) {
    case NT_PRSTATUS:
      return ParseThread(offset, size);
    case NT_PRPSINFO: {
      elf_prpsinfo info;
      if (size >= sizeof(info) && ReadFile(offset, &info, sizeof(info))) pid_ = info.pr_pid;
      return;
    }
    case NT_SIGINFO:
      return ParseSignal(offset, size);
    case NT_FILE:
      return ParseMappings(offset, size);
    case NT_AUXV:
      return ParseAuxiliary(offset, size);
    default:
      return;
  }
}

void CoreFile::ParseThread(uint64_t offset, uint64_t size) {
  elf_prstatus status;
  if (size < sizeof(status) || !ReadFile(offset, &status, sizeof(status))) return;
  if (thread_count_++ == 0) signal_ = status.pr_cursig;
  if (threads_.size() >= kMaxThreads) return;
  Thread& thread = threads_.emplace_back();
  thread.tid = status.pr_pid;
  TakeRegisters(status.pr_reg, &thread);
}

void CoreFile::ParseSignal(uint64_t offset, uint64_t size) {
  siginfo_t info;
  if (size < sizeof(info) || !ReadFile(offset, &info, sizeof(info))) return;
  const bool has_address =
      info.si_signo == SIGSEGV || info.si_signo == SIGBUS || info.si_signo == SIGILL || info.si_signo == SIGFPE;
  // si_code <= 0: a process sent the signal. SI_KERNEL: the processor reported a fault without an address.
  if (has_address && info.si_code > 0 && info.si_code != SI_KERNEL) {
    fault_address_ = reinterpret_cast<uint64_t>(info.si_addr);
  }
}

void CoreFile::ParseMappings(uint64_t offset, uint64_t size) {
  uint64_t head[2];  // count, page size
  if (!mappings_.empty() || size > kMaxMappingBytes || size < sizeof(head) || !ReadFile(offset, head, sizeof(head))) {
    return;
  }
  const uint64_t rows = sizeof(head) + head[0] * 3 * sizeof(uint64_t);
  if (head[0] > kMaxMappings || head[1] == 0 || head[1] > 1 << 20 || rows > size) return;
  std::string text(size - rows, '\0');
  if (!ReadFile(offset + rows, text.data(), text.size())) return;
  std::string_view names = text;
  for (uint64_t i = 0; i < head[0]; ++i) {
    uint64_t row[3], at;
    const size_t end = names.find('\0');
    if (end == std::string_view::npos || !ReadFile(offset + sizeof(head) + i * sizeof(row), row, sizeof(row))) {
      return;
    }
    const std::string_view path = names.substr(0, end);
    names.remove_prefix(end + 1);
    const uint64_t before = mappings_.empty() ? 0 : mappings_.back().end;
    if (row[0] < before || row[0] >= row[1] || __builtin_mul_overflow(row[2], head[1], &at)) continue;
    mappings_.push_back({row[0], row[1], at, false, std::string(path)});
  }
}

void CoreFile::ParseAuxiliary(uint64_t offset, uint64_t size) {
  for (size_t i = 0; i < kMaxAuxiliary && (i + 1) * sizeof(Elf64_auxv_t) <= size; ++i) {
    Elf64_auxv_t entry;
    if (!ReadFile(offset + i * sizeof(entry), &entry, sizeof(entry)) || entry.a_type == AT_NULL) return;
    if (entry.a_type == AT_ENTRY) entry_ = entry.a_un.a_val;
  }
}

const CoreFile::Segment* CoreFile::FindSegment(uint64_t address) const {
  const auto segment = std::partition_point(segments_.begin(), segments_.end(),
                                            [address](const Segment& one) { return one.end <= address; });
  return segment != segments_.end() && segment->start <= address ? &*segment : nullptr;
}

size_t CoreFile::ReadSome(uint64_t address, uint8_t* out, size_t size) {
  const Segment* const segment = FindSegment(address);
  if (segment == nullptr) return 0;
  const uint64_t into = address - segment->start;
  if (into < segment->file_size) {
    const size_t part = std::min<uint64_t>(size, segment->file_size - into);
    uint64_t offset;
    if (__builtin_add_overflow(segment->offset, into, &offset)) return 0;
    return ReadFile(offset, out, part) ? part : 0;
  }
  // Writable memory may differ from the mapped file: if the core file lacks it, its content is unknown.
  if (segment->writable) return 0;
  const size_t part = std::min<uint64_t>(size, segment->end - address);
  return ReadMapped(address, out, part) ? part : 0;
}

bool CoreFile::ReadMapped(uint64_t address, uint8_t* out, size_t size) {
  const auto mapping = std::partition_point(mappings_.begin(), mappings_.end(),
                                            [address](const Mapping& one) { return one.end <= address; });
  if (mapping == mappings_.end() || mapping->start > address || size > mapping->end - address) return false;
  uint64_t offset;
  if (__builtin_add_overflow(mapping->offset, address - mapping->start, &offset) || !HasTime()) return false;
  ElfFile* const file = FileOf(*mapping);
  return file != nullptr && file->Read(offset, out, size);
}

ElfFile* CoreFile::FileOf(const Mapping& mapping) {
  const auto known = files_.find(mapping.path);
  if (known != files_.end()) return known->second.get();
  if (files_.size() >= kMaxFiles) files_.clear();
  // The mapping at file offset 0 contains the ELF header.
  std::string build_id;
  for (const Mapping& one : mappings_) {
    if (one.offset != 0 || one.path != mapping.path) continue;
    build_id = BuildIdOf(one);
    if (!build_id.empty()) break;
  }
  std::unique_ptr<ElfFile>& file = files_[mapping.path];
  file = OpenModuleFile(mapping.path, build_id);
  struct stat status;
  // Without a build id, a file that was modified after the core file is not used.
  if (file != nullptr && build_id.empty() &&
      (fstat(file->fd(), &status) != 0 || NanosecondsOf(status.st_mtim) > changed_ns_)) {
    file.reset();
  }
  return file.get();
}

bool CoreFile::Read(uint64_t address, void* out, size_t size) {
  auto* to = static_cast<uint8_t*>(out);
  while (size > 0) {
    const size_t got = ReadSome(address, to, size);
    if (got == 0) return false;
    to += got;
    address += got;
    size -= got;
  }
  return true;
}

ReadMemory CoreFile::Memory() {
  return [this](void* out, std::span<const iovec> ranges) -> int64_t {
    int64_t done = 0;
    for (const iovec& range : ranges) {
      if (!Read(reinterpret_cast<uint64_t>(range.iov_base), static_cast<uint8_t*>(out) + done, range.iov_len)) {
        return done > 0 ? done : -EFAULT;
      }
      done += static_cast<int64_t>(range.iov_len);
    }
    return done;
  };
}

std::string CoreFile::BuildIdOf(const Mapping& mapping) {
  const Segment* const segment = FindSegment(mapping.start);
  // Reads from the core file: the path may lead to another file by now.
  const auto read = [&](uint64_t offset, void* out, size_t size) {
    return segment != nullptr && segment->start == mapping.start && offset <= segment->file_size &&
           size <= segment->file_size - offset && ReadFile(segment->offset + offset, out, size);
  };
  Elf64_Ehdr header;
  if (mapping.offset != 0 || !read(0, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return "";
  }
  for (size_t i = 0; i < std::min<size_t>(header.e_phnum, kMaxHeaders); ++i) {
    Elf64_Phdr program;
    if (!read(header.e_phoff + i * sizeof(program), &program, sizeof(program))) return "";
    if (program.p_type != PT_NOTE || program.p_filesz > kMaxBuildIdNote) continue;
    std::string id;
    VisitElfNotes("GNU", program.p_offset, program.p_filesz, read, [&](uint32_t type, uint64_t at, uint64_t bytes) {
      if (type != NT_GNU_BUILD_ID || bytes > kMaxBuildId) return true;
      id.resize(bytes);
      if (!read(at, id.data(), id.size())) id.clear();
      return id.empty();
    });
    if (!id.empty()) return id;
  }
  return "";
}

}  // namespace tbprof
