#include "services/gateway/backend/session.h"

#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "services/common/status.h"

namespace sluice::gateway {
namespace {

// Of a message, whose limits are in generation_session.proto: what has gathered while the other end
// did not read goes in several. Bytes: less than these and one command more, which --max_body_mib
// bounds.
constexpr int kMostCommands = 1024;
constexpr size_t kEnoughBytes = size_t{4} << 20;

absl::Status StatusOf(const v1::CallEnd& end) {
  return FromGrpc(
      grpc::Status(static_cast<grpc::StatusCode>(end.code()), end.message(), end.details()));
}

}  // namespace

// Kept alive by gRPC until it is done. Tells its session, on the loop, while there is one.
class Session::Stream final
    : public grpc::ClientBidiReactor<v1::OpenSessionRequest, v1::OpenSessionResponse>,
      public std::enable_shared_from_this<Stream> {
 public:
  Stream(Backend& backend, http::Loop& loop, std::weak_ptr<Session> session)
      : backend_(backend), loop_(loop), session_(std::move(session)) {}

  // False where no call may begin any more.
  bool Start(Stub& stub) {
    if (!backend_.CallBegins(&context_)) return false;
    self_ = shared_from_this();
    stub.async()->OpenSession(&context_, this);
    AddHold();  // reads and writes start from the loop
    {
      absl::MutexLock lock(&mutex_);
      closed_ = false;
    }
    StartRead(&incoming_);
    StartCall();
    return true;
  }

  // What is sent while a message is being written goes with the next one.
  void Send(v1::SessionCommand command) {
    absl::MutexLock lock(&mutex_);
    if (closed_) return;
    *waiting_.add_commands() = std::move(command);
    if (!writing_) WriteNext();
  }

  void Cancel() {
    context_.TryCancel();
    Close();
  }

 private:
  void Close() {
    absl::MutexLock lock(&mutex_);
    if (!std::exchange(closed_, true)) RemoveHold();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Close();
    loop_.Post([self = shared_from_this()] { self->Handle(); });
  }

  void Handle() {
    const std::shared_ptr<Session> session = session_.lock();
    if (session == nullptr) return Cancel();
    session->OnMessage(incoming_);
    absl::MutexLock lock(&mutex_);
    if (!closed_) StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (ok && !closed_ && waiting_.commands_size() > 0) WriteNext();
  }

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = true;
    written_.Clear();
    auto& commands = *waiting_.mutable_commands();
    size_t bytes = 0;
    int count = 0;
    for (; count < std::min(commands.size(), kMostCommands) && bytes < kEnoughBytes; ++count) {
      bytes += commands[count].ByteSizeLong();
      written_.add_commands()->Swap(&commands[count]);
    }
    commands.DeleteSubrange(0, count);
    StartWrite(&written_);
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Stream> self = std::move(self_);
    loop_.Post([self, status = FromGrpc(status)] {
      if (const auto session = self->session_.lock()) session->OnSessionEnd(status);
    });
    backend_.CallEnds(&context_);
  }

  Backend& backend_;
  http::Loop& loop_;
  const std::weak_ptr<Session> session_;
  grpc::ClientContext context_;
  v1::OpenSessionResponse incoming_;  // the loop's, between two reads
  std::shared_ptr<Stream> self_;

  absl::Mutex mutex_;
  v1::OpenSessionRequest waiting_ ABSL_GUARDED_BY(mutex_);
  v1::OpenSessionRequest written_ ABSL_GUARDED_BY(mutex_);  // in gRPC's hands
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = true;  // nothing may start from outside
};

// What a generation holds of its call.
class Session::Member final : public Call {
 public:
  Member(std::shared_ptr<Session> session, int64_t number)
      : session_(std::move(session)), number_(number) {}

  void SetReading(bool reading) override {
    if (session_->calls_.count(number_) == 0) return;
    v1::SessionCommand command;
    command.set_call(number_);
    command.mutable_set_reading()->set_reading(reading);
    session_->Send(std::move(command));
  }

  void Cancel() override {
    if (session_->calls_.erase(number_) == 0) return;
    v1::SessionCommand command;
    command.set_call(number_);
    command.mutable_cancel();
    session_->Send(std::move(command));
  }

 private:
  const std::shared_ptr<Session> session_;
  const int64_t number_;
};

std::shared_ptr<Session> Session::Open(Backend& backend, Stub& stub, http::Loop& loop,
                                       std::function<void()> on_unknown) {
  auto session = std::shared_ptr<Session>(new Session());
  session->on_unknown_ = std::move(on_unknown);
  session->stream_ = std::make_shared<Stream>(backend, loop, session);
  session->over_ = !session->stream_->Start(stub);
  return session;
}

Session::~Session() { stream_->Cancel(); }

std::shared_ptr<Call> Session::Start(const Caller& caller, const v1::GenerateRequest& request,
                                     std::weak_ptr<CallListener> listener) {
  const int64_t number = ++last_call_;
  calls_.emplace(number, std::move(listener));
  v1::SessionCommand command;
  command.set_call(number);
  v1::StartCall& start = *command.mutable_start();
  request.SerializeToString(start.mutable_request());
  start.set_authorization(caller.authorization);
  start.set_sluice_tenant(caller.tenant);
  if (caller.trace.has_value()) {
    start.set_traceparent(caller.trace->ToTraceParent());
    start.set_tracestate(caller.trace->state);
  }
  Send(std::move(command));
  return std::make_shared<Member>(shared_from_this(), number);
}

void Session::Send(v1::SessionCommand command) { stream_->Send(std::move(command)); }

void Session::OnMessage(const v1::OpenSessionResponse& message) {
  draining_ = draining_ || message.draining();
  for (const v1::SessionEvent& event : message.events()) {
    const auto call = calls_.find(event.call());
    if (call == calls_.end()) continue;  // cancelled meanwhile
    const std::shared_ptr<CallListener> listener = call->second.lock();
    if (event.has_end()) calls_.erase(call);
    if (listener == nullptr) continue;
    if (event.has_end()) {
      listener->OnEnd(StatusOf(event.end()));
    } else {
      listener->OnEvent(event.response());
    }
  }
}

void Session::OnSessionEnd(const absl::Status& status) {
  over_ = true;
  // An orchestrator of before sessions has nobody who may call what it does not know.
  const bool unknown = absl::IsUnimplemented(status) || absl::IsPermissionDenied(status);
  if (unknown) on_unknown_();
  absl::Status lost = status;
  if (status.ok() || unknown) {
    lost = absl::UnavailableError(absl::StrCat("the session ended: ", status.message()));
  }
  const auto calls = std::exchange(calls_, {});
  for (const auto& [number, weak] : calls) {
    if (const std::shared_ptr<CallListener> listener = weak.lock()) listener->OnEnd(lost);
  }
}

}  // namespace sluice::gateway
