// A subscriber of KvEvents as a gRPC stream. What waits for a caller is bounded: one that does not read
// misses events, and its call ends with ABORTED. Thread-safe.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "orchestrator/api/request_reactor.h"
#include "orchestrator/kv_events/kv_event_publisher.h"
#include "services/streams/server_writer.h"
#include "sluice/v1/kv_events.pb.h"

namespace sluice {

class KvEventStream final : public KvSubscriber {
 public:
  using Writer = ServerWriter<grpc::ByteBuffer, RequestReactor>;

  // What may wait besides the snapshot.
  static constexpr size_t kMostUnreadBytes = size_t{8} << 20;

  KvEventStream(std::shared_ptr<Writer> writer, const v1::KvEventsRequest& request,
                size_t most_unread_bytes = kMostUnreadBytes)
      : writer_(std::move(writer)), request_(request), most_unread_bytes_(most_unread_bytes) {}

  // On the engine's loop.
  bool OnBatch(const std::shared_ptr<const KvEventBatch>& batch) override;

 private:
  // Shared with the writer's callback, which may come when this is gone.
  struct Backlog {
    std::atomic<bool> is_full = false;
  };
  void SendSnapshot();

  const std::shared_ptr<Writer> writer_;
  const v1::KvEventsRequest request_;
  const size_t most_unread_bytes_;
  const std::shared_ptr<Backlog> backlog_ = std::make_shared<Backlog>();
  // Of the engine's loop.
  uint64_t last_number_ = 0;
  bool has_snapshot_ = false;
  std::vector<grpc::ByteBuffer> snapshot_;
};

// Nothing where it has nothing of what was asked for.
v1::KvEventsResponse ToProto(const KvEventBatch& batch, const v1::KvEventsRequest& request);

}  // namespace sluice
