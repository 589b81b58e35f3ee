// What a client sends in a session, from arbitrary bytes. Where the first is even they are
// messages: two bytes that say how long the next is, the message, and so on. Where it is odd each
// of the others is a command, valid more often than not, so that calls begin, end, are cancelled
// and stop reading in every order. Whatever they are, the session ends with a status of its
// contract once its calls have ended, no call outlives it, events are of calls that have begun and
// have not ended, and where the session ends with OK every call has its end.
#include <google/protobuf/stubs/logging.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "kernels/check.h"
#include "orchestrator/api/generation_session.h"
#include "orchestrator/api/request_check.h"
#include "services/messages/raw_message.h"
#include "services/rpc/server.h"
#include "services/streams/client_stream.h"
#include "sluice/v1/generation_session.grpc.pb.h"

namespace {

using Bytes = grpc::ByteBuffer;

constexpr char kMethod[] = "/sluice.v1.GenerationSessionService/OpenSession";
constexpr size_t kMostMessages = 16;

// Answers a request that may be served with one event, others with the reason, and ends the former
// when it is told to.
class Service final
    : public sluice::v1::GenerationSessionService::WithRawCallbackMethod_OpenSession<
          sluice::v1::GenerationSessionService::Service> {
 public:
  grpc::ServerBidiReactor<Bytes, Bytes>* OpenSession(grpc::CallbackServerContext*) override {
    const auto session = sluice::GenerationSession::Start(
        [this](const auto& start, auto stream) { Begin(start, std::move(stream)); });
    absl::MutexLock lock(&mutex_);
    session_ = session;
    return session.get();
  }

  // Calls stay open from now on.
  void KeepCalls() {
    absl::MutexLock lock(&mutex_);
    ending_ = false;
    drained_ = false;
  }
  // Whether the session was drained: what it was sent after that may be lost.
  bool drained() {
    absl::MutexLock lock(&mutex_);
    return drained_;
  }

  // The calls that are open end, and those that begin from now on at once.
  void EndCalls() {
    std::vector<std::shared_ptr<sluice::CallStream>> open;
    {
      absl::MutexLock lock(&mutex_);
      ending_ = true;
      open.swap(open_);
    }
    for (const auto& stream : open) stream->Close(absl::OkStatus());
  }

  // Waits for gRPC to let go of the last session.
  void AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    const auto gone = [this] { return session_.expired(); };
    while (!gone()) mutex_.AwaitWithTimeout(absl::Condition(&gone), absl::Milliseconds(1));
  }

 private:
  // One event, or many of what the call's tenant says in units of 16 KiB; the first letter 'd'
  // drains the session.
  void SendAll(const sluice::v1::StartCall& start, sluice::CallStream& stream) {
    const uint8_t size = start.sluice_tenant().empty() ? 0 : start.sluice_tenant()[0];
    sluice::v1::GenerateResponse response;
    response.mutable_chunk()->set_text(std::string(size * 16384, 'x'));
    stream.Send(std::move(response));
    if (size != 'd') return;
    absl::ReleasableMutexLock lock(&mutex_);
    const auto session = session_.lock();
    drained_ = true;
    lock.Release();
    if (session != nullptr) session->Drain();
  }

  void Begin(const sluice::v1::StartCall& start, std::shared_ptr<sluice::CallStream> stream) {
    static const sluice::ModelDescription model = {.vocabulary_size = 4096, .max_positions = 512};
    stream->Watch({.on_cancel = [] {}, .on_reading = [](bool) {}});
    const grpc::Slice bytes(start.request());
    const auto request = sluice::ParseMessage<sluice::v1::GenerateRequest>(Bytes(&bytes, 1));
    const absl::Status status =
        request.ok() ? sluice::CheckGenerate(*request, model) : request.status();
    if (!status.ok()) return stream->Close(status);
    SendAll(start, *stream);
    absl::ReleasableMutexLock lock(&mutex_);
    if (!ending_) return open_.push_back(std::move(stream));
    lock.Release();
    stream->Close(absl::OkStatus());
  }

  absl::Mutex mutex_;
  bool ending_ = false;
  bool drained_ = false;
  std::weak_ptr<sluice::GenerationSession> session_;
  std::vector<std::shared_ptr<sluice::CallStream>> open_;
};

std::vector<Bytes> MessagesIn(const uint8_t* data, size_t size) {
  std::vector<Bytes> messages;
  while (size >= 2 && messages.size() < kMostMessages) {
    const size_t length = std::min<size_t>(data[0] + 256 * data[1], size - 2);
    const grpc::Slice slice(data + 2, length);
    messages.emplace_back(&slice, 1);
    data += 2 + length;
    size -= 2 + length;
  }
  return messages;
}

using sluice::v1::OpenSessionRequest;
using sluice::v1::OpenSessionResponse;
using sluice::v1::SessionCommand;

void AddStart(uint8_t how, SessionCommand& command) {
  sluice::v1::StartCall& start = *command.mutable_start();
  sluice::v1::GenerateRequest request;
  request.mutable_token_ids()->add_token_ids(how % 4 == 1 ? -1 : 1);
  start.set_request(how % 4 == 2 ? "no request" : request.SerializeAsString());
  if (how % 4 == 3) start.set_timeout_ms(how / 4 % 3 - 1);
  if (how >= 64) start.set_sluice_tenant(std::string(1, static_cast<char>(how - 64)));
}

// A command for each byte, about the newest call or one before it.
std::vector<Bytes> MessagesOf(const uint8_t* data, size_t size) {
  std::vector<Bytes> messages;
  OpenSessionRequest request;
  int64_t newest = 0;
  const auto end_message = [&] {
    const std::string text = std::exchange(request, {}).SerializeAsString();
    const grpc::Slice slice(text);
    messages.emplace_back(&slice, 1);
  };
  for (size_t i = 0; i < std::min<size_t>(size, 64); ++i) {
    const uint8_t byte = data[i];
    SessionCommand& command = *request.add_commands();
    command.set_call(newest - byte / 8 % 4);
    switch (byte % 8) {
      case 0:
      case 1:
      case 2:
        command.set_call(newest += 1 + byte / 8 % 4);
        AddStart(i + 1 < size ? data[++i] : 0, command);
        break;
      case 3:
        command.mutable_cancel();
        break;
      case 4:
      case 5:
        command.mutable_set_reading()->set_reading(byte % 8 == 5);
        break;
      case 6:
        end_message();
        break;
      default:
        if (byte >= 0xF0) AddStart(0, command);  // a number that has been
        break;
    }
  }
  end_message();
  return messages;
}

// Holds what comes back against what was sent.
class Checker {
 public:
  explicit Checker(const std::vector<Bytes>& messages) {
    for (const Bytes& message : messages) {
      const auto request = sluice::ParseMessage<OpenSessionRequest>(message);
      if (!request.ok()) continue;
      for (const SessionCommand& command : request->commands()) {
        if (command.has_start()) started_.insert(command.call());
        if (command.has_cancel()) cancelled_.insert(command.call());
      }
    }
  }

  void OnResponse(const Bytes& message) {
    const auto response = sluice::ParseMessage<OpenSessionResponse>(message);
    SLUICE_CHECK(response.ok());
    SLUICE_CHECK(response->events_size() > 0 || response->draining());
    for (const sluice::v1::SessionEvent& event : response->events()) {
      SLUICE_CHECK(started_.contains(event.call()) && !ended_.contains(event.call()));
      if (event.has_end()) ended_.insert(event.call());
    }
  }

  void OnEnd(bool drained) const {
    for (const int64_t call : started_) {
      SLUICE_CHECK(drained || ended_.contains(call) || cancelled_.contains(call));
    }
  }

 private:
  std::set<int64_t> started_;
  std::set<int64_t> cancelled_;
  std::set<int64_t> ended_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer silencer;  // a line for every text that is not UTF-8
  static auto& service = *new Service;
  static auto& server =
      *sluice::Server::Start({.address = "inproc:session", .services = {&service}})->release();
  static grpc::GenericStub stub(server.grpc_server()->InProcessChannel(grpc::ChannelArguments()));
  service.KeepCalls();
  const bool is_structured = size > 0 && data[0] % 2 == 1;
  std::vector<Bytes> messages =
      is_structured ? MessagesOf(data + 1, size - 1) : MessagesIn(data, size);
  Checker checker(messages);
  absl::Notification over;
  absl::Status end;
  const auto stream = sluice::ClientStream<Bytes, Bytes>::Start(
      [](auto* context, auto* reactor) {
        stub.PrepareBidiStreamingCall(context, kMethod, grpc::StubOptions(), reactor);
      },
      {.on_response = [&](const Bytes& message) { checker.OnResponse(message); },
       .on_done =
           [&](const absl::Status& status) {
             end = status;
             over.Notify();
           }});
  for (Bytes& message : messages) stream->Send(std::move(message));
  stream->HalfClose();
  service.EndCalls();
  over.WaitForNotification();
  service.AwaitEnd();
  if (end.ok()) checker.OnEnd(service.drained());
  SLUICE_CHECK(end.ok() || absl::IsInvalidArgument(end) || absl::IsResourceExhausted(end));
  return 0;
}
