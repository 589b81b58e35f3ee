// The part of a model that one shard, a (stage, rank) pair, holds and computes. Pure functions of
// the configuration: every process of a pipeline derives the same plan on its own.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "services/model/model_config.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// Where a shard sits among num_stages (pipeline parallel) x num_ranks (tensor parallel).
struct ShardPlacement {
  int num_stages = 1;
  int num_ranks = 1;
  int stage = 0;
  int rank = 0;
};

// How a row-parallel product (o_proj, down_proj) is summed, so that its bits do not depend on the
// number of ranks: its K inputs form `num_slices` equal runs; each run is summed in the kernel's
// order, and the runs' sums s are added in a fixed binary tree of neighbours,
//   ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7)) for 8,
// whatever the number of ranks. num_slices is a power of two and depends on the model alone. A rank
// holds consecutive slices, a whole subtree, so it may add its own before the ranks' sums meet.
struct ReductionSlices {
  int num_slices = 1;  // of the whole matrix: 1, 2, 4 or 8
  int64_t width = 0;   // of one slice: K / num_slices
  IndexRange slices;   // this rank's; num_slices / num_ranks of them
};

// The number of slices of `count` things that are not cut themselves: the largest power of two, at
// most 8, that divides it. REQUIRES: count >= 1.
int NumReductionSlices(int count);

// A rank's part of an MLP of F columns.
struct MlpPart {
  IndexRange columns;         // of [0, F)
  ReductionSlices down_proj;  // K = F
};

struct ShardPlan {
  ShardPlacement placement;
  IndexRange layers;       // as even as possible, the earlier stages hold the extra ones
  IndexRange heads;        // of [0, Nq)
  IndexRange kv_heads;     // of [0, Nkv): exactly those that `heads` read. Ranks share one where
                           // there are fewer KV heads than ranks; each keeps its own copy. Of
                           // layers with the model's own heads; KvHeadsOf() of all
  ReductionSlices o_proj;  // K = the values of all heads, cut between heads; `width` is that of
                           // layers with the model's own heads
  // Of layers with a state in place of keys and values, as the three above; empty where none has one.
  IndexRange recurrent_heads;
  IndexRange recurrent_key_heads;
  ReductionSlices recurrent_out;

  // REQUIRES: the width of one of the model's dense MLPs, each of which is cut by itself.
  MlpPart MlpOf(int width) const;
  // REQUIRES: the width of the mixture's experts or of its shared one. All have as many slices, so
  // that their sums meet slice by slice.
  MlpPart MlpOf(const MixtureSpec& mixture, int width) const;
};

// ShardPlan::kv_heads of a layer.
IndexRange KvHeadsOf(int layer, const ModelConfig& config, const ShardPlan& plan);

// The first layer whose keys and values later ones read, which all lie in one stage with it; the
// number of layers where there is none.
int FirstSharedLayer(const ModelConfig& config);

// Slices of every expert's down projection: as many as can be so that each is whole groups of
// quantised weights (kWeightGroup), or, where that gives but one, as many as divide the columns.
int NumSlicesOf(const MixtureSpec& mixture);

// INVALID_ARGUMENT, naming the value and what this model accepts, where num_ranks is none of 1, 2,
// 4, 8 or does not divide heads, KV heads (or they it) and the columns of every MLP, where there
// are more stages than layers, or where stage or rank is out of range.
// REQUIRES: `config` holds what ModelConfig promises.
absl::StatusOr<ShardPlan> MakeShardPlan(const ModelConfig& config, const ShardPlacement& placement);

// The numbers of ranks that MakeShardPlan accepts for this model, ascending; always has 1.
std::vector<int> AcceptedRankCounts(const ModelConfig& config);

}  // namespace sluice
