// LoRA adapters for models as Llama publishes them, in PEFT's folder layout.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::testing {

// Writes an adapter of all projections of the model in `model` into `folder`, whose matrices a
// generator draws by `seed`: large enough to change what is generated.
void WriteRandomAdapter(const std::string& folder, const std::string& model, uint64_t seed,
                        int rank = 4);

}  // namespace sluice::testing
