// A log that nobody reads stops nobody.
#include "services/process/stderr_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace sluice {
namespace {

// Two ends of a pipe or of a socket; writes to [1] block once it is full.
class Ends {
 public:
  explicit Ends(bool is_socket) {
    EXPECT_EQ(is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds_.data()) : pipe(fds_.data()), 0);
  }
  ~Ends() {
    close(fds_[0]);
    close(fds_[1]);
  }
  int write_end() const { return fds_[1]; }
  std::string ReadAll() {
    fcntl(fds_[0], F_SETFL, O_NONBLOCK);
    std::string all;
    std::array<char, 4096> bytes;
    while (true) {
      const ssize_t got = read(fds_[0], bytes.data(), bytes.size());
      if (got <= 0) return all;
      all.append(bytes.data(), static_cast<size_t>(got));
    }
  }

 private:
  std::array<int, 2> fds_ = {};
};

class StderrWriterTest : public ::testing::TestWithParam<bool> {};

TEST_P(StderrWriterTest, DropsWhatFindsNoRoomAndTellsHowMuch) {
  Ends ends(GetParam());
  StderrWriter writer(ends.write_end());
  const std::string line = std::string(99, 'x') + "\n";
  uint64_t lost = 0;
  int dropped = 0;
  for (int i = 0; i < 10'000; ++i) dropped += writer.Write(line, &lost) ? 0 : 1;
  EXPECT_GT(dropped, 1000);
  const std::string read = ends.ReadAll();
  EXPECT_EQ(read.substr(0, 100), line);
  EXPECT_TRUE(writer.Write(line, &lost));
  EXPECT_EQ(lost, dropped);
  EXPECT_TRUE(writer.Write(line, &lost));
  EXPECT_EQ(lost, 0);
}

TEST_P(StderrWriterTest, LineAfterOneThatWasCutBeginsAtItsOwnStart) {
  Ends ends(GetParam());
  StderrWriter writer(ends.write_end());
  uint64_t lost = 0;
  EXPECT_TRUE(writer.Write(std::string(10 << 20, 'x'), &lost));
  ends.ReadAll();
  EXPECT_TRUE(writer.Write("next\n", &lost));
  EXPECT_EQ(ends.ReadAll(), "\nnext\n");
}

// What the end is shared with may go on to wait.
TEST_P(StderrWriterTest, LeavesTheOtherProcessesWritesAsTheyAre) {
  Ends ends(GetParam());
  StderrWriter writer(ends.write_end());
  uint64_t lost = 0;
  writer.Write("line\n", &lost);
  EXPECT_EQ(fcntl(ends.write_end(), F_GETFL) & O_NONBLOCK, 0);
}

INSTANTIATE_TEST_SUITE_P(PipeAndSocket, StderrWriterTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Socket" : "Pipe"; });

}  // namespace
}  // namespace sluice
