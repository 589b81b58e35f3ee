// `sluice chat` against a service that answers every prompt with its number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/conversation.h"
#include "tests/clients/cli/fake_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Answers " one", " two", ...; refuses a prompt that ends in "refuse".
FakeAnswers Counting(bool has_chat_template) {
  FakeAnswers answers = DefaultAnswers();
  answers.model.set_has_chat_template(has_chat_template);
  const auto count = std::make_shared<std::atomic<int>>(0);
  answers.generate = [count](const v1::GenerateRequest& request, const WriteEvent& write) {
    const std::string last =
        request.has_chat() ? request.chat().messages().rbegin()->content() : request.text();
    if (absl::EndsWith(last, "refuse")) return absl::InvalidArgumentError("too long");
    static const char* const kNumbers[] = {" one", " two", " three"};
    write(TextEvent(0, kNumbers[(*count)++ % 3], {1}));
    write(FinishedEvent(1, 1));
    return absl::OkStatus();
  };
  return answers;
}

std::vector<std::string> Turns(const v1::GenerateRequest& request) {
  std::vector<std::string> turns;
  for (const v1::ChatMessage& message : request.chat().messages()) {
    turns.push_back(absl::StrCat(message.role(), ": ", message.content()));
  }
  return turns;
}

int Chat(FakePipeline& pipeline, FakeEnvironment& fake, const std::string& input) {
  fake.in.str(input);
  return fake.Run({"chat", "--endpoint", pipeline.endpoint()});
}

TEST(ChatTest, SendsTheGrowingConversation) {
  FakePipeline pipeline(Counting(/*has_chat_template=*/true));
  FakeEnvironment fake;
  EXPECT_EQ(Chat(pipeline, fake, "hello\n\nmore\n"), 0);
  EXPECT_EQ(fake.out.str(), " one\n two\n");
  const std::vector<v1::GenerateRequest> requests = pipeline.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_THAT(Turns(requests[0]), ElementsAre("user: hello"));
  EXPECT_THAT(Turns(requests[1]), ElementsAre("user: hello", "assistant:  one", "user: more"));
  EXPECT_EQ(requests[0].max_tokens(), 128);
  EXPECT_THAT(fake.err.str(), Not(HasSubstr("template")));
}

TEST(ChatTest, ContinuesTheTextWithoutATemplateAndSaysSoOnce) {
  FakePipeline pipeline(Counting(/*has_chat_template=*/false));
  FakeEnvironment fake;
  EXPECT_EQ(Chat(pipeline, fake, "Once\nthen\n"), 0);
  const std::vector<v1::GenerateRequest> requests = pipeline.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].text(), "Once");
  EXPECT_EQ(requests[1].text(), "Once one then");
  EXPECT_EQ(fake.err.str(), "model fake has no chat template: it continues the text instead\n");
}

TEST(ChatTest, ResetsAndExits) {
  for (const bool has_chat_template : {false, true}) {
    FakePipeline pipeline(Counting(has_chat_template));
    FakeEnvironment fake;
    EXPECT_EQ(Chat(pipeline, fake, "hello\n/reset\nagain\n/exit\nunread\n"), 0);
    const std::vector<v1::GenerateRequest> requests = pipeline.requests();
    ASSERT_EQ(requests.size(), 2u);
    if (has_chat_template) {
      EXPECT_THAT(Turns(requests[1]), ElementsAre("user: again"));
    } else {
      EXPECT_EQ(requests[1].text(), "again");
    }
  }
}

TEST(ChatTest, PipedInputFailsWithItsFirstFailure) {
  FakePipeline pipeline(Counting(true));
  for (const auto& [input, message] :
       {std::pair("refuse\nunread\n", "too long [INVALID_ARGUMENT]"),
        std::pair("/what\nunread\n", "unknown command /what; there are /reset and /exit"),
        std::pair("a\xFF\nunread\n", "not UTF-8: byte 0xFF at offset 1")}) {
    FakeEnvironment fake;
    EXPECT_EQ(Chat(pipeline, fake, input), 1);
    EXPECT_THAT(fake.err.str(), HasSubstr(message));
  }
  EXPECT_EQ(pipeline.requests().size(), 1u);
}

TEST(ChatTest, ATerminalGoesOnAfterAFailureWithoutTheFailedLine) {
  FakePipeline pipeline(Counting(true));
  FakeEnvironment fake;
  fake.environment.in_is_terminal = true;
  EXPECT_EQ(Chat(pipeline, fake, "hello\nrefuse\nmore\n"), 0);
  EXPECT_EQ(fake.out.str(), " one\n two\n");
  EXPECT_THAT(Turns(pipeline.requests().at(2)),
              ElementsAre("user: hello", "assistant:  one", "user: more"));
}

TEST(ChatTest, CtrlCAtATerminalEndsTheAnswerAlone) {
  FakeEnvironment fake;
  FakeAnswers answers = Counting(true);
  const auto counting = answers.generate;
  std::atomic<bool> interrupted = false;
  answers.generate = [&](const v1::GenerateRequest& request, const WriteEvent& write) {
    if (interrupted.exchange(true)) return counting(request, write);
    EXPECT_TRUE(fake.interrupt.Request(130));
    while (write(TextEvent(0, "", {}))) {
    }
    return absl::CancelledError();
  };
  FakePipeline pipeline(answers);
  fake.environment.in_is_terminal = true;
  EXPECT_EQ(Chat(pipeline, fake, "hello\nmore\n"), 0);
  EXPECT_EQ(fake.out.str(), " one\n");
  EXPECT_THAT(Turns(pipeline.requests().at(1)),
              ElementsAre("user: hello", "assistant: ", "user: more"));
}

TEST(ChatTest, RefusesAModelWithoutTokenizer) {
  FakeAnswers answers = Counting(false);
  answers.model.set_has_tokenizer(false);
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  EXPECT_EQ(Chat(pipeline, fake, "hello\n"), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("has no tokenizer: it cannot chat"));
}

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

}  // namespace
}  // namespace sluice::testing
