// Whose work is done first, counted in pieces of virtual processor time.
#include "services/work/fair_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "services/work/work_owner.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of the calling thread.
absl::Duration& VirtualTime() {
  thread_local absl::Duration time;
  return time;
}

FairWork::Options OneAtATime() {
  return {.max_running = 1, .slice = absl::Milliseconds(1), .clock = [] { return VirtualTime(); }};
}

// Work whose pieces take a slice each, and what was done in which order.
class Pieces {
 public:
  explicit Pieces(const FairWork::Options& options) : work_(std::make_unique<FairWork>(options)) {
    Add("gate", 0, false, [this](FairWork::Slice&) { open_.WaitForNotification(); });
  }

  // A job of `count` pieces, each noted as `name`; `then` is called in the one of index `at`.
  void AddPieces(const std::string& tenant, int count, const std::string& name, double weight = 1,
                 bool is_long = false, std::function<void()> then = nullptr, int at = 0) {
    const auto run = [this, count, name, then, at](FairWork::Slice& slice) {
      for (int i = 0; i < count; ++i) {
        Note(name);
        if (i == at && then != nullptr) then();
        VirtualTime() += absl::Milliseconds(1);
        if (!slice.Continue()) return Note(name + " cancelled");
      }
    };
    Add(tenant, weight, is_long, run, static_cast<size_t>(count));
  }

  // Lets them begin, and waits until all have ended.
  std::vector<std::string> RunAll() {
    if (!open_.HasBeenNotified()) open_.Notify();
    const auto ended = [this] { return num_ended_ == num_added_; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&ended));
    return order_;
  }

  void Add(const std::string& tenant, double weight, bool is_long,
           std::function<void(FairWork::Slice&)> run, size_t num_bytes = 0) {
    {
      absl::MutexLock lock(&mutex_);
      ++num_added_;
    }
    const auto task = [this, run = std::move(run)](FairWork::Slice& slice) {
      run(slice);
      absl::MutexLock lock(&mutex_);
      ++num_ended_;
    };
    const absl::Status added = work_->Add(
        {.owner = {tenant, weight}, .num_bytes = num_bytes, .is_long = is_long, .run = task});
    EXPECT_TRUE(added.ok()) << added;
  }

  void Note(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    order_.push_back(name);
  }

 private:
  absl::Notification open_;
  absl::Mutex mutex_;
  std::vector<std::string> order_ ABSL_GUARDED_BY(mutex_);
  int num_added_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<FairWork> work_;  // last: its threads use what is above
};

int64_t CountOf(const std::vector<std::string>& order, const std::string& name) {
  return std::count(order.begin(), order.end(), name);
}

TEST(FairWork, AnotherTenantsJobGoesNextHoweverMuchWaits) {
  Pieces pieces(OneAtATime());
  for (int i = 0; i < 90; ++i) {
    pieces.AddPieces(
        "greedy", 100, "greedy", 1, false,
        i != 0 ? nullptr : std::function<void()>([&] { pieces.AddPieces("good", 3, "good"); }));
  }
  const std::vector<std::string> order = pieces.RunAll();
  // Of three pieces each waits for one of the other tenant at most.
  const auto last = std::find(order.rbegin(), order.rend(), "good").base() - order.begin();
  EXPECT_LE(last, 7);
}

TEST(FairWork, TenantsShareByWeight) {
  Pieces pieces(OneAtATime());
  pieces.AddPieces("heavy", 3000, "heavy", 3);
  pieces.AddPieces("light", 3000, "light", 1);
  const std::vector<std::string> order = pieces.RunAll();
  const std::vector<std::string> begin(order.begin(), order.begin() + 400);
  EXPECT_NEAR(static_cast<double>(CountOf(begin, "heavy")), 300, 3);
}

TEST(FairWork, AShortJobNeverWaitsForALongOneOfItsOwnTenant) {
  Pieces pieces(OneAtATime());
  pieces.AddPieces("same", 50, "long", 1, false, [&] { pieces.AddPieces("same", 2, "short"); });
  const std::vector<std::string> order = pieces.RunAll();
  EXPECT_THAT(std::vector<std::string>(order.begin(), order.begin() + 4),
              ElementsAre("long", "short", "short", "long"));
}

TEST(FairWork, ATenantThatWasIdleCollectsNoCredit) {
  Pieces pieces(OneAtATime());
  pieces.AddPieces(
      "busy", 300, "busy", 1, false, [&] { pieces.AddPieces("new", 100, "new"); },
      /*at=*/200);
  std::vector<std::string> order = pieces.RunAll();
  order.erase(order.begin(), order.begin() + 201);
  order.resize(100);
  EXPECT_NEAR(static_cast<double>(CountOf(order, "new")), 50, 2);
}

TEST(FairWork, LongJobsLeaveThreadsToOthers) {
  FairWork::Options options = OneAtATime();
  options.max_long_begun = 1;
  Pieces pieces(options);
  pieces.AddPieces("a", 20, "a", 1, /*is_long=*/true);
  pieces.AddPieces("b", 20, "b", 1, /*is_long=*/true);
  pieces.AddPieces("b", 5, "b short");
  const std::vector<std::string> order = pieces.RunAll();
  const auto index = [&](const std::string& name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  EXPECT_LT(index("b short"), 3);
  EXPECT_EQ(index("b"), 25) << "once the other long one has ended";
}

TEST(FairWork, ATenantMayHaveAsMuchAsIsFree) {
  FairWork::Options options = OneAtATime();
  options.max_bytes = 100;
  absl::Notification open;
  FairWork work(options);
  const auto add = [&](const std::string& tenant, size_t num_bytes) {
    return work.Add({.owner = {tenant}, .num_bytes = num_bytes, .run = [&](FairWork::Slice&) {
                       open.WaitForNotification();
                     }});
  };
  EXPECT_TRUE(add("greedy", 30).ok());
  EXPECT_TRUE(add("greedy", 20).ok());
  const absl::Status refused = add("greedy", 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the tenant has 50 bytes and asks for 1 more; accepted: as many as are "
                        "free, now 50 of 100"));
  EXPECT_TRUE(add("good", 25).ok()) << "another finds room";
  EXPECT_EQ(work.statistics().num_bytes, 75u);
  open.Notify();
}

TEST(FairWork, TellsAJobThatItIsNotWantedAnyMore) {
  absl::Notification begun, cancelled, ended;
  bool goes_on = true;
  FairWork work(OneAtATime());
  FairWork::Ticket ticket = 0;
  ASSERT_TRUE(work.Add({.owner = {"a"},
                        .run =
                            [&](FairWork::Slice& slice) {
                              begun.Notify();
                              cancelled.WaitForNotification();
                              EXPECT_FALSE(slice.wanted());
                              VirtualTime() += absl::Milliseconds(2);
                              goes_on = slice.Continue();
                              EXPECT_EQ(slice.used(), absl::Milliseconds(2));
                              ended.Notify();
                            }},
                       &ticket)
                  .ok());
  begun.WaitForNotification();
  work.Cancel(ticket);
  cancelled.Notify();
  ended.WaitForNotification();
  EXPECT_FALSE(goes_on);
}

TEST(FairWork, EndsWhatWaitsWhenItGoes) {
  int num_unwanted = 0;
  absl::Notification begun;
  {
    FairWork work(OneAtATime());
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(work.Add({.owner = {"a"},
                            .run =
                                [&, i](FairWork::Slice& slice) {
                                  if (i == 0) begun.Notify();
                                  while (i == 0 && slice.wanted()) {
                                  }
                                  num_unwanted += slice.wanted() ? 0 : 1;
                                }})
                      .ok());
    }
    begun.WaitForNotification();
  }
  EXPECT_EQ(num_unwanted, 20);
}

TEST(FairWork, EndsAJobThatHasTakenAllThatItMay) {
  FairWork work(OneAtATime());
  int num_pieces = 0;
  bool over_budget = false;
  absl::Notification done;
  const auto run = [&](FairWork::Slice& slice) {
    do {
      ++num_pieces;
      VirtualTime() += absl::Milliseconds(1);
    } while (slice.Continue());
    over_budget = slice.over_budget();
    done.Notify();
  };
  ASSERT_TRUE(work.Add({.owner = {"costly"}, .max_used = absl::Milliseconds(3), .run = run}).ok());
  done.WaitForNotification();
  EXPECT_EQ(num_pieces, 4) << "it is told once it has taken more";
  EXPECT_TRUE(over_budget);
}

TEST(WorkMeter, BoundsARequestAndBillsAllThatItTakes) {
  absl::Duration billed;
  WorkMeter meter(absl::Seconds(2), [&](absl::Duration work) { billed += work; });
  EXPECT_EQ(meter.left(), absl::Seconds(2));
  meter.Add(absl::Seconds(2));
  EXPECT_TRUE(meter.status().ok()) << meter.status();
  meter.Add(absl::Milliseconds(1));
  EXPECT_EQ(meter.left(), absl::ZeroDuration());
  EXPECT_EQ(meter.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(meter.status().message()),
              HasSubstr("have taken 2.001s of processor time; accepted: up to 2s a request"));
  EXPECT_EQ(billed, absl::Milliseconds(2001));
}

}  // namespace
}  // namespace sluice
