// Keeps of what attention weighs what a call has asked for. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "kernels/observed/observed_backend.h"
#include "services/inspector/rollout.h"
#include "sluice/v1/inspect.pb.h"

namespace sluice {

class AttentionRecorder final : public AttentionObserver {
 public:
  struct Wish {
    std::set<int> layers, heads;  // whose weights are kept
    bool rollout = false;
    int64_t num_positions = 0;
  };

  // Forgets everything. `attention_layers`: those that attention is called for, in the order of calls.
  void Begin(const Wish& wish, std::vector<int> attention_layers);
  // Hands over what was kept: the maps, and the rollout where it was wished.
  void End(v1::InspectResponse& response);

  void OnAttention(int num_heads) override;
  bool Wants(int head) const override;
  void OnWeights(int head, int64_t position, absl::Span<const double> weights) override;

 private:
  bool KeepsLayer() const { return wish_.layers.contains(layer_); }
  // Adds the layer in progress to the rollout.
  void EndLayer();

  Wish wish_;
  std::vector<int> attention_layers_;
  size_t num_calls_ = 0;
  // Of the call in progress.
  int layer_ = -1;
  int num_heads_ = 0;
  std::vector<int> map_of_head_;  // index in maps_, -1: not kept
  std::vector<double> mean_;      // [n, n]

  std::vector<v1::AttentionMap> maps_;
  std::optional<Rollout> rollout_;
};

}  // namespace sluice
