#include "orchestrator/api/embed_service.h"

#include <utility>

namespace sluice {

// On the wire a unary call is a stream of one message each way.
EmbedService::EmbedService(GenerationService* calls) {
  const auto serve = [this](int index, auto handler) {
    MarkMethodStreamed(index, nullptr);
    MarkMethodRawCallback(
        index, new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
                   std::move(handler)));
  };
  // In the order of embed.proto.
  serve(0, [calls](grpc::CallbackServerContext* context) { return calls->Embed(context); });
  serve(1, [calls](grpc::CallbackServerContext* context) { return calls->Rerank(context); });
}

}  // namespace sluice
