// Both ends of a row ring, on backends that work later and in memory of their own.
#include "services/rows/row_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "kernels/reference/reference_backend.h"
#include "services/rows/ring_space.h"
#include "services/rows/row_ring_reader.h"
#include "services/rows/row_ring_writer.h"
#include "services/rows/tensor.h"
#include "tests/kernels/testing/async_backend.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice::testing {
namespace {

const WiringIdentity kWiring = TestWiring();

using ::testing::HasSubstr;

constexpr int64_t kHidden = 64;  // a row is a ring's smallest unit
constexpr int64_t kRingRows = 16;

std::vector<float> RowsFrom(float first, int64_t rows) {
  std::vector<float> values(rows * kHidden);
  std::iota(values.begin(), values.end(), first);
  return values;
}

v1::Tensor TensorOf(const std::vector<float>& values) {
  v1::Tensor tensor =
      NewTensor(DType::kF32, {static_cast<int64_t>(values.size()) / kHidden, kHidden});
  std::memcpy(tensor.mutable_data()->data(), values.data(), values.size() * sizeof(float));
  return tensor;
}

std::vector<float> ValuesOf(const StepRows& rows) {
  const absl::StatusOr<v1::Tensor> tensor = rows.Store();
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (!tensor.ok()) return {};
  std::vector<float> values(tensor->data().size() / sizeof(float));
  std::memcpy(values.data(), tensor->data().data(), tensor->data().size());
  return values;
}

// A stage's end: a backend and the rows of the step in hand.
struct Stage {
  std::unique_ptr<Backend> backend = MakeAsyncBackend(MakeReferenceBackend());
  StepRows rows{*backend, kHidden};
};

class RowRingTest : public ::testing::Test {
 protected:
  void Open() {
    const auto offer = ring_.Offer(kWiring);
    ASSERT_TRUE(offer.ok()) << offer.status();
    ASSERT_EQ(reader_.Open(*offer, kWiring), absl::OkStatus());
    ASSERT_EQ(writer_.Taken(0), absl::OkStatus());
  }
  v1::PushStep Store(const std::vector<float>& values,
                     std::optional<absl::Span<const int32_t>> indices = std::nullopt) {
    v1::PushStep step;
    EXPECT_EQ(sender_.rows.Load(TensorOf(values)), absl::OkStatus());
    EXPECT_EQ(writer_.Store(sender_.rows, indices, step), absl::OkStatus());
    return step;
  }
  std::vector<float> Load(const v1::PushStep& step) {
    EXPECT_EQ(reader_.Load(step, receiver_.rows), absl::OkStatus());
    return ValuesOf(receiver_.rows);
  }

  Stage sender_, receiver_;
  RowRing ring_{*sender_.backend, kHidden, kRingRows};
  RowRingWriter writer_{&ring_};
  RowRingReader reader_{*receiver_.backend};
};

TEST_F(RowRingTest, CarriesRowsThatNoMessageHolds) {
  Open();
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> values = RowsFrom(static_cast<float>(i), 1 + i % 7);
    const v1::PushStep step = Store(values);
    EXPECT_TRUE(step.has_in_ring()) << i;
    EXPECT_EQ(step.hidden().data().size(), 0u);
    EXPECT_EQ(Load(step), values) << i;
    if (const auto taken = reader_.Done()) {
      ASSERT_EQ(writer_.Taken(*taken), absl::OkStatus());
    }
  }
}

TEST_F(RowRingTest, CarriesRowsByIndex) {
  Open();
  const std::vector<int32_t> indices = {2, 0};
  const v1::PushStep step = Store(RowsFrom(0, 3), indices);
  EXPECT_TRUE(step.has_in_ring());
  std::vector<float> expected = RowsFrom(2 * kHidden, 1);
  const std::vector<float> first = RowsFrom(0, 1);
  expected.insert(expected.end(), first.begin(), first.end());
  EXPECT_EQ(Load(step), expected);
  v1::PushStep refused;
  const std::vector<int32_t> none = {3};
  EXPECT_EQ(writer_.Store(sender_.rows, none, refused).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RowRingTest, IsNotUsedBeforeTheReceiverHasOpenedIt) {
  const v1::PushStep step = Store(RowsFrom(5, 2));
  EXPECT_FALSE(step.has_in_ring());
  EXPECT_EQ(Load(step), RowsFrom(5, 2));
}

TEST_F(RowRingTest, LeavesToTheMessageWhatFindsNoRoom) {
  Open();
  const v1::PushStep all = Store(RowsFrom(1, kRingRows));
  EXPECT_TRUE(all.has_in_ring());
  const v1::PushStep more = Store(RowsFrom(2, 1));
  EXPECT_FALSE(more.has_in_ring());
  EXPECT_FALSE(Store(RowsFrom(2, kRingRows + 1)).has_in_ring());
  EXPECT_FALSE(Store({}).has_in_ring());
  EXPECT_EQ(Load(all), RowsFrom(1, kRingRows));
  EXPECT_EQ(Load(more), RowsFrom(2, 1));
  ASSERT_EQ(writer_.Taken(reader_.Done().value()), absl::OkStatus());
  EXPECT_TRUE(Store(RowsFrom(2, 1)).has_in_ring());
}

// Although little was taken since the receiver told.
TEST_F(RowRingTest, HasRoomAgainOnceALargeStepFoundNone) {
  Open();
  Load(Store(RowsFrom(1, 6)));
  ASSERT_EQ(writer_.Taken(reader_.Done().value()), absl::OkStatus());
  Load(Store(RowsFrom(2, 3)));
  EXPECT_EQ(reader_.Done(), std::nullopt) << "less than a quarter";
  const v1::PushStep large = Store(RowsFrom(3, 8));
  EXPECT_FALSE(large.has_in_ring());
  EXPECT_EQ(Load(large), RowsFrom(3, 8));
  const std::optional<uint64_t> taken = reader_.Done();
  ASSERT_TRUE(taken.has_value());
  ASSERT_EQ(writer_.Taken(*taken), absl::OkStatus());
  const v1::PushStep next = Store(RowsFrom(4, 8));
  EXPECT_TRUE(next.has_in_ring());
  EXPECT_EQ(Load(next), RowsFrom(4, 8));
}

TEST_F(RowRingTest, DoesNotBelieveAReceiverThatTookWhatItNeverHad) {
  Open();
  EXPECT_EQ(writer_.Taken(1 << 20).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RowRingWriter(nullptr).Taken(0).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RowRingTest, RefusesRowsThatTheRingCanNotHold) {
  v1::PushStep step;
  *step.mutable_hidden() = sender_.rows.DescriptionOf(1);
  step.mutable_in_ring()->set_position(0);
  const auto refusal = [&] {
    const absl::Status status = reader_.Load(step, receiver_.rows);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(), HasSubstr("not opened"));
  Open();
  EXPECT_EQ(reader_.Load(step, receiver_.rows), absl::OkStatus());
  for (const uint64_t position : {uint64_t{1}, uint64_t{255}, ~uint64_t{0}}) {
    step.mutable_in_ring()->set_position(position);
    EXPECT_THAT(refusal(), HasSubstr("bytes of rows at"));
  }
  // Two rows from the last row's place on.
  *step.mutable_hidden() = sender_.rows.DescriptionOf(2);
  step.mutable_in_ring()->set_position((kRingRows - 1) * kHidden * sizeof(float));
  EXPECT_THAT(refusal(), HasSubstr("bytes of rows at"));
  step.mutable_in_ring()->set_position(0);
  for (const int64_t count : {int64_t{17}, int64_t{1} << 62, int64_t{-1}}) {
    *step.mutable_hidden() = sender_.rows.DescriptionOf(count);
    refusal();
  }
  *step.mutable_hidden() = TensorOf(RowsFrom(0, 1));
  EXPECT_THAT(refusal(), HasSubstr("beside it"));
}

TEST_F(RowRingTest, RefusesARingThatItsMemoryDoesNotHold) {
  const v1::RowRingOffer offer = *ring_.Offer(kWiring);
  for (const uint64_t capacity : {uint64_t{0}, uint64_t{100}, offer.capacity_bytes() + 256}) {
    v1::RowRingOffer other = offer;
    other.set_capacity_bytes(capacity);
    EXPECT_EQ(reader_.Open(other, kWiring).code(), absl::StatusCode::kInvalidArgument);
  }
  v1::RowRingOffer other = offer;
  other.set_handle("nothing");
  EXPECT_EQ(reader_.Open(other, kWiring).code(), absl::StatusCode::kInvalidArgument);
  other.set_handle(std::string(2000, 'x'));
  EXPECT_THAT(std::string(reader_.Open(other, kWiring).message()), HasSubstr("at most 1024"));
  EXPECT_EQ(reader_.Open(offer, kWiring), absl::OkStatus());
  EXPECT_EQ(reader_.Open(offer, kWiring).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RowRingTest, IsNotOpenedInAnotherWiring) {
  for (const WiringIdentity& other : {TestWiring(1, 2), TestWiring(2)}) {
    const absl::Status status = reader_.Open(*ring_.Offer(kWiring), other);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  }
}

TEST_F(RowRingTest, NeedsADeviceThatSharesMemory) {
  const std::unique_ptr<Backend> plain = MakeReferenceBackend();
  EXPECT_EQ(RowRing(*plain, kHidden).Offer(kWiring).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(RowRingReader(*plain).Open(*ring_.Offer(kWiring), kWiring).code(),
            absl::StatusCode::kUnimplemented);
}

// The same memory serves the next epoch, while a reader of the one before has it open still.
TEST_F(RowRingTest, ServesTheNextEpochBesideAReaderThatIsLate) {
  Open();
  const v1::PushStep old_step = Store(RowsFrom(1, 4));
  RowRingWriter writer(&ring_);
  RowRingReader reader(*receiver_.backend);
  v1::PushStep step;
  ASSERT_EQ(sender_.rows.Load(TensorOf(RowsFrom(2, 4))), absl::OkStatus());
  ASSERT_EQ(writer.Store(sender_.rows, std::nullopt, step), absl::OkStatus());
  EXPECT_FALSE(step.has_in_ring()) << "who has opened it in another epoch does not count";
  ASSERT_EQ(reader.Open(*ring_.Offer(kWiring), kWiring), absl::OkStatus());
  ASSERT_EQ(writer.Taken(0), absl::OkStatus());
  step.Clear();
  ASSERT_EQ(writer.Store(sender_.rows, std::nullopt, step), absl::OkStatus());
  EXPECT_TRUE(step.has_in_ring());
  // The late one reads what is no longer there, and changes nothing.
  EXPECT_EQ(reader_.Load(old_step, receiver_.rows), absl::OkStatus());
  reader_.Close();
  EXPECT_EQ(reader.Load(step, receiver_.rows), absl::OkStatus());
  EXPECT_EQ(ValuesOf(receiver_.rows), RowsFrom(2, 4));
}

// The sender's process is killed between two reads: what it left stays readable for who has opened it,
// and goes with the last of them.
TEST_F(RowRingTest, OutlivesASenderThatIsKilled) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer starts no threads in a child of a process that has some";
#endif
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const pid_t child = fork();
  if (child == 0) {
    Stage stage;
    RowRing ring(*stage.backend, kHidden, kRingRows);
    RowRingWriter writer(&ring);
    const auto offer = ring.Offer(kWiring);
    v1::PushStep step;
    const bool stored = offer.ok() && writer.Taken(0).ok() &&
                        stage.rows.Load(TensorOf(RowsFrom(3, 4))).ok() &&
                        writer.Store(stage.rows, std::nullopt, step).ok();
    const std::string text = stored ? offer->SerializeAsString() : "";
    if (text.empty() || write(told[1], text.data(), text.size()) < 0) _exit(1);
    pause();
    _exit(0);
  }
  close(told[1]);  // so that a child that failed ends the read
  char text[2048];
  const ssize_t length = read(told[0], text, sizeof(text));
  v1::RowRingOffer offer;
  ASSERT_GT(length, 0);
  ASSERT_TRUE(offer.ParseFromArray(text, static_cast<int>(length)));
  const absl::Status opened = reader_.Open(offer, kWiring);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_EQ(opened, absl::OkStatus());
  v1::PushStep step;
  *step.mutable_hidden() = receiver_.rows.DescriptionOf(4);
  step.mutable_in_ring()->set_position(0);
  EXPECT_EQ(Load(step), RowsFrom(3, 4));
  RowRingReader late(*receiver_.backend);
  EXPECT_EQ(late.Open(offer, kWiring).code(), absl::StatusCode::kNotFound);
  close(told[0]);
}

}  // namespace
}  // namespace sluice::testing
