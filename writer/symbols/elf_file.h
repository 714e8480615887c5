// SPDX-License-Identifier: Apache-2.0
//
// A 64-bit ELF file for this machine, read piece by piece with pread. If the file is truncated or rewritten meanwhile,
// a read fails, where a mapping would raise SIGBUS. Nothing in the file is trusted.
//
//   std::unique_ptr<ElfFile> file = OpenModuleFile(path, build_id);
//   if (file != nullptr && file->ReadAddress(address, &word, sizeof(word))) ...
//
// Process: the converter, the launcher. Not thread-safe.
#ifndef TBPROF_WRITER_SYMBOLS_ELF_FILE_H_
#define TBPROF_WRITER_SYMBOLS_ELF_FILE_H_

#include <elf.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "writer/base/file_ops.h"

namespace tbprof {

// Walks the notes of an ELF file in the `size` bytes at `offset`, up to the first one that is cut. `read(offset, out,
// size)` returns false if it cannot read all bytes. Of each note of `owner` (`GNU`, `CORE`), `visit(type, offset,
// size)` gets the type and the place of its content, and returns false to end the walk.
template <typename Read, typename Visit>
void VisitElfNotes(std::string_view owner, uint64_t offset, uint64_t size, const Read& read, const Visit& visit) {
  constexpr size_t kMaxNotes = 1u << 17;
  const std::string name = std::string(owner) + '\0';
  std::string found = name;
  Elf64_Nhdr note;
  for (size_t i = 0; i < kMaxNotes && size >= sizeof(note) && read(offset, &note, sizeof(note)); ++i) {
    offset += sizeof(note);
    size -= sizeof(note);
    const uint64_t name_size = (uint64_t{note.n_namesz} + 3) & ~uint64_t{3};
    const uint64_t whole = name_size + ((uint64_t{note.n_descsz} + 3) & ~uint64_t{3});
    if (name_size > size || note.n_descsz > size - name_size) return;
    const bool is_wanted = note.n_namesz == name.size() && read(offset, found.data(), found.size()) && found == name;
    if (is_wanted && !visit(note.n_type, offset + name_size, uint64_t{note.n_descsz})) return;
    if (whole > size) return;
    offset += whole;
    size -= whole;
  }
}

class ElfFile {
 public:
  struct Segment {
    uint64_t address = 0;
    uint64_t offset = 0;
    uint64_t file_size = 0;
    uint64_t memory_size = 0;
    bool executable = false;
  };
  struct Section {
    std::string name;
    uint32_t type = 0;
    uint32_t link = 0;
    uint64_t flags = 0;
    uint64_t address = 0;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  static constexpr size_t kBlockSize = 4096;
#if defined(__x86_64__)
  static constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
  static constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "unknown architecture"
#endif
  static constexpr unsigned char kOrder = ELFDATA2LSB;  // of both architectures

  // The load bias if `offset` of the file is mapped to `start`; std::nullopt: no executable segment contains `offset`.
  static std::optional<uint64_t> LoadBias(std::span<const Segment> segments, uint64_t start, uint64_t offset);

  // Null if the path is no regular file, unreadable, or no ELF file for this machine.
  static std::unique_ptr<ElfFile> Open(const std::string& path);
  static std::unique_ptr<ElfFile> Open(ScopedFd fd);
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  // Reads all `size` bytes, or returns false.
  bool Read(uint64_t offset, void* out, size_t size);
  // The elements of T in `bytes` bytes, in one read; nothing if `bytes` exceeds `max_bytes` or the file ends before.
  template <typename T>
  std::optional<std::vector<T>> ReadArray(uint64_t offset, uint64_t bytes, size_t max_bytes) {
    if (bytes > max_bytes || offset > size_ || bytes > size_ - offset) return std::nullopt;
    std::vector<T> array(bytes / sizeof(T));
    if (!Read(offset, array.data(), array.size() * sizeof(T))) return std::nullopt;
    return array;
  }
  // Reads file bytes at a virtual address of the file, within one segment.
  bool ReadAddress(uint64_t address, void* out, size_t size);
  // Like ReadAddress, but fills with zeros after the segment's file bytes; at least one byte is from the file.
  bool ReadAddressPadded(uint64_t address, void* out, size_t size);
  // A zero-terminated string of at most `limit` characters; longer ones are cut.
  std::string ReadString(uint64_t offset, size_t limit);

  bool IsExecutable(uint64_t address) const;
  std::optional<uint64_t> OffsetOf(uint64_t address);  // the offset in the file
  const std::vector<Elf64_Phdr>& program_headers() const { return program_headers_; }
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<Section>& sections();
  const Section* FindSection(std::string_view name);
  const std::string& build_id() const { return build_id_; }
  uint64_t eh_frame_header() const { return eh_frame_header_; }  // virtual address, 0 if there is none
  uint64_t size() const { return size_; }
  int fd() const { return fd_.get(); }

 private:
  struct Block {
    uint64_t index = 0;
    size_t size = 0;
    std::array<uint8_t, kBlockSize> bytes;
  };

  ElfFile(ScopedFd fd, uint64_t size) : fd_(std::move(fd)), size_(size) {}
  bool Parse();
  void ParseNotes(uint64_t offset, uint64_t size);
  const Block* GetBlock(uint64_t index);
  const Segment* FindSegment(uint64_t address);

  ScopedFd fd_;
  uint64_t size_;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Phdr> program_headers_;
  std::string build_id_;
  std::vector<Segment> segments_;
  size_t last_segment_ = 0;
  std::optional<std::vector<Section>> sections_;
  uint64_t eh_frame_header_ = 0;
  std::array<std::unique_ptr<Block>, 64> blocks_;
};

// The file that a module was loaded from, as it is on this machine now; null unless it is the same build. The suffix
// ` (deleted)` of the path is removed: then only an equal build id makes the file usable.
std::unique_ptr<ElfFile> OpenModuleFile(const std::string& path, std::string_view build_id);

// The separate debug file (.build-id/ab/cdef.debug below `root`) with that build id; null if there is none.
std::unique_ptr<ElfFile> OpenDebugFile(const std::string& root, std::string_view build_id);

}  // namespace tbprof

#endif  // TBPROF_WRITER_SYMBOLS_ELF_FILE_H_
