#include "services/model/identity.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using testing::TempFolder;

TEST(ModelName, IsThatOfTheFolderHoweverItIsWritten) {
  const std::string own = std::filesystem::current_path().filename().string();
  for (const auto& [folder, name] :
       {std::pair<std::string, std::string>("/srv/models/llama", "llama"),
        {"/srv/models/llama/", "llama"},
        {"/srv/models/llama//", "llama"},
        {"models/llama/.", "llama"},
        {"models/llama/../gemma", "gemma"},
        {".", own},
        {"./", own},
        {"below/..", own}}) {
    EXPECT_EQ(ModelName(folder), name) << folder;
  }
}

TEST(IdentifyModel, TellsConfigurationsAndOverridesApart) {
  const TempFolder folder;
  folder.Write("config.json", "{}");
  const auto identity = IdentifyModel(folder.path());
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->name, std::filesystem::path(folder.path()).filename().string());
  EXPECT_EQ(identity->fingerprint.size(), 16u);
  EXPECT_NE(IdentifyModel(folder.path(), {.rope_scaling = "linear,factor=2"})->fingerprint,
            identity->fingerprint);
  folder.Write("config.json", "{ }");
  EXPECT_NE(IdentifyModel(folder.path())->fingerprint, identity->fingerprint);
}

TEST(IdentifyModel, NeedsAConfiguration) {
  const TempFolder folder;
  EXPECT_EQ(IdentifyModel(folder.path()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice
