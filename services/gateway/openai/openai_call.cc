#include "services/gateway/openai/openai_call.h"

#include <utility>

#include "absl/time/clock.h"
#include "services/gateway/backend/random_id.h"
#include "services/gateway/openai/error.h"

namespace sluice::gateway::openai {

OpenAiCall::OpenAiCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange,
                       absl::string_view id_prefix)
    : GenerationCall(context, std::move(exchange)),
      id_(RandomId(id_prefix)),
      created_(absl::ToUnixSeconds(absl::Now())) {}

absl::Status OpenAiCall::UnknownModel(const std::string& name) const { return ModelNotFound(name); }

}  // namespace sluice::gateway::openai
