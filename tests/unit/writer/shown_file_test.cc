// SPDX-License-Identifier: Apache-2.0
#include "writer/base/shown_file.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

TEST(ShownFile, FileOfAPackage_IsShownAsItIsImported) {
  EXPECT_EQ(ShownFile("/v/lib/python3.11/site-packages/torch/utils/data/dataset.py"), "torch/utils/data/dataset.py");
  EXPECT_EQ(ShownFile("/usr/lib/python3/dist-packages/yaml/__init__.py"), "yaml/__init__.py");
  EXPECT_EQ(ShownFile("/v/lib/python3.11/site-packages/six.py"), "six.py");
}

TEST(ShownFile, LongPathInAPackage_KeepsPackageAndFile) {
  EXPECT_EQ(ShownFile("/v/site-packages/transformers/models/qwen2_moe/modeling_qwen2_moe.py"),
            "transformers/.../modeling_qwen2_moe.py");
}

TEST(ShownFile, FileOfPythonsLibrary_IsShownBelowIt) {
  EXPECT_EQ(ShownFile("/usr/lib/python3.11/json/decoder.py"), "json/decoder.py");
  EXPECT_EQ(ShownFile("/root/.pyenv/versions/3.13.0/lib/python3.13/threading.py"), "threading.py");
  EXPECT_EQ(ShownFile("/usr/lib64/python3.12/asyncio/base_events.py"), "asyncio/base_events.py");
}

TEST(ShownFile, FileOfTheProgram_IsItsName) {
  EXPECT_EQ(ShownFile("/home/me/project/data/train.py"), "train.py");
  EXPECT_EQ(ShownFile("train.py"), "train.py");
  EXPECT_EQ(ShownFile("<string>"), "<string>");
  EXPECT_EQ(ShownFile(""), "");
  EXPECT_EQ(ShownFile("/work/ours/__init__.py"), "ours/__init__.py");
  EXPECT_EQ(ShownFile("__main__.py"), "__main__.py");
}

TEST(ShownFile, CellOfANotebook_IsCalledSo) {
  EXPECT_EQ(ShownFile("/tmp/ipykernel_4711/3338075097.py"), "notebook cell 3338075097");
  EXPECT_EQ(ShownFile("/home/me/train.ipynb cell 3"), "train.ipynb cell 3");
}

TEST(ShownFile, PathThatEndsAtTheFolder_IsItsName) {
  EXPECT_EQ(ShownFile("/v/lib/python3"), "python3");
  EXPECT_EQ(ShownFile("/v/site-packages/"), "");
}

}  // namespace
}  // namespace tbprof
