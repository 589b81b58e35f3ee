#include "services/common/process_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>

#include "absl/synchronization/notification.h"

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

TEST(ProcessEndTest, TheEndSaysWhatHangsAndWhere) {
  EXPECT_EXIT(EndWithStacks("shard", "step of 3 for 4s"), ::testing::ExitedWithCode(70),
              "ends-itself hangs=\"step of 3 for 4s\".*");
}

}  // namespace
}  // namespace sluice
