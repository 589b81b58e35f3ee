#include "orchestrator/api/beam_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/api/request_check.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

ModelDescription BeamModel() {
  ModelDescription model;
  model.vocabulary_size = 100;
  model.max_positions = 64;
  model.eos_token_ids = {2};
  model.sampling = {.temperature = 0.5f, .top_k = 7};
  return model;
}

v1::GenerateRequest Request(int width) {
  v1::GenerateRequest request;
  request.set_text("x");
  request.mutable_beams()->set_beam_width(width);
  return request;
}

EngineRequest Engine(const v1::GenerateRequest& request) {
  const absl::Status status = CheckGenerate(request, BeamModel());
  EXPECT_TRUE(status.ok()) << status;
  return EngineRequestFrom(request, BeamModel(), {1}, 5);
}

TEST(CheckBeams, RefusesByName) {
  using Spoil = std::function<void(v1::GenerateRequest&)>;
  const std::vector<std::pair<Spoil, std::string>> cases = {
      {[](auto& r) { r.mutable_beams()->set_beam_width(0); },
       "beams.beam_width is 0; accepted: 1 to 64"},
      {[](auto& r) { r.mutable_beams()->set_beam_width(65); }, "beams.beam_width is 65"},
      {[](auto& r) { r.mutable_beams()->set_num_return(5); },
       "beams.num_return is 5; accepted: 1 to beam_width, which is 4"},
      {[](auto& r) { r.mutable_beams()->set_num_return(0); }, "beams.num_return is 0"},
      {[](auto& r) { r.mutable_beams()->set_length_penalty(NAN); }, "beams.length_penalty is nan"},
      {[](auto& r) { r.mutable_beams()->set_length_penalty(11); }, "beams.length_penalty is 11"},
      {[](auto& r) { r.mutable_beams()->set_early_stopping(v1::EarlyStopping(9)); },
       "beams.early_stopping is 9"},
      {[](auto& r) { r.set_n(1); }, "n and beams contradict each other"},
      {[](auto& r) { r.set_best_of(1); }, "best_of and beams contradict each other"},
      {[](auto& r) { r.mutable_sampling()->set_temperature(1); },
       "sampling.temperature and beams contradict each other"},
      {[](auto& r) { r.mutable_sampling()->set_min_p(0.1F); }, "sampling.min_p and beams"},
      {[](auto& r) {
         r.set_logprobs(0);
         r.set_logprobs_mode(v1::LOGPROBS_MODE_RAW);
         r.mutable_sampling()->set_presence_penalty(1);
       },
       "logprobs_mode raw and beams with"},
      {[](auto& r) {
         r.mutable_beams()->set_stochastic(true);
         r.mutable_beams()->set_length_penalty(1);
       },
       "beams.stochastic and beams.length_penalty contradict"},
      {[](auto& r) {
         r.mutable_beams()->set_stochastic(true);
         r.mutable_beams()->set_early_stopping(v1::EARLY_STOPPING_NEVER);
       },
       "beams.stochastic and beams.early_stopping contradict"},
      {[](auto& r) {
         r.mutable_beams()->set_stochastic(true);
         r.mutable_sampling()->set_temperature(0);
       },
       "beams.stochastic and sampling.temperature 0 contradict"},
      {[](auto& r) {
         r.mutable_beams()->set_stochastic(true);
         r.set_logprobs(1);
       },
       "beams.stochastic and logprobs above 0 contradict"},
      {[](auto& r) {
         r.mutable_sampling()->set_seed(1);
         r.add_resume();
         r.add_resume();
       },
       "the number of entries in resume is 2; accepted: up to beams.num_return, which is 1"},
  };
  for (const auto& [spoil, expected] : cases) {
    v1::GenerateRequest request = Request(4);
    spoil(request);
    const absl::Status status = CheckGenerate(request, BeamModel());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << expected;
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
  }
}

TEST(SetBeams, LeavesTheModelsDrawingAside) {
  v1::GenerateRequest request = Request(4);
  request.mutable_beams()->set_num_return(3);
  request.mutable_sampling()->set_seed(7);  // as clients add to every request
  const EngineRequest engine = Engine(request);
  ASSERT_TRUE(engine.beams.has_value());
  EXPECT_EQ(engine.num_sequences, 3);
  EXPECT_EQ(engine.beams->search.width, 4);
  EXPECT_EQ(engine.beams->num_candidates, 8);
  EXPECT_FALSE(engine.processed_logprobs);
  EXPECT_EQ(engine.sampling.temperature, 0);
  EXPECT_EQ(engine.sampling.top_k, 0);
}

TEST(SetBeams, GoesByProcessedProbabilitiesWhereSomethingChangesThem) {
  v1::GenerateRequest request = Request(4);
  request.mutable_sampling()->set_repetition_penalty(1.5F);
  const EngineRequest engine = Engine(request);
  EXPECT_TRUE(engine.processed_logprobs);
  EXPECT_EQ(engine.sampling.temperature, 1);
  EXPECT_EQ(engine.sampling.repetition_penalty, 1.5F);
}

TEST(SetBeams, StochasticOnesAreDrawnAsTheModelSays) {
  v1::GenerateRequest request = Request(4);
  request.mutable_beams()->set_stochastic(true);
  const EngineRequest engine = Engine(request);
  EXPECT_EQ(engine.num_sequences, 4);
  EXPECT_EQ(engine.beams->num_candidates, 4);
  EXPECT_EQ(engine.sampling.temperature, 0.5F);
  EXPECT_EQ(engine.sampling.top_k, 7);
  EXPECT_TRUE(engine.processed_logprobs);
}

TEST(SetBeams, AsksForNoMoreCandidatesThanTheVocabularyHas) {
  v1::GenerateRequest request = Request(60);
  EXPECT_EQ(Engine(request).beams->num_candidates, 100);
}

TEST(CheckGenerate, OfBestOfTakesThoseThatAreReturnedAndMore) {
  v1::GenerateRequest request;
  request.set_text("x");
  request.set_n(3);
  request.set_best_of(2);
  EXPECT_THAT(std::string(CheckGenerate(request, BeamModel()).message()),
              HasSubstr("best_of is 2; accepted: n, which is 3, to 16"));
  request.set_best_of(5);
  EXPECT_EQ(Engine(request).num_sequences, 5);
}

}  // namespace
}  // namespace sluice
