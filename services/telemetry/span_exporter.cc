#include "services/telemetry/span_exporter.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/common/steady_time.h"
#include "services/messages/metadata.h"
#include "services/messages/retry_info.h"
#include "services/process/log.h"
#include "services/telemetry/otlp_messages.h"

namespace sluice {
namespace {

// As the specification of OTLP says of gRPC's codes.
bool MayTryAgain(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    case absl::StatusCode::kResourceExhausted:
      return RetryDelay(status).has_value();
    default:
      return false;
  }
}

// Processes that lost the same collector do not come back to it at once.
absl::Duration Scattered(absl::Duration pause) {
  static thread_local std::mt19937 random{std::random_device()()};
  return pause * std::uniform_real_distribution<double>(0.75, 1.25)(random);
}

std::string TokenIn(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  std::getline(file, token);
  return std::string(absl::StripAsciiWhitespace(token));
}

}  // namespace

SpanExporter::SpanExporter(const std::shared_ptr<grpc::Channel>& channel,
                           SpanExporterOptions options)
    : options_(std::move(options)),
      stub_(opentelemetry::proto::collector::trace::v1::TraceService::NewStub(channel)),
      thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  Flush(options_.flush_timeout);
  {
    const std::lock_guard lock(mutex_);
    giving_up_ = true;
    if (call_ != nullptr) call_->TryCancel();
  }
  thread_.join();
}

void SpanExporter::Export(std::vector<Span> spans) {
  const std::lock_guard lock(mutex_);
  const size_t room = options_.max_queued - std::min(options_.max_queued, queue_.size());
  const size_t taken = std::min(room, spans.size());
  counts_.dropped_full += spans.size() - taken;
  std::move(spans.begin(), spans.begin() + static_cast<ptrdiff_t>(taken),
            std::back_inserter(queue_));
  changed_.notify_all();
}

SpanCounts SpanExporter::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void SpanExporter::Run() {
  while (true) {
    const std::vector<Span> batch = NextBatch();
    if (batch.empty()) return;
    Send(batch);
    const std::lock_guard lock(mutex_);
    sending_ = false;
    changed_.notify_all();
  }
}

bool SpanExporter::Flush(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  ++num_flushing_;
  changed_.notify_all();
  const bool flushed = changed_.wait_until(lock, (SteadyTime::Now() + timeout).ToChrono(),
                                           [this] { return queue_.empty() && !sending_; });
  --num_flushing_;
  return flushed;
}

std::vector<Span> SpanExporter::NextBatch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  changed_.wait_until(lock, (SteadyTime::Now() + options_.batch_delay).ToChrono(), [this] {
    return stopping_ || num_flushing_ > 0 || queue_.size() >= options_.max_batch;
  });
  const auto size = static_cast<ptrdiff_t>(std::min(queue_.size(), options_.max_batch));
  std::vector<Span> batch(std::make_move_iterator(queue_.begin()),
                          std::make_move_iterator(queue_.begin() + size));
  queue_.erase(queue_.begin(), queue_.begin() + size);
  sending_ = !batch.empty();
  return batch;
}

void SpanExporter::Send(const std::vector<Span>& batch) {
  const Request request = ExportRequest(options_.resource, batch);
  const SteadyTime give_up = SteadyTime::Now() + options_.retry_for;
  absl::Duration pause = options_.first_pause;
  while (true) {
    Response response;
    const absl::Status status = Call(request, response);
    const bool again = !status.ok() && MayTryAgain(status) && SteadyTime::Now() < give_up;
    if (!again || !Pause(RetryDelay(status).value_or(Scattered(pause)))) {
      return Count(batch.size(), status, response);
    }
    pause = std::min(2 * pause, options_.longest_pause);
  }
}

absl::Status SpanExporter::Prepare(grpc::ClientContext& context) const {
  context.set_deadline(absl::ToChronoTime(absl::Now() + options_.call_timeout));
  for (const auto& [name, value] : options_.headers) {
    if (const absl::Status status = AddMetadata(context, absl::AsciiStrToLower(name), value);
        !status.ok()) {
      return status;
    }
  }
  if (options_.token_file.empty()) return absl::OkStatus();
  return AddMetadata(context, "authorization",
                     absl::StrCat("Bearer ", TokenIn(options_.token_file)));
}

absl::Status SpanExporter::Call(const Request& request, Response& response) {
  grpc::ClientContext context;
  if (absl::Status status = Prepare(context); !status.ok()) return status;
  {
    const std::lock_guard lock(mutex_);
    if (giving_up_) return absl::CancelledError("the process ends");
    call_ = &context;
  }
  const grpc::Status status = stub_->Export(&context, request, &response);
  const std::lock_guard lock(mutex_);
  call_ = nullptr;
  return FromGrpc(status);
}

bool SpanExporter::Pause(absl::Duration pause) {
  const SteadyTime until = SteadyTime::Now() + std::min(pause, options_.longest_pause);
  std::unique_lock lock(mutex_);
  return !changed_.wait_until(lock, until.ToChrono(), [this] { return stopping_; });
}

void SpanExporter::Count(size_t num_spans, const absl::Status& status, const Response& response) {
  if (status.ok() == failing_) {
    failing_ = !status.ok();
    Log(failing_ ? LogLevel::kWarning : LogLevel::kInfo, "telemetry",
        failing_ ? "spans-dropped" : "spans-exported-again", {{"status", status.ToString()}});
  }
  const auto rejected = static_cast<uint64_t>(std::clamp<int64_t>(
      response.partial_success().rejected_spans(), 0, static_cast<int64_t>(num_spans)));
  const std::lock_guard lock(mutex_);
  if (!status.ok()) {
    counts_.dropped_failed += num_spans;
    return;
  }
  counts_.dropped_rejected += rejected;
  counts_.exported += num_spans - rejected;
}

}  // namespace sluice
