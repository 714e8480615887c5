// SPDX-License-Identifier: Apache-2.0
#include "launcher/target/library_check.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "launcher/base/text.h"
#include "launcher/target/preflight.h"
#include "wire/library_mark.h"
#include "writer/base/scoped.h"

namespace tbprof {
namespace {

using GlibcVersion = std::pair<int, int>;

GlibcVersion ParseVersion(const char* text) {
  GlibcVersion version;
  return sscanf(text, "%d.%d", &version.first, &version.second) == 2 ? version : GlibcVersion();
}

// The bytes of the file. Every read checks its range against the size.
class Image {
 public:
  Image(const char* data, size_t size) : data_(data), size_(size) {}

  template <typename T>
  bool Read(uint64_t offset, T* value) const {
    if (offset > size_ || sizeof(T) > size_ - offset) return false;
    memcpy(value, data_ + offset, sizeof(T));
    return true;
  }
  std::string_view bytes() const { return {data_, size_}; }
  uint64_t size() const { return size_; }

 private:
  const char* data_;
  size_t size_;
};

bool IsCutShort(const Image& image, const ElfW(Ehdr) & header) {
  for (int i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    if (!image.Read(header.e_phoff + static_cast<uint64_t>(i) * sizeof(segment), &segment)) return true;
    if (segment.p_offset > image.size() || segment.p_filesz > image.size() - segment.p_offset) return true;
  }
  return false;
}

// The newest version `GLIBC_2.N` that the library needs from other libraries.
GlibcVersion NeededGlibc(const Image& image, const ElfW(Ehdr) & header) {
  GlibcVersion newest;
  for (int i = 0; i < header.e_shnum; ++i) {
    ElfW(Shdr) section, names;
    if (!image.Read(header.e_shoff + static_cast<uint64_t>(i) * sizeof(section), &section)) break;
    if (section.sh_type != SHT_GNU_verneed || !image.Read(header.e_shoff + section.sh_link * sizeof(names), &names)) {
      continue;
    }
    ElfW(Verneed) file;
    for (uint64_t at = section.sh_offset; image.Read(at, &file); at += file.vn_next) {
      ElfW(Vernaux) version;
      for (uint64_t inner = at + file.vn_aux; image.Read(inner, &version); inner += version.vna_next) {
        char name[32] = {};
        if (image.Read(names.sh_offset + version.vna_name, &name) && strncmp(name, "GLIBC_", 6) == 0) {
          name[sizeof(name) - 1] = '\0';
          newest = std::max(newest, ParseVersion(name + 6));
        }
        if (version.vna_next == 0) break;
      }
      if (file.vn_next == 0) break;
    }
  }
  return newest;
}

std::string FaultOf(const Image& image, const char* glibc_version) {
  ElfW(Ehdr) header;
  if (!image.Read(0, &header) || IsCutShort(image, header)) return "is cut short";
  constexpr LibraryMark kMark;
  const std::string_view text(kMark.text, sizeof(kMark.text));
  const size_t mark = image.bytes().find(text);
  uint32_t abi = 0;
  if (mark == std::string_view::npos || !image.Read(mark + text.size(), &abi)) {
    return "is not of this version of tbprof";
  }
  if (abi != kAbiVersion)
    return StrCat("is of another version of tbprof (wire format ", abi, ", not ", kAbiVersion, ")");
  const GlibcVersion needed = NeededGlibc(image, header);
  if (needed > ParseVersion(glibc_version)) {
    return StrCat("needs glibc ", needed.first, ".", needed.second, ", this is ", glibc_version);
  }
  return "";
}

}  // namespace

std::string LibraryFault(const std::string& path, const char* glibc_version) {
  const ElfFacts facts = ReadElf(path);
  if (!facts.is_elf) return "is no library";
  if (!facts.native) return "is a library for another machine";
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status;
  if (!file.valid() || fstat(file.get(), &status) != 0) return strerror(errno);
  const auto size = static_cast<size_t>(status.st_size);
  const ScopedMapping mapping(mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0), size);
  if (!mapping.valid()) return strerror(errno);
  return FaultOf(Image(static_cast<const char*>(mapping.data()), size), glibc_version);
}

}  // namespace tbprof
