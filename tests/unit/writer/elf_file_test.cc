// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/elf_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tbprof {
namespace {

std::unique_ptr<ElfFile> OpenSelf() { return ElfFile::Open(ScopedFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC))); }

TEST(ElfFile, OwnProgram_GivesHeadersAndSections) {
  const std::unique_ptr<ElfFile> file = OpenSelf();
  ASSERT_NE(file, nullptr);
  const auto loads = std::ranges::count(file->program_headers(), uint32_t{PT_LOAD}, &Elf64_Phdr::p_type);
  EXPECT_GT(loads, 0);
  EXPECT_EQ(file->segments().size(), static_cast<size_t>(loads));
  EXPECT_NE(file->FindSection(".dynamic"), nullptr);
}

TEST(ElfFile, OffsetOf_FollowsTheSegments) {
  const std::unique_ptr<ElfFile> file = OpenSelf();
  ASSERT_NE(file, nullptr);
  for (const ElfFile::Segment& segment : file->segments()) {
    if (segment.file_size == 0) continue;
    EXPECT_EQ(file->OffsetOf(segment.address), segment.offset);
    EXPECT_EQ(file->OffsetOf(segment.address + segment.file_size - 1), segment.offset + segment.file_size - 1);
  }
  EXPECT_EQ(file->OffsetOf(UINT64_MAX), std::nullopt);
}

TEST(ElfFile, ReadArray_BeyondBoundOrFile_GivesNothing) {
  const std::unique_ptr<ElfFile> file = OpenSelf();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->ReadArray<uint16_t>(0, 9, 9)->size(), 4u);
  EXPECT_EQ(file->ReadArray<uint16_t>(0, 10, 9), std::nullopt);
  EXPECT_EQ(file->ReadArray<char>(file->size() - 1, 2, 100), std::nullopt);
  EXPECT_EQ(file->ReadArray<char>(UINT64_MAX, 2, 100), std::nullopt);
}

TEST(ElfFile, Open_NotElf_GivesNothing) {
  EXPECT_EQ(ElfFile::Open("/etc/passwd"), nullptr);
  EXPECT_EQ(ElfFile::Open("/dev/zero"), nullptr);
  EXPECT_EQ(ElfFile::Open(ScopedFd()), nullptr);
}

}  // namespace
}  // namespace tbprof
