// SPDX-License-Identifier: Apache-2.0
#include "writer/timeline/python_origin.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

TEST(PythonOrigin, FilesOfTheProgram_AreItsOwn) {
  EXPECT_EQ(PythonOriginOf("/home/u/train.py", "main"), PythonOrigin::kProgram);
  EXPECT_EQ(PythonOriginOf("train.py", "main"), PythonOrigin::kProgram);
  EXPECT_EQ(PythonOriginOf("<string>", "<module>"), PythonOrigin::kProgram);
  // Named like a module of the standard library.
  EXPECT_EQ(PythonOriginOf("/home/u/threading.py", "Thread.run"), PythonOrigin::kProgram);
}

TEST(PythonOrigin, CodeThatALibraryMakes_IsALibrarys) {
  EXPECT_EQ(PythonOriginOf("<sqlalchemy generated _go() wrapper>", "commit"), PythonOrigin::kLibrary);
  EXPECT_EQ(PythonOriginOf("<eval_with_key>.87", "forward"), PythonOrigin::kLibrary);
  EXPECT_EQ(PythonOriginOf("<__array_function__ internals>", "dot"), PythonOrigin::kLibrary);
  for (const char* const own :
       {"<stdin>", "<ipython-input-5-0f3a>", "<timed exec>", "<doctest m.f[0]>", "<dynamic-code>"}) {
    EXPECT_EQ(PythonOriginOf(own, "<module>"), PythonOrigin::kProgram) << own;
  }
}

TEST(PythonOrigin, WhatStartsProgramsAndThreads_IsAStarter) {
  EXPECT_EQ(PythonOriginOf("<frozen runpy>", "_run_code"), PythonOrigin::kStarter);
  EXPECT_EQ(PythonOriginOf("/usr/lib/python3.8/runpy.py", "_run_code"), PythonOrigin::kStarter);
  EXPECT_EQ(PythonOriginOf("/usr/lib/python3.11/threading.py", "Thread._bootstrap_inner"), PythonOrigin::kStarter);
  EXPECT_EQ(PythonOriginOf("/usr/lib/python3.8/threading.py", "_bootstrap"), PythonOrigin::kStarter);
  EXPECT_EQ(PythonOriginOf("/usr/lib/python3.11/multiprocessing/spawn.py", "_main"), PythonOrigin::kStarter);
}

TEST(PythonOrigin, OtherFunctionsOfTheSameFiles_AreALibrarys) {
  EXPECT_EQ(PythonOriginOf("/usr/lib/python3.11/threading.py", "Condition.wait"), PythonOrigin::kLibrary);
  EXPECT_EQ(PythonOriginOf("/usr/lib/python3.11/threading.py", "Thread.dry_run"), PythonOrigin::kLibrary);
  EXPECT_EQ(PythonOriginOf("/e/lib/python3.11/site-packages/numpy/core.py", "dot"), PythonOrigin::kLibrary);
  EXPECT_EQ(PythonOriginOf("<frozen os>", "walk"), PythonOrigin::kLibrary);
  EXPECT_EQ(PythonOriginOf("/tmp/torchinductor_me/vu/cvuz44.py", "Runner.call"), PythonOrigin::kLibrary);
}

TEST(PythonOrigin, Importlib_IsAnImport) {
  EXPECT_EQ(PythonOriginOf("<frozen importlib._bootstrap>", "_find_and_load"), PythonOrigin::kImport);
  EXPECT_EQ(PythonOriginOf("/usr/lib/python3.11/importlib/__init__.py", "import_module"), PythonOrigin::kImport);
  EXPECT_EQ(PythonOriginOf("<frozen importlib._bootstrap_external>", "_LoaderBasics.exec_module"),
            PythonOrigin::kImport);
  // `python -m compileall` compiles with it, and imports nothing.
  EXPECT_EQ(PythonOriginOf("<frozen importlib._bootstrap_external>", "SourceLoader.source_to_code"),
            PythonOrigin::kImportTool);
  EXPECT_EQ(PythonOriginOf("/usr/lib/python3.11/importlib/metadata/__init__.py", "version"), PythonOrigin::kLibrary);
}

}  // namespace
}  // namespace tbprof
