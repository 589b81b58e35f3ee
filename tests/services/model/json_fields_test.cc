#include "services/model/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

TEST(ReadTextFile, ReadsThroughLinks) {
  const TempFolder folder;
  folder.Write("blob", "{}");
  std::filesystem::create_symlink("blob", folder.PathOf("config.json"));
  EXPECT_EQ(*ReadTextFile(folder.PathOf("config.json")), "{}");
}

// As in a copy of a download cache without its blobs.
TEST(ReadTextFile, ALinkThatLeadsNowhereIsNoMissingFile) {
  const TempFolder folder;
  const std::string path = folder.PathOf("config.json");
  EXPECT_EQ(ReadTextFile(path).status().code(), absl::StatusCode::kNotFound);
  std::filesystem::create_symlink("../blobs/4d", path);
  const absl::Status status = ReadTextFile(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path + ": is a link to ../blobs/4d, which is not there"));
}

TEST(ReadTextFile, RefusesWhatIsNoFile) {
  const TempFolder folder;
  EXPECT_EQ(ReadTextFile(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
  const std::string fifo = folder.PathOf("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadTextFile(fifo).status().message()), HasSubstr("not a regular file"));
  const std::string loop = folder.PathOf("loop");
  std::filesystem::create_symlink("loop", loop);
  EXPECT_THAT(std::string(ReadTextFile(loop).status().message()), HasSubstr(loop));
}

}  // namespace
}  // namespace sluice
