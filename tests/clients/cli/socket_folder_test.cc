#include "clients/cli/socket_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace sluice {
namespace {

namespace fs = std::filesystem;

class SocketFolderTest : public ::testing::Test {
 protected:
  SocketFolderTest() : parent_(::testing::TempDir() + "socket_folder_test.XXXXXX") {
    EXPECT_NE(mkdtemp(parent_.data()), nullptr);
  }
  ~SocketFolderTest() override { fs::remove_all(parent_); }

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

TEST_F(SocketFolderTest, RemovesWhatAKilledProcessLeftAndNothingElse) {
  for (const char* name :
       {"/sluice-killed", "/sluice-mine", "/sluice-longername", "/others-killed"}) {
    fs::create_directory(parent_ + name);
    std::ofstream(parent_ + name + "/socket") << "x";
  }
  const auto first = SocketFolder::Make(parent_);
  const auto second = SocketFolder::Make(parent_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE(fs::exists(parent_ + "/sluice-killed"));
  EXPECT_TRUE(fs::exists(parent_ + "/sluice-mine"));  // not a name that Make gives
  EXPECT_TRUE(fs::exists(parent_ + "/sluice-longername"));
  EXPECT_TRUE(fs::exists(parent_ + "/others-killed"));
  EXPECT_TRUE(fs::exists((*first)->path()));  // in use
}

TEST_F(SocketFolderTest, SaysWhereItCannotBeMade) {
  const auto folder = SocketFolder::Make(parent_ + "/missing");
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(folder.status().message().find(parent_ + "/missing/sluice-XXXXXX"), std::string::npos)
      << folder.status();
}

}  // namespace
}  // namespace sluice
