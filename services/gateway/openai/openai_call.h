// Common part of OpenAI's calls that generate: id, creation time, error for an unknown model.
// Belongs to the exchange's loop.
#pragma once

#include <memory>
#include <string>

#include "services/gateway/api/generation_call.h"

namespace sluice::gateway::openai {

class OpenAiCall : public GenerationCall {
 protected:
  // The id begins with `id_prefix`.
  OpenAiCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange,
             absl::string_view id_prefix);

  const std::string& id() const { return id_; }
  int64_t created() const { return created_; }  // Unix time in seconds

 private:
  absl::Status UnknownModel(const std::string& name) const final;

  const std::string id_;
  const int64_t created_;
};

}  // namespace sluice::gateway::openai
