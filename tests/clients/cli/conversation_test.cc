#include "clients/cli/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(ConversationTest, PartsLinesByOneSpaceWhereThereIsNone) {
  const auto joined = [](const std::string& answer, const std::string& line) {
    Conversation conversation(/*has_chat_template=*/false);
    conversation.AddLine("a");
    conversation.AddAnswer(answer);
    conversation.AddLine(line);
    v1::GenerateRequest request;
    conversation.FillPrompt(&request);
    return request.text();
  };
  EXPECT_EQ(joined("b.", "c"), "ab. c");
  EXPECT_EQ(joined("b.\n", "c"), "ab.\nc");
  EXPECT_EQ(joined("b.", " c"), "ab. c");
}

TEST(ConversationTest, ReadsBackWhatItWrote) {
  Conversation conversation(/*has_chat_template=*/true, "Be \"brief\".");
  conversation.AddLine("two\nlines");
  conversation.AddAnswer("yes");
  Conversation copy(/*has_chat_template=*/true);
  ASSERT_TRUE(copy.FromJson(conversation.ToJson()).ok()) << copy.FromJson(conversation.ToJson());
  EXPECT_EQ(copy.ToJson(), conversation.ToJson());
}

TEST(ConversationTest, RefusesWhatIsNone) {
  for (const auto& [json, message] : {
           std::pair("", "holds no conversation"),
           std::pair("{\"messages\": 1}", "holds no conversation"),
           std::pair("[1]", "message 0 has the role"),
           std::pair("[{\"role\": \"assistant\", \"content\": \"\"}]", "accepted: user"),
           std::pair("[{\"role\": \"user\", \"content\": \"a\"}]", "ends without an answer"),
       }) {
    Conversation conversation(true);
    conversation.AddLine("kept");
    const absl::Status status = conversation.FromJson(json);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(conversation.ToJson(), HasSubstr("kept"));
  }
}

}  // namespace
}  // namespace sluice
