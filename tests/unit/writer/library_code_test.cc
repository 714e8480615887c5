// SPDX-License-Identifier: Apache-2.0
// The functions of libraries that a line of the program calls, and libraries that run single operations.
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/writer/verdict_maker.h"
#include "writer/verdict/verdict.h"

namespace tbprof {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

std::string Package(const std::string& file) { return "/env/lib/python3.12/site-packages/" + file; }

class LibraryCode : public testing::Test {
 protected:
  // `trainer.fit()` of a library, whose loop calls PyTorch.
  uint32_t Fit() { return maker_.Stack(maker_.in_main, Package("transformers/trainer.py"), "Trainer.train", 3); }
  uint32_t In(uint32_t parent, const std::string& file, const std::string& name) {
    return maker_.Stack(parent, Package(file), name, 1);
  }
  void Run(int64_t at, int64_t ms, uint32_t stack, uint32_t native) {
    maker_.Run(maker_.main, at, ms * kMs, stack, native);
  }
  VerdictMaker maker_;
};

TEST_F(LibraryCode, FunctionsThatTakeTheTimeOfFit_AreNamed) {
  const uint32_t step = In(Fit(), "transformers/trainer.py", "Trainer.training_step");
  const uint32_t wrapped = In(step, "torch/nn/modules/module.py", "Module._call_impl");
  const uint32_t model = In(wrapped, "transformers/models/gpt2/modeling_gpt2.py", "GPT2Block.forward");
  const uint32_t linear = In(model, "torch/nn/modules/linear.py", "Linear.forward");
  const uint32_t backward = In(step, "torch/_tensor.py", "Tensor.backward");
  const uint32_t engine = In(backward, "torch/autograd/graph.py", "_engine_run_backward");
  maker_.EachStep(kStep, [&](int64_t at) {
    Run(at, 30, linear, maker_.library);
    Run(at + 30 * kMs, 60, engine, maker_.library);
    Run(at + 90 * kMs, 10, step, maker_.library);
  });
  // Of the model, its layer and not the matrix product in it; of the trainer, not itself but what it calls.
  EXPECT_THAT(maker_.Make().facts, Contains("train.py:10 spends 60 % in Tensor.backward (torch), "
                                            "30 % in GPT2Block.forward (transformers)"));
}

// Of a database's library, at many lines: the program has nothing to vectorize.
TEST_F(LibraryCode, PythonOfALibraryAtManyLines_IsToBeCalledLess) {
  for (const bool of_library : {true, false}) {
    VerdictMaker maker;
    std::vector<uint32_t> stacks;
    for (int line = 10; line < 20; ++line) {
      const uint32_t own = maker.Stack(0, kOwn, "objective", line);
      stacks.push_back(of_library ? maker.Stack(own, Package("sqlalchemy/orm/session.py"), "Session.commit", 1) : own);
    }
    size_t next = 0;
    maker.EachStep(kStep, [&](int64_t at) {
      maker.Run(maker.main, at, kStep, stacks[next++ % stacks.size()], maker.interpreter);
    });
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kPython);
    EXPECT_EQ(verdict.advice == Advice::kLibraryPython, of_library);
  }
}

TEST_F(LibraryCode, FunctionsOfPyTorchThatTheLineCalls_AreNamed) {
  const uint32_t backward = In(maker_.in_main, "torch/_tensor.py", "Tensor.backward");
  const uint32_t engine = In(backward, "torch/autograd/graph.py", "_engine_run_backward");
  maker_.EachStep(kStep, [&](int64_t at) { Run(at, 100, engine, maker_.library); });
  EXPECT_THAT(maker_.Make().facts, Contains("train.py:10 spends 100 % in Tensor.backward (torch)"));
}

// The program cannot keep the buffers that a library allocates.
TEST_F(LibraryCode, PagesOfALibrary_AreKeptByMalloc) {
  for (const bool is_own : {true, false}) {
    VerdictMaker maker;
    const uint32_t own = maker.Stack(maker.in_main, kOwn, "forward", 20);
    const uint32_t gelu = maker.Stack(own, Package("torch/nn/modules/activation.py"), "GELU.forward", 1);
    const uint32_t stack = is_own ? own : gelu;
    maker.EachStep(60 * kMs, [&](int64_t at) { maker.Run(maker.main, at, 60 * kMs, stack, maker.library); });
    auto& points = maker.timeline.native.threads[maker.main].points;
    std::erase_if(points, [](const NativePoint& point) { return point.at_ps % kStep < 60 * kMs; });
    maker.Faults(0, 20'000'000);
    const Verdict verdict = maker.Make();
    EXPECT_EQ(verdict.cause, Cause::kAllocationChurn);
    EXPECT_EQ(verdict.advice, is_own ? Advice::kOfCause : Advice::kLibraryAllocates);
  }
}

TEST_F(LibraryCode, SmallFunctionsAndOwnCode_AreNotNamed) {
  for (const bool is_own : {true, false}) {
    VerdictMaker maker;
    maker.EachStep(kStep, [&](int64_t at) {
      for (int i = 0; i < 10; ++i) {
        const uint32_t small = maker.Stack(maker.in_main, Package("torch/functional.py"), "f" + std::to_string(i), 1);
        maker.Run(maker.main, at + i * 10 * kMs, 10 * kMs, is_own ? maker.in_main : small, maker.library);
      }
    });
    EXPECT_THAT(maker.Make().facts, Each(Not(HasSubstr(" spends ")))) << is_own;
  }
}

TEST_F(LibraryCode, JaxWithoutJit_IsNamed) {
  for (const char* const file : {"jax/_src/numpy/reductions.py", "tensorflow/python/ops/math_ops.py",
                                 "jax/_src/array.py", "jax/_src/interpreters/mlir.py"}) {
    VerdictMaker maker;
    const uint32_t update = maker.Stack(maker.in_main, Package("optax/_src/update.py"), "apply_updates", 3);
    const uint32_t library = maker.Stack(update, Package(file), "sum", 9);
    maker.EachStep(kStep, [&](int64_t at) { maker.Run(maker.main, at, kStep, library, maker.interpreter); });
    const Verdict verdict = maker.Make();
    const bool is_jax = std::string(file).find("numpy") != std::string::npos;
    const bool is_tensorflow = std::string(file).find("ops") != std::string::npos;
    EXPECT_EQ(verdict.advice == Advice::kEagerJax, is_jax) << file;
    EXPECT_EQ(verdict.advice == Advice::kEagerTensorFlow, is_tensorflow) << file;
  }
}

}  // namespace
}  // namespace tbprof
