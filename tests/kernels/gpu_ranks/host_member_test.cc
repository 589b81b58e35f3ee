#include "kernels/gpu_ranks/host_member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "tests/kernels/gpu_ranks/stub_communicator.h"
#include "tests/kernels/testing/async_backend.h"
#include "tests/kernels/testing/emulator.h"
#include "tests/kernels/testing/rank_threads.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

// Does work later and on another thread, in memory that the host can't touch, as devices do.
std::unique_ptr<Backend> NewDevice() { return MakeAsyncBackend(MakeReferenceBackend()); }

class HostMemberTest : public ::testing::Test {
 protected:
  HostMemberTest() {
    member_.SetDeadline(Deadline::Never());
    EXPECT_TRUE(backend_->Synchronize().ok());
  }

  absl::Status Gather() {
    const auto bytes = [](Buffer& buffer) {
      return absl::Span<std::byte>(static_cast<std::byte*>(buffer.data()), buffer.size_bytes());
    };
    return member_.AllGather(bytes(*sent_), bytes(*received_));
  }

  const std::unique_ptr<Backend> backend_ = NewDevice();
  const std::unique_ptr<Buffer> sent_ = backend_->Allocate(8).value();
  const std::unique_ptr<Buffer> received_ = backend_->Allocate(16).value();
  StubCommunicator communicator_;
  int num_left_unrecorded_ = 0;
  HostMember member_{*backend_, communicator_, [this] { ++num_left_unrecorded_; }};
};

TEST_F(HostMemberTest, LeavesTheStepUnrecordedWithEveryExchange) {
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(Gather().ok());
    EXPECT_EQ(num_left_unrecorded_, i);
  }
}

TEST_F(HostMemberTest, AFailureOfThePeersIsThatOfEveryLaterExchange) {
  communicator_.health = absl::UnavailableError("rank 1 has died");
  const absl::Status status = Gather();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("rank 0 of 2, exchanging through the host"), HasSubstr("rank 1 has died")));
  EXPECT_TRUE(member_.Look().ok()) << "told before";
  communicator_.health = absl::OkStatus();
  EXPECT_EQ(Gather(), status);
  EXPECT_EQ(communicator_.num_exchanges, 1);
}

// While the host waits for the device's own work.
TEST_F(HostMemberTest, LookTellsOnceOfAPeerOrADeadline) {
  EXPECT_TRUE(member_.Look().ok());
  member_.SetDeadline(Deadline::After(absl::ZeroDuration()));
  const absl::Status told = member_.Look();
  EXPECT_EQ(told.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(member_.Look().ok());
  EXPECT_EQ(Gather(), told);
  EXPECT_EQ(communicator_.num_exchanges, 0);
}

// What a rank has lost, its peers must not get from its next exchange.
TEST_F(HostMemberTest, ARankWhoseOwnWorkFailedExchangesNoMore) {
  auto group = backend_->NewRankGroup({.num_ranks = 2, .max_rows = 1, .width = 2});
  ASSERT_TRUE(group.ok());
  StubCommunicator broken;
  broken.health = absl::InternalError("the device has failed");
  ASSERT_TRUE((*group)->Join(&broken, Deadline::Never()).ok());
  (*group)->BeginStep(Deadline::Never());
  const MatrixView row{sent_->data(), DType::kF32, 1, 2, 2};
  const MatrixView residual{received_->data(), DType::kF32, 1, 2, 2};
  ASSERT_TRUE((*group)->SumToResidual(row, {.residual = residual}).ok()) << "shows at the wait";
  const absl::Status status = Gather();
  EXPECT_THAT(std::string(status.message()), HasSubstr("the device has failed"));
  EXPECT_EQ(Gather(), status);
  EXPECT_EQ(communicator_.num_exchanges, 0);
}

std::byte Pattern(int call, int from, size_t index) {
  return static_cast<std::byte>(31 * call + 7 * from + index);
}

// Random calls, of which a rank waits for none: what it sends is enqueued before, and what it
// receives after is read at the end.
absl::Status ExchangeRandomly(Communicator& communicator) {
  constexpr int kCalls = 20;
  constexpr size_t kMostBytes = 300;
  const int size = communicator.size(), self = communicator.rank();
  const std::unique_ptr<Backend> backend = NewDevice();
  HostMember member(*backend, communicator, [] {});
  member.SetDeadline(Deadline::After(absl::Seconds(60)));
  std::mt19937 random(7);  // the same on every rank
  std::vector<std::unique_ptr<Buffer>> received;
  std::vector<Bytes> expected;
  for (int call = 0; call < kCalls; ++call) {
    const bool to_all = random() % 2 == 0;
    const size_t part = 1 + random() % kMostBytes;
    Bytes own(to_all ? part * size : part), all;
    for (size_t i = 0; i < own.size(); ++i) own[i] = Pattern(call, self, i);
    for (int from = 0; from < size; ++from) {
      for (size_t i = 0; i < part; ++i) {
        all.push_back(Pattern(call, from, to_all ? part * self + i : i));
      }
    }
    auto sent = backend->Allocate(own.size());
    if (!sent.ok()) return sent.status();
    backend->CopyIn(own, (*sent)->data());
    received.push_back(backend->Allocate(part * size).value());
    expected.push_back(std::move(all));
    const absl::Span<const std::byte> out(static_cast<std::byte*>((*sent)->data()), own.size());
    const absl::Span<std::byte> in(static_cast<std::byte*>(received.back()->data()), part * size);
    absl::Status status = to_all ? member.AllToAll(out, in) : member.AllGather(out, in);
    if (!status.ok()) return status;
  }
  for (int call = 0; call < kCalls; ++call) {
    Bytes read(expected[call].size());
    absl::Status status = backend->CopyOut(received[call]->data(), absl::MakeSpan(read));
    if (!status.ok()) return status;
    EXPECT_EQ(read, expected[call]) << "rank " << self << ", call " << call;
  }
  return absl::OkStatus();
}

TEST(HostMember, DeliversBetweenThreadsOfAProcess) {
  if (IsEmulated()) GTEST_SKIP() << "an emulator makes ranks believe that the others are dead";
  for (const int size : {2, 3, 4}) {
    const std::string group = UniqueGroupName();
    const absl::Status status = OnEveryRank(size, [&](int rank) {
      const auto communicator = Join(group, rank, size);
      return communicator.ok() ? ExchangeRandomly(**communicator) : communicator.status();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
}

// A rank that stays away costs no more than the step's time.
TEST(HostMember, AnExchangeEndsAtItsDeadline) {
  if (IsEmulated()) GTEST_SKIP() << "an emulator makes ranks believe that the others are dead";
  const std::string group = UniqueGroupName();
  std::vector<std::unique_ptr<Communicator>> communicators(2);
  const absl::Status joined = OnEveryRank(2, [&](int rank) {
    auto communicator = Join(group, rank, 2);
    if (!communicator.ok()) return communicator.status();
    communicators[rank] = *std::move(communicator);
    return absl::OkStatus();
  });
  ASSERT_TRUE(joined.ok()) << joined;
  const std::unique_ptr<Backend> backend = NewDevice();
  const auto memory = backend->Allocate(24).value();
  auto* const bytes = static_cast<std::byte*>(memory->data());
  HostMember member(*backend, *communicators[0], [] {});
  member.SetDeadline(Deadline::After(absl::Milliseconds(20)));
  EXPECT_EQ(member.AllGather({bytes, 8}, {bytes + 8, 16}).code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace sluice::testing
