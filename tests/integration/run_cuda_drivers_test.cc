// SPDX-License-Identifier: Apache-2.0
// Forwarding drivers, several drivers in one process, and functions in several versions: the program never notices
// tbprof.
#include <elf.h>

#include <cstring>

#include "cuda_neighbours.h"

namespace tbprof::integration {
namespace {

using CudaDrivers = Cuda;

int64_t KernelsOf(const RunResult& run) {
  int64_t kernels = 0;
  for (const auto& gpu : run.summary["gpus"]) kernels += gpu["kernels"].get<int64_t>() + gpu["untimed"].get<int64_t>();
  return kernels;
}

TEST_F(CudaDrivers, Neighbour_EveryMode_OutputIsTheBareOne) {
  for (const Neighbour& neighbour : Neighbours()) {
    const RunResult bare = RunBare(neighbour.command, OptionsOf(neighbour, "auto", true));
    ASSERT_EQ(bare.code(), 0) << neighbour.name << bare.err;
    for (const std::string mode : {"auto", "cupti", "hooks"}) {
      for (const bool is_open : {true, false}) {
        const RunResult run = RunUnderTbprof(neighbour.command, OptionsOf(neighbour, mode, is_open));
        EXPECT_TRUE(SameOutput(bare, run)) << neighbour.name << " --cuda=" << mode << (is_open ? "" : " --window=none");
      }
    }
  }
}

TEST_F(CudaDrivers, Neighbour_Hooks_RecordsEachKernelOnce) {
  for (const Neighbour& neighbour : Neighbours()) {
    if (neighbour.kernels == 0) continue;
    const RunResult run = RunUnderTbprof(neighbour.command, OptionsOf(neighbour, "hooks", true));
    ASSERT_EQ(run.code(), 0) << neighbour.name << run.err;
    ASSERT_FALSE(run.summary.is_null()) << neighbour.name << run.AllPrinted();
    EXPECT_EQ(KernelsOf(run), neighbour.kernels) << neighbour.name;
  }
}

// The loader's lock is held while the constructor waits for the thread.
TEST_F(CudaDrivers, Constructor_WaitsForAThreadThatCalls_RunsAsBare) {
  const std::string plugin = Subject("libsim_driver_plugin.so"), joins = Subject("libsim_constructor_joins.so");
  const std::vector<std::vector<std::string>> commands = {
      {Subject("opens_plugin"), plugin, joins},
      {Subject("opens_plugin"), plugin, joins, "now"},
      {Subject("opens_plugin"), plugin, joins, "deep"},
      {Subject("starts_with_joins")},
  };
  for (const std::vector<std::string>& command : commands) {
    for (const std::string mode : {"off", "auto", "hooks"}) {
      RunOptions options = On("cuda13");
      options.environment.emplace_back("CONSTRUCTOR_CALLS", "driver and nccl");
      options.tbprof = {"--cuda=" + mode};
      options.timeout_s = 30;
      const Pair pair = RunBoth(command, options);
      EXPECT_EQ(pair.bare.code(), 0) << pair.bare.err;
      EXPECT_TRUE(pair.Same()) << command.back() << " --cuda=" << mode;
    }
  }
}

// Whether each way to look up a name of CUDA, CUPTI, NCCL or NVTX finds it, and with the same address.
TEST_F(CudaDrivers, LookUp_EveryWay_FindsWhatIsThereBare) {
  const std::string alone = Subject("libsim_names_alone.so"), linked = Subject("libsim_names_linked.so");
  const std::string cupti = "libcupti.so.13", nccl = "libnccl.so.2", driver = "libcuda.so.1";
  const std::vector<std::vector<std::string>> commands = {
      {Subject("names"), alone},
      {Subject("names"), alone, "now"},
      {Subject("names"), alone, "deep"},
      {Subject("names"), linked, "plain"},
      {Subject("names"), linked, "now", "plain"},
      {Subject("names"), linked, "deep", "plain"},
      {Subject("names"), linked, "now", "global"},
      {Subject("names_now"), alone, "now"},
      {Subject("names_now"), cupti, nccl, driver, linked, "global", "now"},
      {Subject("names_own_visit"), linked, "now", "plain"},
      {Subject("names_linked")},
      {Subject("names_linked"), alone, "now"},
      {Subject("names_linked"), linked},
  };
  for (const auto& command : commands) {
    for (const std::string mode : {"auto", "cupti", "hooks", "off"}) {
      RunOptions options = On("cuda13");
      options.tbprof = {"--cuda=" + mode};
      const Pair pair = RunBoth(command, options);
      EXPECT_TRUE(SameOutput(pair.bare, pair.profiled)) << testing::PrintToString(command) << " --cuda=" << mode << "\n"
                                                        << pair.bare.out << pair.profiled.out;
    }
  }
}

TEST_F(CudaDrivers, LookUp_InConstructorThatRunsBeforeOurs_FindsWhatIsThereBare) {
  for (const std::string mode : {"auto", "off"}) {
    RunOptions options = On("cuda13");
    options.environment[0].second = Sim("cuda13") + ":" + Sim("subjects");
    options.tbprof = {"--cuda=" + mode};
    const Pair pair = RunBoth({Subject("names_early")}, options);
    EXPECT_EQ(pair.bare.code(), 0) << pair.bare.err;
    EXPECT_TRUE(SameOutput(pair.bare, pair.profiled)) << mode << "\n" << pair.bare.out << pair.profiled.out;
  }
}

// Some linkers end the read-only part within a page, which the loader then leaves writable.
std::string WithReadOnlyPartUpTo(uint64_t end, std::string program) {
  Elf64_Ehdr header;
  memcpy(&header, program.data(), sizeof(header));
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    char* const place = &program[header.e_phoff + i * sizeof(part)];
    memcpy(&part, place, sizeof(part));
    if (part.p_type != PT_GNU_RELRO) continue;
    part.p_memsz = (part.p_vaddr + part.p_memsz + 4095) / 4096 * 4096 + end - part.p_vaddr;
    memcpy(place, &part, sizeof(part));
  }
  return program;
}

// References in code that is relocated, and in the writable page in which the read-only part ends.
TEST_F(CudaDrivers, ReferencesAtTheStart_OfUnusualPrograms_LeaveTheProgramAlone) {
  const TemporaryDirectory directory;
  const std::string program = directory / "names";
  WriteFile(program, WithReadOnlyPartUpTo(0x800, ReadFile(Subject("names_in_code"))), 0755);
  for (const std::string& one : {Subject("names_in_code"), program}) {
    const Pair pair = RunBoth({one}, On("cuda13"));
    EXPECT_EQ(pair.bare.code(), 0) << one << pair.bare.err;
    EXPECT_TRUE(SameOutput(pair.bare, pair.profiled)) << one << pair.profiled.out << pair.profiled.err;
  }
}

}  // namespace
}  // namespace tbprof::integration
