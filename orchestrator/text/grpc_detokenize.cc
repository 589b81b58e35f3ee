#include "orchestrator/text/grpc_detokenize.h"

#include <utility>

#include "services/messages/expected_tokenizer.h"
#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice {
namespace {

// In one message: no more than a step's worth of tokens, so that the first answers come soon.
constexpr int kMostTogether = 256;

bool Merge(v1::DetokenizeStreamRequest& into, v1::DetokenizeStreamRequest& next) {
  if (into.others_size() + 1 >= kMostTogether || next.others_size() > 0) return false;
  *into.add_others() = std::move(next);
  return true;
}

// Answers that came together, one by one.
DetokenizeStream::Handler OneByOne(DetokenizeStream::Handler handler) {
  handler.on_response =
      [on_response = std::move(handler.on_response)](v1::DetokenizeStreamResponse response) {
        const auto others = std::move(*response.mutable_others());
        on_response(std::move(response));
        for (const v1::DetokenizeStreamResponse& other : others) on_response(other);
      };
  return handler;
}

}  // namespace

OpenDetokenizeStream DetokenizeOver(std::shared_ptr<grpc::Channel> channel, Post post,
                                    std::string digest) {
  std::shared_ptr<v1::TokenizerService::Stub> stub =
      v1::TokenizerService::NewStub(std::move(channel));
  return [stub, post = std::move(post),
          digest = std::move(digest)](DetokenizeStream::Handler handler) {
    using Stream = PostedStream<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>;
    return std::make_unique<Stream>(
        post,
        [&stub, &digest](auto* context, auto* stream) {
          context->set_wait_for_ready(true);
          ExpectTokenizer(*context, digest);
          stub->async()->DetokenizeStream(context, stream);
        },
        OneByOne(std::move(handler)), Merge);
  };
}

}  // namespace sluice
