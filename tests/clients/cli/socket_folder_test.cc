#include "clients/cli/socket_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace sluice {
namespace {

namespace fs = std::filesystem;

class SocketFolderTest : public ::testing::Test {
 protected:
  SocketFolderTest() : parent_(::testing::TempDir() + "socket_folder_test.XXXXXX") {
    EXPECT_NE(mkdtemp(parent_.data()), nullptr);
  }
  ~SocketFolderTest() override { fs::remove_all(parent_); }

  int NumFolders() const {
    return static_cast<int>(std::distance(fs::directory_iterator(parent_), {}));
  }

  std::string parent_;
};

TEST_F(SocketFolderTest, IsThisUsersAloneAndGoesWithItsContents) {
  std::string path;
  {
    const auto folder = SocketFolder::Make(parent_);
    ASSERT_TRUE(folder.ok()) << folder.status();
    path = (*folder)->path();
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
    std::ofstream(path + "/socket") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

// What a process leaves that is killed while it has a folder.
TEST_F(SocketFolderTest, RemovesWhatAKilledProcessLeft) {
  const pid_t child = fork();
  if (child == 0) {
    const auto folder = SocketFolder::Make(parent_);
    if (folder.ok()) std::ofstream((*folder)->path() + "/socket") << "x";
    raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_EQ(NumFolders(), 1);
  const auto first = SocketFolder::Make(parent_);
  const auto second = SocketFolder::Make(parent_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(NumFolders(), 2);
  EXPECT_TRUE(fs::exists((*first)->path()));  // in use
}

// Such as sluice-models, which has as many letters as the names that Make gives.
TEST_F(SocketFolderTest, RemovesNothingThatItHasNotMarked) {
  const std::pair<const char*, std::string> folders[] = {
      {"/sluice-models", ""},
      {"/sluice-empty1", "-"},
      {"/sluice-other1", "somebody else 1 1 1\n"},
      {"/sluice-other2", "sluice up\n"},
      {"/sluice-other3", "sluice up 1 x 1\n"},
      {"/sluice-longername", ""},
      {"/others-killed", ""}};
  for (const auto& [name, mark] : folders) {
    fs::create_directory(parent_ + name);
    std::ofstream(parent_ + name + "/model.safetensors") << "x";
    if (!mark.empty()) std::ofstream(parent_ + name + "/.sluice-up") << mark;
  }
  const auto made = SocketFolder::Make(parent_);
  ASSERT_TRUE(made.ok()) << made.status();
  for (const auto& [name, mark] : folders) {
    EXPECT_TRUE(fs::exists(parent_ + name + "/model.safetensors")) << name;
  }
}

// Its lock may be gone, as after a copy, but the process runs.
TEST_F(SocketFolderTest, LeavesWhatAProcessThatRunsHasMarked) {
  const auto made = SocketFolder::Make(parent_);
  ASSERT_TRUE(made.ok()) << made.status();
  fs::copy((*made)->path(), parent_ + "/sluice-copied");
  const auto other = SocketFolder::Make(parent_);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(fs::exists(parent_ + "/sluice-copied"));
}

TEST_F(SocketFolderTest, SaysWhereItCannotBeMade) {
  const auto folder = SocketFolder::Make(parent_ + "/missing");
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(folder.status().message().find(parent_ + "/missing/sluice-XXXXXX"), std::string::npos)
      << folder.status();
}

}  // namespace
}  // namespace sluice
