// What every transport owes its callers, whether its ranks are threads or processes.
#include "kernels/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <thread>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/kernels/communicator_calls.h"
#include "tests/kernels/communicator_ranks.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

constexpr CallKind kKinds[] = {CallKind::kBroadcast, CallKind::kAllGather, CallKind::kAllToAll};

// Far more than any call here takes, and less than a hang.
constexpr absl::Duration kSoon = absl::Seconds(20);

class CommunicatorTest : public ::testing::TestWithParam<std::tuple<Transport, RunAs, int>> {
 protected:
  Group group() const {
    const auto& [transport, run_as, size] = GetParam();
    return {.transport = transport, .run_as = run_as, .size = size};
  }
  int size() const { return group().size; }

  // Runs the ranks and expects each to return OK.
  void ExpectAllOk(const RankBody& body) const {
    const std::vector<absl::Status> statuses = RunRanks(group(), body);
    ASSERT_EQ(statuses.size(), static_cast<std::size_t>(size()));
    for (int r = 0; r < size(); ++r) EXPECT_TRUE(statuses[r].ok()) << r << ": " << statuses[r];
  }
};

// The suites in which somebody has to wait for somebody.
class PeersTest : public CommunicatorTest {};
class ProcessesTest : public CommunicatorTest {};

absl::Status Expect(bool condition, const std::string& what) {
  return condition ? absl::OkStatus() : absl::InternalError(what);
}

TEST_P(CommunicatorTest, KnowsItsPlace) {
  ExpectAllOk([size = size()](Communicator& c) {
    if (c.size() != size) return absl::InternalError(absl::StrCat("size ", c.size()));
    std::vector<std::byte> ranks(size);
    const std::byte mine{static_cast<unsigned char>(c.rank())};
    absl::Status status =
        c.AllGather(absl::MakeConstSpan(&mine, 1), absl::MakeSpan(ranks), Deadline::After(kSoon));
    for (int r = 0; r < size && status.ok(); ++r) {
      status = Expect(ranks[r] == std::byte{static_cast<unsigned char>(r)}, "wrong rank");
    }
    return status;
  });
}

TEST_P(CommunicatorTest, DeliversMessagesOfEverySize) {
  ExpectAllOk([](Communicator& c) {
    std::uint64_t pattern = 0;
    for (const std::size_t bytes : {0, 1, 48, 49, 64, 4080, 4096, 4097, 50'000}) {
      for (const CallKind kind : kKinds) {
        const int roots = kind == CallKind::kBroadcast ? c.size() : 1;
        for (int root = 0; root < roots; ++root) {
          absl::Status made = MakeCheckedCall(
              c, {.kind = kind, .root = root, .bytes = bytes, .pattern = ++pattern});
          if (!made.ok()) return made;
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(CommunicatorTest, KeepsThousandsOfMixedCallsApart) {
  // Fewer where a call costs most: a thousand for a few ranks in shared memory.
  const int count = group().transport == Transport::kShm && size() <= 4 ? 1000 : 250;
  for (const std::uint64_t seed : {1, 2, 3}) {
    ExpectAllOk([seed, count](Communicator& c) {
      return MakeMixedCalls(c, seed, count, /*max_bytes=*/20'000);
    });
  }
}

TEST_P(CommunicatorTest, ReturnsTheReasonOfAbortFromEveryLaterCall) {
  SharedSemaphore joined;
  ExpectAllOk([&](Communicator& c) {
    if (c.rank() != 0) {
      joined.Post();
      const absl::Status made = MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10});
      return Expect(absl::IsUnavailable(made), made.ToString());
    }
    for (int peer = 1; peer < c.size(); ++peer) joined.Wait(kSoon);
    c.Abort(absl::AbortedError("operator's wish"));
    c.Abort(absl::CancelledError("too late to matter"));
    for (const CallKind kind : kKinds) {
      for (const std::size_t bytes : {0, 100}) {
        const absl::Status made = MakeCheckedCall(c, {.kind = kind, .bytes = bytes});
        if (made != absl::AbortedError("operator's wish")) {
          return absl::InternalError(made.ToString());
        }
      }
    }
    return absl::OkStatus();
  });
}

TEST_P(PeersTest, FailsAtTheDeadlineWhereAPeerDoesNotCome) {
  SharedSemaphore absentee_joined;
  SharedSemaphore gave_up;
  ExpectAllOk([&, size = size()](Communicator& c) {
    if (c.rank() == 0) {
      for (int i = 1; i < size; ++i) absentee_joined.Post();
      for (int i = 1; i < size; ++i) {
        if (!gave_up.Wait(kSoon)) return absl::InternalError("peers still wait");
      }
      const absl::Status late = MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10});
      return Expect(absl::IsUnavailable(late), absl::StrCat("late: ", late.ToString()));
    }
    absentee_joined.Wait(kSoon);
    const absl::Time start = absl::Now();
    const absl::Status first = MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10},
                                               Deadline::After(absl::Milliseconds(200)));
    const absl::Duration waited = absl::Now() - start;
    gave_up.Post();
    const absl::Status second = MakeCheckedCall(c, {.kind = CallKind::kBroadcast, .bytes = 10});
    if (second != first) return absl::InternalError(absl::StrCat("then: ", second.ToString()));
    // The first to give up takes the others along.
    if (absl::IsUnavailable(first) && size > 2) return absl::OkStatus();
    return Expect(absl::IsDeadlineExceeded(first) && waited >= absl::Milliseconds(200) &&
                      waited < kSoon && absl::StrContains(first.message(), "rank 0"),
                  absl::StrCat(absl::FormatDuration(waited), ": ", first.ToString()));
  });
}

TEST_P(PeersTest, AbortWakesTheWaitingRankAndItsPeersFail) {
  SharedSemaphore about_to_wait;
  SharedSemaphore failed;
  ExpectAllOk([&, size = size()](Communicator& c) {
    const absl::Time start = absl::Now();
    if (c.rank() == 0) {
      // Serves nobody; only there so that the others have something to wait for.
      about_to_wait.Post();
      return Expect(failed.Wait(kSoon), "rank 1 still waits");
    }
    std::thread watchdog;
    if (c.rank() == 1) {
      watchdog = std::thread([&] {
        for (int i = 0; i < size; ++i) about_to_wait.Wait(kSoon);
        // Lets the ranks get to sleep; the outcome must be the same where they do not.
        for (int i = 0; i < 2000; ++i) sched_yield();
        c.Abort(absl::AbortedError("watchdog barked"));
      });
    }
    about_to_wait.Post();
    const absl::Status made = MakeCheckedCall(c, {.kind = CallKind::kBroadcast, .bytes = 10});
    if (watchdog.joinable()) watchdog.join();
    if (c.rank() == 1) {
      failed.Post();
      return Expect(absl::IsAborted(made) && made.message() == "watchdog barked", made.ToString());
    }
    return Expect(absl::IsUnavailable(made) && absl::Now() - start < kSoon, made.ToString());
  });
}

TEST_P(PeersTest, PeersOfAnAbortedRankGetUnavailable) {
  SharedSemaphore joined;
  SharedSemaphore failed;
  ExpectAllOk([&, size = size()](Communicator& c) {
    if (c.rank() == size - 1) {
      for (int i = 1; i < size; ++i) joined.Wait(kSoon);
      c.Abort(absl::AbortedError("watchdog barked"));
      for (int i = 1; i < size; ++i) {
        if (!failed.Wait(kSoon)) return absl::InternalError("peers still wait");
      }
      return absl::OkStatus();
    }
    joined.Post();
    const absl::Status made = MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10});
    failed.Post();
    return Expect(absl::IsUnavailable(made) && absl::StrContains(made.message(), "rank "),
                  made.ToString());
  });
}

TEST_P(PeersTest, AnIdleRankWaitsForeverForABroadcast) {
  SharedSemaphore nobody;
  ExpectAllOk([&](Communicator& c) {
    // Longer than a waiting rank goes without looking after its peers.
    if (c.rank() == 0) nobody.Wait(absl::Milliseconds(350));
    return MakeCheckedCall(c, {.kind = CallKind::kBroadcast, .bytes = 100, .pattern = 7});
  });
}

TEST_P(PeersTest, WhatARankSentBeforeItLeftStillArrives) {
  ExpectAllOk([](Communicator& c) {
    return MakeCheckedCall(c, {.kind = CallKind::kBroadcast, .bytes = 1000, .pattern = 9});
  });
}

TEST_P(PeersTest, ACheckSeesThatAPeerGaveUp) {
  SharedSemaphore looked;
  SharedSemaphore failed;
  ExpectAllOk([&, size = size()](Communicator& c) {
    const absl::Status before = c.Check();
    looked.Post();
    if (c.rank() == 0) {
      for (int i = 0; i < size; ++i) looked.Wait(kSoon);
      c.Abort(absl::AbortedError("watchdog barked"));
      if (c.Check() != absl::AbortedError("watchdog barked")) return c.Check();
      for (int i = 1; i < size; ++i) failed.Wait(kSoon);
      return before;
    }
    absl::Status after;
    for (const absl::Time start = absl::Now(); after.ok() && absl::Now() - start < kSoon;) {
      sched_yield();
      after = c.Check();
    }
    failed.Post();
    if (!before.ok()) return before;
    return Expect(absl::IsUnavailable(after) && c.Check() == after, after.ToString());
  });
}

TEST_P(PeersTest, TellsThatCallsDiffer) {
  SharedSemaphore failed;
  ExpectAllOk([&, size = size()](Communicator& c) {
    const std::size_t bytes = c.rank() == 0 ? 10 : 11;
    const absl::Status made = MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = bytes});
    // Stays until the others have seen what it called.
    failed.Post();
    if (c.rank() == 0) {
      for (int i = 0; i < size; ++i) failed.Wait(kSoon);
    }
    // Whoever learns it first takes the others along.
    if (absl::IsUnavailable(made)) return absl::OkStatus();
    return Expect(absl::IsInternal(made) && absl::StrContains(made.message(), "different call"),
                  made.ToString());
  });
}

TEST_P(ProcessesTest, ACheckSeesThatAPeerWasKilled) {
  const int victim = size() - 1;
  const std::vector<absl::Status> statuses = RunRanks(group(), [&](Communicator& c) {
    const absl::Status made = MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10});
    if (!made.ok()) return made;
    if (c.rank() == victim) kill(getpid(), SIGKILL);
    absl::Status seen;
    for (const absl::Time start = absl::Now(); seen.ok() && absl::Now() - start < kSoon;) {
      sched_yield();
      seen = c.Check();
    }
    return Expect(absl::IsUnavailable(seen), seen.ToString());
  });
  for (int r = 0; r < victim; ++r) EXPECT_TRUE(statuses[r].ok()) << r << ": " << statuses[r];
}

TEST_P(ProcessesTest, SurvivorsOfAKilledPeerFailSoon) {
  for (const int calls_before : {0, 50}) {
    const int victim = size() - 1;
    const std::vector<absl::Status> statuses = RunRanks(group(), [&](Communicator& c) {
      absl::Status made = MakeMixedCalls(c, /*seed=*/5, calls_before, /*max_bytes=*/10'000);
      // Nobody is past this one before everybody has joined.
      made.Update(MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10}));
      if (!made.ok()) return made;
      if (c.rank() == victim) kill(getpid(), SIGKILL);
      const absl::Time start = absl::Now();
      made = MakeCheckedCall(c, {.kind = CallKind::kAllGather, .bytes = 10});
      if (!absl::IsUnavailable(made)) return absl::InternalError(made.ToString());
      return Expect(absl::Now() - start < absl::Seconds(3), "noticed late");
    });
    for (int r = 0; r < size(); ++r) {
      if (r == victim) continue;
      EXPECT_TRUE(statuses[r].ok()) << r << ": " << statuses[r];
    }
    EXPECT_THAT(statuses[victim].ToString(), HasSubstr("wait status 9"));
  }
}

std::string Name(const ::testing::TestParamInfo<std::tuple<Transport, RunAs, int>>& info) {
  const auto& [transport, run_as, size] = info.param;
  return absl::StrCat(Name(transport), run_as == RunAs::kThreads ? "Threads" : "Processes", size);
}

constexpr auto kTransports = {Transport::kShm, Transport::kTcp, Transport::kTls};
constexpr auto kRunAs = {RunAs::kThreads, RunAs::kProcesses};

INSTANTIATE_TEST_SUITE_P(AllTransports, CommunicatorTest,
                         ::testing::Combine(::testing::ValuesIn(kTransports),
                                            ::testing::ValuesIn(kRunAs),
                                            ::testing::Values(1, 2, 3, 4, 8)),
                         Name);
INSTANTIATE_TEST_SUITE_P(AllTransports, PeersTest,
                         ::testing::Combine(::testing::ValuesIn(kTransports),
                                            ::testing::ValuesIn(kRunAs), ::testing::Values(2, 4)),
                         Name);
INSTANTIATE_TEST_SUITE_P(AllTransports, ProcessesTest,
                         ::testing::Combine(::testing::ValuesIn(kTransports),
                                            ::testing::Values(RunAs::kProcesses),
                                            ::testing::Values(2, 4, 8)),
                         Name);

}  // namespace
}  // namespace sluice::testing
