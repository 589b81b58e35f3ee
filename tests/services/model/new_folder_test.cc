#include "services/model/new_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

class NewFolderTest : public ::testing::Test {
 protected:
  std::unique_ptr<NewFolder> Create(const std::string& path) {
    auto folder = NewFolder::Create(path);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }

  // That of a folder with this name.
  absl::Status Refusal(const std::string& path) {
    const absl::Status status = NewFolder::Create(path).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    return status;
  }

  TempFolder parent_;
  const std::string path_ = parent_.PathOf("new");
};

TEST_F(NewFolderTest, AppearsWhole) {
  fs::create_directory(parent_.PathOf("old"));
  parent_.Write("old/copied", "a");
  parent_.Write("old/left", "b");
  const auto folder = Create(path_ + "/");
  ASSERT_TRUE(folder->WriteText("written", "text").ok());
  ASSERT_TRUE(folder
                  ->CopyFrom(parent_.PathOf("old"),
                             [](const std::string& name) { return name == "copied"; })
                  .ok());
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE(folder->Publish().ok());
  EXPECT_EQ(fs::file_size(path_ + "/written"), 4);
  EXPECT_TRUE(fs::exists(path_ + "/copied"));
  EXPECT_FALSE(fs::exists(path_ + "/left"));
}

TEST_F(NewFolderTest, LeavesNothingWhereItIsNotPublished) {
  ASSERT_TRUE(Create(path_)->WriteText("written", "text").ok());
  EXPECT_TRUE(fs::is_empty(parent_.path()));
}

TEST_F(NewFolderTest, TakesThePlaceOfAnEmptyOneOnly) {
  fs::create_directory(path_);
  ASSERT_TRUE(Create(path_)->Publish().ok());
  const auto folder = Create(path_);
  parent_.Write("new/file", "");  // somebody else was faster
  EXPECT_FALSE(folder->Publish().ok());
  EXPECT_THAT(std::string(Refusal(path_).message()), HasSubstr("holds files already"));
  EXPECT_THAT(std::string(Refusal(path_ + "/file").message()), HasSubstr("is no folder"));
}

TEST_F(NewFolderTest, IsWrittenByOneAtATime) {
  const auto folder = Create(path_);
  const absl::Status second = Refusal(path_);
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()), HasSubstr("remove it if nothing does"));
}

TEST_F(NewFolderTest, NeedsAFolderToLieIn) {
  const absl::Status status = Refusal(parent_.PathOf("no/new"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(parent_.PathOf("no") + ", does not exist"));
}

TEST_F(NewFolderTest, KnowsHowMuchTheDiskHolds) {
  const auto folder = Create(path_);
  EXPECT_TRUE(folder->CheckSpace(1).ok());
  EXPECT_EQ(folder->CheckSpace(std::numeric_limits<uint64_t>::max()).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace sluice::testing
