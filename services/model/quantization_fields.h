// The quantization_config of a config.json, and the mark by which weights and configuration that
// belong together know each other. docs/weight_formats.md has the fields.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "services/model/json_fields.h"
#include "services/model/model_config.h"

namespace sluice {

// Where the metadata of a quantised safetensors file has Quantization::checkpoint_id.
inline constexpr char kCheckpointIdKey[] = "sluice.checkpoint_id";

// 16 hexadecimal digits.
std::string CheckpointIdText(uint64_t hash);

// What the files hold; nothing where the configuration has no quantization_config. Errors go to
// `fields`: those of published_fields.h for the methods of others; of Sluice's own a version, a
// group size or a number of bits that is not known, no checkpoint_id.
std::optional<Quantization> ReadQuantization(JsonFields& fields);

// The inverse. `kept`: names of the matrices that are not quantised.
nlohmann::json QuantizationFields(const Quantization& quantization,
                                  const std::vector<std::string>& kept);

}  // namespace sluice
