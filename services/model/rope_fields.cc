#include "services/model/rope_fields.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr int kMaxPositions = 1 << 28;

struct ScalingName {
  const char* name;
  RopeScaling scaling;
  const char* flag_fields;  // those that can be said on the command line: all but lists
};

constexpr ScalingName kScalings[] = {
    {"default", RopeScaling::kNone, "none"},
    {"linear", RopeScaling::kLinear, "factor, original_max_position_embeddings"},
    {"ntk", RopeScaling::kNtk, "factor, original_max_position_embeddings"},
    {"dynamic", RopeScaling::kDynamicNtk, "factor"},
    {"yarn", RopeScaling::kYarn,
     "factor, original_max_position_embeddings, beta_fast, beta_slow, truncate, mscale, "
     "mscale_all_dim, attention_factor"},
    {"llama3", RopeScaling::kLlama3,
     "factor, original_max_position_embeddings, low_freq_factor, high_freq_factor"},
    {"longrope", RopeScaling::kLongRope,
     "factor, original_max_position_embeddings, attention_factor"},
    {"proportional", RopeScaling::kProportional, "factor, partial_rotary_factor"},
};

constexpr char kTurnedFraction[] = "partial_rotary_factor";

std::string KnownScalings() {
  return absl::StrJoin(kScalings, ", ", [](std::string* out, const ScalingName& scaling) {
    absl::StrAppend(out, "\"", scaling.name, "\"");
  });
}

// Null where there is none.
const ScalingName* ScalingNamed(const std::string& name) {
  const auto* found = std::find_if(std::begin(kScalings), std::end(kScalings),
                                   [&](const ScalingName& each) { return each.name == name; });
  return found == std::end(kScalings) ? nullptr : found;
}

// INVALID_ARGUMENT for a field of the command line that the scaling of this name, where it is known,
// would leave unread.
absl::Status CheckFlagField(const std::string& name, const std::string& field) {
  const ScalingName* scaling = ScalingNamed(name);
  if (scaling == nullptr) return absl::OkStatus();
  for (const absl::string_view each : absl::StrSplit(scaling->flag_fields, ", ")) {
    if (each == field) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--rope_scaling: ", name, " has no field \"",
                                                 field, "\"; accepted: ", scaling->flag_fields));
}

// Reads one scaling object into a RopeConfig, whose theta, dim and original_positions are there.
class ScalingReader {
 public:
  ScalingReader(JsonFields& fields, int max_positions, RopeConfig& rope)
      : fields_(fields), max_positions_(max_positions), rope_(rope) {}

  void Read() {
    switch (rope_.scaling) {
      case RopeScaling::kNone:
        break;
      case RopeScaling::kLinear:
        RequireFactor();
        break;
      case RopeScaling::kNtk:
      case RopeScaling::kDynamicNtk:
        RequireFactor();
        RequireTwoPairs();
        break;
      case RopeScaling::kYarn:
        ReadYarn();
        break;
      case RopeScaling::kLlama3:
        ReadLlama3();
        break;
      case RopeScaling::kLongRope:
        ReadLongRope();
        break;
      case RopeScaling::kProportional:
        ReadProportional();
        break;
    }
  }

 private:
  std::optional<double> Factor() { return fields_.NumberAtLeast("factor", 1, kMaxFactor); }

  void RequireFactor() {
    if (!fields_.Has("factor")) fields_.Reject("factor", "a number of at least 1");
    rope_.factor = Factor().value_or(1);
  }

  // Where the object has no factor, the file's two lengths tell it.
  void ReadFactor() {
    const double ratio = static_cast<double>(max_positions_) / rope_.original_positions;
    rope_.factor = Factor().value_or(std::max(ratio, 1.0));
  }

  void RequireTwoPairs() {
    if (rope_.dim > 2) return;
    fields_.Fail(absl::StrCat("scaling by base needs more than the ", rope_.dim,
                              " elements of a head that this model turns; accepted: 4 or more"));
  }

  void ReadYarn() {
    ReadFactor();
    if (!fields_.Has("factor") && rope_.factor <= 1) {
      fields_.Reject("factor", "a number of at least 1, or two lengths that tell it");
    }
    if (rope_.theta <= 1) {
      fields_.Fail(absl::StrCat("rope_theta is ", rope_.theta, "; accepted with yarn: above 1"));
    }
    rope_.beta_fast = fields_.NumberAbove("beta_fast", 0, 1e6).value_or(32);
    rope_.beta_slow = fields_.NumberAbove("beta_slow", 0, 1e6).value_or(1);
    if (rope_.beta_fast < rope_.beta_slow) {
      fields_.Reject("beta_fast", absl::StrCat("at least beta_slow, ", rope_.beta_slow));
    }
    rope_.truncate = fields_.Bool("truncate").value_or(true);
    const double mscale = fields_.NumberAtLeast("mscale", 0, 1e3).value_or(0);
    const double mscale_all_dim = fields_.NumberAtLeast("mscale_all_dim", 0, 1e3).value_or(0);
    const auto temperature = [&](double weight) {
      return 0.1 * weight * std::log(rope_.factor) + 1;
    };
    const bool has_both = mscale > 0 && mscale_all_dim > 0;
    rope_.attention_factor = AttentionFactor().value_or(
        has_both ? temperature(mscale) / temperature(mscale_all_dim) : temperature(1));
    rope_.latent_scale = temperature(mscale_all_dim) * temperature(mscale_all_dim);
  }

  void ReadLlama3() {
    RequireFactor();
    for (const char* name : {"low_freq_factor", "high_freq_factor"}) {
      if (!fields_.Has(name)) fields_.Reject(name, "a number above 0");
    }
    rope_.low_freq_factor = fields_.NumberAbove("low_freq_factor", 0, 1e6).value_or(1);
    rope_.high_freq_factor = fields_.NumberAbove("high_freq_factor", 0, 1e6).value_or(4);
    if (rope_.high_freq_factor < rope_.low_freq_factor) {
      fields_.Reject("high_freq_factor",
                     absl::StrCat("at least low_freq_factor, ", rope_.low_freq_factor));
    }
  }

  void ReadLongRope() {
    ReadFactor();
    rope_.short_factors = Divisors("short_factor");
    rope_.long_factors = Divisors("long_factor");
    if (rope_.factor > 1 && rope_.original_positions < 2) {
      fields_.Fail("longrope needs original_max_position_embeddings of 2 or more");
    }
    const double growth =
        rope_.factor > 1 ? std::log(rope_.factor) / std::log(rope_.original_positions) : 0;
    rope_.attention_factor = AttentionFactor().value_or(std::sqrt(1 + growth));
  }

  void ReadProportional() {
    rope_.factor = Factor().value_or(1);
    const double fraction = fields_.NumberAbove(kTurnedFraction, 0, 1).value_or(1);
    rope_.turned_pairs = static_cast<int>(fraction * rope_.dim) / 2;
  }

  std::optional<double> AttentionFactor() {
    return fields_.NumberAbove("attention_factor", 0, 1e3);
  }

  std::vector<double> Divisors(const char* name) {
    const auto pairs = static_cast<size_t>(rope_.dim / 2);
    const std::string accepted = absl::StrCat("a list of ", pairs, " numbers above 0");
    const nlohmann::json* list = fields_.Get(name);
    std::vector<double> divisors;
    if (list != nullptr && list->is_array() && list->size() == pairs) {
      for (const nlohmann::json& item : *list) {
        const double number = item.is_number() ? item.get<double>() : 0;
        if (number >= 1e-6 && number <= kMaxFactor) divisors.push_back(number);
      }
    }
    if (divisors.size() != pairs) fields_.Reject(name, accepted);
    return divisors;
  }

  JsonFields& fields_;
  const int max_positions_;
  RopeConfig& rope_;
};

// How far a scaled model reaches. Files of most kinds name the stretched length themselves; where
// they do not say from which length it was stretched, max_position_embeddings is that one.
double Reach(const RopeConfig& rope, int max_positions, bool names_original) {
  switch (rope.scaling) {
    case RopeScaling::kLinear:
    case RopeScaling::kNtk:
    case RopeScaling::kYarn:
      return std::max<double>(
          max_positions, rope.factor * (names_original ? rope.original_positions : max_positions));
    case RopeScaling::kDynamicNtk:
      return max_positions * rope.factor;
    default:
      return max_positions;
  }
}

// The first of the names that the file has.
std::optional<double> FirstNumberAbove0(JsonFields& fields,
                                        std::initializer_list<const char*> names, double max) {
  for (const char* name : names) {
    if (auto number = fields.NumberAbove(name, 0, max)) return number;
  }
  return std::nullopt;
}

// What rope_parameters calls the layers of the first and of the second rotation.
constexpr char kFullLayers[] = "full_attention";
constexpr char kWindowedLayers[] = "sliding_attention";

void RefuseTablesByLayer(JsonFields& scaling, const nlohmann::json& object) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      scaling.Reject(name, "a number or a name: one rotation for all layers",
                     absl::StatusCode::kUnimplemented);
    }
  }
}

// Of the heads that a rotation turns.
int HeadDimOf(const RopeConfig& rope, const ModelConfig& config) {
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    const std::optional<int> own = config.layers[layer].attention.rope;
    if (own.has_value() && &config.ropes[*own] == &rope) return config.head_dim_of(layer);
  }
  return config.head_dim;
}

void MapDim(JsonFields& fields, double fraction, const ModelConfig& config, RopeConfig& rope) {
  const LatentSpec* const latent = config.latent();
  const int width = latent != nullptr ? latent->rope_dim : HeadDimOf(rope, config);
  const int dim = static_cast<int>(width * fraction);
  rope.dim = dim;
  if (dim >= 2 && dim % 2 == 0) return;
  const std::string accepted = "an even head_dim, as rotary positions turn pairs";
  if (fraction != 1) {
    fields.Fail(absl::StrCat("rotary positions would turn ", dim, " of ", width,
                             " elements of a head, ", fraction,
                             " of them; accepted: an even number of at least 2"));
  } else if (fields.Has("head_dim")) {
    fields.Reject("head_dim", accepted);
  } else {
    fields.Fail(absl::StrCat("hidden_size ", config.hidden_size, " over num_attention_heads ",
                             config.num_heads, " gives head_dim ", config.head_dim,
                             "; accepted: ", accepted));
  }
}

void MapScaling(JsonFields& fields, const RopeDefaults& defaults, JsonFields& scaling,
                RopeConfig& rope, ModelConfig& config) {
  const char* key = scaling.Has("rope_type") ? "rope_type" : "type";
  std::string type = scaling.String(key).value_or("default");
  if (defaults.every_list_long && (type == "su" || type == "yarn")) type = "longrope";
  const ScalingName* known = ScalingNamed(type);
  if (known == nullptr) {
    scaling.Reject(key, KnownScalings(), absl::StatusCode::kUnimplemented);
    return;
  }
  rope.scaling = known->scaling;
  constexpr char kOriginal[] = "original_max_position_embeddings";
  const auto inside = scaling.OptionalInt(kOriginal, 1, kMaxPositions);
  const auto outside = fields.OptionalInt(kOriginal, 1, kMaxPositions);
  const bool names_original = inside.has_value() || outside.has_value();
  const int fallback =
      defaults.original_positions > 0 ? defaults.original_positions : config.max_positions;
  rope.original_positions = outside.value_or(inside.value_or(fallback));
  // The one rule that is written in terms of max_position_embeddings.
  if (rope.scaling == RopeScaling::kDynamicNtk) rope.original_positions = config.max_positions;
  ScalingReader(scaling, config.max_positions, rope).Read();
  if (defaults.names_reach && rope.scaling != RopeScaling::kDynamicNtk) return;
  const double reach = Reach(rope, config.max_positions, names_original);
  if (reach > kMaxPositions) {
    scaling.Reject("factor", absl::StrCat("one that reaches at most ", kMaxPositions,
                                          " positions from ", config.max_positions));
    return;
  }
  config.max_positions = static_cast<int>(reach);
}

// Fills in one rotation from the file and, where it is there, from `own`, the object of it alone.
// `scaling` (may be null) takes the place of `own` as what scales.
void MapOneRope(JsonFields& fields, const RopeDefaults& defaults, JsonFields* own,
                JsonFields* scaling, RopeConfig& rope, ModelConfig& config) {
  double fraction = FirstNumberAbove0(fields, {"partial_rotary_factor", "rotary_pct"}, 1)
                        .value_or(defaults.turned_fraction);
  rope.original_positions = config.max_positions;
  if (own != nullptr) {
    rope.theta = own->NumberAbove("rope_theta", 0, kMaxTheta).value_or(rope.theta);
    fraction = own->NumberAbove(kTurnedFraction, 0, 1).value_or(fraction);
    // Its frequencies are those of a whole head.
    if (own->String("rope_type").value_or("") == "proportional") fraction = 1;
  }
  MapDim(fields, fraction, config, rope);
  JsonFields* chosen = scaling != nullptr ? scaling : own;
  if (fields.status().ok() && chosen != nullptr && chosen->status().ok()) {
    MapScaling(fields, defaults, *chosen, rope, config);
  }
}

// The rotations of full and of windowed layers, from an object for each.
void MapRopesByKind(JsonFields& fields, const RopeDefaults& defaults, JsonFields& by_kind,
                    JsonFields* scaling, ModelConfig& config) {
  for (const char* kind : {kFullLayers, kWindowedLayers}) {
    if (!by_kind.Has(kind)) by_kind.Reject(kind, "an object, as of the other kind of layers");
    if (!by_kind.status().ok()) return;
    const bool is_full = kind == kFullLayers;
    JsonFields own = by_kind.Inner(kind);
    if (own.status().ok()) {
      MapOneRope(fields, defaults, &own, is_full ? scaling : nullptr, config.ropes[is_full ? 0 : 1],
                 config);
    }
    by_kind.Adopt(own);
  }
}

// That of windowed layers where the file has no object for it.
void MapLocalRope(JsonFields& fields, const RopeDefaults& defaults, ModelConfig& config) {
  RopeConfig& local = config.ropes[1];
  if (defaults.local_theta == nullptr) {
    local.theta = config.ropes[0].theta;
  } else {
    local.theta = fields.NumberAbove(defaults.local_theta, 0, kMaxTheta).value_or(local.theta);
  }
  MapOneRope(fields, defaults, nullptr, nullptr, local, config);
}

}  // namespace

void MapRope(JsonFields& fields, const RopeDefaults& defaults, JsonFields* scaling,
             ModelConfig& config) {
  RopeConfig& rope = config.ropes.front();
  rope.theta =
      FirstNumberAbove0(fields, {"rope_theta", "rotary_emb_base"}, kMaxTheta).value_or(rope.theta);
  // Files that have both repeat themselves.
  const char* name = fields.Has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  const bool has_local = config.ropes.size() > 1;
  std::optional<JsonFields> own;
  if (fields.Has(name)) own.emplace(fields.Inner(name));
  const bool is_read = own.has_value() && own->status().ok();
  if (is_read && has_local && own->Has(kFullLayers)) {
    MapRopesByKind(fields, defaults, *own, scaling, config);
  } else {
    if (is_read) RefuseTablesByLayer(*own, *fields.Get(name));
    MapOneRope(fields, defaults, own.has_value() ? &*own : nullptr, scaling, rope, config);
    if (has_local && fields.status().ok()) MapLocalRope(fields, defaults, config);
  }
  for (LayerSpec& layer : config.layers) {
    if (layer.attention.latent.has_value()) {
      layer.attention.scale *= static_cast<float>(rope.latent_scale);
    }
  }
  if (own.has_value()) fields.Adopt(*own);
  if (scaling != nullptr) fields.Adopt(*scaling);
}

absl::StatusOr<nlohmann::json> ParseRopeScaling(const std::string& text) {
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rope_scaling is \"", text.substr(0, 60), "\": ", what,
                     "; accepted: a type and fields, such as yarn,factor=4"));
  };
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  nlohmann::json object = {{"rope_type", parts[0]}};
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> field =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    double number = 0;
    const bool is_switch = field.second == "true" || field.second == "false";
    const bool is_number = absl::SimpleAtod(field.second, &number) && std::isfinite(number);
    if (field.first.empty() || !(is_switch || is_number)) {
      return refuse(absl::StrCat("\"", parts[i], "\" is not FIELD=VALUE"));
    }
    const absl::Status known = CheckFlagField(parts[0], field.first);
    if (!known.ok()) return known;
    if (object.contains(field.first)) {
      return refuse(absl::StrCat("\"", field.first, "\" is there twice"));
    }
    if (is_switch) {
      object[field.first] = field.second == "true";
      continue;
    }
    const bool whole = number == std::floor(number) && std::abs(number) < 1e9;
    object[field.first] =
        whole ? nlohmann::json(static_cast<int64_t>(number)) : nlohmann::json(number);
  }
  return object;
}

}  // namespace sluice
