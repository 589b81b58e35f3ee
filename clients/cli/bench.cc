// `sluice bench`: puts load on a pipeline and prints what it takes.
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cli/bench_report.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/load_generator.h"
#include "clients/cli/outcome.h"
#include "clients/cli/progress_line.h"

namespace sluice {
namespace {

constexpr int kMostConcurrency = 4096;  // each is a thread

void AddLoadFlags(FlagSet& flags, LoadOptions* into, bool* json) {
  flags.Section("Load");
  flags.Add("prompt_tokens", "P", "Tokens of every prompt, random ids. Default 128.",
            &into->prompt_tokens);
  flags.Add("max_tokens", "N",
            "Tokens every request writes (greedy, past the end of sequence). "
            "Default 64.",
            &into->max_tokens);
  flags.Add("concurrency", "C", "Requests in progress at a time, at most 4096. Default 8.",
            &into->concurrency);
  flags.Add("requests", "R", "Requests in all. Default 32.", &into->requests);
  flags.Add("seed", "S", "Seed of the random prompts. Default 0.", &into->seed);
  flags.AddSwitch("json", "The figures as one JSON object; times in milliseconds.", json);
}

absl::Status CheckLoad(const LoadOptions& load) {
  for (const auto& [name, value] :
       {std::pair("prompt_tokens", load.prompt_tokens), std::pair("max_tokens", load.max_tokens),
        std::pair("concurrency", load.concurrency), std::pair("requests", load.requests)}) {
    if (value < 1) {
      return absl::InvalidArgumentError(absl::StrCat("--", name, ": ", value, " is less than 1"));
    }
  }
  if (load.concurrency > kMostConcurrency) {
    return absl::InvalidArgumentError(
        absl::StrCat("--concurrency: ", load.concurrency, " is more than ", kMostConcurrency));
  }
  return absl::OkStatus();
}

int Measure(Client& client, LoadOptions load, bool json, Environment& environment) {
  const absl::StatusOr<v1::GetModelResponse> model = client.GetModel();
  if (!model.ok()) return Fail(model.status(), environment);
  if (model->vocabulary_size() < 1) {
    return Fail(absl::InternalError("the server reports an empty vocabulary"), environment);
  }
  load.vocabulary_size = model->vocabulary_size();
  absl::StatusOr<LoadTrace> trace;
  {
    ProgressLine line(environment.err, environment.err_is_terminal, load.requests);
    trace = RunLoad(client, load, [&line](int finished, int64_t tokens) {
      line.Update(absl::Now(), finished, tokens);
    });
  }
  if (!trace.ok()) return Fail(trace.status(), environment);
  const BenchFigures figures = FiguresOf(*trace);
  const std::string name = absl::StrCat(model->name(), " (", model->weights(), ")");
  // At an endpoint elsewhere the machine that matters is not this one.
  const std::string machine = client.name().empty()
                                  ? MachineName()
                                  : absl::StrCat(client.name(), ", called from ", MachineName());
  environment.out << (json ? BenchJson(figures, load, name, machine)
                           : BenchTable(figures, load, name, machine));
  return Succeed(environment);
}

}  // namespace

int BenchCommand(absl::Span<const std::string> arguments, Environment& environment) {
  LoadOptions load{.prompt_tokens = 128, .max_tokens = 64, .concurrency = 8, .requests = 32};
  EndpointFlags endpoint_flags;
  ModelFlags model_flags;
  bool json = false;
  FlagSet flags("bench", "[flags]",
                "Keeps a number of requests in progress until all are done, then prints times and "
                "rates.");
  AddLoadFlags(flags, &load, &json);
  AddModelFlags(flags, &model_flags);
  AddEndpointFlags(flags, "Default: a pipeline in this process.", &endpoint_flags);
  flags.SetFooter(kFigureDefinitions);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  absl::Status usage = CheckLoad(load);
  usage.Update(CheckOneTarget(endpoint_flags, model_flags));
  if (!usage.ok()) return FailUsage(flags.command(), usage, environment);

  absl::StatusOr<std::unique_ptr<Client>> client =
      ConnectOrStart(endpoint_flags, model_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  return Measure(**client, load, json, environment);
}

}  // namespace sluice
