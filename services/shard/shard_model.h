// The arithmetic of one shard: its rank's slice of a run of decoder layers and the KV blocks that
// go with them. No services, no protos: a session feeds it steps.
//
// Driven by one thread at a time. Borrows its backend, which must outlive it and which no other
// thread may drive at the same time.
//
// The residual stream is F32 and the same on every rank: each computes the norms for itself, and
// after the attention and after the MLP the ranks' partial sums meet in a fixed binary tree. So a
// row's bits depend on the model and on the sequence's tokens alone, not on the other rows of the
// step, on how a prompt was cut into steps, or (CPU) on the number of ranks or stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/expert_ops.h"
#include "kernels/latent_ops.h"
#include "kernels/recurrent_ops.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/model/weights.h"
#include "services/shard/kv_budget.h"
#include "services/shard/kv_layout.h"
#include "services/shard/layer_weights.h"
#include "services/shard/rotations.h"
#include "services/shard/step_adapters.h"
#include "services/shard/step_arena.h"
#include "services/shard/step_check.h"
#include "services/shard/text_passes.h"

namespace sluice {

struct ShardModelOptions {
  WeightType weights = WeightType::kAuto;
  // F32; BF16, which holds twice the positions; or FP8, nearly four times. Against the oracle, on
  // logits of standard deviation 2, with keys and values in F32, F32 weights are off by at most 2e-5,
  // and BF16 weights, whose inputs are rounded to BF16, by up to 0.3 (0.03 root mean square). BF16
  // keys and values add about as much: up to 0.2 (0.02) beside F32 weights.
  DType kv_dtype = DType::kF32;
  // 0: what a device with memory of its own has left of `device_share`.
  uint64_t kv_cache_bytes = uint64_t{256} << 20;
  double device_share = 0.8;  // of such a device's memory, weights included; in (0, 1]
  // Positions, >= 1. Models with recurrent layers have blocks of StatePoolSpec::kRun, whatever it is.
  int block_size = 16;
  // Slots for states of recurrent layers within kv_cache_bytes, >= 2; 0: as DivideKvBytes has it.
  int num_state_slots = 0;
  int max_step_rows = 512;  // >= 1; activations are allocated for so many
  // Of any module of an adapter, at most; 0: there are no adapters, as on devices that compute none.
  int max_adapter_rank = 256;
  // How long the ranks' exchanges in one step may take together.
  absl::Duration step_timeout = absl::InfiniteDuration();
  // For looking into a model. Above 0: so many blocks, whatever kv_cache_bytes says.
  int num_kv_blocks = 0;
  // Told during Forward of the residual stream [T, H] after each layer, by its number in the model;
  // of backends that do their work during calls. Null while serving.
  std::function<void(int layer, MatrixView hidden)> on_layer;
};

class ShardModel {
 public:
  // Loads the plan's slice and reserves the KV blocks. INVALID_ARGUMENT where an option is out of
  // range or kv_cache_bytes hold no block, RESOURCE_EXHAUSTED where the backend lacks memory, which
  // says how many blocks would fit, else as WeightSource::Read.
  static absl::StatusOr<std::unique_ptr<ShardModel>> Load(const ModelConfig& config,
                                                          const ShardPlan& plan,
                                                          const WeightSource& source,
                                                          const ShardModelOptions& options,
                                                          Backend& backend);

  // Loads this rank's part of an adapter into a slot, in place of what is there; the second empties
  // one, and the third all. Not during Forward. INVALID_ARGUMENT where the model was loaded without
  // adapters or a rank is larger than it accepts, RESOURCE_EXHAUSTED where the backend lacks memory.
  absl::Status LoadAdapter(int slot, const AdapterSource& source);
  void DropAdapter(int slot);
  void DropAdapters() { adapters_->Clear(); }

  // Meets the other ranks of an epoch: RankGroup::Join. Nothing to do for a single rank.
  absl::Status Join(Communicator* communicator, Deadline deadline);

  // Whether Forward accepts the step; errors as CheckStep. Every rank of a stage answers alike.
  absl::Status Check(absl::Span<const ShardSegment> segments, int64_t rows) const;

  // Copies keys and values from block to block, in order; Backend::CopyBlocks. INVALID_ARGUMENT,
  // before anything is copied, where a block is outside the pool.
  absl::Status CopyBlocks(absl::Span<const KvBlockCopy> copies);
  // The same of states, from slot to slot. Does nothing where no layer of the stage is recurrent.
  absl::Status CopyStates(absl::Span<const KvBlockCopy> copies);

  // Runs the layers over a step: hidden [T, row_width()] F32 (ModelConfig), memory of the backend for
  // Backend::BucketRows(T) rows, the rows of the segments one after another, goes in as the
  // residual stream before the first layer and comes out as the one after the last. Keys and values
  // of the step's positions are stored in their blocks; those of earlier positions must be there.
  // Segments of one step may share blocks that none of them writes.
  //
  // All ranks of the stage call it with the same segments and the same `hidden`, after Join().
  //
  // INVALID_ARGUMENT as Check, or where a segment names an empty adapter slot, before anything is exchanged or stored; otherwise the communicator's
  // or the backend's failure, after which `hidden` is undefined. Either way nothing is left to do
  // in the backend when it returns.
  absl::Status Forward(absl::Span<const ShardSegment> segments, MatrixView hidden);

  int num_kv_blocks() const { return limits_.num_blocks; }
  int num_state_slots() const { return limits_.num_state_slots; }  // 0: no layer is recurrent
  int block_size() const { return limits_.block_size; }
  int max_step_rows() const { return static_cast<int>(limits_.max_rows); }
  DType kv_dtype() const { return kv_dtype_; }
  // What the bits depend on besides the model, in words: backend, weights, keys and values.
  std::string arithmetic() const;
  size_t weight_bytes() const;
  size_t kv_bytes() const;

 private:
  ShardModel(const ModelConfig& config, const ShardPlan& plan, const StepLimits& limits,
             const ShardModelOptions& options, Backend& backend, StepArena arena);

  absl::Status MakeRankGroups();

  absl::Status LoadLayers(const WeightSource& source, const MatrixFormat& wanted);
  absl::Status LoadRotations(const StepLimits& limits);
  absl::Status ReserveKv(const KvLayout& layout);
  absl::Status ReserveKvOnDevice(const KvLayout& layout, const KvDemand& demand,
                                 const ShardModelOptions& options);

  // A step in progress.
  struct Step {
    StepViews views;
    MatrixView hidden;
    MatrixView input;  // what the branch at work reads: views.normed, or hidden itself
    MatrixView sides;  // [T, L * S]: embeddings for each layer, beside `hidden`
    int layer = 0;     // of the model, that is computed
    const TextPass* pass = nullptr;  // of encoder-decoders: passes_.source or passes_.text
  };

  // What becomes of what attention or MLP computes.
  struct BranchEnd {
    const NormWeights* post = nullptr;  // its norm, before it is added; null: none
    bool post_is_of_sum = false;  // `post` is of the residual stream after it is added instead
    float multiplier = 1;         // what it is multiplied with after that
    // The norm of the residual stream that follows; null: none.
    const NormWeights* next = nullptr;
  };

  // Computes a branch's last product, + bias where there is one, into `out` or adds it to that.
  using LastProduct = absl::FunctionRef<void(MatrixView out, const float* bias, bool add_to_out)>;

  // Adds to what a last product has made, once all ranks have joined it.
  using AfterProduct = absl::FunctionRef<void(MatrixView out)>;

  void PlaceSegments(absl::Span<const ShardSegment> segments);
  void PlaceStates(absl::Span<const ShardSegment> segments);
  // Copies the factors of the step's queries to `factors`, where the model has any.
  void PlaceQueryFactors(MatrixView factors);
  // Fills in step_rotations_. Whether they are the step's own.
  bool PlaceRotations(absl::Span<const ShardSegment> segments);
  absl::Status RunLayers(const Step& step);
  absl::Status RunLayer(const LayerWeights& layer, int index, const NormWeights* next,
                        const Step& step);
  // Of encoder-decoders: the step's sources, then its texts, each through all layers of the stage.
  absl::Status RunPasses(absl::Span<const ShardSegment> segments, MatrixView hidden);
  absl::Status RunPass(const TextPass& pass, MatrixView rows);
  // What a layer does in a pass.
  enum class LayerUse : uint8_t { kRun, kSkip, kStoreSource };
  LayerUse UseOf(const LayerWeights& layer, const Step& step);
  // The norm that the layer behind `index` begins with, if it is run in this pass; null: none.
  const NormWeights* NextNorm(size_t index, const Step& step);
  // Keeps what the layer attends to of the rows of sources.
  absl::Status StoreSource(const LayerWeights& layer, int index, const Step& step);
  // Attention of texts to their sources; reads step.input.
  absl::Status AttendToSource(const LayerWeights& layer, int index, const Step& step);
  // Adds a layer's own embedding of the tokens, as SideSpec says; `index` counts the stage's layers.
  absl::Status AddSide(const LayerWeights& layer, int index, const Step& step);
  RowNorm NormOf(const NormWeights& norm) const;
  void Norm(const NormWeights& norm, MatrixView x, MatrixView out);
  // `step` with the input of a branch that has a norm before it, or none.
  static Step WithInput(bool has_norm, const Step& step);
  // out = x times the weights, as Gemm makes it, with what the rows' adapters add. `first`: the role of
  // the first tensor that is fused into them; `expert`: as AdapterWeights::Of has it.
  absl::Status Multiply(MatrixView x, const PackedMatrix& weights, TensorRole first, MatrixView out,
                        const GemmEpilogue& epilogue, const Step& step);
  // What adapters add to the products of heads with latent attention's maps: x.Of(h) times map h.
  // `parity`: 0 for maps of keys, 1 for those of values.
  void AddToHeads(const HeadColumns& x, int parity, int64_t num_inputs, const HeadColumns& out,
                  int64_t num_outputs, const Step& step);
  // Both read step.input. `next_layer`: the norm that the layer after this one begins with, or null.
  absl::Status Attend(const LayerWeights& layer, int index, const NormWeights* next_layer,
                      const Step& step);
  // Both end with what the output projection reads in views.attended.
  absl::Status AttendByHead(const AttentionWeights& attention, int index, const Step& step);
  absl::Status AttendToLatents(const AttentionWeights& attention, int index, const Step& step);
  // Ends with what the output projection reads in views.recurrent.attended.
  absl::Status RunRecurrence(const RecurrentWeights& weights, int index, const Step& step);
  // RMSNorm of what the heads of all ranks have to say, as one vector.
  absl::Status NormOverRanks(const RecurrentWeights& weights, const Step& step);
  LatentParams LatentParamsOf(const AttentionWeights& attention) const;
  absl::Status Mlp(const MlpWeights& mlp, const BranchEnd& end, const Step& step);
  absl::Status RunMlp(const NoMlpWeights&, const BranchEnd&, const Step&) {
    return absl::OkStatus();
  }
  absl::Status RunMlp(const DenseMlpWeights& mlp, const BranchEnd& end, const Step& step);
  // RMSNorm of queries and keys, each over the heads of all ranks.
  absl::Status NormWholeQk(const AttentionWeights& attention, const Step& step);
  // RMSNorm without weights of every head's values.
  void NormValues(const AttentionWeights& attention, MatrixView qkv);
  QkNormRopeParams TurnOf(const AttentionWeights& attention) const;
  absl::Status RunMlp(const MixtureWeights& mlp, const BranchEnd& end, const Step& step);
  // An MLP and experts, whose sums are normalised each by itself before they are added.
  absl::Status RunMlpBesideExperts(const MixtureWeights& mlp, const BranchEnd& end,
                                   const Step& step);
  absl::StatusOr<Routing> RouteRows(const MixtureWeights& mlp, MatrixView input, const Step& step);
  // Gives `sum` the experts' last product.
  using SumOfExperts = absl::FunctionRef<absl::Status(LastProduct, const AfterProduct*)>;
  absl::Status SumExperts(const MixtureWeights& mlp, const Routing& routing, MatrixView input,
                          const Step& step, SumOfExperts sum);
  // All of it but its last product, which CombineExperts adds to those of the chosen ones.
  absl::StatusOr<SharedExpert> RunSharedExpert(const MixtureWeights& mlp, const Step& step);
  // The addends that adapters make to the experts' first products; none where there are none.
  absl::StatusOr<SumAddends> ExpertAddends(const MixtureWeights& mlp, const Routing& routing,
                                           MatrixView input, const Step& step);
  // Whether adapters change the experts' last products; if so, `sum` is called with what adds them.
  absl::Status SumWithAdapters(const MixtureWeights& mlp, const Routing& routing,
                               MatrixView activated, const SharedExpert* shared,
                               LastProduct product, SumOfExperts sum, const Step& step);
  // hidden += the sum over the ranks of x times weights, + bias where there is one, and what `end`
  // makes of it; and views.normed = the residual stream's norm by end.next, unless that is null.
  absl::Status AddProductToResidual(MatrixView x, const PackedMatrix& weights, TensorRole role,
                                    const FloatVector& bias, const BranchEnd& end,
                                    const Step& step);
  // branch = the same sum.
  absl::Status SumProduct(MatrixView x, const PackedMatrix& weights, TensorRole role,
                          const FloatVector& bias, MatrixView branch, const Step& step);
  // Gives `use` the product of x and the weights, and what adapters add to it or null.
  absl::Status WithProduct(MatrixView x, const PackedMatrix& weights, TensorRole role,
                           const Step& step,
                           absl::FunctionRef<absl::Status(LastProduct, const AfterProduct*)> use);
  // The same of what `product` computes, which adds a bias by itself, on one rank, and of what
  // `after` adds to it, unless that is null.
  absl::Status AddToResidual(LastProduct product, const AfterProduct* after, const float* bias,
                             const BranchEnd& end, const Step& step);
  // branch = the sum over the ranks of the product, + bias where there is one.
  absl::Status SumBranch(LastProduct product, const AfterProduct* after, const float* bias,
                         MatrixView branch, const Step& step);
  // Adds views.branch to the residual stream, as `end` says.
  void EndBranch(const BranchEnd& end, const Step& step);

  // Constant after loading.
  const ModelConfig config_;
  const ShardPlan plan_;
  StepLimits limits_;
  const absl::Duration step_timeout_;
  const std::function<void(int layer, MatrixView hidden)> on_layer_;  // null while serving
  Backend& backend_;
  std::vector<LayerWeights> layers_;
  DType kv_dtype_ = DType::kF32;
  MatrixFormat wanted_;  // a matrix that the format does not suit has BF16

  // Contents change with every step; their size never does.
  std::vector<std::unique_ptr<KvPool>> kv_pools_;
  std::vector<KvLayout::Slot> kv_slots_;   // of each layer
  std::unique_ptr<StatePool> state_pool_;  // null where no layer of the stage has states
  // By layer of the stage, its number among those with states, or with keys.
  std::vector<int> pool_layers_;
  StepArena arena_;
  std::unique_ptr<RankGroup> ranks_;  // null for a single rank
  // What sums squares of queries and keys; null for a single rank, and where no layer needs it.
  std::unique_ptr<RankGroup> square_ranks_;
  std::unique_ptr<StepAdapters> adapters_;
  std::vector<AttentionSegment> segments_;
  TextPasses passes_;  // of encoder-decoders
  std::vector<StateSegment> state_segments_;
  std::vector<int32_t> positions_;          // of the step's rows
  std::vector<float> query_factors_;        // of the step's rows
  std::vector<Rotations> rotations_;        // of ModelConfig::ropes
  std::vector<RopeTables> step_rotations_;  // what the step uses of each
};

}  // namespace sluice
