#include "services/model/gguf/gguf_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr char kLongFactors[] = "rope_factors_long.weight";
constexpr char kShortFactors[] = "rope_factors_short.weight";

// The limits of Llama 3, in turns within the original context.
constexpr double kLowTurns = 1, kHighTurns = 4;

// What Llama 3's rule divides the frequency of a pair by.
double Llama3Divisor(double frequency, double factor, double original) {
  const double turns = original * frequency / (2 * std::numbers::pi);
  if (turns > kHighTurns) return 1;
  if (turns < kLowTurns) return factor;
  const double smooth = (turns - kLowTurns) / (kHighTurns - kLowTurns);
  return 1 / ((1 - smooth) / factor + smooth);
}

// Whether the divisors are those of Llama 3's rule with these parameters, but for F32's rounding.
bool IsLlama3(const std::vector<double>& divisors, const GgufRopeShape& shape, double factor,
              double original) {
  constexpr double kTolerance = 1e-4;
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(shape.dim);
    const double expected = Llama3Divisor(std::pow(shape.theta, exponent), factor, original);
    if (!(std::abs(divisors[i] - expected) <= kTolerance * expected)) return false;
  }
  return true;
}

// Parameters where they are recognised, so that all bits are those of the folder; else the divisors
// themselves, as LongRoPE has them.
json FromDivisors(const std::vector<double>& divisors, const GgufRopeShape& shape) {
  const double factor = *std::max_element(divisors.begin(), divisors.end());
  const double whole = std::round(factor);
  const double named = std::abs(factor - whole) < 1e-4 * factor ? whole : factor;
  for (int64_t original = 1 << 20; original >= 16; original /= 2) {
    if (!IsLlama3(divisors, shape, named, static_cast<double>(original))) continue;
    return {{"rope_type", "llama3"},
            {"factor", named},
            {"low_freq_factor", kLowTurns},
            {"high_freq_factor", kHighTurns},
            {"original_max_position_embeddings", original}};
  }
  return {{"rope_type", "longrope"}, {"factor", 1},
          {"attention_factor", 1},   {"original_max_position_embeddings", shape.max_positions},
          {"long_factor", divisors}, {"short_factor", divisors}};
}

json FromLists(GgufFields& fields, const GgufRopeShape& shape, const std::string& scaling) {
  json object = {{"rope_type", "longrope"},
                 {"long_factor", GgufDivisors(fields, kLongFactors, shape.dim / 2)},
                 {"short_factor", GgufDivisors(fields, kShortFactors, shape.dim / 2)}};
  const auto original = fields.Int(scaling + "original_context_length");
  if (!original.has_value() || *original < 2) {
    fields.Reject(scaling + "original_context_length", "an integer of at least 2");
    return nullptr;
  }
  object["original_max_position_embeddings"] = *original;
  // What follows from the two lengths is left to them: it was computed in F32.
  const double growth = static_cast<double>(shape.max_positions) / static_cast<double>(*original);
  const double implied =
      growth > 1 ? std::sqrt(1 + std::log(growth) / std::log(static_cast<double>(*original))) : 1;
  const double factor = fields.Number(scaling + "attn_factor").value_or(implied);
  if (std::abs(factor - implied) > 1e-5 * implied) object["attention_factor"] = factor;
  return object;
}

json FromKeys(GgufFields& fields, const std::string& type, const std::string& scaling,
              double factor) {
  json object = {{"rope_type", type}, {"factor", factor}};
  if (const auto original = fields.Int(scaling + "original_context_length")) {
    object["original_max_position_embeddings"] = *original;
  }
  if (type != "yarn") return object;
  for (const char* name : {"beta_fast", "beta_slow"}) {
    if (const auto beta = fields.Number(absl::StrCat(scaling, "yarn_", name))) object[name] = *beta;
  }
  // Relative to what YaRN itself sets.
  if (const auto relative = fields.Number(scaling + "attn_factor"); relative.value_or(1) != 1) {
    object["attention_factor"] = *relative * (0.1 * std::log(factor) + 1);
  }
  return object;
}

}  // namespace

std::vector<double> GgufDivisors(GgufFields& fields, const char* name, int64_t pairs) {
  const GgufTensor* tensor = fields.view().FindTensor(name);
  const bool fits = tensor != nullptr && tensor->shape.size() == 1 &&
                    tensor->shape[0] == static_cast<uint64_t>(pairs) && pairs > 0 &&
                    tensor->type->decode != nullptr && tensor->type->weights == 1;
  if (!fits) {
    fields.Fail(absl::StrCat("tensor \"", name, "\" is ",
                             tensor == nullptr ? "missing" : "of another shape or type",
                             "; accepted: F32 [", pairs, "]"));
    return {};
  }
  std::vector<float> values(static_cast<size_t>(pairs));
  tensor->type->decode(tensor->bytes.data(), pairs, values.data());
  return {values.begin(), values.end()};
}

json GgufRopeScaling(GgufFields& fields, const GgufRopeShape& shape) {
  const std::string scaling = shape.prefix + "rope.scaling.";
  const std::string key = scaling + "type";
  // Files of 2023 have another key. A factor without a type scales linearly.
  const std::string old = shape.prefix + "rope.scale_linear";
  const bool has_factor = fields.view().Find(scaling + "factor") != nullptr;
  const double factor = fields.Number(has_factor ? scaling + "factor" : old).value_or(1);
  const bool scales = factor != 0 && factor != 1;
  const std::string type = fields.Text(key).value_or(scales ? "linear" : "none");
  if (fields.view().FindTensor(kLongFactors) != nullptr) return FromLists(fields, shape, scaling);
  if (fields.view().FindTensor(kGgufDivisors) != nullptr) {
    const auto divisors = GgufDivisors(fields, kGgufDivisors, shape.dim / 2);
    return divisors.empty() ? json() : FromDivisors(divisors, shape);
  }
  if (type == "none") return nullptr;
  if (type == "linear" || type == "yarn") {
    return FromKeys(fields, type, scaling, factor);
  }
  fields.Reject(key, "\"none\", \"linear\", \"yarn\", or \"longrope\" with its tensors",
                absl::StatusCode::kUnimplemented);
  return nullptr;
}

}  // namespace sluice
