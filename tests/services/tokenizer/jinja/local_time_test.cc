// strftime against Python's.
#include "services/tokenizer/jinja/local_time.h"

#include <gtest/gtest.h>

namespace sluice::jinja {
namespace {

TEST(FormatTime, WritesWhatPythonDoes) {
  const LocalTime time{.year = 2024, .month = 12, .day = 30, .hour = 0, .minute = 5, .second = 9};
  EXPECT_EQ(FormatTime("%a %A %w %u %d %e %b %B %m %y %Y %C", time),
            "Mon Monday 1 1 30 30 Dec December 12 24 2024 20");
  EXPECT_EQ(FormatTime("%H %I %k %l %M %S %p %P %f", time), "00 12  0 12 05 09 AM am 000000");
  EXPECT_EQ(FormatTime("%j %U %W %V %G %g", time), "365 52 53 01 2025 25");
  EXPECT_EQ(FormatTime("%c|%x|%X|%D|%F|%T|%R|%r", time),
            "Mon Dec 30 00:05:09 2024|12/30/24|00:05:09|12/30/24|2024-12-30|00:05:09|00:05|"
            "12:05:09 AM");
  EXPECT_EQ(FormatTime("%-d %-m %-H %% %n%t|%z%Z|%", time), "30 12 0 % \n\t||%");
}

}  // namespace
}  // namespace sluice::jinja
