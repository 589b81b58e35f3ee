#include "services/gateway/api/body_reader.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/testing/test_loop.h"

namespace sluice::gateway {
namespace {

using testing::TestLoop;

std::string Large() { return absl::StrCat("[\"", std::string(100'000, 'x'), "\"]"); }

TEST(BodyReaderTest, ReadsSmallBodiesAtOnce) {
  BodyReader reader;
  TestLoop loop;
  bool is_done = false;
  reader.Start(
      loop, "a", "[1]",
      [](const nlohmann::json& body) {
        return body.is_array() ? absl::OkStatus() : absl::InternalError("");
      },
      [&](const absl::Status& status) {
        EXPECT_TRUE(status.ok());
        is_done = true;
      });
  EXPECT_TRUE(is_done);
  reader.Start(
      loop, "a", "[1", [](const nlohmann::json&) { return absl::OkStatus(); },
      [&](const absl::Status& status) { EXPECT_FALSE(status.ok()); });
}

TEST(BodyReaderTest, ReadsLargeBodiesElsewhereAndTenantsInRotation) {
  BodyReader reader;
  TestLoop loop;
  const std::string body = Large();
  const auto here = std::this_thread::get_id();
  absl::Notification all_wait;
  std::vector<std::string> order;
  const auto start = [&](const std::string& tenant, bool waits) {
    reader.Start(
        loop, tenant, body,
        [&, waits](const nlohmann::json&) {
          EXPECT_NE(std::this_thread::get_id(), here);
          if (waits) all_wait.WaitForNotification();
          return absl::OkStatus();
        },
        [&, tenant](const absl::Status& status) {
          EXPECT_TRUE(status.ok());
          EXPECT_EQ(std::this_thread::get_id(), here);
          order.push_back(tenant);
        });
  };
  start("a", true);
  for (int i = 0; i < 3; ++i) start("a", false);
  start("b", false);
  start("c", false);
  all_wait.Notify();
  for (int i = 0; i < 6; ++i) loop.RunOne();
  EXPECT_EQ(order[0], "a");
  EXPECT_EQ((std::vector<std::string>{order[1], order[2]}), (std::vector<std::string>{"b", "c"}));
}

TEST(BodyReaderTest, DropsWhatWaitsAtItsEnd) {
  TestLoop loop;
  const std::string body = Large();
  const auto held = std::make_shared<int>();
  {
    BodyReader reader;
    for (int i = 0; i < 10; ++i) {
      reader.Start(
          loop, "a", body, [held](const nlohmann::json&) { return absl::OkStatus(); },
          [](const absl::Status&) {});
    }
  }
  while (held.use_count() > 1) loop.RunOne();
}

}  // namespace
}  // namespace sluice::gateway
