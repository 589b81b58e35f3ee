#include "services/model_server/gpu_faults.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/deadline.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// A program that is a script of the shell.
class Script {
 public:
  explicit Script(const std::string& text) {
    std::ofstream(path_) << "#!/bin/sh\n" << text << "\n";
    chmod(path_.c_str(), 0700);
  }
  ~Script() { unlink(path_.c_str()); }

  const std::string& path() const { return path_; }

 private:
  const std::string path_ = ::testing::TempDir() + "gpu_check_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            std::to_string(getpid());
};

absl::Status Check(const std::string& program, absl::Duration limit = absl::Seconds(30)) {
  return CheckGpuApart(program, 3, GpuProducts::kPipelined, limit);
}

TEST(GpuFaultsTest, SaysWhatIsToBeCheckedAndBelievesItsExitCode) {
  const Script passes("[ \"$*\" = 'check-gpu 3 wgmma_pipeline' ]");
  EXPECT_TRUE(Check(passes.path()).ok());
  const Script fails("[ \"$*\" != 'check-gpu 3 wgmma_pipeline' ]");
  const absl::Status status = Check(fails.path());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("exit status 1"));
}

TEST(GpuFaultsTest, ProcessThatIsTakenAlongHasFailed) {
  const Script dies("kill -SEGV $$");
  const absl::Status status = Check(dies.path());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("signal 11"));
}

TEST(GpuFaultsTest, ProcessThatDoesNotEndIsKilled) {
  const std::string pid_file = ::testing::TempDir() + "gpu_check_pid" + std::to_string(getpid());
  const Script hangs("echo $$ > " + pid_file + "; exec sleep 600");
  // Long enough for the script to have begun.
  const absl::Status status = Check(hangs.path(), absl::Seconds(2));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("had not ended after 2s"));
  pid_t pid = 0;
  ASSERT_TRUE(std::ifstream(pid_file) >> pid);
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  unlink(pid_file.c_str());
}

TEST(GpuFaultsTest, WhereNoProcessCanBeStartedThisOneChecks) {
  EXPECT_EQ(Check("/no/such/program"), CheckGpuProducts(3, GpuProducts::kPipelined));
}

std::optional<int> RunWith(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return RunGpuCheck(static_cast<int>(argv.size()), argv.data());
}

TEST(GpuFaultsTest, OnlyTheCheckIsRunInPlaceOfTheProgram) {
  EXPECT_FALSE(RunWith({"sluice"}).has_value());
  EXPECT_FALSE(RunWith({"sluice", "run", "0", "wgmma"}).has_value());
  EXPECT_FALSE(RunWith({"sluice", "check-gpu", "first", "wgmma"}).has_value());
  EXPECT_FALSE(RunWith({"sluice", "check-gpu", "0", "auto"}).has_value());
  EXPECT_FALSE(RunWith({"sluice", "check-gpu", "0", "wgmma", "more"}).has_value());
}

TEST(GpuFaultsTest, ProcessThatLosesItsGpuEndsWithTheReason) {
  DeviceOptions device{.device = {.kind = DeviceKind::kCuda, .index = 2}};
  GuardAgainstGpuFaults("", device);
  EXPECT_EQ(device.check_gpu, nullptr);
  EXPECT_EQ(device.on_gpu_lost, nullptr);
  GuardAgainstGpuFaults("/usr/bin/sluice-shard", device);
  EXPECT_EXIT(device.on_gpu_lost(absl::InternalError("cudaErrorIllegalAddress")),
              ::testing::ExitedWithCode(1),
              "sluice-shard.*cuda:2 does nothing more for this process: cudaErrorIllegalAddress");
}

TEST(GpuFaultsTest, GpuThatIsNotThereFailsTheCheck) {
  EXPECT_EQ(RunWith({"sluice", "check-gpu", "1000", "mma"}), 1);
}

}  // namespace
}  // namespace sluice
