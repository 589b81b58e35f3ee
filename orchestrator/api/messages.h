// The engine's events as messages of the public API. Pure functions.
#pragma once

#include "orchestrator/engine/request.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

v1::PositionLogprobs ToProto(const TokenEvent& token);
v1::Chunk ToProto(ChunkEvent chunk, bool with_logprobs);
// All but request id and seed.
v1::Finished ToProto(const RequestEnd& end);

}  // namespace sluice
