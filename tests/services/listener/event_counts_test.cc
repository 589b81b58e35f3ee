#include "services/listener/event_counts.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

TEST(EventCounts, ReportsTheFirstAtOnceAndTheOthersOnceASecondWithTheirNumber) {
  EventCounts counts;
  absl::Duration now = absl::Hours(1);
  int lines = 0;
  uint64_t counted = 0;
  for (int i = 0; i < 10'000; ++i) {  // a thousand a second
    for (const PeerEvent& event : counts.Add("call-refused", "10.0.0.7", "no token", now)) {
      ++lines;
      counted += event.count;
      EXPECT_EQ(event.host, "10.0.0.7");
    }
    now += absl::Milliseconds(1);
  }
  EXPECT_EQ(lines, 10);
  now += absl::Seconds(1);
  for (const PeerEvent& event : counts.TakeDue(now)) counted += event.count;
  EXPECT_EQ(counted, 10'000);
  EXPECT_TRUE(counts.TakeDue(now + absl::Seconds(2)).empty());
}

TEST(EventCounts, TellsEventsHostsAndCausesApart) {
  EventCounts counts;
  const absl::Duration now = absl::Hours(1);
  EXPECT_EQ(counts.Add("a", "x", "1", now).size(), 1);
  EXPECT_EQ(counts.Add("b", "x", "1", now).size(), 1);
  EXPECT_EQ(counts.Add("a", "y", "1", now).size(), 1);
  EXPECT_EQ(counts.Add("a", "x", "2", now).size(), 1);
  EXPECT_EQ(counts.Add("a", "x", "1", now).size(), 0);
}

TEST(EventCounts, ManyHostsAreReportedTogether) {
  EventCounts counts;
  const absl::Duration now = absl::Hours(1);
  size_t lines = 0;
  for (int i = 0; i < 100'000; ++i) lines += counts.Add("a", absl::StrCat(i), "1", now).size();
  EXPECT_LE(lines, 300);
  uint64_t others = 0;
  for (const PeerEvent& event : counts.TakeDue(now + absl::Seconds(1))) {
    if (event.host == "others") others += event.count;
  }
  EXPECT_GT(others, 99'000);
}

}  // namespace
}  // namespace sluice
