// SPDX-License-Identifier: Apache-2.0
//
// Numbers of event types: equal types share a number, and the number of types is limited.
#include "writer/convert/event_types.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace tbprof {
namespace {

class EventTypesTest : public testing::Test {
 protected:
  void AddOperation(uint32_t segment, const char* name, uint32_t family, ObjectRole object = ObjectRole::kNone,
                    ResultRole result = ResultRole::kNone) {
    Operation row{};
    strncpy(row.name, name, sizeof(row.name) - 1);
    row.family = family;
    row.object = object;
    row.result = result;
    facts_.segments[segment].operations.push_back(row);
  }
  uint16_t Annotation(const std::string& name, ValueKind value = ValueKind::kNone,
                      RangeOrigin origin = RangeOrigin::kProgram) {
    return types_.Find(name, EventFamily::kAnnotation, ObjectKind::kNone, value, origin);
  }

  SpoolFacts facts_;
  Timeline timeline_;
  EventTypes types_{&facts_, &timeline_};
};

TEST_F(EventTypesTest, OneNameOfOneKind_IsOneType) {
  const uint16_t first = Annotation("forward");
  EXPECT_EQ(Annotation("forward"), first);
  EXPECT_NE(Annotation("forward", ValueKind::kPayload), first);
  EXPECT_NE(Annotation("forward", ValueKind::kNone, RangeOrigin::kTorchUser), first);
  EXPECT_NE(types_.Find("forward", EventFamily::kIo, ObjectKind::kNone, ValueKind::kNone), first);
  EXPECT_EQ(timeline_.types.size(), 4u);
}

TEST_F(EventTypesTest, NamesThatReadersTakeForSteps_AreRenamed) {
  EXPECT_EQ(timeline_.types[Annotation("train")].name, "call train");
  EXPECT_EQ(timeline_.types[Annotation("test_step 5")].name, "call test_step 5");
  EXPECT_EQ(timeline_.types[Annotation("Training")].name, "Training");
  EXPECT_EQ(timeline_.types[Annotation("pretrain")].name, "pretrain");
  EXPECT_EQ(Annotation("train"), 0);
}

TEST_F(EventTypesTest, BytesThatAreNoText_AreMadeText) {
  EXPECT_EQ(timeline_.types[Annotation("a\xff")].name, "a\\xff");
}

TEST_F(EventTypesTest, TooManyTypes_LeavesTheKnownOnes) {
  for (size_t i = 0; i < kMaxEventTypes; ++i) ASSERT_EQ(Annotation(std::to_string(i)), i);
  EXPECT_EQ(Annotation("one more"), kNoType);
  EXPECT_EQ(Annotation("17"), 17);
  EXPECT_EQ(timeline_.types.size(), kMaxEventTypes);
}

TEST_F(EventTypesTest, OperationOfSegment_IsFoundByItsNumber) {
  AddOperation(1, "read", kFamilyIo, ObjectRole::kDescriptor, ResultRole::kBytes);
  AddOperation(1, "pthread_create", kFamilyThread);
  AddOperation(2, "pthread_create", kFamilyThread);
  const EventType& read = timeline_.types[types_.OfOperation(1, 0)];
  EXPECT_EQ(read.family, EventFamily::kIo);
  EXPECT_EQ(read.object, ObjectKind::kDescriptor);
  EXPECT_EQ(read.value, ValueKind::kBytes);
  EXPECT_EQ(timeline_.types[types_.OfOperation(1, 1)].value, ValueKind::kFlowOut);
  EXPECT_EQ(types_.OfOperation(2, 0), types_.OfOperation(1, 1));
}

TEST_F(EventTypesTest, NumbersBehindTheTable_AreNone) {
  AddOperation(1, "read", kFamilyIo);
  facts_.segments[2];
  EXPECT_EQ(types_.OfOperation(1, 1), kNoType);
  EXPECT_EQ(types_.OfOperation(1, UINT32_MAX), kNoType);
  EXPECT_EQ(types_.OfOperation(2, 0), kNoType);
  EXPECT_EQ(types_.OfOperation(9, 0), kNoType);
  EXPECT_EQ(types_.OfOperation(1, 0), 0);
}

TEST_F(EventTypesTest, FamilyOfAnotherVersion_IsOther) {
  AddOperation(1, "mystery", 1u << 31, static_cast<ObjectRole>(200), static_cast<ResultRole>(200));
  const EventType& type = timeline_.types[types_.OfOperation(1, 0)];
  EXPECT_EQ(type.family, EventFamily::kOther);
  EXPECT_EQ(type.object, ObjectKind::kNone);
  EXPECT_EQ(type.value, ValueKind::kNone);
}

}  // namespace
}  // namespace tbprof
