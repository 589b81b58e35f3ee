// `sluice chat`: lines from stdin, answers to stdout, until /exit or the end of the input.
#include <istream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/conversation.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/outcome.h"
#include "clients/cli/request_flags.h"
#include "clients/cli/text_input.h"

namespace sluice {
namespace {

constexpr int kDefaultMaxTokens = 128;

class ChatSession {
 public:
  ChatSession(Client& client, RequestFlags flags, bool has_chat_template, Environment& environment)
      : client_(client),
        flags_(std::move(flags)),
        conversation_(has_chat_template),
        environment_(environment) {
    if (!flags_.max_tokens.has_value()) flags_.max_tokens = kDefaultMaxTokens;
  }

  // Returns the exit status.
  int Run() {
    std::string line;
    while (ReadLine(&line)) {
      if (line == "/exit") break;
      if (line == "/reset") {
        conversation_.Reset();
        continue;
      }
      if (line.empty()) continue;
      const absl::Status status = Take(line);
      if (status.ok()) continue;
      const int exit = Fail(status, environment_);
      // At a terminal the next line may do better; Ctrl-C ended only the answer.
      if (!environment_.in_is_terminal) return exit;
      environment_.interrupt.Clear();
    }
    return Succeed(environment_);
  }

 private:
  bool ReadLine(std::string* line) {
    if (environment_.in_is_terminal) environment_.err << "> " << std::flush;
    return static_cast<bool>(std::getline(environment_.in, *line));
  }

  absl::Status Take(const std::string& line) {
    if (absl::StartsWith(line, "/")) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown command ", line, "; there are /reset and /exit"));
    }
    if (const absl::Status status = CheckUtf8(line); !status.ok()) return status;
    return Answer(line);
  }

  // Streams the answer. What was written before a failure stays written but is not remembered,
  // except where the user cut it short.
  absl::Status Answer(const std::string& line) {
    conversation_.AddLine(line);
    v1::GenerateRequest request = WithoutPrompt(flags_);
    conversation_.FillPrompt(&request);
    std::string answer;
    const absl::Status status =
        client_.Generate(request, flags_.timeout.value_or(absl::InfiniteDuration()),
                         [&](const v1::GenerateResponse& event) {
                           answer += event.chunk().text();
                           environment_.out << event.chunk().text() << std::flush;
                         });
    if (!answer.empty() || status.ok()) environment_.out << std::endl;
    if (status.ok() || environment_.interrupt.requested()) {
      conversation_.AddAnswer(answer);
    } else {
      conversation_.TakeLineBack();
    }
    return status;
  }

  Client& client_;
  RequestFlags flags_;
  Conversation conversation_;
  Environment& environment_;
};

int Converse(Client& client, const RequestFlags& flags, Environment& environment) {
  const absl::StatusOr<v1::GetModelResponse> model = client.GetModel();
  if (!model.ok()) return Fail(model.status(), environment);
  if (!model->has_tokenizer()) {
    return Fail(absl::FailedPreconditionError(absl::StrCat(
                    "model ", model->name(),
                    " has no tokenizer: it cannot chat; sluice run --token_ids works")),
                environment);
  }
  if (!model->has_chat_template()) {
    environment.err << "model " << model->name()
                    << " has no chat template: it continues the text instead" << std::endl;
  }
  return ChatSession(client, flags, model->has_chat_template(), environment).Run();
}

}  // namespace

int ChatCommand(absl::Span<const std::string> arguments, Environment& environment) {
  RequestFlags request_flags;
  EndpointFlags endpoint_flags;
  ModelFlags model_flags;
  FlagSet flags("chat", "[flags]",
                "Reads a line, streams the model's answer, and so on; every answer has the whole "
                "conversation before it.\n/reset forgets the conversation, /exit or Ctrl-D ends. "
                "Ctrl-C at a terminal ends the answer.\nWithout a chat template, each line is "
                "appended to one text from which the model goes on.");
  AddSamplingFlags(flags, &request_flags);
  flags.SetFooter(absl::StrCat("Here --max_tokens defaults to ", kDefaultMaxTokens, "."));
  AddModelFlags(flags, &model_flags);
  AddEndpointFlags(flags, "Default: a pipeline in this process.", &endpoint_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status target = CheckOneTarget(endpoint_flags, model_flags); !target.ok()) {
    return FailUsage(flags.command(), target, environment);
  }
  absl::StatusOr<std::unique_ptr<Client>> client =
      ConnectOrStart(endpoint_flags, model_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  return Converse(**client, request_flags, environment);
}

}  // namespace sluice
