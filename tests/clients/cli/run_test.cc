// `sluice run`: which pipeline it starts, and what it says of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/clients/cli/story.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

// A folder that exists: `run` reads none of its files itself.
std::string SomeModel() { return ::testing::TempDir(); }

TEST(RunTest, StartsThePipelineThatTheFlagsDescribe) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  InProcessOptions seen;
  fake.environment.start_in_process = [&](const InProcessOptions& options) {
    seen = options;
    return pipeline.InProcess();
  };
  EXPECT_EQ(fake.Run({"run", "--model", SomeModel(), "--tp", "4", "--pp", "2", "--weights", "int4",
                      "--kv_dtype", "bf16", "--threads", "3", "--kv_cache_mib", "64",
                      "--rope_scaling", "yarn,factor=4", "Once"}),
            0);
  EXPECT_EQ(fake.out.str(), "there was\n");
  EXPECT_EQ(seen.model, SomeModel());
  EXPECT_EQ(seen.num_ranks, 4);
  EXPECT_EQ(seen.num_stages, 2);
  EXPECT_EQ(seen.weights, WeightType::kInt4);
  EXPECT_EQ(seen.kv_dtype, DType::kBF16);
  EXPECT_EQ(seen.num_threads, 3);
  EXPECT_EQ(seen.kv_cache_bytes, 64u << 20);
  EXPECT_EQ(seen.overrides.rope_scaling, "yarn,factor=4");
  EXPECT_EQ(pipeline.requests().at(0).text(), "Once");
}

TEST(RunTest, AsksForTheAdapterOfThatName) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  std::string adapters;
  fake.environment.start_in_process = [&](const InProcessOptions& options) {
    adapters = options.values.Get<std::string>("adapters");
    return pipeline.InProcess();
  };
  EXPECT_EQ(fake.Run({"run", "--model", SomeModel(), "--adapters", "a=/first,b=/second",
                      "--adapter", "b", "Once"}),
            0);
  EXPECT_EQ(adapters, "a=/first,b=/second");
  EXPECT_EQ(pipeline.requests().at(0).adapter(), "b");
}

TEST(RunTest, RefusesListsOfAdaptersThatAreNone) {
  const auto refused = [](const std::string& adapters) {
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run({"run", "--adapters", adapters, "Once"}), 2);
    return fake.err.str();
  };
  EXPECT_THAT(refused("first"),
              HasSubstr("--adapters: \"first\" is no adapter; accepted: NAME=DIR"));
  EXPECT_THAT(refused("a=/first,a=/second"), HasSubstr("\"a\" names two adapters"));
}

TEST(RunTest, SaysHowManyPositionsThePoolHolds) {
  FakeAnswers answers = Saying(Story());
  answers.model.set_max_positions(512);
  answers.status.mutable_kv_cache()->set_block_size(16);
  answers.status.mutable_kv_cache()->set_num_blocks(4);
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  fake.environment.start_in_process = [&](const InProcessOptions&) { return pipeline.InProcess(); };
  EXPECT_EQ(fake.Run({"run", "--model", SomeModel(), "Once"}), 0);
  EXPECT_THAT(fake.err.str(),
              HasSubstr("sluice: the KV pool holds 64 positions; the context of fake "
                        "is 512, so no sequence reaches it: --kv_cache_mib"));
}

TEST(RunTest, RefusesMoreThreadsThanAnyMachineHas) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"run", "--threads", "20000", "Once"}), 2);
  EXPECT_THAT(fake.err.str(), HasSubstr("--threads is 20000; accepted: 0 to 1024"));
}

TEST(RunTest, PrintsWhyThePipelineDidNotStart) {
  FakeEnvironment fake;
  fake.environment.start_in_process = [](const InProcessOptions& options) {
    return absl::NotFoundError(options.model + "/config.json does not exist");
  };
  EXPECT_EQ(fake.Run({"run", "--model", SomeModel(), "Once"}), 1);
  EXPECT_EQ(fake.err.str(), "sluice: " + SomeModel() + "/config.json does not exist [NOT_FOUND]\n");
}

TEST(RunTest, NamesAModelThatIsNoFolder) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"run", "--model", "nowhere", "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("nowhere: no such folder"));
}

// The model that `run` starts for a program at `executable`; empty where it starts none.
std::string ModelStartedBy(const std::string& executable, FakeEnvironment& fake) {
  std::string model;
  fake.environment.executable = executable;
  fake.environment.start_in_process = [&model](const InProcessOptions& options) {
    model = options.model;
    return absl::CancelledError("seen enough");
  };
  EXPECT_EQ(fake.Run({"run", "Once"}), 1);
  return model;
}

TEST(RunTest, FindsTheEmbeddedModelFromTheProgram) {
  const TempFolder folder;
  for (const char* place : {"models/storyteller", "usr/share/sluice/models/storyteller"}) {
    std::filesystem::create_directories(folder.PathOf(place));
    folder.Write(std::string(place) + "/config.json", "{}");
  }
  FakeEnvironment in_checkout;
  EXPECT_EQ(ModelStartedBy(folder.PathOf("build/release/bin/sluice"), in_checkout),
            folder.PathOf("models/storyteller"));
  FakeEnvironment installed;
  EXPECT_EQ(ModelStartedBy(folder.PathOf("usr/bin/sluice"), installed),
            folder.PathOf("usr/share/sluice/models/storyteller"));
}

TEST(RunTest, AsksForAModelWhereNoneIsEmbedded) {
  const TempFolder folder;
  FakeEnvironment fake;
  EXPECT_EQ(ModelStartedBy(folder.PathOf("a/b/c/sluice"), fake), "");
  EXPECT_THAT(fake.err.str(), HasSubstr(folder.PathOf("models/storyteller")));
  EXPECT_THAT(fake.err.str(), HasSubstr("name a model's folder with --model DIR"));
}

}  // namespace
}  // namespace sluice::testing
