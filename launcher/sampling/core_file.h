// SPDX-License-Identifier: Apache-2.0
//
// Reads a core file: the threads of a process at the moment when a signal ended it, its memory, and its mapped files.
//
//   std::string reason;
//   std::unique_ptr<CoreFile> core = CoreFile::Open(std::move(fd), until, &reason);
//   if (core != nullptr) core->Read(core->threads()[0].stack_pointer(), bytes, sizeof(bytes));
//
// The file is read in blocks with pread: a core file of 50 GB costs only the requested parts. The kernel leaves out
// code and constants of mapped files; these are read from the files themselves if they are still the same build. After
// `until` every read fails.
//
// Process: launcher, the thread of CoreReader. Not thread-safe. Waits for the disk. Untrusted: the whole file,
// and the files that it names.
#ifndef TBPROF_LAUNCHER_SAMPLING_CORE_FILE_H_
#define TBPROF_LAUNCHER_SAMPLING_CORE_FILE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/sampling/target_memory.h"
#include "writer/base/file_ops.h"
#include "writer/symbols/elf_file.h"
#include "writer/symbols/unwind.h"

namespace tbprof {

class CoreFile {
 public:
  static constexpr size_t kMaxSegments = 1u << 17;
  static constexpr size_t kMaxThreads = 4096;  // further threads are only counted
  static constexpr size_t kMaxMappings = 1u << 17;

  struct Thread {
    int32_t tid = 0;  // in the process's own pid namespace
    uint64_t registers[StackSnapshot::kMaxRegisters] = {};
    int register_count = 0;
    uint64_t thread_pointer = 0;  // pthread_self() on x86-64; 0: not known
    uint64_t stack_pointer() const;
    uint64_t program_counter() const;
  };
  // A mapping of a file.
  struct Mapping {
    uint64_t start = 0, end = 0, offset = 0;
    bool executable = false;
    std::string path;  // ends with ` (deleted)` if the file was deleted
  };

  // Null: the file is not a core file of this kind of machine, or it has no threads. `reason` is then one line.
  static std::unique_ptr<CoreFile> Open(ScopedFd fd, std::chrono::steady_clock::time_point until, std::string* reason);

  int32_t pid() const { return pid_; }  // in the process's own pid namespace; 0: not in the file
  int signal() const { return signal_; }
  // The address of the failed access; std::nullopt for signals without an address.
  std::optional<uint64_t> fault_address() const { return fault_address_; }
  // At most kMaxThreads; the thread that got the signal comes first.
  const std::vector<Thread>& threads() const { return threads_; }
  uint64_t thread_count() const { return thread_count_; }
  const std::vector<Mapping>& mappings() const { return mappings_; }  // sorted by address, no overlaps
  uint64_t entry() const { return entry_; }                           // entry point of the program; 0: not known
  // False: the end of the file is missing.
  bool complete() const { return wanted_size_ <= size_; }
  uint64_t size() const { return size_; }
  uint64_t wanted_size() const { return wanted_size_; }
  bool out_of_time() const { return out_of_time_; }

  // Reads all bytes, or returns false.
  bool Read(uint64_t address, void* out, size_t size);
  ReadMemory Memory();
  // The build id of the mapped ELF file, read from its first page in the core file; empty: not known.
  std::string BuildIdOf(const Mapping& mapping);
  // The file of a mapping on this machine; null: it is gone, or it is not the file that the process had mapped.
  ElfFile* FileOf(const Mapping& mapping);

 private:
  static constexpr size_t kBlock = 16 << 10;
  static constexpr size_t kBlocks = 128;
  struct Segment {
    uint64_t start = 0, end = 0, offset = 0, file_size = 0;
    bool writable = false, executable = false;
  };
  struct Block {
    uint64_t index = UINT64_MAX;
    std::vector<uint8_t> bytes;
  };

  CoreFile(ScopedFd fd, uint64_t size, int64_t changed_ns, std::chrono::steady_clock::time_point until)
      : fd_(std::move(fd)), size_(size), changed_ns_(changed_ns), until_(until), blocks_(kBlocks) {}
  bool Parse(std::string* reason);
  bool AddSegment(const Elf64_Phdr& program);
  void ParseNotes(uint64_t offset, uint64_t size);
  void ParseNote(uint32_t type, uint64_t offset, uint64_t size);
  void ParseThread(uint64_t offset, uint64_t size);
  void ParseMappings(uint64_t offset, uint64_t size);
  void ParseAuxiliary(uint64_t offset, uint64_t size);
  void ParseSignal(uint64_t offset, uint64_t size);
  bool HasTime();
  bool ReadFile(uint64_t offset, void* out, size_t size);
  const Segment* FindSegment(uint64_t address) const;
  // Reads at most `size` bytes of a segment or of a mapped file. Returns the number of bytes; 0: none.
  size_t ReadSome(uint64_t address, uint8_t* out, size_t size);
  bool ReadMapped(uint64_t address, uint8_t* out, size_t size);

  ScopedFd fd_;
  uint64_t size_;
  int64_t changed_ns_;  // modification time, since 1970
  std::chrono::steady_clock::time_point until_;
  uint64_t wanted_size_ = 0;
  bool out_of_time_ = false;
  std::vector<Segment> segments_;
  std::vector<Mapping> mappings_;
  std::vector<Thread> threads_;
  uint64_t thread_count_ = 0;
  uint64_t entry_ = 0;
  int32_t pid_ = 0;
  int signal_ = 0;
  std::optional<uint64_t> fault_address_;
  std::vector<Block> blocks_;
  std::map<std::string, std::unique_ptr<ElfFile>> files_;  // by path; null: not the file of the process
};

}  // namespace tbprof

#endif  // TBPROF_LAUNCHER_SAMPLING_CORE_FILE_H_
