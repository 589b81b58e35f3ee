// How requests are read: unknown fields at any depth, and what stands in for what is left out.
#include "orchestrator/api/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "orchestrator/api/caller.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void AddUnknown(google::protobuf::Message& message, int number) {
  message.GetReflection()->MutableUnknownFields(&message)->AddVarint(number, 1);
}

ModelDescription Model() {
  ModelDescription model;
  model.vocabulary_size = 100;
  model.max_positions = 64;
  model.eos_token_ids = {2, 3};
  model.sampling = {.temperature = 0.5f, .top_k = 7, .top_p = 0.75f};
  model.max_length = 20;
  return model;
}

v1::GenerateRequest Request() {
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_role("user");
  request.mutable_chat()->add_messages()->set_role("assistant");
  request.mutable_sampling()->set_seed(1);
  request.add_resume()->add_token_ids(1);
  return request;
}

TEST(CheckKnownFields, AcceptsWhatItKnows) {
  EXPECT_TRUE(CheckKnownFields(v1::GenerateRequest()).ok());
  EXPECT_TRUE(CheckKnownFields(Request()).ok());
}

TEST(CheckKnownFields, NamesAnUnknownFieldAtAnyDepth) {
  const auto refused = [](void (*spoil)(v1::GenerateRequest&)) {
    v1::GenerateRequest request = Request();
    spoil(request);
    const absl::Status status = CheckKnownFields(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refused([](auto& r) { AddUnknown(r, 900); }),
              HasSubstr("field number 900 of sluice.v1.GenerateRequest"));
  EXPECT_THAT(refused([](auto& r) { AddUnknown(*r.mutable_sampling(), 901); }),
              HasSubstr("901 of sluice.v1.SamplingOptions"));
  EXPECT_THAT(refused([](auto& r) { AddUnknown(*r.mutable_chat()->mutable_messages(1), 902); }),
              HasSubstr("902 of sluice.v1.ChatMessage"));
  EXPECT_THAT(refused([](auto& r) { AddUnknown(*r.mutable_resume(0), 903); }),
              HasSubstr("903 of sluice.v1.ResumedSequence"));
}

TEST(CheckKnownFields, SeesFieldsThatComeFromTheWire) {
  v1::GenerateRequest request = Request();
  AddUnknown(*request.mutable_resume(0), 903);
  v1::GenerateRequest received;
  ASSERT_TRUE(received.ParseFromString(request.SerializeAsString()));
  EXPECT_FALSE(CheckKnownFields(received).ok());
}

TEST(CheckTokenIds, NamesFieldIndexAndRange) {
  const std::vector<int32_t> good = {0, 99};
  EXPECT_TRUE(CheckTokenIds(good, Model(), "prompt").ok());
  EXPECT_TRUE(CheckTokenIds({}, Model(), "prompt").ok());
  for (const int32_t bad : {-1, 100}) {
    const std::vector<int32_t> ids = {5, bad};
    const absl::Status status = CheckTokenIds(ids, Model(), "prompt");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "prompt[1] is " + std::to_string(bad) +
                                    "; accepted: 0 to 99, the model's vocabulary");
  }
}

TEST(CheckGenerate, TakesAtMostOneResumedSequencePerN) {
  v1::GenerateRequest request = Request();
  EXPECT_TRUE(CheckGenerate(request, Model()).ok());
  request.add_resume();
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("the number of entries in resume is 2; accepted: up to n, which is 1"));
  request.set_n(3);
  EXPECT_TRUE(CheckGenerate(request, Model()).ok());
  request.mutable_resume(1)->add_token_ids(100);
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("resume.token_ids[0] is 100"));
}

TEST(CheckGenerate, LimitsEveryListOfTokens) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_token_ids()->Resize(64, 1);
  request.mutable_stop()->mutable_stop_token_ids()->Resize(1024, 1);
  EXPECT_TRUE(CheckGenerate(request, Model()).ok());
  request.mutable_stop()->add_stop_token_ids(1);
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("the number of stop.stop_token_ids is 1025; accepted: up to 1024"));
  request.mutable_token_ids()->add_token_ids(1);
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("the number of token_ids is 65; accepted: up to 64, the model's context"));
}

TEST(HostOfPeer, LeavesThePortOff) {
  EXPECT_EQ(HostOfPeer("ipv4:10.0.0.7:5123"), "10.0.0.7");
  EXPECT_EQ(HostOfPeer("ipv6:%5B::1%5D:5123"), "::1");
  EXPECT_EQ(HostOfPeer("ipv6:[fe80::2]:80"), "fe80::2");
  EXPECT_EQ(HostOfPeer("unix:/run/a"), "unix:/run/a");
  EXPECT_EQ(HostOfPeer("inproc"), "inproc");
}

TEST(CheckGenerate, LimitsTheSpecialTokensThatAreKept) {
  v1::GenerateRequest request = Request();
  for (int i = 0; i < 64; ++i) request.add_kept_special_tokens("<|end|>");
  EXPECT_TRUE(CheckGenerate(request, Model()).ok());
  EXPECT_EQ(EngineRequestFrom(request, Model(), {4}, 0).kept_special_tokens.size(), 64u);
  request.add_kept_special_tokens("<|end|>");
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("the number of kept_special_tokens is 65; accepted: up to 64"));
  request.mutable_kept_special_tokens()->Clear();
  request.add_kept_special_tokens("");
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("the length of a text in kept_special_tokens is 0"));
}

TEST(CheckGenerate, LimitsTheCacheSalt) {
  v1::GenerateRequest request;
  request.set_text("a");
  request.set_cache_salt(std::string(128, 'x'));
  EXPECT_TRUE(CheckGenerate(request, Model()).ok());
  request.set_cache_salt(std::string(129, 'x'));
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("the length of cache_salt is 129; accepted: up to 128 bytes"));
}

TEST(CheckLength, SaysWhatWouldFit) {
  v1::GenerateRequest request;
  EXPECT_TRUE(CheckLength(request, 63, Model()).ok());
  EXPECT_THAT(std::string(CheckLength(request, 64, Model()).message()),
              HasSubstr("64 tokens, which leaves no room in the context of 64 positions; "
                        "accepted: up to 63"));
  request.set_max_tokens(62);
  EXPECT_TRUE(CheckLength(request, 2, Model()).ok());
  request.set_max_tokens(63);
  const absl::Status status = CheckLength(request, 2, Model());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "the prompt has 2 tokens and max_tokens is 63, together more than the context of 64 "
            "positions; accepted: max_tokens of 1 to 62");
}

TEST(CheckLength, OfATextToScoreIsThatOfTheContext) {
  EXPECT_TRUE(CheckScoreLength(64, Model()).ok());
  EXPECT_THAT(std::string(CheckScoreLength(65, Model()).message()),
              HasSubstr("65 tokens to score, more than the context of 64 positions"));
}

TEST(CheckGenerate, JudgesSamplingOptionsWithTheModelsOwn) {
  v1::GenerateRequest request = Request();
  request.mutable_sampling()->set_min_p(2);
  EXPECT_EQ(CheckGenerate(request, Model()).message(), "sampling.min_p is 2; accepted: 0 to 1");
  request = Request();
  request.mutable_sampling()->set_dynatemp_range(0.75f);  // the model's temperature is 0.5
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("sampling.dynatemp_range is 0.75"));
  request.mutable_sampling()->set_temperature(1);
  EXPECT_TRUE(CheckGenerate(request, Model()).ok());
  request.mutable_sampling()->add_banned_token_ids(100);
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("sampling.banned_token_ids[0] is 100"));
}

TEST(CheckGenerate, RefusesLengthsAndModesThatContradictEachOther) {
  v1::GenerateRequest request = Request();
  request.set_max_tokens(5);
  request.mutable_sampling()->set_min_tokens(6);
  EXPECT_EQ(CheckGenerate(request, Model()).message(),
            "sampling.min_tokens is 6; accepted: up to max_tokens, which is 5");
  request = Request();
  request.set_logprobs_mode(v1::LOGPROBS_MODE_PROCESSED);
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("logprobs_mode needs logprobs"));
  request.set_logprobs(0);
  EXPECT_TRUE(CheckGenerate(request, Model()).ok());
  request.set_logprobs_mode(static_cast<v1::LogprobsMode>(7));
  EXPECT_THAT(std::string(CheckGenerate(request, Model()).message()),
              HasSubstr("logprobs_mode is 7"));
}

TEST(EngineRequestFrom, TakesFromTheModelWhatIsLeftOut) {
  const EngineRequest request = EngineRequestFrom(v1::GenerateRequest(), Model(), {4, 5}, 77);
  EXPECT_THAT(request.prompt, ElementsAre(4, 5));
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.top_p, 0.75f);
  EXPECT_EQ(request.sampling.seed, 77u);
  EXPECT_FALSE(request.processed_logprobs);
  EXPECT_EQ(request.num_sequences, 1);
  EXPECT_EQ(request.max_new_tokens, std::nullopt);
  EXPECT_EQ(request.default_length, 20);
  EXPECT_THAT(request.stop_tokens, ElementsAre(2, 3));
  EXPECT_EQ(request.num_logprobs, 0);
  EXPECT_THAT(request.resumed, IsEmpty());
}

TEST(EngineRequestFrom, PrefersWhatTheRequestSaysZeroIncluded) {
  v1::GenerateRequest asked = Request();
  asked.set_request_id("mine");
  asked.mutable_sampling()->set_temperature(0);
  asked.mutable_sampling()->set_top_k(0);
  asked.mutable_sampling()->set_top_p(1);
  asked.mutable_sampling()->set_seed(0);
  asked.set_n(3);
  asked.set_max_tokens(9);
  asked.set_logprobs(4);
  asked.set_priority(-2);
  asked.mutable_stop()->add_stop_strings("end");
  asked.mutable_stop()->set_include_stop_string(true);
  const EngineRequest request = EngineRequestFrom(asked, Model(), {4}, 77);
  EXPECT_EQ(request.name, "mine");
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.top_p, 1);
  EXPECT_EQ(request.sampling.seed, 0u);
  EXPECT_EQ(request.num_sequences, 3);
  EXPECT_EQ(request.max_new_tokens, 9);
  EXPECT_EQ(request.num_logprobs, 4);
  EXPECT_EQ(request.priority, -2);
  EXPECT_THAT(request.stop_strings, ElementsAre("end"));
  EXPECT_TRUE(request.include_stop_string);
  EXPECT_THAT(request.resumed, ElementsAre(ElementsAre(1), IsEmpty(), IsEmpty()));
}

TEST(EngineRequestFrom, StopsAtEosUnlessToldToIgnoreIt) {
  v1::GenerateRequest asked;
  asked.mutable_stop()->add_stop_token_ids(50);
  EXPECT_THAT(EngineRequestFrom(asked, Model(), {4}, 0).stop_tokens, ElementsAre(50, 2, 3));
  asked.mutable_stop()->set_ignore_eos(true);
  EXPECT_THAT(EngineRequestFrom(asked, Model(), {4}, 0).stop_tokens, ElementsAre(50));
}

}  // namespace
}  // namespace sluice
