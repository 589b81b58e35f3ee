#include "clients/cli/client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cli/in_process.h"
#include "clients/cli/wait_notice.h"
#include "services/common/connection_cause.h"
#include "services/common/status.h"
#include "sluice/v1/generation.grpc.pb.h"

namespace sluice {
namespace {

// What a server that is up answers at once.
constexpr absl::Duration kQuickCall = absl::Seconds(10);
// How long a call may go without an answer before the user is told why.
constexpr absl::Duration kPatience = absl::Seconds(2);

// The context of one call: its deadline, and its end when the interrupt is requested.
class CallContext {
 public:
  CallContext(absl::Duration timeout, Interrupt& interrupt, const std::string& token)
      : cancel_(interrupt, [this] { context_.TryCancel(); }) {
    if (!token.empty()) context_.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    if (timeout < absl::InfiniteDuration()) {
      context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    }
  }

  grpc::ClientContext* get() { return &context_; }

 private:
  grpc::ClientContext context_;
  const Interrupt::Handler cancel_;
};

// What keeps a pipeline from serving; nothing where it serves.
std::optional<std::string> CauseIn(const v1::GetStatusResponse& status) {
  if (status.serving()) return std::nullopt;
  for (const v1::ProcessStatus& process : status.processes()) {
    if (process.state() == v1::PROCESS_STATE_READY) continue;
    return absl::StrCat("the pipeline is not ready: ", process.service(), " at ", process.address(),
                        ": ", process.detail());
  }
  return "the pipeline is not ready";
}

// A cause that has one remedy most of the time, with that.
std::string Advised(const std::string& cause) {
  if (cause != "Connection refused") return cause;
  return absl::StrCat(cause, ": nothing listens there; `sluice up` starts a pipeline");
}

}  // namespace

struct Client::Impl {
  // The pipeline outlives the channel into it.
  std::unique_ptr<InProcessPipeline> pipeline;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::GenerationService::Stub> stub = v1::GenerationService::NewStub(channel);
  std::unique_ptr<WaitNotice> notice = nullptr;  // ends before the stub it asks through

  // The status of a call, saying where it went where the connection is at fault.
  static absl::Status Translate(const grpc::Status& status, const std::string& name) {
    const bool lost = status.error_code() == grpc::StatusCode::UNAVAILABLE && !name.empty();
    return lost ? Annotate(FromGrpc(status), name) : FromGrpc(status);
  }
};

Client::Client(std::string name, std::shared_ptr<grpc::Channel> channel, Interrupt& interrupt,
               std::string token)
    : name_(std::move(name)),
      impl_(new Impl{.pipeline = nullptr, .channel = std::move(channel)}),
      interrupt_(interrupt),
      token_(std::move(token)) {}

Client::Client(std::unique_ptr<InProcessPipeline> pipeline, Interrupt& interrupt)
    : impl_([&pipeline] {
        std::shared_ptr<grpc::Channel> channel = pipeline->channel();
        return new Impl{.pipeline = std::move(pipeline), .channel = std::move(channel)};
      }()),
      interrupt_(interrupt) {}

Client::~Client() = default;

void Client::SayWhatCallsWaitFor(std::function<void(const std::string&)> say) {
  const auto cause = [this]() -> std::optional<std::string> {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
    v1::GetStatusResponse status;
    if (!impl_->stub->GetStatus(&context, v1::GetStatusRequest(), &status).ok()) {
      return std::nullopt;
    }
    return CauseIn(status);
  };
  impl_->notice = std::make_unique<WaitNotice>(cause, std::move(say), kPatience);
}

absl::Status Client::WaitUntilReachable(absl::Duration timeout) {
  const auto deadline = absl::ToChronoTime(absl::Now() + timeout);
  if (impl_->channel->WaitForConnected(deadline)) return absl::OkStatus();
  // A call that does not wait tells why.
  CallContext context(absl::Seconds(1), interrupt_, token_);
  v1::GetModelResponse response;
  const grpc::Status status =
      impl_->stub->GetModel(context.get(), v1::GetModelRequest(), &response);
  if (status.ok()) return absl::OkStatus();
  const bool silent = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  return absl::UnavailableError(
      absl::StrCat("cannot reach ", name_, ": ",
                   silent ? absl::StrCat("no answer within ", absl::FormatDuration(timeout))
                          : Advised(ConnectionCause(status.error_message()))));
}

absl::Status Client::Generate(const v1::GenerateRequest& request, absl::Duration timeout,
                              const std::function<void(const v1::GenerateResponse&)>& on_event) {
  CallContext context(timeout, interrupt_, token_);
  WaitNotice::Call waiting(impl_->notice.get());
  const auto reader = impl_->stub->Generate(context.get(), request);
  v1::GenerateResponse event;
  bool finished = false;
  while (reader->Read(&event)) {
    waiting.Answered();
    finished = finished || event.has_finished();
    on_event(event);
  }
  const absl::Status status = Impl::Translate(reader->Finish(), name_);
  if (status.ok() && !finished) {
    return absl::InternalError("the server ended the stream without its last event");
  }
  return status;
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request,
                                                absl::Duration timeout) {
  CallContext context(timeout, interrupt_, token_);
  const WaitNotice::Call waiting(impl_->notice.get());
  v1::ScoreResponse response;
  const grpc::Status status = impl_->stub->Score(context.get(), request, &response);
  if (!status.ok()) return Impl::Translate(status, name_);
  return response;
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request,
                                                      absl::Duration timeout) {
  CallContext context(timeout, interrupt_, token_);
  const WaitNotice::Call waiting(impl_->notice.get());
  v1::TokenizeResponse response;
  const grpc::Status status = impl_->stub->Tokenize(context.get(), request, &response);
  if (!status.ok()) return Impl::Translate(status, name_);
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(const v1::DetokenizeRequest& request,
                                                          absl::Duration timeout) {
  CallContext context(timeout, interrupt_, token_);
  const WaitNotice::Call waiting(impl_->notice.get());
  v1::DetokenizeResponse response;
  const grpc::Status status = impl_->stub->Detokenize(context.get(), request, &response);
  if (!status.ok()) return Impl::Translate(status, name_);
  return response;
}

absl::StatusOr<v1::GetModelResponse> Client::GetModel() {
  CallContext context(kQuickCall, interrupt_, token_);
  const WaitNotice::Call waiting(impl_->notice.get());
  v1::GetModelResponse response;
  const grpc::Status status =
      impl_->stub->GetModel(context.get(), v1::GetModelRequest(), &response);
  if (!status.ok()) return Impl::Translate(status, name_);
  return response;
}

absl::StatusOr<v1::GetStatusResponse> Client::GetStatus(const v1::GetStatusRequest& request) {
  CallContext context(kQuickCall, interrupt_, token_);
  v1::GetStatusResponse response;
  const grpc::Status status = impl_->stub->GetStatus(context.get(), request, &response);
  if (!status.ok()) return Impl::Translate(status, name_);
  return response;
}

}  // namespace sluice
