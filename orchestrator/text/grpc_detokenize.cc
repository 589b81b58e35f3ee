#include "orchestrator/text/grpc_detokenize.h"

#include <utility>

#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice {

OpenDetokenizeStream DetokenizeOver(std::shared_ptr<grpc::Channel> channel, Post post) {
  std::shared_ptr<v1::TokenizerService::Stub> stub =
      v1::TokenizerService::NewStub(std::move(channel));
  return [stub, post = std::move(post)](DetokenizeStream::Handler handler) {
    using Stream = PostedStream<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>;
    return std::make_unique<Stream>(
        post,
        [&stub](auto* context, auto* stream) {
          context->set_wait_for_ready(true);
          stub->async()->DetokenizeStream(context, stream);
        },
        std::move(handler));
  };
}

}  // namespace sluice
