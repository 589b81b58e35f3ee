#include "kernels/communicator/shm_stream.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/kernels/testing/test_wiring.h"

namespace sluice::testing {
namespace {

constexpr std::uint32_t kSlotBytes = 4096;

// A group of one writer, rank 0, and two readers, whose counters begin at `position`.
std::shared_ptr<ShmSegment> SegmentAt(std::uint32_t position) {
  auto segment = *ShmSegment::Create({3, kSlotBytes}, TestWiring());
  segment->rank(0).written.Store(position);
  for (const int reader : {1, 2}) segment->read_position(0, reader).Store(position);
  return segment;
}

TEST(ShmStreamTest, CarriesMessagesAcrossTheWrapOfItsCounters) {
  const auto segment = SegmentAt(static_cast<std::uint32_t>(-20 * 64));
  ShmSender sender(*segment, 0);
  ShmReceiver first(*segment, 0, 1);
  ShmReceiver second(*segment, 0, 2);
  std::mt19937 random(1);
  for (int message = 0; message < 500; ++message) {
    std::vector<std::byte> sent(random() % (3 * kSlotBytes));
    for (std::byte& byte : sent) byte = static_cast<std::byte>(random());
    // One reader takes all of the body, the other a part of it.
    const std::size_t offset = random() % (sent.size() + 1);
    std::vector<std::byte> all(sent.size());
    std::vector<std::byte> part(random() % (sent.size() - offset + 1));
    const ShmMessageHeader header{1, 0, sent.size()};
    const std::size_t split = random() % (sent.size() + 1);
    sender.Start(header, absl::MakeConstSpan(sent).first(split),
                 absl::MakeConstSpan(sent).subspan(split));
    first.Start(header, 0, absl::MakeSpan(all));
    second.Start(header, offset, absl::MakeSpan(part));
    for (int steps = 0; !(sender.done() && first.done() && second.done()); ++steps) {
      ASSERT_LT(steps, 10'000) << "message " << message << " does not advance";
      switch (random() % 3) {
        case 0:
          sender.Advance();
          break;
        case 1:
          first.Advance();
          break;
        default:
          second.Advance();
      }
    }
    ASSERT_EQ(all, sent) << "message " << message;
    ASSERT_TRUE(std::equal(part.begin(), part.end(), sent.begin() + offset)) << message;
  }
}

TEST(ShmStreamTest, NeverWritesOverWhatAReaderHasNotTaken) {
  const auto segment = SegmentAt(0);
  ShmSender sender(*segment, 0);
  ShmReceiver fast(*segment, 0, 1);
  const std::vector<std::byte> sent(4 * kSlotBytes);
  std::vector<std::byte> received(sent.size());
  const ShmMessageHeader header{1, 0, sent.size()};
  sender.Start(header, sent, {});
  fast.Start(header, 0, absl::MakeSpan(received));
  while (sender.Advance() || fast.Advance()) {
  }
  // Rank 2 has taken nothing, so the writer is one slot ahead of it and no further.
  EXPECT_EQ(segment->rank(0).written.Load(), kSlotBytes);
  EXPECT_TRUE(sender.WaitsFor(2));
  EXPECT_FALSE(sender.WaitsFor(1));
}

TEST(ShmStreamTest, StopsAtAMessageOtherThanTheExpectedOne) {
  const auto segment = SegmentAt(0);
  ShmSender sender(*segment, 0);
  ShmReceiver receiver(*segment, 0, 1);
  const std::vector<std::byte> sent(100);
  std::vector<std::byte> received(200);
  sender.Start({1, 0, 100}, sent, {});
  receiver.Start({1, 0, 200}, 0, absl::MakeSpan(received));
  EXPECT_TRUE(sender.Advance());
  EXPECT_TRUE(receiver.Advance());
  EXPECT_TRUE(receiver.mismatched());
  EXPECT_EQ(receiver.received_header(), (ShmMessageHeader{1, 0, 100}));
  EXPECT_FALSE(receiver.Advance());
}

// A peer's words are not to be trusted with this process's life.
TEST(ShmStreamTest, StopsWhereAWriterCountsWhatCannotBe) {
  for (const std::uint32_t written : {kSlotBytes + 1, static_cast<std::uint32_t>(-1)}) {
    const auto segment = SegmentAt(0);
    ShmReceiver receiver(*segment, 0, 1);
    std::vector<std::byte> received(100, std::byte{7});
    receiver.Start({1, 0, 100}, 0, absl::MakeSpan(received));
    segment->rank(0).written.Store(written);
    EXPECT_TRUE(receiver.Advance());
    EXPECT_TRUE(receiver.damaged());
    EXPECT_FALSE(receiver.Advance());
    EXPECT_FALSE(receiver.done());
    EXPECT_EQ(received, std::vector<std::byte>(100, std::byte{7}));
  }
}

TEST(ShmStreamTest, StopsWhereAReaderCountsWhatCannotBe) {
  const auto segment = SegmentAt(0);
  ShmSender sender(*segment, 0);
  const std::vector<std::byte> sent(4 * kSlotBytes);
  sender.Start({1, 0, sent.size()}, sent, {});
  EXPECT_TRUE(sender.Advance());
  segment->read_position(0, 2).Store(100 * kSlotBytes);  // more than was ever written
  while (sender.damaged_reader() < 0 && sender.Advance()) {
  }
  EXPECT_EQ(sender.damaged_reader(), 2);
  EXPECT_FALSE(sender.Advance());
  EXPECT_FALSE(sender.done());
}

}  // namespace
}  // namespace sluice::testing
