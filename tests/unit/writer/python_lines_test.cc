// SPDX-License-Identifier: Apache-2.0
//
// Lines of instructions, compared with the results of each installed Python for its own standard library.
#include "writer/symbols/python_lines.h"

#include <glob.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/writer/spool_maker.h"

namespace tbprof {
namespace {

TEST(PythonLine, Lnotab_AddsUpToTheInstruction) {
  // Line 10 at 0, 12 at 4, 11 at 6 (back by one), 111 + 28 at 10: a change beyond 127 takes two pairs.
  const std::string table("\x04\x02\x02\xff\x04\x7f\x00\x01", 8);
  EXPECT_EQ(LineOfInstruction(8, table, 10, 0), 10);
  EXPECT_EQ(LineOfInstruction(8, table, 10, 2), 10);
  EXPECT_EQ(LineOfInstruction(8, table, 10, 4), 12);
  EXPECT_EQ(LineOfInstruction(9, table, 10, 8), 11);
  EXPECT_EQ(LineOfInstruction(9, table, 10, 10), 11 + 127 + 1);
  EXPECT_EQ(LineOfInstruction(9, table, 10, 5000), 11 + 127 + 1);
}

TEST(PythonLine, Ranges_HaveNoLineWhereTheTableNamesNone) {
  const std::string table("\x04\x00\x02\x80\x02\x03", 6);
  EXPECT_EQ(LineOfInstruction(10, table, 10, 2), 10);
  EXPECT_EQ(LineOfInstruction(10, table, 10, 4), kNoPythonLine);
  EXPECT_EQ(LineOfInstruction(10, table, 10, 6), 13);
  EXPECT_EQ(LineOfInstruction(10, table, 10, 8), kNoPythonLine) << "behind the end";
}

TEST(PythonLine, Locations_TakesEachKindOfEntry) {
  const std::string table =
      std::string("\x80\x00", 2) +                 // short form, one unit, the same line
      std::string("\xd9\x00\x00", 3) +             // one line further, two units
      std::string("\xe8\x05", 2) +                 // no columns, -2
      std::string("\xf8", 1) +                     // no location
      std::string("\xf0\x48\x01\x00\x00\x00", 6);  // long form, two bytes: 8 | 1 << 6 is 72, which is +36
  EXPECT_EQ(LineOfInstruction(11, table, 10, 0), 10);
  EXPECT_EQ(LineOfInstruction(11, table, 10, 2), 11);
  EXPECT_EQ(LineOfInstruction(11, table, 10, 4), 11);
  EXPECT_EQ(LineOfInstruction(12, table, 10, 6), 9);
  EXPECT_EQ(LineOfInstruction(12, table, 10, 8), kNoPythonLine);
  EXPECT_EQ(LineOfInstruction(13, table, 10, 10), 45);
  EXPECT_EQ(LineOfInstruction(13, table, 10, 12), kNoPythonLine);
}

TEST(PythonLine, UnknownInstructionOrVersion_HasNoLine) {
  EXPECT_EQ(LineOfInstruction(11, "\x80", 10, -1), kNoPythonLine);
  EXPECT_EQ(LineOfInstruction(7, "\x02\x01", 10, 0), kNoPythonLine);
  EXPECT_EQ(LineOfInstruction(16, "\x80", 10, 0), kNoPythonLine);
  EXPECT_EQ(LineOfInstruction(11, "", 10, 0), kNoPythonLine);
}

TEST(PythonLine, RandomTables_GiveALineOrNone) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    std::string table(random() % 40, '\0');
    for (char& byte : table) byte = static_cast<char>(random());
    const int32_t line = LineOfInstruction(static_cast<uint16_t>(random() % 17), table, static_cast<int32_t>(random()),
                                           static_cast<int32_t>(random() % 600));
    EXPECT_GE(line, kNoPythonLine);
  }
}

// Prints, for each code object of the standard library, its first line, its table, and (start, end, line) of its
// ranges.
constexpr const char* kScript = R"(
import array, importlib.util, marshal, os, struct, sys, sysconfig
out = sys.stdout.buffer
minor = sys.version_info[1]
out.write(struct.pack("<i", minor))
if minor < 8:
    sys.exit()
if minor < 10:
    import ctypes
    line_of = ctypes.pythonapi.PyCode_Addr2Line
    line_of.argtypes = [ctypes.py_object, ctypes.c_int]
def emit(code):
    if minor < 10:
        table = code.co_lnotab
        rows = [n for at in range(0, len(code.co_code), 2) for n in (at, at + 2, line_of(code, at))]
    else:
        table = code.co_linetable
        rows = [n for start, end, line in code.co_lines() for n in (start, end, -1 if line is None else line)]
    out.write(struct.pack("<iII", code.co_firstlineno, len(table), len(rows) // 3))
    out.write(table)
    out.write(array.array("i", rows).tobytes())
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            emit(constant)
left_out = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "lib2to3"}
for folder, folders, files in os.walk(sysconfig.get_paths()["stdlib"]):
    folders[:] = [name for name in folders if name not in left_out]
    for name in files:
        path = os.path.join(folder, name)
        if not name.endswith(".py"):
            continue
        try:
            with open(importlib.util.cache_from_source(path), "rb") as file:
                code = marshal.loads(file.read()[16:])
        except (OSError, ValueError, EOFError, TypeError):
            try:
                with open(path, "rb") as file:
                    code = compile(file.read(), path, "exec")
            except (OSError, SyntaxError, ValueError):
                continue
        emit(code)
)";

// Commands of interpreters; if scripts/debian_root.sh has made a root, of the interpreters in that root.
std::vector<std::string> InstalledPythons() {
  std::vector<std::string> found;
  glob_t paths{};
  if (const char* other = getenv("TBPROF_DEBIAN_ROOT")) {
    const std::string root = other;
    glob((root + "/usr/bin/python3.[0-9]*[0-9]").c_str(), 0, nullptr, &paths);
    for (size_t i = 0; i < paths.gl_pathc; ++i) {
      found.push_back("chroot " + root + " " + std::string(paths.gl_pathv[i]).substr(root.size()));
    }
    globfree(&paths);
    return found;
  }
  const char* root = getenv("PYENV_ROOT");
  const std::string pyenv = std::string(root != nullptr ? root : "/root/.pyenv") + "/versions/3.*/bin/python3";
  glob(pyenv.c_str(), 0, nullptr, &paths);
  for (size_t i = 0; i < paths.gl_pathc; ++i) found.emplace_back(paths.gl_pathv[i]);
  globfree(&paths);
  if (access("/usr/bin/python3", X_OK) == 0) found.emplace_back("/usr/bin/python3");
  return found;
}

bool Read(FILE* file, void* bytes, size_t size) { return size == 0 || fread(bytes, size, 1, file) == 1; }

// Returns the number of compared code objects; -1: unsupported version.
int64_t CompareLines(const std::string& python, const std::string& script) {
  const std::unique_ptr<FILE, int (*)(FILE*)> out(popen((python + " -I - < " + script).c_str(), "r"), pclose);
  int32_t minor = 0;
  if (out == nullptr || !Read(out.get(), &minor, sizeof(minor)) || minor < 8 || minor > 15) return -1;
  int64_t codes = 0;
  uint64_t wrong = 0;
  struct {
    int32_t first_line;
    uint32_t table_bytes, ranges;
  } head;
  for (; Read(out.get(), &head, sizeof(head)); ++codes) {
    std::string table(head.table_bytes, '\0');
    std::vector<int32_t> ranges(size_t{head.ranges} * 3);
    if (!Read(out.get(), table.data(), table.size()) ||
        !Read(out.get(), ranges.data(), ranges.size() * sizeof(int32_t))) {
      ADD_FAILURE() << python << ": the output is cut";
      return codes;
    }
    for (size_t i = 0; i < ranges.size(); i += 3) {
      if (ranges[i] >= ranges[i + 1]) continue;
      for (const int32_t at : {ranges[i], ranges[i + 1] - 2}) {
        const int32_t line = LineOfInstruction(static_cast<uint16_t>(minor), table, head.first_line, at);
        if (line == ranges[i + 2]) continue;
        if (++wrong < 5) {
          ADD_FAILURE() << python << ": code at line " << head.first_line << ", instruction " << at << ": " << line
                        << " instead of " << ranges[i + 2];
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0u) << python;
  return codes;
}

TEST(PythonLine, StandardLibraryOfEachInstalledPython_EqualsItsOwnLines) {
  const TemporaryPath script("python_lines");
  script.Write(kScript);
  int compared = 0;
  for (const std::string& python : InstalledPythons()) {
    const int64_t codes = CompareLines(python, script.path());
    if (codes < 0) continue;
    EXPECT_GT(codes, 1000) << python;
    printf("%s: %ld code objects\n", python.c_str(), static_cast<long>(codes));
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "no Python 3.8 or later is installed";
}

}  // namespace
}  // namespace tbprof
