// `sluice chat`: turns from a terminal or a pipe, answers to stdout, until /exit or the end of the
// input.
#include "absl/strings/str_cat.h"
#include "clients/cli/chat_session.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/outcome.h"
#include "clients/cli/text_input.h"

namespace sluice {
namespace {

struct ChatFlags {
  RequestFlags request;
  std::string system;
};

int Converse(Client& client, const ChatFlags& flags, Environment& environment) {
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
  return ChatSession(client, flags.request, Conversation(model->has_chat_template(), flags.system),
                     environment)
      .Run();
}

}  // namespace

int ChatCommand(absl::Span<const std::string> arguments, Environment& environment) {
  ChatFlags chat_flags;
  EndpointFlags endpoint_flags;
  ModelFlags model_flags;
  FlagSet flags("chat", "[flags]",
                "Reads a turn, streams the model's answer, and so on; every answer has the whole "
                "conversation before it. At a terminal, turns are edited and remembered, and a "
                "paste of several lines is one turn; in a pipe, every line is one.\n"
                "Ctrl-C ends an answer, or drops the line; a second one ends, as Ctrl-D and /exit "
                "do. /help lists what else there is.\nWithout a chat template, each turn is "
                "appended to one text from which the model goes on.");
  flags.Section("Conversation");
  flags.AddParsed("system", "TEXT",
                  "What the model is told before the first turn; without a chat template, how the "
                  "text begins.",
                  [&chat_flags](const std::string& text) {
                    chat_flags.system = text;
                    return CheckUtf8(text);
                  });
  AddSamplingFlags(flags, &chat_flags.request);
  flags.SetFooter(
      absl::StrCat("Here --max_tokens defaults to ", ChatSession::kDefaultMaxTokens, "."));
  AddModelFlags(flags, &model_flags);
  AddEndpointFlags(flags, "Default: a pipeline in this process.", &endpoint_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status target = CheckOneTarget(endpoint_flags, model_flags); !target.ok()) {
    return FailUsage(flags.command(), target, environment);
  }
  absl::StatusOr<std::unique_ptr<Client>> client =
      ConnectOrStart(endpoint_flags, model_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  return Converse(**client, chat_flags, environment);
}

}  // namespace sluice
