// SPDX-License-Identifier: Apache-2.0
#include "writer/symbols/elf_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

TEST(ElfFile, LoadBias_IsThatOfTheCodeAtTheOffset) {
  const ElfFile::Segment data = {0x1000, 0x1000, 0x500, 0x500, false};
  const ElfFile::Segment code = {0x402345, 0x2345, 0x100, 0x100, true};
  const std::vector<ElfFile::Segment> segments = {data, code};
  EXPECT_EQ(ElfFile::LoadBias(segments, 0x7f0000402000, 0x2000), uint64_t{0x7f0000000000});
  EXPECT_EQ(ElfFile::LoadBias(segments, 0x402444, 0x2444), uint64_t{0});
  EXPECT_EQ(ElfFile::LoadBias(segments, 0x402445, 0x2445), std::nullopt);
  EXPECT_EQ(ElfFile::LoadBias(segments, 0x401000, 0x1000), std::nullopt);
  EXPECT_EQ(ElfFile::LoadBias({}, 0x401000, 0), std::nullopt);
}

// The notes that the walk finds in `bytes`: type and content.
std::vector<std::pair<uint32_t, std::string>> NotesIn(std::string_view bytes, std::string_view owner) {
  std::vector<std::pair<uint32_t, std::string>> notes;
  const auto read = [&](uint64_t offset, void* out, size_t size) {
    if (offset > bytes.size() || size > bytes.size() - offset) return false;
    bytes.copy(static_cast<char*>(out), size, offset);
    return true;
  };
  VisitElfNotes(owner, 0, bytes.size(), read, [&](uint32_t type, uint64_t offset, uint64_t size) {
    notes.emplace_back(type, bytes.substr(offset, size));
    return type != 99;
  });
  return notes;
}

std::string Note(uint32_t type, const std::string& owner, const std::string& content) {
  const Elf64_Nhdr header = {static_cast<uint32_t>(owner.size()), static_cast<uint32_t>(content.size()), type};
  std::string note(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const std::string& part : {owner, content}) {
    note += part;
    note.append((4 - part.size() % 4) % 4, '\0');
  }
  return note;
}

TEST(VisitElfNotes, NotesOfTheOwner_AreVisitedUntilItEnds) {
  const std::string gnu("GNU", 4), core("CORE", 5), other("GNX", 4);
  const std::string all = Note(3, other, "abc") + Note(3, gnu, "") + Note(1, core, "12345") + Note(99, gnu, "id") +
                          Note(3, gnu, "behind the end");
  using Notes = std::vector<std::pair<uint32_t, std::string>>;
  EXPECT_EQ(NotesIn(all, "GNU"), (Notes{{3, ""}, {99, "id"}}));
  EXPECT_EQ(NotesIn(all, "CORE"), (Notes{{1, "12345"}}));
  EXPECT_EQ(NotesIn(all, "CORE2"), Notes());
}

TEST(VisitElfNotes, CutOrHugeNote_EndsTheWalk) {
  const std::string gnu("GNU", 4), note = Note(3, gnu, "abcde");
  for (size_t size = 0; size < note.size() - 3; ++size)
    EXPECT_TRUE(NotesIn(note.substr(0, size), "GNU").empty()) << size;
  EXPECT_EQ(NotesIn(note.substr(0, note.size() - 3), "GNU").size(), 1u);  // without the bytes that align the next one
  for (const Elf64_Nhdr header : {Elf64_Nhdr{4, UINT32_MAX, 3}, Elf64_Nhdr{UINT32_MAX, 4, 3}}) {
    std::string huge(reinterpret_cast<const char*>(&header), sizeof(header));
    huge += gnu + "abcd";
    EXPECT_TRUE(NotesIn(huge, "GNU").empty());
  }
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
