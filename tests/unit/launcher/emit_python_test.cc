// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/emit_python.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tbprof {
namespace {

std::vector<std::string> NotebookFrames(const std::string& file) {
  std::vector<std::string> frames;
  PythonReader::Code code;
  code.number = 1;
  code.file = file;
  SampledProcess process;
  process.segment = process.serial = 1;
  process.pid = getpid();
  EmitPythonCodes(
      [&](FrameType type, uint32_t, const void* payload, size_t size) {
        if (type == FrameType::kNotebook) frames.emplace_back(static_cast<const char*>(payload), size);
      },
      process, 11, {code});
  return frames;
}

TEST(EmitPythonCodes, CellOfANotebook_TellsWhereItsProcessRuns) {
  const std::vector<std::string> frames = NotebookFrames("/tmp/ipykernel_4711/3338075097.py");
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].substr(sizeof(NotebookFact)), std::filesystem::current_path().string());
}

TEST(EmitPythonCodes, OtherCode_DoesNot) { EXPECT_TRUE(NotebookFrames("/home/me/train.py").empty()); }

}  // namespace
}  // namespace tbprof
