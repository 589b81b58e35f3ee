#include "orchestrator/text/tokenizer_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/call_deadline.h"
#include "services/common/connection_cause.h"
#include "services/common/status.h"
#include "services/rpc/refusal.h"

namespace sluice {
namespace {

// How long a connection may take before the reason is asked for.
constexpr absl::Duration kConnectTime = absl::Milliseconds(100);
constexpr absl::Duration kAnswerTime = absl::Seconds(2);
constexpr absl::Duration kRetryPause = absl::Milliseconds(50);
// A client's own clock ends the call at its deadline: it should hear the reason before.
constexpr absl::Duration kNoticeBeforeDeadline = absl::Milliseconds(200);

}  // namespace

TokenizerWatch::TokenizerWatch(std::shared_ptr<grpc::Channel> channel, Options options)
    : options_(std::move(options)),
      stub_(v1::TokenizerService::NewStub(std::move(channel))),
      status_(absl::UnavailableError("not reached yet")) {
  thread_ = std::thread([this] { Loop(); });
}

TokenizerWatch::~TokenizerWatch() { Stop(); }

void TokenizerWatch::Stop() {
  std::vector<Waiting> told;
  {
    absl::MutexLock lock(&mutex_);
    stop_.Set();
    status_ = absl::UnavailableError("the orchestrator is shutting down");
    if (asking_ != nullptr) asking_->TryCancel();
    told = std::exchange(waiting_, {});
  }
  if (thread_.joinable()) thread_.join();
  for (Waiting& waiting : told) waiting.callback(Refusal());
}

absl::Status TokenizerWatch::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

absl::Status TokenizerWatch::Refusal() const {
  return absl::UnavailableError(absl::StrCat("the tokenizer at ", options_.address,
                                             " does not answer: ", status().message()));
}

void TokenizerWatch::Get(SteadyTime deadline, Callback callback) {
  absl::StatusOr<Info> known = Refusal();
  {
    absl::MutexLock lock(&mutex_);
    if (!info_.has_value() && !stop_.is_set()) {
      const SteadyTime due =
          std::min(deadline + -kNoticeBeforeDeadline, SteadyTime::Now() + options_.patience);
      waiting_.push_back({due, std::move(callback)});
      return;
    }
    if (info_.has_value()) known = *info_;
  }
  callback(std::move(known));
}

void TokenizerWatch::Loop() {
  absl::Duration pause = absl::ZeroDuration();
  while (!stop_.WaitFor(pause)) {
    const absl::StatusOr<Info> answer = Ask();
    Publish(answer);
    pause = answer.ok() ? options_.interval : kRetryPause;
  }
}

// A call that waits for the connection says no more than that its time was up: where it is, one
// that does not wait tells why.
absl::StatusOr<TokenizerWatch::Info> TokenizerWatch::Ask() {
  absl::StatusOr<Info> answer = Call(/*patience=*/kConnectTime);
  if (absl::IsDeadlineExceeded(answer.status())) answer = Call(/*patience=*/std::nullopt);
  if (answer.ok()) {
    const absl::Status fits = options_.check ? options_.check(*answer) : absl::OkStatus();
    refusal_ = std::string(fits.message());
    if (fits.ok()) return answer;
    return absl::UnavailableError(std::string(fits.message()));
  }
  return absl::UnavailableError(ConnectionCause(std::string(answer.status().message())));
}

absl::StatusOr<TokenizerWatch::Info> TokenizerWatch::Call(std::optional<absl::Duration> patience) {
  grpc::ClientContext context;
  context.set_wait_for_ready(patience.has_value());
  SetDeadline(context, SteadyTime::Now() + patience.value_or(kAnswerTime));
  if (!refusal_.empty()) context.AddMetadata(kRefusalKey, refusal_);
  {
    absl::MutexLock lock(&mutex_);
    if (stop_.is_set()) return absl::CancelledError();
    asking_ = &context;
  }
  Info info;
  const grpc::Status status = stub_->GetInfo(&context, v1::GetTokenizerInfoRequest(), &info);
  absl::MutexLock lock(&mutex_);
  asking_ = nullptr;
  if (!status.ok()) return FromGrpc(status);
  return info;
}

void TokenizerWatch::Publish(const absl::StatusOr<Info>& answer) {
  std::vector<Waiting> told;
  bool changed = false;
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    if (stop_.is_set()) return;
    changed = answer.ok() != status_.ok();
    first = answer.ok() && !info_.has_value();
    status_ = answer.status();
    if (first) info_ = *answer;
    const SteadyTime now = SteadyTime::Now();
    const auto over = std::stable_partition(
        waiting_.begin(), waiting_.end(),
        [&](const Waiting& waiting) { return !answer.ok() && waiting.deadline > now; });
    std::move(over, waiting_.end(), std::back_inserter(told));
    waiting_.erase(over, waiting_.end());
  }
  if (first && options_.on_info) options_.on_info(*answer);
  if (changed && options_.on_changed) options_.on_changed(answer.ok());
  for (Waiting& waiting : told) {
    if (answer.ok()) {
      waiting.callback(answer);
    } else {
      waiting.callback(Refusal());
    }
  }
}

}  // namespace sluice
