#include "clients/cli/client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cli/in_process.h"
#include "clients/cli/wait_notice.h"
#include "services/common/connection_cause.h"
#include "services/common/status.h"
#include "services/common/steady_time.h"
#include "sluice/v1/generation.grpc.pb.h"

namespace sluice {
namespace {

// What a server that is up answers at once.
constexpr absl::Duration kQuickCall = absl::Seconds(10);
// How long a call may go without an answer before the user is told why.
constexpr absl::Duration kPatience = absl::Seconds(2);
// How long one endpoint is waited for before another is tried.
constexpr absl::Duration kConnectPatience = absl::Milliseconds(100);

// Cancels the calls given it when the interrupt is requested.
class InterruptibleCall {
 public:
  InterruptibleCall(absl::Duration timeout, Interrupt& interrupt)
      : timeout_(timeout), handler_(interrupt, [this] { cancellation_.Cancel(); }) {}

  client::CallOptions options() { return {.timeout = timeout_, .cancellation = &cancellation_}; }

 private:
  const absl::Duration timeout_;
  client::Cancellation cancellation_;
  const Interrupt::Handler handler_;
};

// What keeps a pipeline from serving; nothing where it serves.
std::optional<std::string> CauseIn(const v1::GetStatusResponse& status) {
  if (status.serving()) return std::nullopt;
  for (const v1::ProcessStatus& process : status.processes()) {
    if (process.state() == v1::PROCESS_STATE_READY) continue;
    const std::string at = process.address().empty() ? "" : " at " + process.address();
    return absl::StrCat("the pipeline is not ready: ", process.service(), at, ": ",
                        process.detail());
  }
  return "the pipeline is not ready";
}

constexpr char kNobodyListens[] = "Connection refused";
constexpr char kNoSocket[] = "No such file or directory";  // of a unix socket's path

// How a call ends that does not wait for a connection.
grpc::Status CallAtOnce(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
  v1::GetModelResponse response;
  const auto stub = v1::GenerationService::NewStub(channel);
  return stub->GetModel(&context, v1::GetModelRequest(), &response);
}

bool SaysThatNothingListens(const grpc::Status& status) {
  const std::string cause = ConnectionCause(status.error_message());
  return cause == kNobodyListens || cause == kNoSocket;
}

// An address of a family that this host does not use, such as localhost's ::1 without IPv6.
bool IsOfUnusedFamily(const grpc::Status& status) {
  const std::string cause = ConnectionCause(status.error_message());
  return cause == "Cannot assign requested address" || cause == "Network is unreachable" ||
         cause == "Address family not supported by protocol";
}

bool IsRefused(const std::shared_ptr<grpc::Channel>& channel) {
  if (channel->GetState(/*try_to_connect=*/true) != GRPC_CHANNEL_TRANSIENT_FAILURE) return false;
  const grpc::Status status = CallAtOnce(channel);
  return SaysThatNothingListens(status) || IsOfUnusedFamily(status);
}

bool IsSilent(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

// Whatever it answered: that the call shows no token is no matter of whether it can be reached.
bool Answered(const grpc::Status& status) {
  return status.error_code() != grpc::StatusCode::UNAVAILABLE && !IsSilent(status);
}

// Calls every address and returns the most informative status: an answer before a connection that
// failed after it was made, such as in the TLS handshake, before a time-out, before a refusal.
grpc::Status MostTelling(const std::vector<std::shared_ptr<grpc::Channel>>& addresses) {
  const auto rank = [](const grpc::Status& status) {
    if (Answered(status)) return 3;
    if (IsSilent(status)) return 1;
    return SaysThatNothingListens(status) || IsOfUnusedFamily(status) ? 0 : 2;
  };
  grpc::Status most(grpc::StatusCode::UNAVAILABLE, kNobodyListens);
  for (const auto& channel : addresses) {
    const grpc::Status status = CallAtOnce(channel);
    if (rank(status) > rank(most)) most = status;
  }
  return most;
}

// A cause that has one remedy most of the time, with that.
std::string Advised(const std::string& cause) {
  if (cause == kNobodyListens || cause == kNoSocket) {
    return absl::StrCat(cause, ": nothing listens there; `sluice up` starts a pipeline");
  }
  if (cause == "Socket closed") {
    return absl::StrCat(
        cause, ": where it speaks TLS, name its authority (--tls_ca), and where it asks for ",
        "a certificate yours (--tls_cert)");
  }
  return cause;
}

}  // namespace

struct Client::Impl {
  // The pipeline outlives the channels into it.
  std::unique_ptr<InProcessPipeline> pipeline;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  client::Client api;
  std::unique_ptr<WaitNotice> notice = nullptr;  // ends before the client it asks through

  // The status of a call, saying where it went where the connection is at fault.
  static absl::Status Translate(const absl::Status& status, const std::string& name) {
    const bool lost = absl::IsUnavailable(status) && !name.empty();
    return lost ? Annotate(status, name) : status;
  }
};

Client::Client(std::string name, std::vector<std::shared_ptr<grpc::Channel>> channels,
               Interrupt& interrupt, client::ClientOptions options)
    : name_(std::move(name)),
      impl_(new Impl{.pipeline = nullptr,
                     .channels = channels,
                     .api = client::Client(std::move(channels), std::move(options))}),
      interrupt_(interrupt) {}

Client::Client(std::unique_ptr<InProcessPipeline> pipeline, Interrupt& interrupt)
    : impl_([&pipeline] {
        // What is lost with this process nobody brings back.
        const client::ClientOptions options = {.connect_timeout = absl::ZeroDuration(),
                                               .resume_timeout = absl::ZeroDuration()};
        const std::vector<std::shared_ptr<grpc::Channel>> channels = {pipeline->channel()};
        return new Impl{.pipeline = std::move(pipeline),
                        .channels = channels,
                        .api = client::Client(channels, options)};
      }()),
      interrupt_(interrupt) {}

Client::~Client() = default;

const std::vector<std::shared_ptr<grpc::Channel>>& Client::channels() const {
  return impl_->channels;
}

void Client::SayWhatCallsWaitFor(std::function<void(const std::string&)> say) {
  const auto cause = [this]() -> std::optional<std::string> {
    const absl::StatusOr<v1::GetStatusResponse> status =
        impl_->api.GetStatus({}, {.timeout = absl::Seconds(1)});
    return status.ok() ? CauseIn(*status) : std::nullopt;
  };
  impl_->notice = std::make_unique<WaitNotice>(cause, std::move(say), kPatience);
}

absl::Status Client::WaitUntilReachable(absl::Duration timeout, const DialEach& dial_each,
                                        const std::function<void(const std::string&)>& say) {
  const SteadyTime deadline = SteadyTime::Now() + timeout;
  std::vector<std::shared_ptr<grpc::Channel>> addresses;
  bool told = false;
  do {
    for (const auto& channel : impl_->channels) {
      if (channel->WaitForConnected(absl::ToChronoTime(absl::Now() + kConnectPatience))) {
        return absl::OkStatus();
      }
    }
    if (addresses.empty()) addresses = dial_each();
    if (!told && std::all_of(addresses.begin(), addresses.end(), IsRefused)) {
      told = true;
      say(absl::StrCat("nothing listens at ", name_, "; start one with `sluice up` (waiting ",
                       absl::FormatDuration(timeout), " for it)"));
    }
  } while (SteadyTime::Now() < deadline && !interrupt_.requested());
  const grpc::Status status = MostTelling(addresses);
  if (Answered(status)) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "cannot reach ", name_, ": ",
      IsSilent(status) ? absl::StrCat("no answer within ", absl::FormatDuration(timeout))
                       : Advised(ConnectionCause(status.error_message()))));
}

absl::Status Client::Generate(const v1::GenerateRequest& request, absl::Duration timeout,
                              const std::function<void(const v1::GenerateResponse&)>& on_event) {
  InterruptibleCall call(timeout, interrupt_);
  WaitNotice::Call waiting(impl_->notice.get());
  client::Generation generation = impl_->api.Generate(request, call.options());
  while (const std::optional<v1::GenerateResponse> event = generation.Next()) {
    waiting.Answered();
    on_event(*event);
  }
  return Impl::Translate(generation.status(), name_);
}

template <class Response>
absl::StatusOr<Response> Client::Translate(absl::StatusOr<Response> response) const {
  if (response.ok()) return response;
  return Impl::Translate(response.status(), name_);
}

absl::StatusOr<v1::ScoreResponse> Client::Score(const v1::ScoreRequest& request,
                                                absl::Duration timeout) {
  InterruptibleCall call(timeout, interrupt_);
  const WaitNotice::Call waiting(impl_->notice.get());
  return Translate(impl_->api.Score(request, call.options()));
}

absl::StatusOr<v1::InspectResponse> Client::Inspect(const v1::InspectRequest& request,
                                                    absl::Duration timeout) {
  InterruptibleCall call(timeout, interrupt_);
  const WaitNotice::Call waiting(impl_->notice.get());
  return Translate(impl_->api.Inspect(request, call.options()));
}

absl::StatusOr<v1::EmbedResponse> Client::Embed(const v1::EmbedRequest& request,
                                                absl::Duration timeout) {
  InterruptibleCall call(timeout, interrupt_);
  const WaitNotice::Call waiting(impl_->notice.get());
  return Translate(impl_->api.Embed(request, call.options()));
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const v1::TokenizeRequest& request,
                                                      absl::Duration timeout) {
  InterruptibleCall call(timeout, interrupt_);
  const WaitNotice::Call waiting(impl_->notice.get());
  return Translate(impl_->api.Tokenize(request, call.options()));
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(const v1::DetokenizeRequest& request,
                                                          absl::Duration timeout) {
  InterruptibleCall call(timeout, interrupt_);
  const WaitNotice::Call waiting(impl_->notice.get());
  return Translate(impl_->api.Detokenize(request, call.options()));
}

absl::StatusOr<v1::GetModelResponse> Client::GetModel() {
  InterruptibleCall call(kQuickCall, interrupt_);
  const WaitNotice::Call waiting(impl_->notice.get());
  return Translate(impl_->api.GetModel(call.options()));
}

absl::StatusOr<std::vector<std::string>> Client::GetTokenTexts() {
  std::vector<std::string> texts;
  v1::GetVocabularyRequest request;
  while (true) {
    InterruptibleCall call(kQuickCall, interrupt_);
    const WaitNotice::Call waiting(impl_->notice.get());
    absl::StatusOr<v1::GetVocabularyResponse> page =
        Translate(impl_->api.GetVocabulary(request, call.options()));
    if (!page.ok()) return page.status();
    for (v1::VocabularyEntry& entry : *page->mutable_entries()) {
      if (entry.token_id() < 0) continue;
      const auto id = static_cast<size_t>(entry.token_id());
      if (id >= texts.size()) texts.resize(id + 1);
      texts[id] = std::move(*entry.mutable_text());
    }
    // Pages only go up, whatever a server says.
    if (page->next_token_id() <= request.first_token_id()) return texts;
    request.set_first_token_id(page->next_token_id());
  }
}

absl::StatusOr<v1::GetStatusResponse> Client::GetStatus(const v1::GetStatusRequest& request) {
  InterruptibleCall call(kQuickCall, interrupt_);
  return Translate(impl_->api.GetStatus(request, call.options()));
}

}  // namespace sluice
