// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "writer/base/text.h"

namespace tbprof {
namespace {

constexpr size_t kMaxSegments = 4096;
constexpr size_t kMaxSections = 65536;
constexpr size_t kMaxNoteBytes = 65536;
constexpr size_t kMaxSectionName = 64;

bool PreadAll(int fd, uint64_t offset, void* out, size_t size) {
  auto* at = static_cast<uint8_t*>(out);
  while (size > 0) {
    const ssize_t got = pread(fd, at, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

std::unique_ptr<ElfFile> ElfFile::Open(const std::string& path) {
  if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) return nullptr;
  // O_NONBLOCK: the path may name a fifo by now.
  return Open(ScopedFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)));
}

std::unique_ptr<ElfFile> ElfFile::Open(ScopedFd fd) {
  struct stat status;
  if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= 0) return nullptr;
  std::unique_ptr<ElfFile> file(new ElfFile(std::move(fd), static_cast<uint64_t>(status.st_size)));
  return file->Parse() ? std::move(file) : nullptr;
}

bool ElfFile::Parse() {
  if (!Read(0, &header_, sizeof(header_)) || memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
      header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != kOrder || header_.e_machine != kMachine ||
      (header_.e_type != ET_EXEC && header_.e_type != ET_DYN)) {
    return false;
  }
  if (header_.e_phentsize != sizeof(Elf64_Phdr)) return false;
  auto programs =
      ReadArray<Elf64_Phdr>(header_.e_phoff, header_.e_phnum * sizeof(Elf64_Phdr), kMaxSegments * sizeof(Elf64_Phdr));
  if (!programs) return false;
  program_headers_ = *std::move(programs);
  for (const Elf64_Phdr& program : program_headers_) {
    uint64_t end;
    if (program.p_type == PT_LOAD) {
      if (__builtin_add_overflow(program.p_vaddr, std::max(program.p_memsz, program.p_filesz), &end)) {
        continue;
      }
      segments_.push_back(
          {program.p_vaddr, program.p_offset, program.p_filesz, program.p_memsz, (program.p_flags & PF_X) != 0});
    } else if (program.p_type == PT_GNU_EH_FRAME) {
      eh_frame_header_ = program.p_vaddr;
    } else if (program.p_type == PT_NOTE && build_id_.empty()) {
      ParseNotes(program.p_offset, program.p_filesz);
    }
  }
  if (!build_id_.empty()) return true;
  for (const Section& section : sections()) {
    if (section.type == SHT_NOTE && build_id_.empty()) ParseNotes(section.offset, section.size);
  }
  return true;
}

void ElfFile::ParseNotes(uint64_t offset, uint64_t size) {
  if (size > kMaxNoteBytes || offset > size_ || size > size_ - offset) return;
  const auto read = [this](uint64_t at, void* out, size_t bytes) { return Read(at, out, bytes); };
  VisitElfNotes("GNU", offset, size, read, [this](uint32_t type, uint64_t at, uint64_t bytes) {
    if (type != NT_GNU_BUILD_ID) return true;
    build_id_.resize(bytes);
    if (!Read(at, build_id_.data(), bytes)) build_id_.clear();
    return false;
  });
}

std::optional<uint64_t> ElfFile::LoadBias(std::span<const Segment> segments, uint64_t start, uint64_t offset) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const Segment& segment : segments) {
    const uint64_t begin = segment.offset / page * page;  // whole pages are mapped
    if (!segment.executable || offset < begin || offset >= segment.offset + segment.file_size) continue;
    return start - offset - (segment.address - segment.offset);
  }
  return std::nullopt;
}

const ElfFile::Block* ElfFile::GetBlock(uint64_t index) {
  std::unique_ptr<Block>& slot = blocks_[index % blocks_.size()];
  if (slot != nullptr && slot->index == index && slot->size != 0) return slot.get();
  if (slot == nullptr) slot = std::make_unique<Block>();
  slot->index = index;
  slot->size = 0;
  const uint64_t offset = index * kBlockSize;
  const size_t size = std::min<uint64_t>(kBlockSize, size_ - offset);
  if (!PreadAll(fd_.get(), offset, slot->bytes.data(), size)) return nullptr;
  slot->size = size;
  return slot.get();
}

bool ElfFile::Read(uint64_t offset, void* out, size_t size) {
  if (offset > size_ || size > size_ - offset) return false;
  if (size > kBlockSize) return PreadAll(fd_.get(), offset, out, size);
  auto* to = static_cast<uint8_t*>(out);
  while (size > 0) {
    const Block* block = GetBlock(offset / kBlockSize);
    if (block == nullptr) return false;
    const size_t at = offset % kBlockSize;
    const size_t part = std::min(size, block->size - at);
    memcpy(to, &block->bytes[at], part);
    to += part;
    offset += part;
    size -= part;
  }
  return true;
}

const ElfFile::Segment* ElfFile::FindSegment(uint64_t address) {
  if (last_segment_ < segments_.size()) {
    const Segment& last = segments_[last_segment_];
    if (address >= last.address && address - last.address < last.file_size) return &last;
  }
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    if (address >= segment.address && address - segment.address < segment.file_size) {
      last_segment_ = i;
      return &segment;
    }
  }
  return nullptr;
}

std::optional<uint64_t> ElfFile::OffsetOf(uint64_t address) {
  const Segment* segment = FindSegment(address);
  uint64_t offset;
  if (segment == nullptr || __builtin_add_overflow(segment->offset, address - segment->address, &offset)) {
    return std::nullopt;
  }
  return offset;
}

bool ElfFile::ReadAddress(uint64_t address, void* out, size_t size) {
  const Segment* segment = FindSegment(address);
  if (segment == nullptr || size > segment->file_size - (address - segment->address)) return false;
  const std::optional<uint64_t> offset = OffsetOf(address);
  return offset && Read(*offset, out, size);
}

bool ElfFile::ReadAddressPadded(uint64_t address, void* out, size_t size) {
  const Segment* segment = FindSegment(address);
  if (segment == nullptr) return false;
  const size_t real = std::min<uint64_t>(size, segment->file_size - (address - segment->address));
  memset(static_cast<uint8_t*>(out) + real, 0, size - real);
  return ReadAddress(address, out, real);
}

std::string ElfFile::ReadString(uint64_t offset, size_t limit) {
  std::string text;
  while (text.size() < limit && offset < size_) {
    const Block* block = GetBlock(offset / kBlockSize);
    if (block == nullptr) break;
    const size_t at = offset % kBlockSize;
    const size_t part = std::min(limit - text.size(), block->size - at);
    const uint8_t* begin = block->bytes.data() + at;
    const auto* zero = static_cast<const uint8_t*>(memchr(begin, 0, part));
    text.append(begin, zero != nullptr ? zero : begin + part);
    if (zero != nullptr) break;
    offset += part;
  }
  return text;
}

bool ElfFile::IsExecutable(uint64_t address) const {
  return std::any_of(segments_.begin(), segments_.end(), [address](const Segment& segment) {
    return segment.executable && address >= segment.address && address - segment.address < segment.memory_size;
  });
}

const std::vector<ElfFile::Section>& ElfFile::sections() {
  if (sections_.has_value()) return *sections_;
  sections_.emplace();
  Elf64_Shdr first;
  if (header_.e_shoff == 0 || header_.e_shentsize != sizeof(Elf64_Shdr) ||
      !Read(header_.e_shoff, &first, sizeof(first))) {
    return *sections_;
  }
  const uint64_t count = header_.e_shnum != 0 ? header_.e_shnum : first.sh_size;
  if (count > kMaxSections) return *sections_;
  const auto read = ReadArray<Elf64_Shdr>(header_.e_shoff, count * sizeof(Elf64_Shdr), SIZE_MAX);
  if (!read) return *sections_;
  const std::vector<Elf64_Shdr>& headers = *read;
  const uint64_t names = header_.e_shstrndx != SHN_XINDEX ? header_.e_shstrndx : first.sh_link;
  for (const Elf64_Shdr& section : headers) {
    Section& added = sections_->emplace_back();
    uint64_t name_offset;
    if (names < count && section.sh_name < headers[names].sh_size &&
        !__builtin_add_overflow(headers[names].sh_offset, uint64_t{section.sh_name}, &name_offset)) {
      added.name = ReadString(name_offset, kMaxSectionName);
    }
    added.type = section.sh_type;
    added.link = section.sh_link;
    added.flags = section.sh_flags;
    added.address = section.sh_addr;
    added.offset = section.sh_offset;
    added.size = section.sh_size;
  }
  return *sections_;
}

const ElfFile::Section* ElfFile::FindSection(std::string_view name) {
  for (const Section& section : sections()) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

std::unique_ptr<ElfFile> OpenModuleFile(const std::string& path, std::string_view build_id) {
  const std::string_view real = WithoutDeleted(path);
  if (real.size() < path.size() && build_id.empty()) return nullptr;
  std::unique_ptr<ElfFile> file = ElfFile::Open(std::string(real));
  if (file == nullptr || (!build_id.empty() && file->build_id() != build_id)) return nullptr;
  return file;
}

std::unique_ptr<ElfFile> OpenDebugFile(const std::string& root, std::string_view build_id) {
  if (build_id.size() < 2 || build_id.size() > 64) return nullptr;
  std::string path = root + "/.build-id/";
  constexpr char kHex[] = "0123456789abcdef";
  for (size_t i = 0; i < build_id.size(); ++i) {
    const auto byte = static_cast<uint8_t>(build_id[i]);
    path += kHex[byte >> 4];
    path += kHex[byte & 15];
    if (i == 0) path += '/';
  }
  std::unique_ptr<ElfFile> file = ElfFile::Open(path + ".debug");
  if (file == nullptr || file->build_id() != build_id) return nullptr;
  return file;
}

}  // namespace tbprof
