// The engine's events as messages of the public API. Pure functions.
#pragma once

#include "orchestrator/api/model_description.h"
#include "orchestrator/engine/request.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

v1::PositionLogprobs ToProto(const TokenEvent& token);
v1::Chunk ToProto(ChunkEvent chunk, bool with_logprobs);
// All but request id and seed. `asked` tells which limit ended a sequence for lack of room.
v1::Finished ToProto(const RequestEnd& end, const v1::GenerateRequest& asked,
                     const ModelDescription& model);

}  // namespace sluice
