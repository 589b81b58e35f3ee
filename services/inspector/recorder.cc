#include "services/inspector/recorder.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace sluice {

void AttentionRecorder::Begin(const Wish& wish, std::vector<int> attention_layers) {
  wish_ = wish;
  attention_layers_ = std::move(attention_layers);
  num_calls_ = 0;
  layer_ = -1;
  maps_.clear();
  rollout_.reset();
  mean_.clear();
  if (!wish.rollout) return;
  rollout_.emplace(wish.num_positions);
  mean_.resize(wish.num_positions * wish.num_positions);
}

void AttentionRecorder::OnAttention(int num_heads) {
  EndLayer();
  SLUICE_CHECK(num_calls_ < attention_layers_.size());
  layer_ = attention_layers_[num_calls_++];
  num_heads_ = num_heads;
  map_of_head_.assign(num_heads, -1);
  if (!KeepsLayer()) return;
  for (const int head : wish_.heads) {
    map_of_head_[head] = static_cast<int>(maps_.size());
    v1::AttentionMap& map = maps_.emplace_back();
    map.set_layer(layer_);
    map.set_head(head);
    map.mutable_weights()->Reserve(
        static_cast<int>(wish_.num_positions * (wish_.num_positions + 1) / 2));
  }
}

bool AttentionRecorder::Wants(int head) const { return wish_.rollout || map_of_head_[head] >= 0; }

void AttentionRecorder::OnWeights(int head, int64_t position, absl::Span<const double> weights) {
  if (map_of_head_[head] >= 0) {
    auto& kept = *maps_[map_of_head_[head]].mutable_weights();
    for (const double weight : weights) kept.Add(static_cast<float>(weight));
  }
  if (!wish_.rollout) return;
  double* const row = mean_.data() + position * wish_.num_positions;
  for (size_t j = 0; j < weights.size(); ++j) row[j] += weights[j] / num_heads_;
}

void AttentionRecorder::EndLayer() {
  if (layer_ < 0 || !rollout_.has_value()) return;
  rollout_->Add(mean_);
  std::fill(mean_.begin(), mean_.end(), 0.0);
}

void AttentionRecorder::End(v1::InspectResponse& response) {
  EndLayer();
  layer_ = -1;
  for (v1::AttentionMap& map : maps_) *response.add_maps() = std::move(map);
  maps_.clear();
  if (!rollout_.has_value()) return;
  const absl::Span<const double> flow = rollout_->flow();
  for (int64_t i = 0; i < wish_.num_positions; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      response.add_rollout(static_cast<float>(flow[i * wish_.num_positions + j]));
    }
  }
  rollout_.reset();
}

}  // namespace sluice
