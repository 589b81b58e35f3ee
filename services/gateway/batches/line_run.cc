#include "services/gateway/batches/line_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/json/json_text.h"
#include "services/process/log.h"

namespace sluice::gateway {
namespace {

constexpr int kMostFailedAttempts = 3;  // of a line that fails by itself

// Whether it is the server that can not answer, for now.
bool IsForNow(int http_status) {
  return http_status == 401 || http_status == 403 || http_status == 408 || http_status == 429 ||
         http_status == 499 || http_status == 502 || http_status == 503 || http_status == 504;
}

absl::Duration RetryAfter(const http::Response& response) {
  for (const auto& [name, value] : response.headers) {
    int seconds = 0;
    if (name == "retry-after" && absl::SimpleAtoi(value, &seconds)) return absl::Seconds(seconds);
  }
  return absl::ZeroDuration();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LineRun>> LineRun::Open(http::Loop& loop, LineRunOptions options) {
  absl::StatusOr<LineFile> input = LineFile::Open(options.input);
  if (!input.ok()) return input.status();
  std::unique_ptr<LineRun> run(new LineRun(loop, std::move(options), *std::move(input)));
  run->counts_.total = run->options_.num_lines;
  const bool is_one = run->options_.output == run->options_.errors;
  absl::StatusOr<AppendFile> output = run->OpenResults(run->options_.output, /*of_errors=*/false);
  if (!output.ok()) return output.status();
  run->output_ = *std::move(output);
  if (is_one) return run;
  absl::StatusOr<AppendFile> errors = run->OpenResults(run->options_.errors, /*of_errors=*/true);
  if (!errors.ok()) return errors.status();
  run->errors_ = *std::move(errors);
  return run;
}

// What follows the last whole line is cut off: the process, or the host, died while it was written.
absl::StatusOr<AppendFile> LineRun::OpenResults(const std::string& path, bool of_errors) {
  int64_t end = 0;
  absl::StatusOr<LineFile> results = LineFile::Open(path);
  if (!results.ok() && !absl::IsNotFound(results.status())) return results.status();
  while (results.ok()) {
    const std::optional<FileLine> line = results->Next();
    if (!line.has_value()) break;
    const std::optional<int64_t> number =
        line->is_whole ? NumberOfLine(line->text, options_.id) : std::nullopt;
    if (!number.has_value()) {
      if (options_.owns_results || BeginsAsLine(line->text, options_.id)) break;
      return absl::DataLossError(absl::StrCat(
          path, " has something else than results of these lines, in line ", line->number));
    }
    end = line->end;
    if (static_cast<size_t>(*number) >= finished_.size()) finished_.resize(*number + 1);
    if (finished_[*number]) continue;
    finished_[*number] = true;
    ++(of_errors ? counts_.failed : counts_.completed);
  }
  return AppendFile::Open(path, end);
}

std::optional<FileLine> LineRun::NextUnfinished() {
  for (;;) {
    std::optional<FileLine> line = input_.Next();
    const bool is_finished = line.has_value() &&
                             static_cast<size_t>(line->number) < finished_.size() &&
                             finished_[line->number];
    if (!is_finished) return line;
  }
}

bool LineRun::StartNext() {
  if (is_stopped_) return false;
  std::optional<FileLine> line = NextUnfinished();
  if (!line.has_value()) return false;
  absl::StatusOr<BatchLine> read = ReadBatchLine(line->text, options_.endpoint);
  if (!read.ok()) {  // it was not checked, or has changed since
    const std::string text =
        UnansweredLine(options_.id, line->number, "", "invalid_line", read.status().message());
    Keep(line->number, /*is_answer=*/false, text).IgnoreError();
    return true;
  }
  num_running_bytes_ += read->body.size();
  running_.emplace(line->number, Running{.line = *std::move(read)});
  Attempt(line->number);
  return true;
}

void LineRun::Attempt(int64_t number) {
  Running& running = running_.at(number);
  ++running.num_attempts;
  http::Request request = options_.request();
  request.method = "POST";
  request.path = running.line.url;
  request.headers.emplace_back("content-type", "application/json");
  request.body = running.line.body;
  // Later, so that a handler that answers at once does not find the run in the middle of this.
  const auto on_response = [this, alive = std::weak_ptr(alive_), number](http::Response response) {
    loop_.Post([this, alive, number, response = std::move(response)] {
      if (alive.lock() != nullptr) OnResponse(number, response);
    });
  };
  auto exchange = std::make_shared<LocalExchange>(loop_, std::move(request), on_response);
  running.exchange = exchange;
  options_.handler(std::move(exchange));
}

void LineRun::OnResponse(int64_t number, const http::Response& response) {
  const auto found = running_.find(number);
  if (found == running_.end()) return;
  Running& running = found->second;
  running.exchange = nullptr;
  const bool may_succeed_yet = response.status >= 500 && running.num_attempts < kMostFailedAttempts;
  if (IsForNow(response.status) || may_succeed_yet) return RetryLater(number, response);
  const bool is_answer = response.status == 200;
  const absl::Status kept =
      Keep(number, is_answer, AnsweredLine(options_.id, number, running.line.custom_id, response));
  if (!kept.ok()) {
    Log(LogLevel::kError, "gateway", "batch-result-not-written",
        {{"run", options_.id}, {"line", number}, {"status", kept.ToString()}});
    return RetryLater(number, response);
  }
  num_running_bytes_ -= running.line.body.size();
  running_.erase(found);
  options_.on_change();
}

void LineRun::RetryLater(int64_t number, const http::Response& response) {
  const int num_doublings = std::min(running_.at(number).num_attempts - 1, 16);
  const absl::Duration pause =
      std::min(options_.longest_retry_pause, options_.retry_pause * (1 << num_doublings));
  loop_.After(std::max(pause, RetryAfter(response)), [this, alive = std::weak_ptr(alive_), number] {
    if (alive.lock() != nullptr && running_.count(number) > 0) Attempt(number);
  });
}

absl::Status LineRun::Keep(int64_t number, bool is_answer, const std::string& text) {
  AppendFile& file = is_answer || !errors_.has_value() ? *output_ : *errors_;
  if (absl::Status status = file.Append(text); !status.ok()) return status;
  if (static_cast<size_t>(number) >= finished_.size()) finished_.resize(number + 1);
  finished_[number] = true;
  ++(is_answer ? counts_.completed : counts_.failed);
  return absl::OkStatus();
}

void LineRun::Stop() {
  is_stopped_ = true;
  alive_.reset();
  for (auto& [number, running] : std::exchange(running_, {})) {
    if (running.exchange != nullptr) running.exchange->Cancel();
  }
  num_running_bytes_ = 0;
}

absl::Status LineRun::FailUnfinished(absl::string_view code, absl::string_view message) {
  absl::StatusOr<LineFile> input = LineFile::Open(options_.input);
  if (!input.ok()) return input.status();
  input_ = *std::move(input);
  while (const std::optional<FileLine> line = NextUnfinished()) {
    const absl::StatusOr<BatchLine> read = ReadBatchLine(line->text, options_.endpoint);
    const std::string text =
        UnansweredLine(options_.id, line->number, read.ok() ? read->custom_id : "", code, message);
    if (absl::Status kept = Keep(line->number, /*is_answer=*/false, text); !kept.ok()) return kept;
  }
  return absl::OkStatus();
}

absl::Status LineRun::Flush() {
  absl::Status status = output_->Flush();
  if (errors_.has_value()) status.Update(errors_->Flush());
  return status;
}

}  // namespace sluice::gateway
