// `sluice generate` where something is wrong: with the command line, the server, the way to it or the output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/clients/cli/story.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(GenerateFailuresTest, PrintsTheServersRefusal) {
  FakePipeline pipeline(Failing(absl::InvalidArgumentError("top_p is 2; accepted: (0, 1]")));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--top_p", "2", "Once"}), 1);
  EXPECT_THAT(fake.out.str(), IsEmpty());
  EXPECT_EQ(fake.err.str(), "sluice: top_p is 2; accepted: (0, 1] [INVALID_ARGUMENT]\n");
}

TEST(GenerateFailuresTest, KeepsWhatCameBeforeAFailure) {
  FakePipeline pipeline(Failing(absl::InternalError("broke"), {TextEvent(0, "half", {1})}));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 1);
  EXPECT_EQ(fake.out.str(), "half\n");
  EXPECT_EQ(fake.err.str(), "sluice: broke [INTERNAL]\n");
}

TEST(GenerateFailuresTest, NoticesAStreamWithoutItsEnd) {
  FakePipeline pipeline(Saying({TextEvent(0, "half", {1})}));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("without its last event [INTERNAL]"));
}

TEST(GenerateFailuresTest, SaysWhereNobodyListens) {
  FakeEnvironment fake;
  // A port below 1024 that no test machine serves.
  EXPECT_EQ(fake.Run({"generate", "--endpoint", "127.0.0.1:9", "--connect_timeout", "1", "Once"}),
            1);
  EXPECT_EQ(fake.err.str(),
            "sluice: nothing listens at 127.0.0.1:9; start one with `sluice up` (waiting 1s for "
            "it)\n"
            "sluice: cannot reach 127.0.0.1:9: Connection refused: nothing listens there; `sluice "
            "up` starts a pipeline [UNAVAILABLE]\n");
}

TEST(GenerateFailuresTest, SaysAtOnceThatASocketIsMissing) {
  FakeEnvironment fake;
  const std::string missing = "unix:/no/such/socket";
  EXPECT_EQ(fake.Run({"generate", "--endpoint", missing, "--connect_timeout", "1", "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("nothing listens at " + missing + "; start one with"));
}

// A name may stand for several addresses, of which one refuses and another fails in the handshake.
TEST(GenerateFailuresTest, ReportsAFailedHandshakeRatherThanARefusedConnectionBesideIt) {
  FakePipeline pipeline(Saying(Story()));
  const std::string port = pipeline.endpoint().substr(pipeline.endpoint().rfind(':'));
  for (const std::string& endpoint :
       {"localhost" + port, pipeline.endpoint() + ",127.0.0.1:9", "127.0.0.1:9,127.0.0.1" + port}) {
    FakeEnvironment fake;
    EXPECT_EQ(
        fake.Run({"generate", "--endpoint", endpoint, "--tls", "--connect_timeout", "1", "Once"}),
        1);
    EXPECT_EQ(fake.err.str(),
              "sluice: cannot reach " + endpoint + ": it does not speak TLS [UNAVAILABLE]\n");
  }
}

TEST(GenerateFailuresTest, SaysHowAnAddressIsWritten) {
  for (const char* address : {"8700", ":8700", "::1:8805", "http://127.0.0.1:8700"}) {
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run({"generate", "--endpoint", address, "Once"}), 2);
    EXPECT_THAT(fake.err.str(), HasSubstr("write HOST:PORT, such as"));
  }
}

TEST(GenerateFailuresTest, RefusesTwoPromptsNoneAndFilesThatAreNotThere) {
  FakePipeline pipeline(Saying(Story()));
  const auto refusal = [&](std::vector<std::string> arguments, bool terminal) {
    FakeEnvironment fake;
    fake.environment.in_is_terminal = terminal;
    arguments.insert(arguments.begin(), {"generate", "--endpoint", pipeline.endpoint()});
    EXPECT_NE(fake.Run(arguments), 0);
    return fake.err.str();
  };
  EXPECT_THAT(refusal({}, /*terminal=*/true), HasSubstr("no prompt: give one of"));
  EXPECT_THAT(refusal({}, /*terminal=*/false), HasSubstr("no prompt: give one of"));
  EXPECT_THAT(refusal({"-", "--prompt_file", "x"}, true), HasSubstr("more than one prompt"));
  EXPECT_THAT(refusal({"given", "--prompt_file", "x"}, true), HasSubstr("more than one prompt"));
  EXPECT_THAT(refusal({"--prompt_file", "/nowhere"}, true),
              HasSubstr("/nowhere: No such file or directory [NOT_FOUND]"));
}

TEST(GenerateFailuresTest, PrintsNothingForARefusedRequestOfSeveralSequences) {
  FakePipeline pipeline(Failing(absl::InvalidArgumentError("n is 17; accepted: 1 to 16")));
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--n", "17", "Once"}), 1);
  EXPECT_THAT(fake.out.str(), IsEmpty());
}

TEST(GenerateFailuresTest, RefusesATokenThatNoMetadataCanHold) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  fake.environment.token = "s3cr\xc3\xa9t";
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("SLUICE_TOKEN: the token has a character"));
  fake.environment.api_key = fake.environment.token;
  EXPECT_EQ(fake.Run({"generate", "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("SLUICE_API_KEY: the token has a character"));
  EXPECT_THAT(fake.err.str(), Not(HasSubstr("s3cr")));
}

TEST(GenerateFailuresTest, AsksForCertificatesBeyondLoopback) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", "192.0.2.1:8700", "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("192.0.2.1:8700"));
  EXPECT_THAT(fake.err.str(), HasSubstr("set --tls_ca to the authority of its certificate"));
}

TEST(GenerateFailuresTest, CtrlCEndsTheCallAndExits130) {
  FakeEnvironment fake;
  bool client_left = false;
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [&](const v1::GenerateRequest&, const WriteEvent& write) {
    write(TextEvent(0, "half", {1}));
    EXPECT_TRUE(fake.interrupt.Request(130));
    while (write(TextEvent(0, "", {}))) {
    }
    client_left = true;
    return absl::CancelledError();
  };
  {
    FakePipeline pipeline(answers);
    EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 130);
  }
  EXPECT_TRUE(client_left);
  EXPECT_THAT(fake.err.str(), IsEmpty());
}

TEST(GenerateFailuresTest, GivesUpAfterItsTimeout) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [](const v1::GenerateRequest&, const WriteEvent& write) {
    while (write(TextEvent(0, "", {}))) {
    }
    return absl::CancelledError();
  };
  FakePipeline pipeline(answers);
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "--timeout", "0.05", "Once"}),
            1);
  EXPECT_THAT(fake.err.str(), HasSubstr("[DEADLINE_EXCEEDED]"));
}

TEST(GenerateFailuresTest, FailsWhereStdoutCannotBeWritten) {
  FakePipeline pipeline(Saying(Story()));
  FakeEnvironment fake;
  fake.out.setstate(std::ios::badbit);
  EXPECT_EQ(fake.Run({"generate", "--endpoint", pipeline.endpoint(), "Once"}), 1);
  EXPECT_THAT(fake.err.str(), HasSubstr("could not be written to stdout"));
}

}  // namespace
}  // namespace sluice::testing
