#include "clients/cli/up_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

class UpConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<UpConfig> Read(const std::string& text) {
    return ReadUpConfig(folder_.Write("models.yaml", text), given_);
  }

  // What is said of a file, after its path.
  std::string Refusal(const std::string& text) {
    const absl::StatusOr<UpConfig> config = Read(text);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << config.status();
    const std::string path = folder_.PathOf("models.yaml");
    const std::string message(config.status().message());
    EXPECT_EQ(message.substr(0, path.size()), path);
    return message.substr(path.size());
  }

  const TempFolder folder_;
  ModelFlags given_{kUp};
};

TEST_F(UpConfigTest, ModelsHaveTheOptionsOfAllAndTheirOwn) {
  const absl::StatusOr<UpConfig> config = Read(R"(
http_port: 8080
kv_cache_mib: 64      # of all that say nothing else
memory_mib: 2048
models:
  - model: /m/one
  - model: /m/two/
    served_model_name: second
    kv_cache_mib: 32
    sleep_after: 10m
    asleep: true
)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->memory_bytes, uint64_t{2048} << 20);
  EXPECT_EQ(config->common.values.Get<int>("http_port"), 8080);
  ASSERT_EQ(config->models.size(), 2u);
  const ConfiguredModel& one = config->models[0];
  EXPECT_EQ(one.name, "one");
  EXPECT_EQ(one.flags.values.Get<std::string>("served_model_name"), "one");
  EXPECT_EQ(one.flags.kv_cache_size_mib(), 64u);
  EXPECT_FALSE(one.sleeps());
  const ConfiguredModel& two = config->models[1];
  EXPECT_EQ(two.name, "second");
  EXPECT_EQ(two.flags.model(), "/m/two/");
  EXPECT_EQ(two.flags.kv_cache_size_mib(), 32u);
  EXPECT_EQ(two.sleep_after, absl::Minutes(10));
  EXPECT_TRUE(two.asleep);
}

TEST_F(UpConfigTest, JsonIsReadToo) {
  const absl::StatusOr<UpConfig> config =
      Read(R"({"models": [{"model": "/m/one", "threads": 2}]})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].flags.num_threads(), 2);
}

TEST_F(UpConfigTest, WhatTheCommandLineSaysCountsMoreThanWhatTheFileSaysOfAll) {
  ASSERT_TRUE(SetOption(given_, "kv_cache_mib", "16").ok());
  ASSERT_TRUE(SetOption(given_, "log_format", "json").ok());
  const absl::StatusOr<UpConfig> config =
      Read("kv_cache_mib: 64\nmodels: [{model: /m/one}, {model: /m/two, kv_cache_mib: 32}]");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].flags.kv_cache_size_mib(), 16u);
  EXPECT_EQ(config->models[1].flags.kv_cache_size_mib(), 32u);
  EXPECT_EQ(config->common.values.Get<std::string>("log_format"), "json");
}

TEST_F(UpConfigTest, PathsThatAreBesideTheFileAreTakenFromThere) {
  std::filesystem::create_directory(folder_.PathOf("here"));
  const absl::StatusOr<UpConfig> config = Read("models: [{model: here}, {model: org/elsewhere}]");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].flags.model(), folder_.PathOf("here"));
  EXPECT_EQ(config->models[1].flags.model(), "org/elsewhere");
}

TEST_F(UpConfigTest, ListsAreJoinedByComma) {
  const absl::StatusOr<UpConfig> config =
      Read("models: [{model: /m/one, health_listen: [\"127.0.0.1:1\", \"127.0.0.1:2\"]}]");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->models[0].flags.values.TextOf("health_listen"), "127.0.0.1:1,127.0.0.1:2");
}

TEST_F(UpConfigTest, RefusesByFileAndLine) {
  EXPECT_THAT(Refusal("models:\n  - model: /m/one\n    kv_cache_mb: 3"),
              HasSubstr(":3: there is no option kv_cache_mb: `sluice up --help` lists them"));
  EXPECT_THAT(Refusal("kv_cache_mb: 3\nmodels: [{model: /m}]"),
              HasSubstr(":1: there is no option"));
  EXPECT_THAT(Refusal("models:\n  - model: /m/one\n    kv_cache_mib: none"),
              HasSubstr(":3: --kv_cache_mib is none; accepted: 1 to "));
  EXPECT_EQ(Refusal("models:\n  - model: /m/one\n    http_port: 1"),
            ":3: http_port is of all models together: write it beside `models`");
  EXPECT_EQ(Refusal("models:\n  - model: /m/one\n    tokens: t"),
            ":3: tokens is of all models together: write it beside `models`");
  EXPECT_THAT(Refusal("models:\n  - model: /m/one\n  - model: /n/one"),
              HasSubstr(":3: two models are named one"));
  EXPECT_THAT(Refusal("models:\n  - model: /m/one\n    sleep_after: 1m"),
              HasSubstr(":2: sleep_after needs http_port"));
  EXPECT_THAT(Refusal("http_port: 0\nmodels:\n  - model: /m/one\n    sleep_after: 0.1"),
              HasSubstr(":4: sleep_after is 0.1; accepted: 1s or longer"));
  EXPECT_THAT(Refusal("http_port: 0\nmodels:\n  - {model: /m/one, sleep_after: 1m, port: 9}"),
              HasSubstr(":3: port and sleep_after were both given"));
  EXPECT_THAT(Refusal("models:\n  - {model: /m/one, asleep: true}"),
              HasSubstr(":2: asleep is about a model with sleep_after"));
  EXPECT_EQ(Refusal("memory_mib: much\nmodels: [{model: /m}]"),
            ":1: memory_mib is much; accepted: 1 to 1073741824");
  EXPECT_THAT(Refusal("models: []"), HasSubstr("`models` is not a list of at least one model"));
  EXPECT_THAT(Refusal("models:\n  - 5"), HasSubstr(":2: a model is a mapping of options"));
  EXPECT_THAT(Refusal("models:\n  - model:"), HasSubstr(":2: there is no value"));
  EXPECT_THAT(Refusal("- 5"), HasSubstr(":1: the file is no mapping"));
  EXPECT_THAT(Refusal("models: [{model: /m}"), HasSubstr(":1: "));
  EXPECT_EQ(ReadUpConfig(folder_.PathOf("none"), given_).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace sluice::testing
