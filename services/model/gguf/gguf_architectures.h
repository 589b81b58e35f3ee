// How the metadata of each architecture becomes the fields of a config.json, for the table in
// gguf_config.cc: a function for each, which writes what its family's mapping reads.
#pragma once

#include "services/model/gguf/gguf_config_writer.h"

namespace sluice {

using WriteGgufArchitecture = void(GgufConfigWriter& writer);

// ---- gguf_dense.cc ----

// Sizes, RMSNorm and rotation, and nothing else.
WriteGgufArchitecture WriteGgufRotary;
WriteGgufArchitecture WriteGgufLlama, WriteGgufQwen3, WriteGgufSmolLm3, WriteGgufPhi3;
WriteGgufArchitecture WriteGgufGpt2, WriteGgufGptNeox, WriteGgufGemma2, WriteGgufGemma3;
WriteGgufArchitecture WriteGgufGranite, WriteGgufMiniCpm, WriteGgufOlmo2, WriteGgufCohere;
WriteGgufArchitecture WriteGgufStarCoder2, WriteGgufStableLm, WriteGgufGlm, WriteGgufErnie;
WriteGgufArchitecture WriteGgufInternLm2, WriteGgufPhi2, WriteGgufMistral3;

// ---- gguf_mixtures.cc ----

WriteGgufArchitecture WriteGgufQwen2Moe, WriteGgufQwen3Moe, WriteGgufOlmoe, WriteGgufGptOss;
WriteGgufArchitecture WriteGgufGlm4Moe, WriteGgufDeepSeek2, WriteGgufErnieMoe, WriteGgufLlama4;
WriteGgufArchitecture WriteGgufGraniteMoe;

// ---- gguf_recurrent.cc ----

WriteGgufArchitecture WriteGgufQwen3Next, WriteGgufQwen35, WriteGgufQwen35Moe;
WriteGgufArchitecture WriteGgufGraniteHybrid, WriteGgufNemotronH;

// ---- gguf_gemma4.cc ----

WriteGgufArchitecture WriteGgufGemma4;

}  // namespace sluice
