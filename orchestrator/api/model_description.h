// Properties of the served model that the public API needs. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/sampling_options/sampling_options.h"
#include "services/model/embedder_spec.h"
#include "services/model/model_config.h"

namespace sluice {

struct ModelDescription {
  std::string name;          // of its folder
  std::string architecture;  // Hugging Face's model_type
  int32_t vocabulary_size = 0;
  int32_t max_positions = 0;
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  std::string weights;  // type in memory: "f32", "bf16"
  std::vector<int32_t> eos_token_ids;

  bool generates = true;                 // it has an LM head
  std::optional<EmbedderSpec> embedder;  // how it embeds texts; none: it does not
  int32_t max_text_tokens = 0;           // of a text to embed
  bool embeds_in_one_piece = false;      // SequenceSpec::in_one_piece
  int32_t num_token_types = 0;           // ModelConfig's
  std::optional<SourceSpec> source;      // ModelConfig's
  int32_t max_source_tokens = 0;         // of a source: as the model and the server's steps allow

  // Where a request leaves them out; from generation_config.json.
  SamplingOptions sampling;
  std::optional<int32_t> max_length;  // prompt and new tokens
};

}  // namespace sluice
