// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/stack_trie.h"

#include <gtest/gtest.h>

namespace tbprof {
namespace {

TEST(StackTrie, EqualFrames_AreOneNode) {
  StackTrie trie;
  const uint32_t root = trie.Find(0, 1, 10);
  EXPECT_EQ(root, 1u);
  const uint32_t child = trie.Find(root, 2, 20);
  EXPECT_EQ(trie.Find(0, 1, 10), root);
  EXPECT_EQ(trie.Find(root, 2, 20), child);
  EXPECT_NE(trie.Find(root, 2, 22), child);
  EXPECT_NE(trie.Find(0, 2, 20), child);
}

TEST(StackTrie, NewNodes_AreTakenOnce_ParentsFirst) {
  StackTrie trie;
  trie.Find(trie.Find(0, 1, -1), 2, 4);
  const auto nodes = trie.TakeNew();
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].node, 1u);
  EXPECT_EQ(nodes[0].parent, 0u);
  EXPECT_EQ(nodes[0].instruction, -1);
  EXPECT_EQ(nodes[1].parent, 1u);
  EXPECT_EQ(nodes[1].code, 2u);
  EXPECT_TRUE(trie.TakeNew().empty());
}

TEST(StackTrie, FullTrie_FindsOldNodesAlone) {
  StackTrie trie(2);
  trie.Find(0, 1, 0);
  trie.Find(0, 2, 0);
  EXPECT_TRUE(trie.full());
  EXPECT_EQ(trie.Find(0, 3, 0), 0u);
  EXPECT_EQ(trie.Find(0, 2, 0), 2u);
}

}  // namespace
}  // namespace tbprof
