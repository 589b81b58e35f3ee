#include "services/lane/lane_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/kernels/testing/test_wiring.h"

namespace sluice {
namespace {

const WiringIdentity kSegmentWiring = testing::TestWiring();

using ::testing::HasSubstr;

v1::LaneOffer OfferOf(int fd) {
  v1::LaneOffer offer;
  offer.set_pid(getpid());
  offer.set_fd(fd);
  return offer;
}

TEST(LaneSegment, IsTheSameMemoryForWhoTakesTheOffer) {
  const auto mine = LaneSegment::Create();
  ASSERT_TRUE(mine->Offer(kSegmentWiring).has_value());
  const auto theirs = LaneSegment::Open(*mine->Offer(kSegmentWiring), kSegmentWiring);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_FALSE((*theirs)->Offer(kSegmentWiring).has_value());
  (*theirs)->written().Store(7);
  (*theirs)->ring()[LaneSegment::capacity() - 1] = std::byte{8};
  EXPECT_EQ(mine->written().Load(), 7u);
  EXPECT_EQ(mine->ring()[LaneSegment::capacity() - 1], std::byte{8});
}

TEST(LaneSegment, CanBeMadeNeitherShorterNorLonger) {
  const auto mine = LaneSegment::Create();
  const std::string path = absl::StrCat("/proc/self/fd/", mine->Offer(kSegmentWiring)->fd());
  EXPECT_NE(truncate(path.c_str(), 1), 0);
  EXPECT_NE(truncate(path.c_str(), 1 << 30), 0);
}

TEST(LaneSegment, IsGoneOnceItsProcessesHaveLetGo) {
  v1::LaneOffer offer = *LaneSegment::Create()->Offer(kSegmentWiring);
  EXPECT_EQ(LaneSegment::Open(offer, kSegmentWiring).status().code(), absl::StatusCode::kNotFound);
  offer.set_pid(-1);
  EXPECT_EQ(LaneSegment::Open(offer, kSegmentWiring).status().code(), absl::StatusCode::kNotFound);
}

TEST(LaneSegment, RefusesWhatIsNoLane) {
  const int folder = open("/", O_RDONLY | O_CLOEXEC);
  const int other = memfd_create("other", MFD_CLOEXEC);
  const int empty = memfd_create("sluice-lane-2", MFD_CLOEXEC);
  for (const int fd : {folder, other, empty}) {
    const auto opened = LaneSegment::Open(OfferOf(fd), kSegmentWiring);
    EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument) << opened.status();
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr("is no lane"));
    close(fd);
  }
}

// Its owner could take the memory away under a peer that uses it.
TEST(LaneSegment, RefusesMemoryThatIsNotSealed) {
  const auto model = LaneSegment::Create();
  const off_t size = lseek(model->Offer(kSegmentWiring)->fd(), 0, SEEK_END);
  const int fd = memfd_create("sluice-lane-2", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(fd, size), 0);
  const auto opened = LaneSegment::Open(OfferOf(fd), kSegmentWiring);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("its size may change"));
  close(fd);
}

TEST(LaneSegment, RefusesAnotherKey) {
  const auto mine = LaneSegment::Create();
  v1::LaneOffer offer = *mine->Offer(kSegmentWiring);
  offer.set_key(offer.key() + 1);
  EXPECT_THAT(std::string(LaneSegment::Open(offer, kSegmentWiring).status().message()),
              HasSubstr("key"));
}

TEST(LaneSegment, RefusesAnotherWiringAndSaysWhatDiffers) {
  const auto mine = LaneSegment::Create();
  const v1::LaneOffer offer = *mine->Offer(kSegmentWiring);
  const std::pair<WiringIdentity, std::string> others[] = {
      {testing::TestWiring(1, 2), "the wiring nonces differ"},
      {testing::TestWiring(2), "it is wired into epoch 1, expected epoch 2"},
      {*WiringIdentity::Make(kSegmentWiring.nonce, 1, "other"),
       "its model fingerprint is test-model"}};
  for (const auto& [other, difference] : others) {
    const absl::Status status = LaneSegment::Open(offer, other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(difference));
  }
}

}  // namespace
}  // namespace sluice
