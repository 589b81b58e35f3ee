// `sluice batch`: the requests of a JSONL file, as OpenAI's Batch API has them, without a server for
// HTTP: the gateway's own code reads them and calls the pipeline.
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/outcome.h"
#include "clients/cli/progress_line.h"
#include "services/common/steady_time.h"
#include "services/gateway/api/api_call.h"
#include "services/gateway/backend/backend.h"
#include "services/gateway/batches/input_check.h"
#include "services/gateway/batches/line_run.h"
#include "services/gateway/batches/work_loop.h"
#include "services/gateway/http/router.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/openai/openai_api.h"

namespace sluice {
namespace {

constexpr int kLinesOfAStep = 1024;
constexpr size_t kErrorsShown = 5;

struct BatchFlags {
  std::optional<std::string> input;
  std::string output;
  int concurrency = 32;
};

// The paths of OpenAI's API over the channels of a client, without a listener.
class LocalApi {
 public:
  LocalApi(const Client& client, std::string token)
      : token_(std::move(token)),
        backend_(client.channels(), gateway::BackendOptions()),
        vocabulary_(&backend_),
        output_styles_(&backend_, std::nullopt),
        context_{backend_, vocabulary_, output_styles_, body_reader_},
        router_([](int status, absl::string_view message) {
          return gateway::openai::ErrorResponse(status, message);
        }) {
    gateway::openai::AddRoutes(router_, context_);
  }
  ~LocalApi() {
    backend_.Shutdown();
    body_reader_.Shutdown();
    loop_.Stop();
  }
  LocalApi(const LocalApi&) = delete;
  LocalApi& operator=(const LocalApi&) = delete;

  http::Loop& loop() { return loop_; }
  http::Handler handler() {
    return [this](std::shared_ptr<http::Exchange> exchange) { router_.Serve(std::move(exchange)); };
  }
  http::Request NewRequest() const {
    http::Request request;
    request.peer = "batch";
    if (!token_.empty()) {
      request.headers.emplace_back("authorization", absl::StrCat("Bearer ", token_));
    }
    return request;
  }

 private:
  const std::string token_;
  gateway::WorkLoop loop_;
  gateway::Backend backend_;
  gateway::Vocabulary vocabulary_;
  gateway::OutputStyles output_styles_;
  gateway::BodyReader body_reader_;
  const gateway::ApiContext context_;
  http::Router router_;
};

// Runs all lines of a file, from another thread than that which waits for them.
class Batch {
 public:
  Batch(LocalApi& api, int concurrency) : api_(api), concurrency_(concurrency) {}

  absl::Status Run(gateway::LineRunOptions options, Environment& environment) {
    const Interrupt::Handler handler(environment.interrupt,
                                     [this] { Note([](State& s) { s.is_interrupted = true; }); });
    ProgressLine progress(environment.err, environment.err_is_terminal,
                          static_cast<int>(options.num_lines));
    options.on_change = [this] { api_.loop().Post([this] { Pump(); }); };
    api_.loop().Post([this, options = std::move(options)]() mutable { Open(std::move(options)); });
    std::unique_lock lock(mutex_);
    while (!state_.has_ended && !state_.is_interrupted) {
      progress.Update(absl::Now(),
                      static_cast<int>(state_.counts.total - state_.counts.unfinished()), 0);
      changed_.wait_until(lock, (SteadyTime::Now() + absl::Milliseconds(200)).ToChrono());
    }
    progress.Update(absl::Now(), static_cast<int>(state_.counts.total - state_.counts.unfinished()),
                    0);
    lock.unlock();
    api_.loop().Post([this] { Close(); });
    lock.lock();
    changed_.wait(lock, [this] { return state_.is_closed; });
    return state_.status;
  }

  gateway::LineCounts counts() const { return state_.counts; }

 private:
  struct State {
    gateway::LineCounts counts;
    absl::Status status;
    bool is_interrupted = false, has_ended = false, is_closed = false;
  };

  template <class Change>
  void Note(Change change) {
    {
      const std::lock_guard lock(mutex_);
      change(state_);
    }
    changed_.notify_all();
  }

  // The next three on the loop.
  void Open(gateway::LineRunOptions options) {
    auto run = gateway::LineRun::Open(api_.loop(), std::move(options));
    if (!run.ok()) {
      return Note([&](State& state) {
        state.status = run.status();
        state.has_ended = true;
      });
    }
    run_ = *std::move(run);
    Pump();
  }

  void Pump() {
    if (run_ == nullptr) return;
    while (run_->num_running() < concurrency_ && run_->StartNext()) {
    }
    Note([this](State& state) {
      state.counts = run_->counts();
      state.has_ended = state.counts.unfinished() <= 0;
    });
  }

  void Close() {
    absl::Status flushed;
    if (run_ != nullptr) {
      run_->Stop();
      flushed = run_->Flush();
      run_ = nullptr;
    }
    Note([&](State& state) {
      state.status.Update(flushed);
      state.is_closed = true;
    });
  }

  LocalApi& api_;
  const int concurrency_;
  std::unique_ptr<gateway::LineRun> run_;  // the loop's
  std::mutex mutex_;                       // guards the next
  State state_;
  std::condition_variable changed_;
};

// How many lines the file has. INVALID_ARGUMENT says what is wrong with which.
absl::StatusOr<int64_t> CheckInput(const std::string& path) {
  absl::StatusOr<gateway::LineFile> file = gateway::LineFile::Open(path);
  if (!file.ok()) return file.status();
  gateway::InputCheck check(*std::move(file), /*endpoint=*/"",
                            {.max_lines = std::numeric_limits<int32_t>::max()});
  while (check.Step(kLinesOfAStep)) {
  }
  if (check.errors().empty()) return check.num_lines();
  std::string message = path;
  for (size_t i = 0; i < check.errors().size() && i < kErrorsShown; ++i) {
    const auto& error = check.errors()[i];
    const std::string where =
        error["line"].is_number() ? absl::StrCat("line ", error["line"].get<int64_t>(), ": ") : "";
    absl::StrAppend(&message, i == 0 ? ": " : "; ", where, error["message"].get<std::string>());
  }
  if (check.errors().size() > kErrorsShown) absl::StrAppend(&message, "; and more");
  return absl::InvalidArgumentError(message);
}

// INVALID_ARGUMENT for an output that is the input.
absl::Status CheckOutput(const BatchFlags& flags) {
  std::error_code error;
  if (!std::filesystem::equivalent(*flags.input, flags.output, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flags.output, " is FILE itself"));
}

int RunBatch(const BatchFlags& flags, int64_t num_lines, Client& client, const std::string& token,
             Environment& environment) {
  const absl::StatusOr<std::string> id = gateway::ContentHash(*flags.input);
  if (!id.ok()) return Fail(id.status(), environment);
  LocalApi api(client, token);
  Batch batch(api, flags.concurrency);
  const absl::Status status = batch.Run({.id = *id,
                                         .input = *flags.input,
                                         .endpoint = "",
                                         .output = flags.output,
                                         .errors = flags.output,
                                         .owns_results = false,
                                         .num_lines = num_lines,
                                         .request = [&api] { return api.NewRequest(); },
                                         .handler = api.handler(),
                                         .on_change = nullptr},
                                        environment);
  if (!status.ok()) return Fail(status, environment);
  const gateway::LineCounts counts = batch.counts();
  environment.err << counts.total - counts.unfinished() << " of " << counts.total
                  << " lines have their results in " << flags.output << std::endl;
  if (counts.unfinished() == 0) return Succeed(environment);
  return Fail(absl::CancelledError("interrupted; the same command goes on"), environment);
}

}  // namespace

int BatchCommand(absl::Span<const std::string> arguments, Environment& environment) {
  BatchFlags batch_flags;
  EndpointFlags endpoint_flags;
  ModelFlags model_flags;
  FlagSet flags(
      "batch", "FILE [-o OUT] [flags]",
      "Answers the requests in the lines of FILE, in the format of OpenAI's Batch API, and "
      "appends a line to OUT for each as it comes. Begun again after it was interrupted, or "
      "has died, it goes on: no line is answered twice.");
  flags.AddPositional(&batch_flags.input);
  flags.Section("Batch");
  flags.Add(
      "out", "OUT",
      "File of the results, in the order in which they come; -o is the same. Default: FILE with "
      "\".results\" behind it.",
      &batch_flags.output);
  flags.AddParsed("concurrency", "N", "Lines that run at a time. Default 32.",
                  FlagSet::IntegerFrom(1, 4096, &batch_flags.concurrency));
  AddModelFlags(flags, &model_flags);
  AddEndpointFlags(flags, "Default: a pipeline in this process.", &endpoint_flags);
  std::vector<std::string> long_names(arguments.begin(), arguments.end());
  for (std::string& argument : long_names) {
    if (argument == "-o") argument = "--out";
  }
  if (const std::optional<int> exit = ParseOrExit(flags, long_names, environment)) return *exit;
  absl::Status usage = CheckOneTarget(endpoint_flags, model_flags);
  if (!batch_flags.input.has_value()) {
    usage.Update(absl::InvalidArgumentError("give FILE, whose lines are requests"));
  }
  if (!usage.ok()) return FailUsage(flags.command(), usage, environment);
  if (batch_flags.output.empty()) {
    batch_flags.output = absl::StrCat(*batch_flags.input, ".results");
  }
  if (const absl::Status status = CheckOutput(batch_flags); !status.ok()) {
    return FailUsage(flags.command(), status, environment);
  }
  const absl::StatusOr<int64_t> num_lines = CheckInput(*batch_flags.input);
  if (!num_lines.ok()) return Fail(num_lines.status(), environment);
  const bool calls = CallsEndpoint(endpoint_flags, model_flags, environment);
  const absl::StatusOr<std::string> token =
      calls ? TokenOf(endpoint_flags, environment) : std::string();
  if (!token.ok()) return Fail(token.status(), environment);
  absl::StatusOr<std::unique_ptr<Client>> client =
      ConnectOrStart(endpoint_flags, model_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  // A key that is not accepted would fail every line.
  const absl::Status known = (*client)->GetModel().status();
  if (!known.ok()) return Fail(known, environment);
  return RunBatch(batch_flags, *num_lines, **client, *token, environment);
}

}  // namespace sluice
