// `sluice run`: the whole pipeline in this process, called as any client calls it.
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/outcome.h"
#include "clients/cli/prompt_input.h"
#include "clients/cli/write_request.h"

namespace sluice {

int RunCommand(absl::Span<const std::string> arguments, Environment& environment) {
  RequestFlags request_flags;
  ModelFlags model_flags;
  std::optional<std::string> positional;
  FlagSet flags("run", "[flags] [PROMPT]",
                "Starts the whole pipeline in this process and streams what the model writes after "
                "the prompt.");
  AddPromptFlags(flags, &request_flags);
  AddSamplingFlags(flags, &request_flags);
  AddModelFlags(flags, &model_flags);
  flags.AddPositional(&positional);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  const absl::Status usage = CheckModelFlags(model_flags);
  if (!usage.ok()) return FailUsage(flags.command(), usage, environment);
  if (absl::Status read = ReadPrompt(environment, &positional, &request_flags); !read.ok()) {
    return Fail(read, environment);
  }
  const absl::StatusOr<v1::GenerateRequest> request = ToRequest(request_flags, positional);
  if (!request.ok()) return FailUsage(flags.command(), request.status(), environment);

  absl::StatusOr<std::unique_ptr<Client>> client = StartPipeline(model_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  const absl::StatusOr<std::string> pool = PoolText(**client);
  if (!pool.ok()) return Fail(pool.status(), environment);
  if (!pool->empty()) environment.err << "sluice: " << *pool << std::endl;
  return WriteRequest(**client, *request, request_flags, environment);
}

}  // namespace sluice
