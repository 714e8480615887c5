// SPDX-License-Identifier: Apache-2.0
#include "writer/verdict/python_tags.h"

#include <gtest/gtest.h>

#include "tests/unit/writer/verdict_maker.h"

namespace tbprof {
namespace {

constexpr char kProcess[] = "/usr/lib/python3.11/multiprocessing/process.py";
constexpr char kWorker[] = "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py";

// A forked worker has the frames of its parent below its own.
TEST(PythonTags, FramesBelowTheBeginningOfAWorker_AreNotItsOwn) {
  VerdictMaker maker;
  const uint32_t train = maker.Stack(0, kOwn, "train_epoch", 100);
  const uint32_t begin = maker.Stack(train, kProcess, "BaseProcess._bootstrap", 314);
  const uint32_t loop = maker.Stack(begin, kWorker, "_worker_loop", 320);
  const uint32_t fetch = maker.Stack(loop, "/home/me/data.py", "fetch", 17);
  const PythonTags tags(maker.timeline);
  EXPECT_TRUE(tags.HasOwnFrame(train));
  EXPECT_FALSE(tags.HasOwnFrame(loop)) << "the line is that of the parent, which started it";
  EXPECT_TRUE(tags.IsOfWorker(loop));
  EXPECT_EQ(tags.OwnFrameOf(fetch), fetch);
  EXPECT_EQ(tags.OwnCallerOf(fetch), 0u);
}

TEST(PythonTags, RemoteCalls_AreOfTheNetwork) {
  VerdictMaker maker;
  const uint32_t call = maker.Stack(0, kOwn, "train_epoch", 100);
  const uint32_t remote = maker.Stack(call, "/x/site-packages/torch/distributed/rpc/api.py", "rpc_sync", 800);
  const uint32_t reduce =
      maker.Stack(call, "/x/site-packages/torch/distributed/distributed_c10d.py", "all_reduce", 2800);
  const PythonTags tags(maker.timeline);
  EXPECT_EQ(tags.TagOf(remote), PythonTag::kNetwork);
  EXPECT_EQ(tags.TagOf(reduce), PythonTag::kCollective);
}

}  // namespace
}  // namespace tbprof
