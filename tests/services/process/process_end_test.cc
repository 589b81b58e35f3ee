#include "services/process/process_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "services/process/termination_log.h"

namespace sluice {

// Not in an unnamed namespace, and not inlined, so that its name is in the program.
__attribute__((noinline)) void WaitsForever(absl::Notification& here, absl::Notification& end) {
  here.Notify();
  end.WaitForNotification();
  asm volatile("");  // what comes after the call, so that it is no jump
}

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ProcessEndTest, StacksNameWhatEveryThreadIsIn) {
  absl::Notification here, end;
  std::thread thread([&] {
    pthread_setname_np(pthread_self(), "the-waiter");
    WaitsForever(here, end);
  });
  here.WaitForNotification();
  const std::string stacks = StacksOfAllThreads();
  end.Notify();
  thread.join();
  EXPECT_THAT(stacks, AllOf(HasSubstr("the-waiter"), HasSubstr("WaitsForever"),
                            HasSubstr("StacksOfAllThreads")));
}

TEST(ProcessEndTest, TheEndIsToldToTheSupervisor) {
  const std::string path = ::testing::TempDir() + "/termination-log";
  const auto told = [&path] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_TRUE(SetTerminationLog(path).ok());
  EXPECT_EXIT(EndWithReason("shard", "another model"), ::testing::ExitedWithCode(1),
              "ends-itself reason=\"another model\"");
  EXPECT_EQ(told(), "another model\n");
  EXPECT_EXIT(EndWithStacks("shard", "step 7"), ::testing::ExitedWithCode(70), "ends-itself");
  EXPECT_EQ(told(), "it hangs and has ended itself: step 7\n");
  WriteTerminationLog(std::string(5000, 'x'));
  EXPECT_EQ(told(), std::string(4095, 'x') + "\n");
  const absl::Status missing = SetTerminationLog("/no/such/folder/log");
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "cannot write to /no/such/folder/log: No such file or directory");
  WriteTerminationLog("goes unsaid");
  EXPECT_EQ(told(), std::string(4095, 'x') + "\n");
  EXPECT_FALSE(SetTerminationLog(::testing::TempDir()).ok());
  EXPECT_TRUE(SetTerminationLog("").ok());
}

TEST(ProcessEndTest, TheEndSaysWhatHangsAndWhere) {
  EXPECT_EXIT(EndWithStacks("shard", "step of 3 for 4s"), ::testing::ExitedWithCode(70),
              "ends-itself hangs=\"step of 3 for 4s\".*");
}

}  // namespace
}  // namespace sluice
