// adapter_config.json of a PEFT folder: how large a LoRA adapter's matrices are and what they are
// multiplied with. Immutable.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

class AdapterConfig {
 public:
  // The largest rank that a file may name.
  static constexpr int kMaxRank = 4096;

  // `source` names the text in messages. INVALID_ARGUMENT where it is malformed, UNIMPLEMENTED where
  // the adapter changes the arithmetic in another way than y += scale * B (A x), such as DoRA: the
  // message names the field.
  static absl::StatusOr<AdapterConfig> Parse(const std::string& text, const std::string& source);

  ~AdapterConfig();
  AdapterConfig(AdapterConfig&&) noexcept;
  AdapterConfig& operator=(AdapterConfig&&) noexcept;

  // Of a module by its full name, such as "model.layers.0.self_attn.q_proj": the value of the first
  // pattern, a regular expression, that is the name or its end behind a dot, or the adapter's own.
  int RankOf(const std::string& module) const;
  // alpha / rank, or alpha / sqrt(rank) of rank-stabilised adapters (Kalajdzievski 2023).
  double ScaleOf(const std::string& module) const;

  // Whether the matrices are of modules that store their weights as [inputs, outputs].
  bool fan_in_fan_out() const { return fan_in_fan_out_; }
  // What it was made for; "" where the file does not say.
  const std::string& base_model() const { return base_model_; }

 private:
  struct Patterns;

  AdapterConfig();

  int rank_ = 0;
  double alpha_ = 0;
  bool is_rank_stabilised_ = false;
  bool fan_in_fan_out_ = false;
  std::string base_model_;
  std::unique_ptr<Patterns> patterns_;
};

}  // namespace sluice
