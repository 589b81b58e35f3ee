#include "clients/cli/wait_notice.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace sluice {
namespace {

TEST(WaitNoticeTest, TellsTheCauseOnceWhileACallWaits) {
  absl::Notification asked_again;
  std::string said;
  int asked = 0;
  {
    WaitNotice notice(
        [&]() -> std::optional<std::string> {
          if (++asked == 3) asked_again.Notify();
          return "no shard";
        },
        [&](const std::string& cause) { said += cause + ";"; }, absl::Milliseconds(1));
    const WaitNotice::Call call(&notice);
    asked_again.WaitForNotification();
  }
  EXPECT_EQ(said, "no shard;");
}

TEST(WaitNoticeTest, SaysNothingWhereNothingWaitsOrNothingIsWrong) {
  absl::Notification asked;
  {
    WaitNotice notice(
        [&]() -> std::optional<std::string> {
          if (!asked.HasBeenNotified()) asked.Notify();
          return std::nullopt;
        },
        [](const std::string& cause) { ADD_FAILURE() << cause; }, absl::Milliseconds(1));
    WaitNotice::Call(&notice).Answered();
    const WaitNotice::Call call(&notice);
    asked.WaitForNotification();
  }
  const WaitNotice::Call nobody(nullptr);
}

}  // namespace
}  // namespace sluice
