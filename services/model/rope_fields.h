// Reads RopeConfig from the fields of a config.json, in every spelling that families use: theta and
// the turned fraction at the top or inside, `rope_scaling` or `rope_parameters`, `rope_type` or
// `type`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/model/json_fields.h"
#include "services/model/model_config.h"

namespace sluice {

// What a family's files mean where they say nothing.
struct RopeDefaults {
  double turned_fraction = 1;    // of head_dim
  int original_positions = 0;    // 0: max_position_embeddings
  bool every_list_long = false;  // the types "su" and "yarn" mean LongRoPE
  // max_position_embeddings is what the scaling reaches, not the length that it begins from.
  bool names_reach = false;
  // The field with the theta of the second rotation, that of layers with a window; null: it is that
  // of the first.
  const char* local_theta = nullptr;
};

// Fills in config.ropes.front(), whose theta is that of files that have none, and where positions
// are scaled raises config.max_positions to what the scaling reaches. A second rotation, that of
// layers with a window, is not scaled, unless `rope_parameters` has an object for each kind of
// layer. `scaling` (may be null) takes the place of the first rotation's own object. Errors go to
// `fields`: unknown types, factors below 1, lists of the wrong length, an odd number of turned
// elements.
// REQUIRES: head_dim and max_positions are filled in, ropes has one or two.
void MapRope(JsonFields& fields, const RopeDefaults& defaults, JsonFields* scaling,
             ModelConfig& config);

// A rope_scaling object from its form on the command line: a type, then FIELD=VALUE, such as
// "yarn,factor=4,beta_fast=16". INVALID_ARGUMENT where the text has another form.
absl::StatusOr<nlohmann::json> ParseRopeScaling(const std::string& text);

}  // namespace sluice
