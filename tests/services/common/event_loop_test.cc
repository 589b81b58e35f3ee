// Messages and the task of a loop, by the real clock.
#include "services/common/event_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"

namespace sluice {
namespace {

// Asks to be called again after `pause`, and counts.
class CountingTask final : public EventLoop::Task {
 public:
  explicit CountingTask(absl::Duration pause, int until = 0) : pause_(pause), until_(until) {}

  SteadyTime Advance(SteadyTime now) override {
    if (++num_calls_ == until_) reached_.Notify();
    return now + pause_;
  }
  void WaitUntilReached() { reached_.WaitForNotification(); }
  int num_calls() const { return num_calls_; }

 private:
  const absl::Duration pause_;
  const int until_;
  std::atomic<int> num_calls_ = 0;
  absl::Notification reached_;
};

TEST(EventLoop, RunsMessagesOfAPosterInTheirOrderOnOneThread) {
  CountingTask task(absl::InfiniteDuration());
  EventLoop loop;
  loop.Start(&task);
  const Post post = loop.post();
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  absl::Notification done;
  for (int i = 0; i < 100; ++i) {
    post([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
      if (i == 99) done.Notify();
    });
  }
  done.WaitForNotification();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order[i], i);
    EXPECT_EQ(threads[i], threads[0]);
  }
  EXPECT_NE(threads[0], std::this_thread::get_id());
  loop.Stop();
  EXPECT_GE(task.num_calls(), 2);  // at the start, and after messages
}

TEST(EventLoop, CallsItsTaskWhenItAskedToBeCalled) {
  CountingTask task(absl::Milliseconds(1), 5);
  EventLoop loop;
  loop.Start(&task);
  task.WaitUntilReached();
}

TEST(EventLoop, RunsWhatItHasWhenItStopsAndNothingLater) {
  CountingTask task(absl::InfiniteDuration());
  auto token = std::make_shared<int>(0);
  int num_run = 0;
  Post post;
  {
    EventLoop loop;
    post = loop.post();
    loop.Start(&task);
    for (int i = 0; i < 100; ++i) post([&num_run] { ++num_run; });
  }
  EXPECT_EQ(num_run, 100);
  post([token] { FAIL(); });
  EXPECT_EQ(token.use_count(), 1);
}

TEST(SteadyTime, IsOrderedFromThePastToTheFuture) {
  const SteadyTime start = SteadyTime::FromStart(absl::ZeroDuration());
  EXPECT_LT(SteadyTime(), start);
  EXPECT_LT(start, start + absl::Nanoseconds(1));
  EXPECT_LT(start + absl::Hours(1), SteadyTime::InfiniteFuture());
  EXPECT_EQ(start + absl::InfiniteDuration(), SteadyTime::InfiniteFuture());
  EXPECT_EQ((start + absl::Seconds(3)) - start, absl::Seconds(3));
  EXPECT_EQ(SteadyTime::FromWall(absl::InfiniteFuture()), SteadyTime::InfiniteFuture());
  EXPECT_GT(SteadyTime::FromWall(absl::Now() + absl::Hours(1)), SteadyTime::Now());
  EXPECT_LT(SteadyTime::FromWall(absl::Now()), SteadyTime::Now() + absl::Hours(1));
}

}  // namespace
}  // namespace sluice
