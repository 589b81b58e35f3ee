// A whole model without services: embedding, stages of ranks (a thread each, joined by
// shared-memory communicators) and the LM head. For tests; driven by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/gpu/gpu_facts.h"
#include "services/embedding/embedding_table.h"
#include "services/model/model_config.h"
#include "services/model/weights.h"
#include "services/sampler/lm_head.h"
#include "services/shard/shard_model.h"

namespace sluice::testing {

struct PipelineOptions {
  int num_ranks = 1;
  int num_stages = 1;
  WeightType weights = WeightType::kAuto;
  DType kv_dtype = DType::kF32;
  int num_threads = 1;                 // of each backend
  bool plain_kernels = false;          // the reference backend instead of the CPU one
  DType plain_operands = DType::kF32;  // its operand dtype
  bool gpu_kernels = false;            // those of GPUs, on the host, instead
  GpuProducts gpu_products = GpuProducts::kPortable;  // by which they multiply
  std::optional<InstructionSet> instructions;         // of the CPU backend
  int block_size = 16;
  int num_blocks = 64;
  // Of models with recurrent layers: a sequence that is alone in its steps has two slots for states in
  // place of one for each block, and goes on from one to the other.
  bool two_state_slots = false;
  int max_step_rows = 512;
  int max_adapter_rank = 32;
};

// What a sequence contributes to a step.
struct PipelineSegment {
  std::vector<int32_t> ids;
  int32_t first_position = 0;
  std::vector<int32_t> block_table;
  int32_t sequence_length = 0;  // as ShardSegment has it
  int32_t adapter_slot = -1;
  int32_t source_positions = 0;  // of encoder-decoders: as ShardSegment has it
  std::vector<int32_t>
      state_slots;  // likewise; empty: as many as there are blocks, of their numbers
};

class LocalPipeline {
 public:
  static absl::StatusOr<std::unique_ptr<LocalPipeline>> Load(const std::string& folder,
                                                             const PipelineOptions& options);
  // The same of the folder's weights alone: with a configuration that no file says.
  static absl::StatusOr<std::unique_ptr<LocalPipeline>> LoadAs(const ModelConfig& config,
                                                               const std::string& folder,
                                                               const PipelineOptions& options);

  // Puts the adapter of a PEFT folder into a slot of all parts.
  absl::Status LoadAdapter(int slot, const std::string& adapter_folder);
  // The slot of the sequences of Logits and Generate; negative: none.
  void UseAdapter(int slot) { adapter_slot_ = slot; }
  // How long the sources of their sequences are, of encoder-decoders.
  void UseSource(int32_t positions) { source_positions_ = positions; }

  // Logits [T, V] after every position of the segments. Checks on the way that all ranks of a stage
  // end up with the same bits (a broken invariant otherwise).
  absl::StatusOr<std::vector<float>> Step(absl::Span<const PipelineSegment> segments);

  // Logits [ids.size(), V] of one sequence that is alone in its steps, a prompt fed in chunks of
  // the given sizes, which repeat. Its blocks are 0, 1, 2, ...
  absl::StatusOr<std::vector<float>> Logits(const std::vector<int32_t>& ids,
                                            const std::vector<int>& chunks);

  // The last row of the logits of every prefix of ids, [ids.size(), V], the sequence growing token
  // by token as when it is generated. Where a prefix turns by other angles than the one before, it
  // is computed again from its start.
  absl::StatusOr<std::vector<float>> Generate(const std::vector<int32_t>& ids);

  const ModelConfig& config() const { return config_; }

 private:
  // Logits of ids from `begin` on.
  absl::StatusOr<std::vector<float>> Feed(const std::vector<int32_t>& ids, int32_t begin,
                                          const std::vector<int>& chunks);

  struct Rank {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Communicator> communicator;
    std::unique_ptr<ShardModel> model;
    std::unique_ptr<Buffer> hidden;
  };
  using Stage = std::vector<Rank>;

  LocalPipeline(const ModelConfig& config, const PipelineOptions& options)
      : config_(config), options_(options) {}

  absl::Status LoadStage(const WeightSource& source, int stage);
  absl::Status LoadEnds(const WeightSource& source);
  // hidden [T, H] through the ranks of a stage, in place.
  absl::Status RunStage(Stage& stage, absl::Span<const ShardSegment> segments,
                        std::vector<float>& hidden);

  const ModelConfig config_;
  const PipelineOptions options_;
  std::unique_ptr<Backend> backend_;  // of embedding and head
  std::optional<EmbeddingTable> embedding_;
  std::optional<LmHead> head_;
  std::vector<Stage> stages_;
  int32_t slot_ = 0;  // of the state that a sequence has come to, with two_state_slots
  std::optional<TensorPlaces> places_;  // of published files
  int adapter_slot_ = -1;
  int32_t source_positions_ = 0;
};

}  // namespace sluice::testing
