// `sluice chat` against a service that answers every prompt with its number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/cli/line_reader.h"
#include "tests/clients/cli/fake_pipeline.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

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

TEST(ChatTest, ListsItsCommandsAsWideAsTheTerminalIs) {
  FakePipeline pipeline(Counting(/*has_chat_template=*/true));
  FakeEnvironment fake;
  fake.environment.columns = 40;
  EXPECT_EQ(Chat(pipeline, fake, "/help\n"), 0);
  const std::vector<std::string> lines = absl::StrSplit(fake.err.str(), '\n');
  EXPECT_THAT(lines, Each(SizeIs(Le(40u))));
  EXPECT_THAT(lines, Contains("/save FILE"));
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
        std::pair("/what\nunread\n", "unknown command /what; there are /reset, /retry"),
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
  EXPECT_EQ(fake.out.str(), "\n one\n");
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

// What a terminal's editor would give.
class Typed : public LineReader {
 public:
  explicit Typed(std::vector<std::pair<Result, std::string>> turns) : turns_(std::move(turns)) {}
  Result Read(std::string* line) override {
    if (next_ == turns_.size()) return Result::kEnd;
    *line = turns_[next_].second;
    return turns_[next_++].first;
  }

 private:
  const std::vector<std::pair<Result, std::string>> turns_;
  size_t next_ = 0;
};

int ChatAtTerminal(FakePipeline& pipeline, FakeEnvironment& fake,
                   const std::vector<std::pair<LineReader::Result, std::string>>& turns) {
  fake.environment.in_is_terminal = true;
  fake.environment.make_line_editor = [&turns] { return std::make_unique<Typed>(turns); };
  return fake.Run({"chat", "--endpoint", pipeline.endpoint()});
}

constexpr LineReader::Result kLine = LineReader::Result::kLine;
constexpr LineReader::Result kInterrupted = LineReader::Result::kInterrupted;

TEST(ChatTest, SeveralLinesThatWerePastedAreOneTurn) {
  FakePipeline pipeline(Counting(true));
  FakeEnvironment fake;
  EXPECT_EQ(ChatAtTerminal(pipeline, fake, {{kLine, "def f():\n  pass\n"}, {kLine, " \n\t"}}), 0);
  ASSERT_EQ(pipeline.requests().size(), 1u);
  EXPECT_THAT(Turns(pipeline.requests()[0]), ElementsAre("user: def f():\n  pass\n"));
}

TEST(ChatTest, CtrlCTwiceInARowEndsAndOnceDoesNot) {
  FakePipeline pipeline(Counting(true));
  FakeEnvironment fake;
  EXPECT_EQ(ChatAtTerminal(pipeline, fake,
                           {{kInterrupted, ""},
                            {kLine, "hello"},
                            {kInterrupted, ""},
                            {kInterrupted, ""},
                            {kLine, "unread"}}),
            130);
  EXPECT_EQ(pipeline.requests().size(), 1u);
  EXPECT_THAT(fake.err.str(), HasSubstr("Ctrl-C once more ends"));
}

TEST(ChatTest, TellsTheModelTheSystemPromptFirst) {
  for (const bool has_chat_template : {true, false}) {
    FakePipeline pipeline(Counting(has_chat_template));
    FakeEnvironment fake;
    fake.in.str("hello\n/reset\nagain\n");
    EXPECT_EQ(fake.Run({"chat", "--endpoint", pipeline.endpoint(), "--system", "Be brief."}), 0);
    const v1::GenerateRequest last = pipeline.requests().at(1);
    if (has_chat_template) {
      EXPECT_THAT(Turns(last), ElementsAre("system: Be brief.", "user: again"));
    } else {
      EXPECT_EQ(last.text(), "Be brief. again");
    }
  }
}

TEST(ChatTest, AsksForAnotherAnswer) {
  FakePipeline pipeline(Counting(true));
  FakeEnvironment fake;
  EXPECT_EQ(Chat(pipeline, fake, "hello\n/retry\nmore\n"), 0);
  EXPECT_EQ(fake.out.str(), " one\n two\n three\n");
  EXPECT_THAT(Turns(pipeline.requests().at(1)), ElementsAre("user: hello"));
  EXPECT_THAT(Turns(pipeline.requests().at(2)),
              ElementsAre("user: hello", "assistant:  two", "user: more"));
  FakeEnvironment nothing;
  EXPECT_EQ(Chat(pipeline, nothing, "/retry\n"), 1);
  EXPECT_THAT(nothing.err.str(), HasSubstr("no answer to take back"));
}

TEST(ChatTest, SavesAConversationAndGoesOnWithIt) {
  const TempFolder folder;
  FakePipeline pipeline(Counting(true));
  FakeEnvironment first;
  EXPECT_EQ(Chat(pipeline, first, "hello\n/save " + folder.PathOf("talk.json") + "\n"), 0);
  FakeEnvironment second;
  EXPECT_EQ(Chat(pipeline, second, "/load " + folder.PathOf("talk.json") + "\nmore\n"), 0);
  EXPECT_THAT(Turns(pipeline.requests().at(1)),
              ElementsAre("user: hello", "assistant:  one", "user: more"));
  FakeEnvironment missing;
  EXPECT_EQ(Chat(pipeline, missing, "/load " + folder.PathOf("nowhere") + "\n"), 1);
  EXPECT_THAT(missing.err.str(), HasSubstr("nowhere: No such file or directory [NOT_FOUND]"));
}

TEST(ChatTest, ShowsAndChangesItsOptions) {
  FakePipeline pipeline(Counting(true));
  FakeEnvironment fake;
  EXPECT_EQ(Chat(pipeline, fake, "/options temperature=0.25 max_tokens=7\nhello\n"), 0);
  EXPECT_THAT(fake.err.str(), HasSubstr("temperature=0.25 max_tokens=7\n"));
  EXPECT_EQ(pipeline.requests().at(0).max_tokens(), 7);
  EXPECT_EQ(pipeline.requests().at(0).sampling().temperature(), 0.25f);
  FakeEnvironment many;
  EXPECT_EQ(
      Chat(pipeline, many, "/options logit_bias=7=-1.5 banned_token_ids=1,2 stop=x ignore_eos\n"),
      0);
  EXPECT_THAT(many.err.str(), HasSubstr("logit_bias=7=-1.5"));
  EXPECT_THAT(many.err.str(), HasSubstr("banned_token_ids=1,2 "));
  EXPECT_THAT(many.err.str(), HasSubstr("stop_strings=\"x\" ignore_eos=true"));
  FakeEnvironment unknown;
  EXPECT_EQ(Chat(pipeline, unknown, "/options heat=1\n"), 1);
  EXPECT_THAT(unknown.err.str(), HasSubstr("unknown flag --heat"));
}

TEST(ChatTest, SaysWhatToDoWhereTheContextIsFull) {
  FakeAnswers answers = Counting(true);
  answers.generate = [turns = 0](const v1::GenerateRequest&, const WriteEvent& write) mutable {
    if (turns++ > 0) return absl::InvalidArgumentError("128 tokens exceed the context of 100");
    v1::GenerateResponse last = FinishedEvent(1, 1);
    last.mutable_finished()->mutable_sequences(0)->set_length_limit(v1::LENGTH_LIMIT_CONTEXT);
    write(last);
    return absl::OkStatus();
  };
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  EXPECT_EQ(Chat(pipeline, fake, "hello\nmore\n"), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("(the context is full: /reset begins anew)"));
  EXPECT_THAT(fake.err.str(), HasSubstr("context of 100; /reset forgets what was said so far"));
}

}  // namespace
}  // namespace sluice::testing
