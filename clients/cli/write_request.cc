#include "clients/cli/write_request.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "clients/cli/event_printer.h"
#include "clients/cli/outcome.h"
#include "services/messages/num_returned.h"

namespace sluice {
namespace {

struct Times {
  absl::Time start;
  std::optional<absl::Time> first_token;
  absl::Time end;
};

// "24 tokens in 0.31 s (78.2 tokens/s), the first after 45 ms; prompt of 6 tokens; seed 7"
std::string Summary(const v1::Finished& finished, const Times& times) {
  const int tokens = finished.usage().num_generated_tokens();
  const double seconds = absl::ToDoubleSeconds(times.end - times.start);
  std::string text = absl::StrFormat("%d tokens in %.2f s (%.1f tokens/s)", tokens, seconds,
                                     seconds > 0 ? tokens / seconds : 0.0);
  if (times.first_token.has_value()) {
    absl::StrAppendFormat(&text, ", the first after %.0f ms",
                          absl::ToDoubleMilliseconds(*times.first_token - times.start));
  }
  absl::StrAppendFormat(&text, "; prompt of %d tokens; seed %d",
                        finished.usage().num_prompt_tokens(), finished.seed());
  return text;
}

// Why the text is shorter than was asked for, where it is.
std::string LimitText(const v1::Finished& finished) {
  for (const v1::FinishedSequence& sequence : finished.sequences()) {
    switch (sequence.length_limit()) {
      case v1::LENGTH_LIMIT_CONTEXT:
        return "; the context is full";
      case v1::LENGTH_LIMIT_KV_CACHE:
        return "; the KV pool is full: --kv_cache_mib makes it larger";
      case v1::LENGTH_LIMIT_MODEL_DEFAULT:
        return "; max_length of generation_config.json ended it: --max_tokens overrides that";
      default:
        break;
    }
  }
  return "";
}

absl::StatusOr<std::unique_ptr<EventPrinter>> MakePrinter(Client& client, const RequestFlags& flags,
                                                          const v1::GenerateRequest& request,
                                                          Environment& environment) {
  const bool shows_tokens = flags.json && (request.has_logprobs() || request.has_prompt_logprobs());
  if (flags.json && !shows_tokens) return MakeJsonPrinter(environment.out, {});
  const absl::StatusOr<v1::GetModelResponse> model = client.GetModel();
  if (!model.ok()) return model.status();
  if (shows_tokens) {
    absl::StatusOr<std::vector<std::string>> texts = std::vector<std::string>();
    if (model->has_tokenizer()) texts = client.GetTokenTexts();
    if (!texts.ok()) return texts.status();
    return MakeJsonPrinter(environment.out,
                           {.logprobs = request.has_logprobs(), .token_texts = *std::move(texts)});
  }
  return MakeTextPrinter(environment.out, {.has_tokenizer = model->has_tokenizer(),
                                           .num_sequences = NumReturned(request),
                                           .terminal = environment.out_is_terminal});
}

}  // namespace

int WriteRequest(Client& client, const v1::GenerateRequest& request, const RequestFlags& flags,
                 Environment& environment) {
  const absl::StatusOr<std::unique_ptr<EventPrinter>> printer =
      MakePrinter(client, flags, request, environment);
  if (!printer.ok()) return Fail(printer.status(), environment);

  Times times{.start = absl::Now()};
  v1::Finished finished;
  const absl::Status status =
      client.Generate(request, flags.timeout.value_or(absl::InfiniteDuration()),
                      [&](const v1::GenerateResponse& event) {
                        if (event.has_finished()) {
                          finished = event.finished();
                          (*printer)->Finish(finished);
                        } else {
                          if (!times.first_token) times.first_token = absl::Now();
                          (*printer)->Print(event.chunk());
                        }
                      });
  times.end = absl::Now();
  if (!status.ok()) {
    (*printer)->Abort();
    return Fail(status, environment);
  }
  if (!flags.json) environment.err << Summary(finished, times) << LimitText(finished) << std::endl;
  return Succeed(environment);
}

}  // namespace sluice
