#include "services/model/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A progress whose clock the test turns, and what it wrote.
struct Display {
  explicit Display(bool terminal) {
    progress = std::make_unique<Progress>(ProgressOptions{
        .what = "loading storyteller",
        .terminal = terminal,
        .write = [this](std::string_view text) { written.emplace_back(text); },
        .now = [this] { return now; },
        .columns = [this] { return columns; },
    });
  }

  std::chrono::steady_clock::time_point now;
  int columns = 80;
  std::vector<std::string> written;
  std::unique_ptr<Progress> progress;
};

TEST(Progress, SaysNothingOfShortLoads) {
  for (const bool terminal : {false, true}) {
    Display display(terminal);
    display.progress->Expect(1000);
    for (int i = 0; i < 10; ++i) {
      display.now += milliseconds(29);
      display.progress->Add(100);
    }
    display.progress.reset();
    EXPECT_THAT(display.written, IsEmpty());
  }
}

TEST(Progress, WritesPlainLinesNowAndThen) {
  Display display(/*terminal=*/false);
  display.progress->Expect(14'700'000);
  for (int i = 0; i < 50; ++i) {  // 5 seconds
    display.now += milliseconds(100);
    display.progress->Add(294'000);
  }
  display.progress.reset();
  EXPECT_THAT(display.written, ElementsAre("loading storyteller: 6% of 14.7 MB\n",
                                           "loading storyteller: 46% of 14.7 MB\n",
                                           "loading storyteller: 86% of 14.7 MB\n",
                                           "loading storyteller: 100% of 14.7 MB\n"));
}

TEST(Progress, RedrawsItsBarAtMostTenTimesASecond) {
  Display display(/*terminal=*/true);
  display.progress->Expect(2'500'000'000);
  for (int i = 0; i < 1000; ++i) {
    display.now += milliseconds(1);
    display.progress->Add(2'500'000);
  }
  display.progress.reset();
  ASSERT_GE(display.written.size(), 5u);
  EXPECT_LE(display.written.size(), 10u);  // 7 of 0.7 s, the last update, the line's end
  EXPECT_THAT(display.written[0],
              HasSubstr("\r[#########.....................] loading storyteller: 30% of 2.5 GB"));
  EXPECT_THAT(display.written[display.written.size() - 2],
              HasSubstr("[##############################] loading storyteller: 100% of 2.5 GB"));
  EXPECT_EQ(display.written.back(), "\n");
}

TEST(Progress, TakesItsBarBackWhereTheTerminalBecameNarrower) {
  Display display(/*terminal=*/true);
  display.progress->Expect(1'000'000);
  for (const int columns : {80, 40, 40}) {
    display.columns = columns;
    display.now += milliseconds(400);
    display.progress->Add(1000);
  }
  // 69 characters take two rows of 40.
  EXPECT_THAT(display.written, ElementsAre(StartsWith("\x1b[?7l\r["), StartsWith("\x1b[1A"),
                                           StartsWith("\x1b[?7l\rloading")));
}

TEST(Progress, StaysWithin100PercentWhereMoreIsReadThanExpected) {
  Display display(/*terminal=*/false);
  display.now += milliseconds(400);
  display.progress->Add(5000);
  EXPECT_THAT(display.written, ElementsAre("loading storyteller: 100% of 5.0 kB\n"));
}

TEST(Progress, AddsUpWhatThreadsReport) {
  Display display(/*terminal=*/false);
  {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 1000; ++j) {
          display.progress->Expect(10);
          display.progress->Add(10);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  display.now += milliseconds(400);
  display.progress->Add(0);
  EXPECT_THAT(display.written, ElementsAre("loading storyteller: 100% of 40.0 kB\n"));
}

// A process that loads its weights again must not stand still because nobody reads its stderr.
TEST(Progress, WaitsForNoReaderOfStderr) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe(ends.data()), 0);
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  const std::string filling(4096, 'x');
  ASSERT_EQ(write(ends[1], filling.data(), filling.size()), 4096);
  const int kept = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  std::future<void> done = std::async(std::launch::async, [] {
    Progress progress("loading storyteller");
    progress.Expect(1000);
    std::this_thread::sleep_for(milliseconds(310));
    progress.Add(500);
    progress.Add(500);
  });
  const bool waited = done.wait_for(std::chrono::seconds(5)) != std::future_status::ready;
  dup2(kept, STDERR_FILENO);
  close(ends[1]);
  close(ends[0]);  // ends a write that waits
  close(kept);
  EXPECT_FALSE(waited);
}

}  // namespace
}  // namespace sluice
