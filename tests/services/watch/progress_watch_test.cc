// The watch by the clock: short bounds, and no waiting but for what it tells.
#include "services/watch/progress_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/synchronization/notification.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(ProgressWatchTest, TellsOfAHangAndOfItsEnd) {
  absl::Notification hangs, moves;
  ProgressWatch watch({.program = "test",
                       .hang_timeout = absl::Milliseconds(400),
                       .on_stuck = [](const std::string&) { FAIL() << "it came back"; }});
  { const ProgressWatch::Work first(&watch, "step"); }  // says how long such work takes
  watch.OnChanged([&](bool hanging) { (hanging ? hangs : moves).Notify(); });
  std::optional<ProgressWatch::Work> work(std::in_place, &watch, "step");
  hangs.WaitForNotification();
  work.reset();
  moves.WaitForNotification();
  watch.OnChanged(nullptr);
}

TEST(ProgressWatchTest, NamesWhatDoesNotComeBack) {
  absl::Notification stuck;
  std::string what;
  ProgressWatch watch({.program = "test",
                       .hang_timeout = absl::Milliseconds(20),
                       .on_stuck = [&](const std::string& work) {
                         what = work;
                         stuck.Notify();
                       }});
  { const ProgressWatch::Work first(&watch, "round", 7); }
  const ProgressWatch::Work work(&watch, "round", 7);
  stuck.WaitForNotification();
  EXPECT_THAT(what, HasSubstr("round of 7"));
}

TEST(ProgressWatchTest, NobodyNeedWatch) { const ProgressWatch::Work work(nullptr, "step", 1); }

}  // namespace
}  // namespace sluice
