#include "orchestrator/api/generation_session.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "orchestrator/api/refusal.h"
#include "orchestrator/api/request_check.h"
#include "services/common/status.h"
#include "services/messages/raw_message.h"
#include "services/messages/retry_info.h"
#include "services/streams/sent_bytes.h"

namespace sluice {
namespace {

// When a call that found the session full may come again.
constexpr absl::Duration kRetryDelay = absl::Seconds(1);

}  // namespace

class GenerationSession::Call final : public CallStream {
 public:
  Call(std::shared_ptr<GenerationSession> session, int64_t number)
      : session_(std::move(session)), number_(number) {}

  void Watch(Watcher watcher) override { session_->Watch(number_, std::move(watcher)); }
  void Send(v1::GenerateResponse response) override {
    session_->Send(number_, std::move(response));
  }
  void Close(const absl::Status& status) override { session_->Close(number_, status); }

 private:
  const std::shared_ptr<GenerationSession> session_;
  const int64_t number_;
};

std::shared_ptr<GenerationSession> GenerationSession::Start(StartCall start_call,
                                                            OnMessage on_message) {
  auto session = std::shared_ptr<GenerationSession>(
      new GenerationSession(std::move(start_call), std::move(on_message)));
  session->self_ = session;
  session->StartRead(&session->incoming_);
  return session;
}

// ---- What the client sends ----

void GenerationSession::OnReadDone(bool ok) {
  if (!ok) {
    absl::MutexLock lock(&mutex_);
    requests_ended_ = true;
    return FinishWhenDone();
  }
  if (on_message_ != nullptr) on_message_(incoming_.Length());
  const absl::Status handled = HandleAll(incoming_);
  incoming_.Clear();
  if (!handled.ok()) End(handled);
  absl::MutexLock lock(&mutex_);
  if (finished_) return;
  read_is_due_ = full_;  // who does not read is not read either
  if (!read_is_due_) StartRead(&incoming_);
}

absl::Status GenerationSession::HandleAll(const grpc::ByteBuffer& message) {
  const auto request = ParseMessage<v1::OpenSessionRequest>(message);
  if (!request.ok()) return request.status();
  absl::Status status = CheckKnownFields(*request);
  if (!status.ok()) return status;
  if (request->commands_size() < 1 || request->commands_size() > kMostCommands) {
    return Refuse("the number of commands", request->commands_size(),
                  absl::StrCat("1 to ", kMostCommands));
  }
  for (int i = 0; i < request->commands_size() && status.ok(); ++i) {
    status = Handle(request->commands(i));
  }
  return status;
}

absl::Status GenerationSession::Handle(const v1::SessionCommand& command) {
  switch (command.command_case()) {
    case v1::SessionCommand::kStart:
      return Begin(command.call(), command.start());
    case v1::SessionCommand::kCancel:
      Cancel(command.call());
      return absl::OkStatus();
    case v1::SessionCommand::kSetReading:
      SetReading(command.call(), command.set_reading().reading());
      return absl::OkStatus();
    case v1::SessionCommand::COMMAND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a command of the session is empty");
}

absl::Status GenerationSession::Begin(int64_t call, const v1::StartCall& start) {
  if (call <= last_call_) {
    return absl::InvalidArgumentError(absl::StrCat("call ", call, " begins behind call ",
                                                   last_call_, "; accepted: a larger one"));
  }
  last_call_ = call;
  absl::Status room;
  {
    absl::MutexLock lock(&mutex_);
    if (final_status_.has_value()) return absl::OkStatus();
    room = RoomForCall();
    clients_[call] = {};
  }
  if (room.ok() && start.has_timeout_ms() && start.timeout_ms() < 1) {
    room = absl::InvalidArgumentError(
        absl::StrCat("timeout_ms is ", start.timeout_ms(), "; accepted: 1 or more"));
  }
  if (room.ok()) {
    start_call_(start, std::make_shared<Call>(shared_from_this(), call));
  } else {
    Close(call, room);
  }
  return absl::OkStatus();
}

absl::Status GenerationSession::RoomForCall() const {
  if (draining_) return absl::UnavailableError("the server is shutting down");
  if (clients_.size() < kMostCalls) return absl::OkStatus();
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat("the session has ", kMostCalls, " calls already")),
      kRetryDelay);
}

void GenerationSession::Cancel(int64_t call) {
  Clients::node_type left;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    left = clients_.extract(call);
  }
  if (!left.empty() && left.mapped().watcher.on_cancel) left.mapped().watcher.on_cancel();
  absl::MutexLock lock(&mutex_);
  FinishWhenDone();
}

void GenerationSession::SetReading(int64_t call, bool reads) {
  absl::MutexLock lock(&mutex_);
  const auto client = clients_.find(call);
  if (client == clients_.end() || std::exchange(client->second.reads, reads) == reads) return;
  if (!full_ && client->second.watcher.on_reading) client->second.watcher.on_reading(reads);
}

// ---- What the calls send ----

void GenerationSession::Watch(int64_t call, CallStream::Watcher watcher) {
  {
    absl::MutexLock lock(&mutex_);
    const auto client = clients_.find(call);
    if (client != clients_.end()) {
      client->second.watcher = std::move(watcher);
      if (full_) client->second.watcher.on_reading(false);
      return;
    }
  }
  watcher.on_cancel();
}

void GenerationSession::Send(int64_t call, v1::GenerateResponse response) {
  absl::MutexLock lock(&mutex_);
  if (clients_.count(call) == 0) return;
  v1::SessionEvent event;
  event.set_call(call);
  *event.mutable_response() = std::move(response);
  Add(std::move(event));
}

void GenerationSession::Close(int64_t call, const absl::Status& status) {
  Clients::node_type ended;  // destroyed without the lock, and with it perhaps the call
  absl::MutexLock lock(&mutex_);
  ended = clients_.extract(call);
  if (ended.empty()) return;
  v1::SessionEvent event;
  event.set_call(call);
  const grpc::Status end = ToGrpc(status);
  event.mutable_end()->set_code(end.error_code());
  event.mutable_end()->set_message(end.error_message());
  event.mutable_end()->set_details(end.error_details());
  Add(std::move(event));
}

void GenerationSession::Add(v1::SessionEvent event) {
  waiting_bytes_ += event.ByteSizeLong();
  *waiting_.add_events() = std::move(event);
  if (!writing_) WriteNext();
  TellBacklog();
}

void GenerationSession::WriteNext() {
  writing_ = true;
  written_ = SerializeMessage(waiting_);
  waiting_.Clear();
  written_bytes_ = std::exchange(waiting_bytes_, 0);
  StartWrite(&written_);
}

void GenerationSession::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  static std::atomic<uint64_t>& sent =
      SentBytesCounter(v1::OpenSessionResponse::descriptor()->name());
  if (ok) sent += written_.Length();
  writing_ = false;
  written_bytes_ = 0;
  if (ok && (waiting_.events_size() > 0 || waiting_.draining())) WriteNext();
  TellBacklog();
  FinishWhenDone();
}

void GenerationSession::TellBacklog() {
  const size_t backlog = waiting_bytes_ + written_bytes_;
  if (full_ ? backlog > kMostUnreadBytes / 2 : backlog <= kMostUnreadBytes) return;
  full_ = !full_;
  for (const auto& [call, client] : clients_) {
    if (client.reads && client.watcher.on_reading) client.watcher.on_reading(!full_);
  }
  if (!full_ && std::exchange(read_is_due_, false)) StartRead(&incoming_);
}

// ---- The end ----

void GenerationSession::Drain() {
  absl::MutexLock lock(&mutex_);
  if (finished_ || std::exchange(draining_, true)) return;
  waiting_.set_draining(true);
  if (!writing_) WriteNext();
}

void GenerationSession::OnCancel() { End(absl::CancelledError("the caller left")); }

void GenerationSession::End(const absl::Status& status) {
  Clients left;
  {
    absl::MutexLock lock(&mutex_);
    if (!final_status_.has_value()) final_status_ = status;
    left.swap(clients_);
  }
  for (const auto& [call, client] : left) {
    if (client.watcher.on_cancel) client.watcher.on_cancel();
  }
  absl::MutexLock lock(&mutex_);
  FinishWhenDone();
}

void GenerationSession::FinishWhenDone() {
  if (writing_ || finished_) return;
  const bool is_over = (requests_ended_ || draining_) && clients_.empty();
  if (!final_status_.has_value() && !is_over) return;
  finished_ = true;
  Finish(ToGrpc(final_status_.value_or(absl::OkStatus())));
}

void GenerationSession::OnDone() {
  const std::shared_ptr<GenerationSession> self = std::move(self_);  // destroyed last
  End(absl::CancelledError("the session is over"));
}

}  // namespace sluice
