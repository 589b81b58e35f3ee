// The tokenizer's DetokenizeStream over gRPC, for TextStreams.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "orchestrator/text/text_streams.h"
#include "services/common/event_loop.h"

namespace sluice {

// Streams over `channel` whose events are posted to the loop of their TextStreams. They wait for a
// tokenizer that is not there yet. `digest`: as in TokenizerClient.
OpenDetokenizeStream DetokenizeOver(std::shared_ptr<grpc::Channel> channel, Post post,
                                    std::string digest = "");

}  // namespace sluice
