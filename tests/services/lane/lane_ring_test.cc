// Both ends of a ring: services/lane/lane_reader.h and lane_writer.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "services/lane/lane_reader.h"
#include "services/lane/lane_record.h"
#include "services/lane/lane_writer.h"
#include "sluice/v1/tensor.pb.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice {
namespace {

const WiringIdentity kWiring = testing::TestWiring();

using ::testing::HasSubstr;

v1::Tensor MessageOf(size_t bytes, int64_t number) {
  v1::Tensor tensor;
  tensor.add_shape(number);
  tensor.set_data(std::string(bytes, static_cast<char>(number)));
  return tensor;
}

// A reader, and what a peer sees of its segment.
class LaneRing : public ::testing::Test {
 protected:
  LaneRing() {
    auto segment = LaneSegment::Create();
    const v1::LaneOffer offer = *segment->Offer(kWiring);
    reader_ = std::make_unique<LaneReader>(std::move(segment));
    peer_ = *LaneSegment::Open(offer, kWiring);
    writer_ = std::make_unique<LaneWriter>(*LaneSegment::Open(offer, kWiring));
  }

  // The number of the message read, or -1: none there.
  absl::StatusOr<int64_t> Read() {
    v1::Tensor tensor;
    const absl::StatusOr<bool> read = reader_->Read(tensor);
    if (!read.ok()) return read.status();
    if (!*read) return -1;
    for (const char byte : tensor.data()) EXPECT_EQ(byte, static_cast<char>(tensor.shape(0)));
    return tensor.shape(0);
  }

  void ExpectDamaged(const std::string& message) {
    for (int i = 0; i < 2; ++i) {
      const auto read = Read();
      EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(read.status().message()), HasSubstr(message));
    }
  }

  // Of a record where the reader reads next, as a peer may write it.
  void WriteLength(LaneRecordLength length) { std::memcpy(peer_->ring(), &length, sizeof(length)); }

  std::unique_ptr<LaneReader> reader_;
  std::unique_ptr<LaneSegment> peer_;
  std::unique_ptr<LaneWriter> writer_;
};

TEST_F(LaneRing, GivesMessagesInOrder) {
  EXPECT_EQ(*Read(), -1);
  EXPECT_FALSE(reader_->HasNews());
  for (int64_t i = 0; i < 3; ++i) ASSERT_TRUE(writer_->Write(MessageOf(10, i)));
  EXPECT_TRUE(reader_->HasNews());
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(*Read(), i);
  EXPECT_EQ(*Read(), -1);
}

TEST_F(LaneRing, CarriesAnEmptyMessage) {
  ASSERT_TRUE(writer_->Write(v1::Tensor()));
  v1::Tensor tensor = MessageOf(3, 3);
  EXPECT_TRUE(*reader_->Read(tensor));
  EXPECT_EQ(tensor.ByteSizeLong(), 0u);
}

TEST_F(LaneRing, GoesRoundAndRound) {
  std::mt19937 random(1);
  for (int64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(writer_->Write(MessageOf(random() % (LaneSegment::capacity() / 2), i)));
    if (i % 2 == 1) continue;  // two at a time
    ASSERT_EQ(*Read(), i);
    ASSERT_TRUE(writer_->Write(MessageOf(random() % 1000, 1000)));
    ASSERT_EQ(*Read(), 1000);
    if (i == 198) break;
    ASSERT_TRUE(writer_->Write(MessageOf(5, ++i)));
    ASSERT_EQ(*Read(), i);
  }
}

TEST_F(LaneRing, CountsPastTheLastPosition) {
  const std::uint32_t near_the_end = 0u - 64u;
  peer_->written().Store(near_the_end);
  peer_->read().Store(near_the_end);
  LaneWriter writer(*LaneSegment::Open(*reader_->Offer(kWiring), kWiring));
  auto reading = LaneSegment::Open(*reader_->Offer(kWiring), kWiring);
  LaneReader reader(*std::move(reading));
  for (int64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(writer.Write(MessageOf(30, i)));
    v1::Tensor tensor;
    ASSERT_TRUE(*reader.Read(tensor));
    EXPECT_EQ(tensor.shape(0), i);
  }
}

TEST_F(LaneRing, TakesWhatHasRoomAndNoMore) {
  int64_t written = 0;
  while (writer_->Write(MessageOf(100'000, written))) ++written;
  EXPECT_EQ(written, LaneSegment::capacity() / 100'016);
  for (int64_t i = 0; i < written; ++i) EXPECT_EQ(*Read(), i);
  EXPECT_EQ(*Read(), -1);
  EXPECT_TRUE(writer_->Write(MessageOf(LaneSegment::capacity() - 100, 1)));
  EXPECT_EQ(*Read(), 1);
  EXPECT_FALSE(writer_->Write(MessageOf(LaneSegment::capacity(), 1)));
  EXPECT_EQ(*Read(), -1);
}

TEST_F(LaneRing, DoesNotBelieveACounter) {
  peer_->written().Store(LaneSegment::capacity() + 8);
  ExpectDamaged("it has room for");
}

TEST_F(LaneRing, DoesNotBelieveACounterThatGoesBack) {
  peer_->written().Store(0u - 8u);
  ExpectDamaged("it has room for");
}

TEST_F(LaneRing, DoesNotBelieveALength) {
  WriteLength(17);
  peer_->written().Store(24);
  ExpectDamaged("a message has 17 bytes");
}

TEST_F(LaneRing, DoesNotBelieveALengthBeyondAnything) {
  WriteLength(~LaneRecordLength{0});
  peer_->written().Store(LaneSegment::capacity());
  ExpectDamaged("a message has");
}

TEST_F(LaneRing, DoesNotBelieveBytes) {
  WriteLength(8);
  std::memset(peer_->ring() + 8, 0xff, 8);
  peer_->written().Store(16);
  ExpectDamaged("that are no sluice.v1.Tensor");
}

TEST_F(LaneRing, WritesNothingForAReaderWhoseCounterCanNotBe) {
  peer_->read().Store(8);  // ahead of what was written
  EXPECT_FALSE(writer_->Write(MessageOf(10, 1)));
  EXPECT_EQ(*Read(), -1);
}

TEST_F(LaneRing, WakesItsReader) {
  constexpr int64_t kMessages = 20'000;
  std::thread writing([this] {
    for (int64_t i = 0; i < kMessages;) i += writer_->Write(MessageOf(100, i % 100)) ? 1 : 0;
  });
  for (int64_t i = 0; i < kMessages; ++i) {
    int64_t number = *Read();
    while (number < 0) {
      reader_->Sleep([this] { return reader_->HasNews(); });
      number = *Read();
    }
    ASSERT_EQ(number, i % 100);
  }
  writing.join();
}

TEST_F(LaneRing, WakesItsReaderForOtherReasons) {
  std::atomic<bool> over = false;
  std::thread ending([&] {
    over = true;
    reader_->Wake();
  });
  while (!over) reader_->Sleep([&] { return over.load(); });
  ending.join();
}

}  // namespace
}  // namespace sluice
