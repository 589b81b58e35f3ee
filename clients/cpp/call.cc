#include "clients/cpp/call.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/routing/rendezvous.h"
#include "services/routing/request_keys.h"

namespace sluice::client {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Milliseconds(250);

// What the fields of this number hold that hold bytes.
std::vector<std::string> BytesFields(const std::string& message, int number) {
  std::vector<std::string> found;
  UnknownFieldSet fields;
  if (!fields.ParseFromString(message)) return found;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() != number || field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    found.push_back(field.length_delimited());
  }
  return found;
}

std::chrono::steady_clock::time_point After(absl::Duration duration) {
  const auto now = std::chrono::steady_clock::now();
  const auto most = std::chrono::steady_clock::time_point::max() - now;
  if (duration >= absl::FromChrono(most)) return std::chrono::steady_clock::time_point::max();
  return now + absl::ToChronoNanoseconds(duration);
}

// For how long a lost endpoint is no request's first one.
constexpr int64_t kLostFor = 5'000;

int64_t SteadyMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What gRPC takes for metadata; it aborts the process for anything else.
bool IsMetadataValue(const std::string& value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace

// google.rpc.Status has details (repeated Any) as field 3, RetryInfo its retry_delay as field 1.
std::optional<absl::Duration> RetryDelay(const grpc::Status& status) {
  for (const std::string& detail : BytesFields(status.error_details(), 3)) {
    google::protobuf::Any any;
    if (!any.ParseFromString(detail)) continue;
    if (!absl::EndsWith(any.type_url(), "/google.rpc.RetryInfo")) continue;
    const std::vector<std::string> delays = BytesFields(any.value(), 1);
    google::protobuf::Duration delay;
    if (delays.empty() || !delay.ParseFromString(delays.front())) continue;
    return std::max(absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos()),
                    absl::ZeroDuration());
  }
  return std::nullopt;
}

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

std::optional<size_t> HomeOf(const Endpoints& endpoints, const v1::GenerateRequest& request) {
  if (endpoints.stubs.size() < 2) return std::nullopt;
  const PromptKeys prompt = KeysOf(request);
  if (prompt.keys.empty()) return std::nullopt;
  size_t home = 0;
  for (size_t i = 1; i < endpoints.names.size(); ++i) {
    const auto rank = [&](size_t endpoint) {
      return RendezvousRank(endpoints.names[endpoint], prompt.keys.front());
    };
    if (rank(i) > rank(home)) home = i;
  }
  if (SteadyMilliseconds() - endpoints.lost_at[home] < kLostFor) return std::nullopt;
  return home;
}

Call::Call(std::shared_ptr<Endpoints> endpoints, const CallOptions& options,
           std::optional<size_t> home)
    : endpoints_(std::move(endpoints)),
      cancellation_(options.cancellation),
      deadline_(After(options.timeout)),
      home_(home) {}

Call::~Call() { Detach(); }

grpc::ClientContext* Call::Attempt() {
  Detach();
  endpoint_ = home_.has_value() ? *std::exchange(home_, std::nullopt) : endpoints_->current.load();
  context_ = std::make_unique<grpc::ClientContext>();
  const std::string& token = endpoints_->options.token;
  if (IsMetadataValue(token)) {
    if (!token.empty()) context_->AddMetadata("authorization", absl::StrCat("Bearer ", token));
  } else {
    context_->TryCancel();  // see TryAgain()
  }
  if (deadline_ != Clock::time_point::max()) {
    // gRPC's deadlines are the wall clock's; at once, it is translated back.
    context_->set_deadline(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(deadline_ - Clock::now()));
  }
  if (cancellation_ == nullptr) return context_.get();
  const std::lock_guard lock(cancellation_->mutex_);
  cancellation_->contexts_.push_back(context_.get());
  if (cancellation_->cancelled_) context_->TryCancel();
  return context_.get();
}

void Call::Detach() {
  if (context_ == nullptr || cancellation_ == nullptr) return;
  const std::lock_guard lock(cancellation_->mutex_);
  std::erase(cancellation_->contexts_, context_.get());
}

v1::GenerationService::Stub& Call::stub() const {
  return *endpoints_->stubs[endpoint_ % endpoints_->stubs.size()];
}

v1::InspectService::Stub& Call::inspect_stub() const {
  return *endpoints_->inspect_stubs[endpoint_ % endpoints_->inspect_stubs.size()];
}

v1::EmbedService::Stub& Call::embed_stub() const {
  return *endpoints_->embed_stubs[endpoint_ % endpoints_->embed_stubs.size()];
}

void Call::Progress() {
  begun_ = true;
  give_up_.reset();
  refused_.reset();
  pause_ = absl::ZeroDuration();
}

bool Call::TryAgain(const grpc::Status& status) {
  status_ = status;
  if (!IsMetadataValue(endpoints_->options.token)) {
    status_ = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                           "the token has a character that is not printable ASCII");
    return false;
  }
  return Lost(status) || Refused(status);
}

bool Call::Lost(const grpc::Status& status) {
  // A call that reaches a server as it shuts down is cancelled by it.
  const bool is_cancelled_there = status.error_code() == grpc::StatusCode::CANCELLED &&
                                  (cancellation_ == nullptr || !cancellation_->cancelled());
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE && !is_cancelled_there) return false;
  endpoints_->lost_at[endpoint_ % endpoints_->stubs.size()] = SteadyMilliseconds();
  // Unless another call has moved on already.
  endpoints_->current.compare_exchange_strong(endpoint_, endpoint_ + 1);
  // Counted from the first failure: a server may have kept the call for long before it was lost.
  if (!give_up_.has_value()) {
    give_up_ =
        After(begun_ ? endpoints_->options.resume_timeout : endpoints_->options.connect_timeout);
  }
  if (Clock::now() >= *give_up_) return false;
  // Every endpoint is tried at once, before those that were lost are tried again.
  const bool another = endpoints_->stubs.size() > 1 && pause_ == absl::ZeroDuration();
  pause_ = std::clamp(pause_ * 1.6, kFirstPause, kLongestPause);
  return another || Pause(pause_);
}

bool Call::Refused(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return false;
  const std::optional<absl::Duration> delay = RetryDelay(status);
  if (!delay.has_value()) return false;
  if (!refused_.has_value()) refused_ = After(endpoints_->options.refused_timeout);
  if (Clock::now() + absl::ToChronoNanoseconds(*delay) >= *refused_) return false;
  return Pause(std::max(*delay, kFirstPause));
}

bool Call::Pause(absl::Duration time) {
  if (Clock::now() + absl::ToChronoNanoseconds(time) >= deadline_) return false;
  if (cancellation_ == nullptr) {
    absl::SleepFor(time);
    return true;
  }
  std::unique_lock lock(cancellation_->mutex_);
  if (!cancellation_->changed_.wait_until(lock, Clock::now() + absl::ToChronoNanoseconds(time),
                                          [this] { return cancellation_->cancelled_; })) {
    return true;
  }
  status_ = grpc::Status::CANCELLED;
  return false;
}

void Cancellation::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
}

bool Cancellation::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

}  // namespace sluice::client
