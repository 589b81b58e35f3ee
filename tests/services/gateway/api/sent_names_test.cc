// What clients are told of the fields of a gRPC request.
#include "services/gateway/api/sent_names.h"

#include <gtest/gtest.h>

#include <string>

#include "services/gateway/json/object_reader.h"

namespace sluice::gateway {
namespace {

struct Told {
  std::string message;
  std::string parameter;  // "" where there is none

  friend bool operator==(const Told&, const Told&) = default;
};

std::ostream& operator<<(std::ostream& out, const Told& told) {
  return out << told.message << " [" << told.parameter << "]";
}

Told TellStatus(const absl::Status& status, const SentNames& names = {}) {
  const absl::Status sent = AsSent(status, names);
  const auto parameter = sent.GetPayload(kParameterPayload);
  return {std::string(sent.message()), parameter.has_value() ? std::string(*parameter) : ""};
}

Told Tell(const std::string& message, const SentNames& names = {}) {
  return TellStatus(absl::InvalidArgumentError(message), names);
}

TEST(SentNamesTest, FieldsAreCalledAsTheyWereSent) {
  EXPECT_EQ(Tell("sampling.temperature is -1; accepted: 0 or more"),
            (Told{"temperature is -1; accepted: 0 or more", "temperature"}));
  EXPECT_EQ(Tell("max_tokens is 0; accepted: 1 to 9, less what the prompt takes",
                 {.max_tokens = "max_completion_tokens"}),
            (Told{"max_completion_tokens is 0; accepted: 1 to 9, less what the prompt takes",
                  "max_completion_tokens"}));
  EXPECT_EQ(Tell("sampling.min_tokens is 9; accepted: up to max_tokens, which is 5"),
            (Told{"min_tokens is 9; accepted: up to max_tokens, which is 5", "min_tokens"}));
  EXPECT_EQ(
      Tell("the number of stop.stop_strings is 70; accepted: up to 64", {.stop = "stop_sequences"}),
      (Told{"the number of stop_sequences is 70; accepted: up to 64", "stop_sequences"}));
  EXPECT_EQ(Tell("the length of a string in stop.stop_strings is 0; accepted: 1 to 1024 bytes"),
            (Told{"the length of a string in stop is 0; accepted: 1 to 1024 bytes", "stop"}));
  EXPECT_EQ(Tell("drafts.decline contradicts drafts.max_tokens and drafts.expected_token_ids"),
            (Told{"decline_drafts contradicts max_draft_tokens and prediction", "decline_drafts"}));
  EXPECT_EQ(Tell("token_ids[1] is 999; accepted: 0 to 99, the model's vocabulary"),
            (Told{"prompt[1] is 999; accepted: 0 to 99, the model's vocabulary", "prompt"}));
  EXPECT_EQ(Tell("constraint.json_schema: #/type is 1", {.constraint = "response_format"}),
            (Told{"response_format: #/type is 1", "response_format"}));
  EXPECT_EQ(
      Tell("stop.ignore_eos and constraint contradict each other", {.constraint = "guided_json"}),
      (Told{"ignore_eos and guided_json contradict each other", "ignore_eos"}));
  EXPECT_EQ(Tell("variables_json has \"tools\"; accepted: others"),
            (Told{"chat_template_kwargs has \"tools\"; accepted: others", "chat_template_kwargs"}));
  EXPECT_EQ(Tell("the prompt's text is empty", {.prompt = "input"}),
            (Told{"the prompt's text is empty", "input"}));
  EXPECT_EQ(Tell("n is 99; accepted: 1 to 16"), (Told{"n is 99; accepted: 1 to 16", "n"}));
}

TEST(SentNamesTest, OtherWordsStay) {
  EXPECT_EQ(Tell("the model at the top has n priorities."),
            (Told{"the model at the top has n priorities.", ""}));
  EXPECT_EQ(Tell(""), (Told{"", ""}));
  EXPECT_EQ(Tell("..."), (Told{"...", ""}));
  EXPECT_TRUE(AsSent(absl::OkStatus()).ok());
  const absl::Status own = ParameterError("x", "invalid_type", "sampling.top_p is fine");
  EXPECT_EQ(AsSent(own), own);
}

TEST(SentNamesTest, PrioritiesFallAsTheyWereSent) {
  const std::string message = "priority is -9; accepted for tenant \"a: 1\": -3, -1, 0, 1";
  EXPECT_EQ(Tell(message),
            (Told{"priority is 9; accepted for tenant \"a: 1\": 3, 1, 0, -1", "priority"}));
  EXPECT_EQ(Tell("priority is -1; accepted for tenant \"a\": 0, 1", {.service_tier = "flex"}),
            (Told{"service_tier is flex; accepted for tenant \"a\": auto, default, priority",
                  "service_tier"}));
  EXPECT_EQ(Tell("priority is high").message, "priority is high");
}

TEST(SentNamesTest, HeadersAreNoMetadata) {
  EXPECT_EQ(TellStatus(absl::UnauthenticatedError(
                           "the call needs metadata \"authorization: Bearer TOKEN\""))
                .message,
            "the call needs the header \"authorization: Bearer TOKEN\"");
}

TEST(SentNamesTest, APromptThatIsTooLongIsKnown) {
  const absl::Status alone = absl::InvalidArgumentError(
      "the prompt has 600 tokens, which leaves no room in the context of 512 positions; accepted: "
      "up to 511");
  const auto overflow = ContextOverflowOf(alone);
  ASSERT_TRUE(overflow.has_value());
  EXPECT_EQ(overflow->num_prompt_tokens, 600);
  EXPECT_EQ(overflow->max_tokens, 0);
  EXPECT_EQ(overflow->context, 512);
  EXPECT_EQ(AsSent(alone, {.prompt = "messages"}).GetPayload(kParameterPayload), "messages");
  EXPECT_EQ(AsSent(alone).GetPayload(kCodePayload), kContextLengthExceeded);
  const absl::Status sum = absl::InvalidArgumentError(
      "the prompt has 200 tokens and max_tokens is 400, together more than the context of 512 "
      "positions; accepted: max_tokens of 1 to 312");
  ASSERT_TRUE(ContextOverflowOf(sum).has_value());
  EXPECT_EQ(ContextOverflowOf(sum)->max_tokens, 400);
  EXPECT_EQ(AsSent(sum, {.max_tokens = "max_output_tokens"}).GetPayload(kParameterPayload),
            "max_output_tokens");
  EXPECT_FALSE(
      ContextOverflowOf(absl::InvalidArgumentError("the prompt has no tokens")).has_value());
}

}  // namespace
}  // namespace sluice::gateway
