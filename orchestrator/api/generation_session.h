// One session, the server's end: calls begin as messages of a stream, and what comes of them leaves
// together. What is sent while a message is being written waits for it and goes with the next one, so
// that the more calls a step moves the less each costs. Nothing blocks. Thread-safe.
//
// Lifetime: kept alive by gRPC until the stream is over, by its calls longer.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "orchestrator/api/call_stream.h"
#include "sluice/v1/generation_session.pb.h"

namespace sluice {

class GenerationSession final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                                public std::enable_shared_from_this<GenerationSession> {
 public:
  // Serves a call, which answers to `stream` alone.
  using StartCall =
      std::function<void(const v1::StartCall& start, std::shared_ptr<CallStream> stream)>;

  // Calls at a time.
  static constexpr size_t kMostCalls = 2048;
  // Commands of a message.
  static constexpr int kMostCommands = 4096;

  // Is told the size of each message that is read; may be null.
  using OnMessage = std::function<void(size_t bytes)>;

  // Starts to serve; gRPC keeps it alive from then on.
  static std::shared_ptr<GenerationSession> Start(StartCall start_call,
                                                  OnMessage on_message = nullptr);

  // Takes no more calls, and ends with the last one.
  void Drain();

 private:
  class Call;
  struct Client {
    CallStream::Watcher watcher;
    bool reads = true;  // as it says itself
  };
  using Clients = std::map<int64_t, Client>;

  GenerationSession(StartCall start_call, OnMessage on_message)
      : start_call_(std::move(start_call)), on_message_(std::move(on_message)) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Errors end the session.
  absl::Status HandleAll(const grpc::ByteBuffer& message);
  absl::Status Handle(const v1::SessionCommand& command);
  absl::Status Begin(int64_t call, const v1::StartCall& start);
  void Cancel(int64_t call);
  void SetReading(int64_t call, bool reads);
  // Why no call may begin; OK where one may.
  absl::Status RoomForCall() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Watch(int64_t call, CallStream::Watcher watcher);
  void Send(int64_t call, v1::GenerateResponse response);
  void Close(int64_t call, const absl::Status& status);

  void Add(v1::SessionEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellBacklog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishWhenDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the session, and the calls that are left.
  void End(const absl::Status& status);

  const StartCall start_call_;
  const OnMessage on_message_;
  grpc::ByteBuffer incoming_;                // touched by gRPC's reads, one at a time
  int64_t last_call_ = 0;                    // as incoming_
  std::shared_ptr<GenerationSession> self_;  // cleared when gRPC is done with the stream

  absl::Mutex mutex_;
  Clients clients_ ABSL_GUARDED_BY(mutex_);  // of the calls that have not ended
  v1::OpenSessionResponse waiting_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer written_ ABSL_GUARDED_BY(mutex_);  // in gRPC's hands
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t written_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool full_ ABSL_GUARDED_BY(mutex_) = false;         // more waits than may
  bool read_is_due_ ABSL_GUARDED_BY(mutex_) = false;  // once it is full no more
  bool requests_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice
