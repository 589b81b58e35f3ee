// A Generate call's stream where the call is one of gRPC's own. Thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <utility>

#include "orchestrator/api/call_stream.h"
#include "orchestrator/api/request_reactor.h"
#include "services/messages/raw_message.h"
#include "services/streams/server_writer.h"

namespace sluice {

class WriterStream final : public CallStream {
 public:
  using Writer = ServerWriter<grpc::ByteBuffer, RequestReactor>;

  explicit WriterStream(std::shared_ptr<Writer> writer) : writer_(std::move(writer)) {}

  void Watch(Watcher watcher) override {
    writer_->WatchBacklog(kMostUnreadBytes, [on_reading = std::move(watcher.on_reading)](
                                                bool full) { on_reading(!full); });
    writer_->OnCancelCall(std::move(watcher.on_cancel));
  }
  void Send(v1::GenerateResponse response) override { writer_->Send(SerializeMessage(response)); }
  void Close(const absl::Status& status) override { writer_->Close(status); }

 private:
  const std::shared_ptr<Writer> writer_;
};

}  // namespace sluice
