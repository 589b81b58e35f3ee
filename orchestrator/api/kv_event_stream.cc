#include "orchestrator/api/kv_event_stream.h"

#include <utility>

#include "services/messages/raw_message.h"

namespace sluice {

v1::KvEventsResponse ToProto(const KvEventBatch& batch, const v1::KvEventsRequest& request) {
  v1::KvEventsResponse message;
  if (batch.cache.has_value()) {
    v1::KvCacheInfo& info = *message.mutable_info();
    info.set_model_key(batch.cache->model_key);
    info.set_block_size(batch.cache->block_size);
    info.set_num_blocks(batch.cache->num_blocks);
  }
  message.set_snapshot_end(batch.snapshot_end);
  if (request.blocks() && !batch.stored.empty()) {
    v1::StoredBlocks& stored = *message.mutable_stored();
    stored.mutable_keys()->Add(batch.stored.begin(), batch.stored.end());
    stored.mutable_parents()->Add(batch.parents.begin(), batch.parents.end());
    stored.mutable_indexes()->Add(batch.indexes.begin(), batch.indexes.end());
  }
  if (request.blocks()) {
    message.mutable_removed()->Add(batch.removed.begin(), batch.removed.end());
  }
  if (request.prompts() && !batch.prompts.empty()) {
    v1::StoredPrompts& stored = *message.mutable_stored_prompts();
    stored.mutable_keys()->Add(batch.prompts.begin(), batch.prompts.end());
    stored.mutable_num_positions()->Add(batch.prompt_positions.begin(),
                                        batch.prompt_positions.end());
  }
  if (request.prompts()) {
    message.mutable_removed_prompts()->Add(batch.removed_prompts.begin(),
                                           batch.removed_prompts.end());
  }
  if (batch.load.has_value()) {
    v1::KvLoad& load = *message.mutable_load();
    load.set_serving(batch.load->serving);
    load.set_num_waiting_requests(batch.load->num_waiting_requests);
    load.set_num_running_requests(batch.load->num_running_requests);
    load.set_num_waiting_tokens(batch.load->num_waiting_tokens);
    load.set_num_held_tokens(batch.load->num_held_tokens);
    load.set_num_available_blocks(batch.load->num_available_blocks);
    load.set_step_time_us(absl::ToInt64Microseconds(batch.steps.time));
    load.set_step_positions(batch.steps.positions);
  }
  return message;
}

bool KvEventStream::OnBatch(const std::shared_ptr<const KvEventBatch>& batch) {
  if (has_snapshot_ && backlog_->is_full) {
    writer_->Close(absl::AbortedError(
        "the caller has not read for so long that it has missed events: call again, to be sent "
        "what is held now"));
    return false;
  }
  v1::KvEventsResponse message = ToProto(*batch, request_);
  const bool says_something = message.ByteSizeLong() > 0;
  if (!says_something) return true;
  message.set_sequence_number(++last_number_);
  if (has_snapshot_) {
    writer_->Send(SerializeMessage(message));
    return true;
  }
  snapshot_.push_back(SerializeMessage(message));
  if (batch->snapshot_end) SendSnapshot();
  return true;
}

// The bound is for what comes after it.
void KvEventStream::SendSnapshot() {
  has_snapshot_ = true;
  size_t bytes = 0;
  for (const grpc::ByteBuffer& message : snapshot_) bytes += message.Length();
  writer_->WatchBacklog(bytes + most_unread_bytes_,
                        [backlog = backlog_](bool full) { backlog->is_full = full; });
  for (grpc::ByteBuffer& message : snapshot_) writer_->Send(std::move(message));
  snapshot_ = {};
}

}  // namespace sluice
