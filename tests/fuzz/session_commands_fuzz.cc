// What a client sends in a session, message by message, from arbitrary bytes: two that say how long
// the next message is, the message, and so on. Whatever they are, the session ends with a status of
// its contract once its calls have ended, and no call outlives it.
#include <google/protobuf/stubs/logging.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "kernels/check.h"
#include "orchestrator/api/generation_session.h"
#include "orchestrator/api/request_check.h"
#include "services/common/client_stream.h"
#include "services/common/raw_message.h"
#include "services/common/server.h"
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
  void Begin(const sluice::v1::StartCall& start, std::shared_ptr<sluice::CallStream> stream) {
    static const sluice::ModelDescription model = {.vocabulary_size = 4096, .max_positions = 512};
    stream->Watch({.on_cancel = [] {}, .on_reading = [](bool) {}});
    const grpc::Slice bytes(start.request());
    const auto request = sluice::ParseMessage<sluice::v1::GenerateRequest>(Bytes(&bytes, 1));
    const absl::Status status =
        request.ok() ? sluice::CheckGenerate(*request, model) : request.status();
    if (!status.ok()) return stream->Close(status);
    stream->Send({});
    absl::ReleasableMutexLock lock(&mutex_);
    if (!ending_) return open_.push_back(std::move(stream));
    lock.Release();
    stream->Close(absl::OkStatus());
  }

  absl::Mutex mutex_;
  bool ending_ = false;
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer silencer;  // a line for every text that is not UTF-8
  static auto& service = *new Service;
  static auto& server =
      *sluice::Server::Start({.address = "inproc:session", .services = {&service}})->release();
  static grpc::GenericStub stub(server.grpc_server()->InProcessChannel(grpc::ChannelArguments()));
  service.KeepCalls();
  absl::Notification over;
  absl::Status end;
  const auto stream = sluice::ClientStream<Bytes, Bytes>::Start(
      [](auto* context, auto* reactor) {
        stub.PrepareBidiStreamingCall(context, kMethod, grpc::StubOptions(), reactor);
      },
      {.on_response = [](const Bytes&) {},
       .on_done =
           [&](const absl::Status& status) {
             end = status;
             over.Notify();
           }});
  for (Bytes& message : MessagesIn(data, size)) stream->Send(std::move(message));
  stream->HalfClose();
  service.EndCalls();
  over.WaitForNotification();
  service.AwaitEnd();
  SLUICE_CHECK(end.ok() || absl::IsInvalidArgument(end) || absl::IsResourceExhausted(end));
  return 0;
}
