// SPDX-License-Identifier: Apache-2.0
//
// Cells of notebooks, from files to the places of a timeline.
#include "writer/symbols/notebook_cells.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/spool_maker.h"
#include "writer/base/cell_path.h"
#include "writer/timeline/python_place.h"

namespace tbprof {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class NotebookCellsTest : public testing::Test {
 protected:
  NotebookCellsTest() {
    std::string pattern = testing::TempDir() + "/tbprof_notebook_XXXXXX";
    root_ = fs::canonical(mkdtemp(pattern.data()));
  }
  ~NotebookCellsTest() override { fs::remove_all(root_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = root_ / name;
    std::ofstream(path) << text;
    return path;
  }

  fs::path root_;
};

// What ipykernel.compiler.murmur2_x86(text, 0xC70F6907) of ipykernel 7.4 returns.
TEST(HashOfCell, IsThatOfIpykernel) {
  EXPECT_EQ(HashOfCell(""), 3990065800u);
  EXPECT_EQ(HashOfCell("x"), 32546335u);
  EXPECT_EQ(HashOfCell("xy"), 3424147140u);
  EXPECT_EQ(HashOfCell("xyz"), 2282940932u);
  EXPECT_EQ(HashOfCell("abcd"), 804720481u);
  EXPECT_EQ(HashOfCell("x = 1\nprint('\xc3\xa4')\n"), 1694856260u);
}

TEST(CellOfPath, OnlyFilesOfTheKernel_AreCells) {
  EXPECT_EQ(CellOfPath("/tmp/ipykernel_4711/3338075097.py"), 3338075097u);
  EXPECT_EQ(CellOfPath("/var/tmp/x/ipykernel_1/0.py"), 0u);
  EXPECT_EQ(CellOfPath("/tmp/ipykernel_1/4294967296.py"), std::nullopt);
  EXPECT_EQ(CellOfPath("/tmp/ipykernel_1/-1.py"), std::nullopt);
  EXPECT_EQ(CellOfPath("/tmp/ipykernel_1/.py"), std::nullopt);
  EXPECT_EQ(CellOfPath("/tmp/ipykernel_1/1.pyc"), std::nullopt);
  EXPECT_EQ(CellOfPath("/home/ipykernel/1.py"), std::nullopt);
  EXPECT_EQ(CellOfPath("1.py"), std::nullopt);
  EXPECT_EQ(CellOfPath(".py"), std::nullopt);
  EXPECT_EQ(CellOfPath(""), std::nullopt);
}

TEST_F(NotebookCellsTest, Cells_AreCountedAmongTheCodeCells) {
  const std::string path = Write("train.ipynb", R"({"cells": [
      {"cell_type": "markdown", "source": "xyz"},
      {"cell_type": "code", "source": ["x"], "outputs": [{"data": "large"}]},
      {"cell_type": "code", "source": ["x", "yz"]},
      {"cell_type": "code", "source": "x"}]})");
  NotebookCells cells;
  cells.Add(path);
  cells.Add(path);
  EXPECT_THAT(
      cells.NamesOf({HashOfCell("x"), HashOfCell("xyz"), HashOfCell("abcd")}),
      UnorderedElementsAre(Pair(HashOfCell("x"), path + " cell 1 or 3"), Pair(HashOfCell("xyz"), path + " cell 2")));
}

TEST_F(NotebookCellsTest, TheNotebookWithMostOfTheCells_NamesThem) {
  Write("a copy.ipynb", R"({"cells": [{"cell_type": "code", "source": "x"}]})");
  Write("b.ipynb", R"({"cells": [{"cell_type": "code", "source": "xyz"}, {"cell_type": "code", "source": "x"}]})");
  NotebookCells cells;
  cells.AddFolder(root_);
  EXPECT_THAT(cells.NamesOf({HashOfCell("x"), HashOfCell("xyz")}),
              UnorderedElementsAre(Pair(HashOfCell("x"), (root_ / "b.ipynb cell 2").string()),
                                   Pair(HashOfCell("xyz"), (root_ / "b.ipynb cell 1").string())));
}

TEST_F(NotebookCellsTest, WhatIsNoNotebook_HasNoCells) {
  Write("text.ipynb", "not JSON");
  Write("list.ipynb", "[1, 2]");
  Write("number.ipynb", R"({"cells": 3})");
  Write("odd.ipynb", R"({"cells": [1, {"cell_type": 2}, {"cell_type": "code", "source": {"x": 1}}, null]})");
  Write("deep.ipynb", std::string(8u << 20, '['));
  std::string wide = "{\"cells\": [";
  for (int i = 0; i < 500'000; ++i) wide += "{\"metadata\": {}},";
  Write("wide.ipynb", wide + "{}]}");
  fs::create_directory(root_ / "folder.ipynb");
  NotebookCells cells;
  cells.AddFolder(root_);
  cells.AddFolder("/nowhere");
  cells.Add("/dev/zero");
  EXPECT_THAT(cells.NamesOf({HashOfCell("x")}), IsEmpty());
}

TEST_F(NotebookCellsTest, CodeOfACellInASpool_HasItsName) {
  constexpr uint64_t kMs = 1'000'000;
  Write("train.ipynb", R"({"cells": [{"cell_type": "code", "source": "xyz"}]})");
  SpoolMaker spool;
  spool.Session(kMs).Segment(1, {}).Process(1, 1, 100, kMs).Thread(1, 1, 1, 100, kMs);
  spool.PythonStatus(1, 1, 2 * kMs, kPythonSampled);
  spool.Notebook(1, 1, "/nowhere").Notebook(1, 1, root_.string());
  spool.PythonCode(1, 1, 1, "<module>", "/tmp/ipykernel_100/2282940932.py", 10);
  spool.PythonCode(1, 1, 2, "other", "/tmp/ipykernel_100/77.py", 10);
  spool.PythonNodes(1, 1, {{1, 0, 1, 0}, {2, 1, 2, 0}});
  spool.PythonSamples(1, 1, {{100 * kMs, 190 * kMs, 100, 2, 10, 10}});
  const absl::StatusOr<Timeline> built = spool.End(1000 * kMs).Build();
  ASSERT_TRUE(built.ok()) << built.status();
  const Timeline& timeline = *built;
  ASSERT_EQ(timeline.python.stacks.size(), 3u);
  EXPECT_EQ(PythonStackText(timeline, 2, 1), "notebook cell 77:10 other < train.ipynb cell 1:10 <module>");
}

}  // namespace
}  // namespace tbprof
