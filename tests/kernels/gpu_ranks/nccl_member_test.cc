#include "kernels/gpu_ranks/nccl_member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/exchanged_sum.h"
#include "tests/kernels/gpu_ranks/fake_nccl.h"
#include "tests/kernels/gpu_ranks/stub_communicator.h"
#include "tests/kernels/testing/emulator.h"
#include "tests/kernels/testing/rank_threads.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class NcclMemberTest : public ::testing::Test {
 protected:
  // The peer of the group that is being met comes at the first pause.
  void PeerComes() {
    on_pause_ = [this] {
      NcclId id{};
      const uint64_t number = ++last_id_;
      std::memcpy(id.data(), &number, sizeof(number));
      peer_.Begin(id, 1, 2).status().IgnoreError();
      on_pause_ = [] {};
    };
  }
  void JoinBoth() {
    PeerComes();
    ASSERT_TRUE(member_.Join(&communicator_, Deadline::Never()).ok());
    ASSERT_TRUE(member_.is_member());
  }

  FakeNcclNetwork network_;
  FakeNccl nccl_{network_};
  FakeNccl peer_{network_};
  StubCommunicator communicator_;
  uint64_t last_id_ = 0;
  std::function<void()> on_pause_ = [] { FAIL() << "waits without need"; };
  NcclMember member_{nccl_, [this] { on_pause_(); }, [this] { nccl_.num_recordings = 0; }};
};

TEST_F(NcclMemberTest, IsApartUntilItJoins) {
  std::byte bytes[2];
  EXPECT_EQ(member_.AllGather({bytes, 1}, {bytes, 2}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(member_.Look().ok());
  EXPECT_EQ(nccl_.num_aborted, 0);
}

TEST_F(NcclMemberTest, WaitsForItsPeers) {
  JoinBoth();
  EXPECT_TRUE(member_.Look().ok());
  EXPECT_EQ(nccl_.num_aborted, 0);
}

TEST_F(NcclMemberTest, GivesUpOnARankThatNeverComes) {
  const absl::Status status = member_.Join(&communicator_, Deadline::After(absl::ZeroDuration()));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 0 of 2"), HasSubstr("meeting")));
  EXPECT_EQ(nccl_.num_aborted, 1);
  EXPECT_FALSE(member_.is_member());
  EXPECT_TRUE(member_.Look().ok()) << "Join has told it";
}

TEST_F(NcclMemberTest, GivesUpOnARankThatDiesOnItsWay) {
  on_pause_ = [this] { communicator_.health = absl::UnavailableError("rank 1 has died"); };
  const absl::Status status = member_.Join(&communicator_, Deadline::Never());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(nccl_.num_aborted, 1);
}

TEST_F(NcclMemberTest, SaysWhatNcclSays) {
  nccl_.id_failure = absl::InternalError("no network interface");
  EXPECT_THAT(std::string(member_.Join(&communicator_, Deadline::Never()).message()),
              HasSubstr("rank 0 has drawn no id: no network interface"));
  EXPECT_EQ(nccl_.num_aborted, 0);
  EXPECT_TRUE(member_.Look().ok()) << "Join has told it";
}

// Passes the id of rank 0 on, as a communicator that mixes up two groups would.
class MixedUpCommunicator final : public Communicator {
 public:
  MixedUpCommunicator(Communicator& over, const WiringIdentity& wiring)
      : over_(over), wiring_(wiring) {}

  int rank() const override { return over_.rank(); }
  int size() const override { return over_.size(); }
  const WiringIdentity& wiring() const override { return wiring_; }
  absl::Status Broadcast(absl::Span<std::byte> data, int root, Deadline deadline) override {
    return over_.Broadcast(data, root, deadline);
  }
  absl::Status AllGather(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                         Deadline deadline) override {
    return over_.AllGather(sent, received, deadline);
  }
  absl::Status AllToAll(absl::Span<const std::byte> sent, absl::Span<std::byte> received,
                        Deadline deadline) override {
    return over_.AllToAll(sent, received, deadline);
  }
  absl::Status Check() override { return over_.Check(); }
  void Abort(absl::Status reason) override { over_.Abort(std::move(reason)); }

 private:
  Communicator& over_;
  const WiringIdentity wiring_;
};

TEST(NcclId, OfAnotherWiringIsNotUsed) {
  FakeNcclNetwork network;
  const std::string group = UniqueGroupName();
  absl::Status refused;
  const absl::Status ran = OnEveryRank(2, [&](int rank) -> absl::Status {
    const auto communicator = Join(group, rank, 2);
    if (!communicator.ok()) return communicator.status();
    FakeNccl nccl(network);
    MixedUpCommunicator mixed_up(**communicator,
                                 TestWiring(1, static_cast<unsigned char>(1 + rank)));
    NcclMember member(
        nccl, [] { std::this_thread::yield(); }, [] {});
    const absl::Status joined = member.Join(
        &mixed_up, Deadline::After(rank == 0 ? absl::Milliseconds(200) : absl::Seconds(20)));
    if (rank == 1) refused = joined;
    return absl::OkStatus();
  });
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("the id of rank 0"), HasSubstr("the wiring nonces differ")));
}

// The stream waits for a peer that is gone: its death, the session's end and the step's deadline
// each end the group, once, and are told once.
TEST_F(NcclMemberTest, EndsTheGroupForWhateverIsSeen) {
  const std::vector<std::function<absl::StatusCode()>> events = {
      [&] {
        communicator_.health = absl::UnavailableError("rank 1 has died");
        return absl::StatusCode::kUnavailable;
      },
      [&] {
        communicator_.Abort(absl::AbortedError("epoch 8"));
        return absl::StatusCode::kAborted;
      },
      [&] {
        member_.SetDeadline(Deadline::After(absl::ZeroDuration()));
        return absl::StatusCode::kDeadlineExceeded;
      },
      [&] {
        nccl_.progress_failure = absl::InternalError("ncclRemoteError");
        return absl::StatusCode::kInternal;
      }};
  int aborted = 0;
  for (const auto& event : events) {
    communicator_.health = absl::OkStatus();
    JoinBoth();
    member_.SetDeadline(Deadline::Never());
    ASSERT_TRUE(member_.Look().ok());
    nccl_.num_recordings = 2;
    const absl::StatusCode code = event();
    EXPECT_EQ(member_.Look().code(), code);
    EXPECT_EQ(nccl_.num_aborted, ++aborted);
    EXPECT_TRUE(member_.Look().ok()) << "told before";
    std::byte bytes[2];
    EXPECT_EQ(member_.AllGather({bytes, 1}, {bytes, 2}).code(), code);
    EXPECT_EQ(nccl_.num_aborted, aborted);
  }
}

TEST_F(NcclMemberTest, ANewEpochEndsTheOldGroup) {
  JoinBoth();
  nccl_.num_recordings = 1;
  JoinBoth();
  EXPECT_EQ(nccl_.num_aborted, 1);
  EXPECT_TRUE(member_.Look().ok());
}

// A call that is under way when it returns is waited for, but not past the step's deadline.
TEST_F(NcclMemberTest, DoesNotHangWhereNcclDoes) {
  JoinBoth();
  nccl_.hangs = true;
  nccl_.num_recordings = 1;
  int pauses = 0;
  member_.SetDeadline(Deadline::Never());
  std::byte sent[1], received[2];
  on_pause_ = [&] {
    if (++pauses == 3) communicator_.Abort(absl::AbortedError("epoch 8"));
  };
  EXPECT_EQ(member_.AllGather({sent, 1}, {received, 2}).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(pauses, 3);
}

// The step that the exchange is part of may be being recorded.
TEST_F(NcclMemberTest, AFailedExchangeEndsTheGroupAtTheNextLook) {
  JoinBoth();
  nccl_.num_recordings = 1;
  nccl_.progress_failure = absl::InternalError("ncclUnhandledCudaError");
  std::byte sent[1], received[2];
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(member_.AllGather({sent, 1}, {received, 2}).code(), absl::StatusCode::kInternal);
    EXPECT_EQ(nccl_.num_aborted, 0);
    EXPECT_EQ(nccl_.num_recordings, 1);
  }
  EXPECT_FALSE(member_.is_member());
  EXPECT_EQ(member_.Look().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(nccl_.num_aborted, 1);
  EXPECT_EQ(nccl_.num_recordings, 0);
  EXPECT_TRUE(member_.Look().ok()) << "told before";
  EXPECT_EQ(nccl_.num_aborted, 1);
}

TEST_F(NcclMemberTest, AFailedExchangeThatNobodyLooksAtEndsTheGroupWithTheEpoch) {
  JoinBoth();
  nccl_.progress_failure = absl::InternalError("ncclUnhandledCudaError");
  std::byte sent[1], received[2];
  EXPECT_FALSE(member_.AllGather({sent, 1}, {received, 2}).ok());
  nccl_.progress_failure = absl::OkStatus();
  JoinBoth();
  EXPECT_EQ(nccl_.num_aborted, 1);
  EXPECT_TRUE(member_.Look().ok());
}

TEST_F(NcclMemberTest, LeavesWhenItIsGone) {
  {
    NcclMember member(
        nccl_, [this] { on_pause_(); }, [this] { nccl_.num_recordings = 0; });
    PeerComes();
    ASSERT_TRUE(member.Join(&communicator_, Deadline::Never()).ok());
    nccl_.num_recordings = 1;
  }
  EXPECT_EQ(nccl_.num_aborted, 1);
}

// ---- Whole groups ----

// Who leaves a group takes it down for those that still exchange.
absl::Status WaitForAll(Communicator& communicator) {
  const std::byte here{};
  std::vector<std::byte> all(communicator.size());
  return communicator.AllGather({&here, 1}, absl::MakeSpan(all),
                                Deadline::After(absl::Seconds(60)));
}

std::vector<float> RandomPartial(int rank, int64_t count, unsigned seed) {
  std::mt19937 random(seed * 100 + rank);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(std::normal_distribution<float>()(random),
                       std::uniform_int_distribution<int>(-12, 12)(random));
  }
  return values;
}

struct SumCase {
  int num_ranks;
  size_t gather_bytes;
};

constexpr int64_t kWidth = 24;
// Of eight partials, however many ranks have them: each begins with the tree over its own.
constexpr int kPartials = 8;

// The sum of kPartials partials of `rows` rows over `size` ranks, as rank 0 sees it.
std::vector<float> SumOver(const SumCase& sum_case, int64_t rows, unsigned seed) {
  FakeNcclNetwork network;
  const std::string group = UniqueGroupName();
  const int size = sum_case.num_ranks;
  std::vector<std::vector<float>> sums(size);
  const absl::Status status = OnEveryRank(size, [&](int rank) -> absl::Status {
    auto communicator = Join(group, rank, size);
    if (!communicator.ok()) return communicator.status();
    const auto backend = MakeCpuBackend({.num_threads = 1});
    FakeNccl nccl(network);
    NcclMember member(
        nccl, [] { std::this_thread::yield(); }, [] {});
    const Deadline deadline = Deadline::After(absl::Seconds(4));
    if (absl::Status met = member.Join(communicator->get(), deadline); !met.ok()) return met;
    auto sum = ExchangedSum::Create({.num_ranks = size,
                                     .max_rows = rows,
                                     .width = kWidth,
                                     .gather_bytes = sum_case.gather_bytes},
                                    *backend);
    if (!sum.ok()) return sum.status();
    std::vector<std::vector<float>> own;
    std::vector<MatrixView> views;
    for (int i = 0; i < kPartials / size; ++i) {
      own.push_back(
          RandomPartial(rank * (kPartials / size) + i, PaddedRows(rows, size) * kWidth, seed));
      views.push_back({own[i].data(), DType::kF32, rows, kWidth, kWidth});
    }
    backend->TreeAdd(views, views[0]);
    sums[rank].resize(rows * kWidth);
    const MatrixView residual{sums[rank].data(), DType::kF32, rows, kWidth, kWidth};
    const absl::Status added = sum->SumToResidual(views[0], {.residual = residual}, member);
    if (!added.ok()) return added;
    return WaitForAll(**communicator);
  });
  EXPECT_TRUE(status.ok()) << status;
  for (const auto& sum : sums) EXPECT_EQ(sum, sums[0]);
  return sums[0];
}

class NcclGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    if (IsEmulated()) GTEST_SKIP() << "an emulator makes ranks believe that the others are dead";
  }
};

TEST_F(NcclGroup, SumsHaveTheSameBitsForAnyNumberOfRanks) {
  for (const int64_t rows : {1, 7, 16}) {
    const auto seed = static_cast<unsigned>(rows);
    const std::vector<float> expected = SumOver({1, 1 << 20}, rows, seed);
    for (const int size : {2, 4, 8}) {
      EXPECT_EQ(SumOver({size, 1 << 20}, rows, seed), expected) << size << " ranks, gathered";
      EXPECT_EQ(SumOver({size, 0}, rows, seed), expected) << size << " ranks, in parts";
    }
  }
}

// A rank leaves in the middle; the others fail, and all meet again in the next epoch.
TEST_F(NcclGroup, MeetsAgainAfterARankWasLost) {
  constexpr int kSize = 4;
  FakeNcclNetwork network;
  const std::string groups[] = {UniqueGroupName(), UniqueGroupName()};
  const absl::Status status = OnEveryRank(kSize, [&](int rank) -> absl::Status {
    FakeNccl nccl(network);
    NcclMember member(
        nccl, [] { std::this_thread::yield(); }, [] {});
    const Deadline deadline = Deadline::After(absl::Seconds(4));
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto communicator = Join(groups[epoch], rank, kSize);
      if (!communicator.ok()) return communicator.status();
      const absl::Status met = member.Join(communicator->get(), deadline);
      // Who is slow to see that all have met may hear of the loss first.
      if (!met.ok() && epoch == 1) return met;
      member.SetDeadline(deadline);
      const std::byte sent{static_cast<unsigned char>(rank)};
      std::byte received[kSize];
      if (epoch == 0 && rank == 2) {
        (*communicator)->Abort(absl::AbortedError("killed"));
        continue;
      }
      const absl::Status moved = member.AllGather({&sent, 1}, {received, kSize});
      if (moved.ok() != (epoch == 1)) return absl::InternalError(moved.ToString());
      if (epoch == 1) return WaitForAll(**communicator);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace sluice::testing
