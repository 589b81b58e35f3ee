// `sluice token new`, and the key and the endpoint of the environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/security/token_file.h"
#include "tests/clients/cli/fake_pipeline.h"
#include "tests/clients/cli/story.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

std::string KeyIn(const FakeEnvironment& fake) {
  return std::string(absl::StripSuffix(fake.out.str(), "\n"));
}

TEST(TokenTest, PrintsAKeyAndAddsItsHash) {
  const TempFolder folder;
  const std::string path = folder.PathOf("tokens");
  std::string keys[2];
  for (std::string& key : keys) {
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run({"token", "new", "search", "--tokens", path}), 0) << fake.err.str();
    EXPECT_THAT(fake.err.str(), IsEmpty());
    key = KeyIn(fake);
    EXPECT_THAT(key, MatchesRegex("sk-sluice-[0-9a-f]{48}"));
  }
  EXPECT_NE(keys[0], keys[1]);
  const auto file = TokenFile::Open(path, nullptr);
  ASSERT_TRUE(file.ok()) << file.status();
  for (const std::string& key : keys) EXPECT_EQ((*file)->Find(key).value().tenant, "search");
}

TEST(TokenTest, PrintsTheLineWithoutAFile) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"token", "new", "web"}), 0);
  EXPECT_THAT(fake.err.str(), HasSubstr(TokenLine(KeyIn(fake), "web").value()));
}

TEST(TokenTest, NamesWhatIsWrong) {
  const auto refusal = [](const std::vector<std::string>& arguments, int exit) {
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run(arguments), exit);
    EXPECT_THAT(fake.out.str(), IsEmpty());
    return fake.err.str();
  };
  EXPECT_THAT(refusal({"token"}, 2), HasSubstr("accepted: sluice token new TENANT"));
  EXPECT_THAT(refusal({"token", "list"}, 2), HasSubstr("accepted: sluice token new TENANT"));
  EXPECT_THAT(refusal({"token", "new"}, 2), HasSubstr("a TENANT is missing"));
  EXPECT_THAT(refusal({"token", "new", "two words"}, 1), HasSubstr("letters, digits"));
}

TEST(EnvironmentTest, SluiceEndpointCountsWhereNoFlagDoes) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  fake.environment.endpoint = pipeline.endpoint();
  EXPECT_EQ(fake.Run({"generate", "Once"}), 0) << fake.err.str();
  EXPECT_EQ(pipeline.requests().size(), 1u);
  // Commands that can start a pipeline call it too, unless a model is asked for.
  EXPECT_EQ(fake.Run({"chat"}), 0) << fake.err.str();
  EXPECT_EQ(fake.Run({"chat", "--model", "/none"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("/none"));
}

TEST(EnvironmentTest, NamesSluiceEndpointWhereItIsNoAddress) {
  FakeEnvironment fake;
  fake.environment.endpoint = "nowhere";
  EXPECT_EQ(fake.Run({"generate", "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("SLUICE_ENDPOINT: "));
  EXPECT_EQ(fake.Run({"health"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("SLUICE_ENDPOINT: "));
  fake.environment.endpoint = "a:1,b:2";
  EXPECT_EQ(fake.Run({"health"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("SLUICE_ENDPOINT names several addresses"));
}

TEST(EnvironmentTest, TakesOneKeyAlone) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--api_key", "a", "--token_file", "b", "Once"}), 2);
  EXPECT_THAT(fake.err.str(), HasSubstr("--token_file: it and --api_key were both given"));
  EXPECT_EQ(fake.Run({"generate", "--api_key=", "Once"}), 2);
  EXPECT_THAT(fake.err.str(), HasSubstr("--api_key: it is empty"));
}

}  // namespace
}  // namespace sluice::testing
