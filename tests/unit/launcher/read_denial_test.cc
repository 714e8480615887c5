// SPDX-License-Identifier: Apache-2.0
#include "launcher/sampling/read_denial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

namespace tbprof {
namespace {

using testing::HasSubstr;

DenialFacts Facts() {
  DenialFacts facts;
  facts.error = EPERM;
  facts.own_user = 1000;
  facts.users = {1000, 1000, 1000};
  return facts;
}

TEST(ReadDenial, Error_IsDeniedOnlyWherePermissionIsMissing) {
  for (int error : {EPERM, EACCES, ENOSYS}) EXPECT_TRUE(IsReadDenied(error)) << error;
  for (int error : {0, ESRCH, EFAULT, ENOENT}) EXPECT_FALSE(IsReadDenied(error)) << error;
}

TEST(ReadDenial, Yama_IsNamedWithItsRemedy) {
  DenialFacts facts = Facts();
  facts.yama_scope = 2;
  EXPECT_THAT(ExplainDenial(facts).cause, HasSubstr("ptrace_scope=2"));
  EXPECT_THAT(ExplainDenial(facts).remedy, HasSubstr("sysctl kernel.yama.ptrace_scope=1"));
  facts.own_user = 0;
  facts.users = {0, 0, 0};
  EXPECT_THAT(ExplainDenial(facts).remedy, HasSubstr("SYS_PTRACE")) << "root without the capability";
  facts.yama_scope = 3;
  facts.capable = true;
  EXPECT_THAT(ExplainDenial(facts).cause, HasSubstr("ptrace_scope=3"));
  EXPECT_THAT(ExplainDenial(facts).remedy, HasSubstr("boot"));
  facts = Facts();
  facts.yama_scope = 1;
  EXPECT_THAT(ExplainDenial(facts).cause, HasSubstr("no descendant"));
}

TEST(ReadDenial, AnotherUser_IsNamed) {
  DenialFacts facts = Facts();
  facts.yama_scope = 1;
  facts.users = {1000, 0, 0};
  EXPECT_EQ(ExplainDenial(facts).cause, "it runs as user 0, tbprof as 1000");
  EXPECT_EQ(ExplainDenial(facts).remedy, "run tbprof as root");
}

TEST(ReadDenial, ProcessThatAllowsNoDebugger_IsNamedBeforeTheFilter) {
  DenialFacts facts = Facts();
  facts.filtered = true;
  EXPECT_THAT(ExplainDenial(facts).cause, HasSubstr("filter"));
  EXPECT_THAT(ExplainDenial(facts).remedy, HasSubstr("SYS_PTRACE"));
  facts.dumpable = false;
  EXPECT_THAT(ExplainDenial(facts).cause, HasSubstr("no debugger"));
}

TEST(ReadDenial, FilterWithoutTheCall_HasARemedy) {
  DenialFacts facts = Facts();
  facts.error = ENOSYS;
  EXPECT_THAT(ExplainDenial(facts).cause, HasSubstr("process_vm_readv"));
}

TEST(ReadDenial, LookUp_FindsUsersAndDumpable) {
  const DenialFacts facts = LookUpDenial(getpid(), EPERM);
  EXPECT_EQ(facts.error, EPERM);
  EXPECT_EQ(facts.own_user, getuid());
  EXPECT_EQ(facts.users[1], geteuid());
  EXPECT_TRUE(facts.dumpable);
  EXPECT_GE(facts.yama_scope, -1);
}

TEST(ReadDenial, LookUp_ProcessThatIsGone_IsNoOtherUser) {
  const DenialFacts facts = LookUpDenial(0x3fffffff, EPERM);
  EXPECT_EQ(facts.users[0], getuid());
}

TEST(ReadDenial, Reason_IsOneLine) {
  const std::string reason = DenialReason(getpid(), EPERM);
  EXPECT_TRUE(reason.starts_with("Python stacks: not sampled, ")) << reason;
  EXPECT_EQ(reason.find('\n'), std::string::npos);
  EXPECT_TRUE(DenialReason(getpid(), EPERM, true).starts_with("Python stacks: not sampled any more, "));
}

}  // namespace
}  // namespace tbprof
