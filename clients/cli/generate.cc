// `sluice generate`: one request to a running pipeline.
#include "absl/strings/str_cat.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/outcome.h"
#include "clients/cli/prompt_input.h"
#include "clients/cli/write_request.h"

namespace sluice {

int GenerateCommand(absl::Span<const std::string> arguments, Environment& environment) {
  RequestFlags request_flags;
  EndpointFlags endpoint_flags;
  std::optional<std::string> positional;
  FlagSet flags("generate", "[flags] [PROMPT]",
                "Streams what the model of a running pipeline writes after the prompt.");
  AddPromptFlags(flags, &request_flags);
  AddSamplingFlags(flags, &request_flags);
  AddEndpointFlags(flags, absl::StrCat("Default ", kDefaultEndpoint, "."), &endpoint_flags);
  flags.AddPositional(&positional);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (absl::Status read = ReadPrompt(environment, &positional, &request_flags); !read.ok()) {
    return Fail(read, environment);
  }
  const absl::StatusOr<v1::GenerateRequest> request = ToRequest(request_flags, positional);
  if (!request.ok()) return FailUsage(flags.command(), request.status(), environment);

  absl::StatusOr<std::unique_ptr<Client>> client = ConnectToEndpoint(endpoint_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  return WriteRequest(**client, *request, request_flags, environment);
}

}  // namespace sluice
