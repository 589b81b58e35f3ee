#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <utility>

#include "clients/cpp/call.h"

namespace sluice::client {
namespace {

// More than any request returns.
constexpr int kMostSequences = 1024;

}  // namespace

struct Generation::Stream {
  Stream(const std::shared_ptr<Endpoints>& endpoints, v1::GenerateRequest asked,
         const CallOptions& options)
      : call(endpoints, options, HomeOf(*endpoints, asked)), request(std::move(asked)) {}

  ~Stream() {
    if (reader == nullptr) return;
    context->TryCancel();
    reader->Finish();
  }

  std::optional<v1::GenerateResponse> Next();
  void Note(const v1::GenerateResponse& event);
  // Whether the request can be made again so that the answer goes on with the same bits.
  bool CanResume() const { return !begun || request.sampling().has_seed() || IsGreedy(); }
  bool IsGreedy() const {
    return request.sampling().has_temperature() && request.sampling().temperature() == 0;
  }
  bool Begin();

  Call call;
  v1::GenerateRequest request;  // `resume` grows with what comes
  grpc::ClientContext* context = nullptr;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  bool begun = false;  // an event has come
  bool over = false;
  int num_resumptions = 0;
  absl::Status status;
};

std::optional<v1::GenerateResponse> Generation::Stream::Next() {
  while (!over) {
    if (reader == nullptr) {
      context = call.Attempt();
      reader = call.stub().Generate(context, request);
    }
    v1::GenerateResponse event;
    if (reader->Read(&event)) {
      Note(event);
      return event;
    }
    const grpc::Status ended = std::exchange(reader, nullptr)->Finish();
    if (ended.ok()) {
      status = absl::InternalError("the server ended the stream without its last event");
      over = true;
    } else if (!CanResume() || !call.TryAgain(ended)) {
      status = ToAbsl(CanResume() ? call.final_status() : ended);
      over = true;
    } else if (begun) {
      ++num_resumptions;
    }
  }
  return std::nullopt;
}

void Generation::Stream::Note(const v1::GenerateResponse& event) {
  call.Progress();
  if (event.has_started() && !request.sampling().has_seed()) {
    request.mutable_sampling()->set_seed(event.started().seed());
  }
  if (event.has_finished()) {
    over = true;
    reader->Finish();
    reader = nullptr;
    return;
  }
  begun = true;
  const v1::Chunk& chunk = event.chunk();
  if (chunk.sequence() < 0 || chunk.sequence() >= kMostSequences) return;
  while (request.resume_size() <= chunk.sequence()) request.add_resume();
  request.mutable_resume(chunk.sequence())->mutable_token_ids()->MergeFrom(chunk.token_ids());
}

Generation::Generation(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
Generation::Generation(Generation&&) noexcept = default;
Generation& Generation::operator=(Generation&&) noexcept = default;
Generation::~Generation() = default;

std::optional<v1::GenerateResponse> Generation::Next() { return stream_->Next(); }
const absl::Status& Generation::status() const { return stream_->status; }
int Generation::num_resumptions() const { return stream_->num_resumptions; }

Generation Client::Generate(v1::GenerateRequest request, CallOptions call) {
  return Generation(std::make_unique<Generation::Stream>(endpoints_, std::move(request), call));
}

}  // namespace sluice::client
