// Chooses and scores tokens: hidden rows in, token ids and log-probabilities out; or pools the rows
// of texts into embeddings. No services, no protos; nothing is remembered from one call to the next.
//
// Driven by one thread at a time, as its backend is; the backend must outlive it. Every row is
// computed and drawn for itself: its result does not depend on the other rows of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/sampling.h"
#include "services/model/model_config.h"
#include "services/model/weights.h"
#include "services/sampler/lm_head.h"
#include "services/sampler/pooler.h"

namespace sluice {

// Asks for the log-probability of a token that is already known.
struct TokenToScore {
  int32_t id = 0;
};

// A row that is to be sampled, with the random numbers of its place: which of a request's sequences
// it is, from 0, and the position of the token that is chosen. Borrows the options.
SampleRow SampleRowFor(const SamplingOptions& options, int32_t sequence_index, int32_t position);

// The row is one of a text's whose embedding is wanted. Such rows of a text are consecutive.
struct PooledRow {
  bool is_last = true;  // of the text's: the embedding is its result
};

// What is wanted of one row of hidden states.
struct SamplerTask {
  std::variant<SampleRow, TokenToScore, PooledRow> token;
  // How many of the most probable tokens to return, 0 to V.
  int num_logprobs = 0;
  // Logprobs of the distribution that the token was drawn from, not of the model; a sampled row's.
  bool processed_logprobs = false;
  // Where this is not OK the task was refused before: it is the answer, and nothing is computed.
  absl::Status refusal;
  int adapter_slot = -1;  // of the row's sequence; negative: it has none
};

// Logprobs are natural logarithms of the model's own probabilities, before any sampling option,
// unless the task asks for processed ones.
struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
};

struct SampledToken {
  // INVALID_ARGUMENT where a field of the task is out of range, INTERNAL where the row's logits, or
  // the embedding, are not finite, FAILED_PRECONDITION where every token is forbidden or the model
  // does no such thing. The rest is unset then.
  absl::Status status;
  TokenLogprob token;             // the one chosen or scored
  std::vector<TokenLogprob> top;  // the most probable, falling by logit, ties by lower id
  std::vector<float> embedding;   // of the last row of a text alone
};

class Sampler {
 public:
  // Loads final norm and head, or what makes embeddings; errors as LmHead::Load and Pooler::Load.
  static absl::StatusOr<std::unique_ptr<Sampler>> Load(const ModelConfig& config,
                                                       const WeightSource& source,
                                                       WeightType weights, Backend& backend);

  // The result of task r from row r of hidden [R, H], memory of the backend, F32. A task that fails
  // does so alone, in its own result; the call fails only with the backend. Rows pass in tiles, so
  // memory stays bounded however many there are.
  absl::StatusOr<std::vector<SampledToken>> Run(MatrixView hidden,
                                                absl::Span<const SamplerTask> tasks);

  // LmHead's. A model without a head has nothing that an adapter changes here.
  absl::Status LoadAdapter(int slot, const AdapterSource& source) {
    return head_.has_value() ? head_->LoadAdapter(slot, source) : absl::OkStatus();
  }
  void DropAdapter(int slot) {
    if (head_.has_value()) head_->DropAdapter(slot);
  }
  void DropAdapters() {
    if (head_.has_value()) head_->DropAdapters();
  }

  int64_t vocab_size() const { return vocab_size_; }
  int64_t hidden_size() const { return hidden_size_; }
  int64_t row_width() const { return row_width_; }
  size_t weight_bytes() const {
    return (head_.has_value() ? head_->weight_bytes() : 0) +
           (pooler_.has_value() ? pooler_->weight_bytes() : 0);
  }
  std::string arithmetic() const {
    if (head_.has_value()) return head_->arithmetic();
    return std::string(backend_.name()) + ", pooled";
  }
  // Rows of a tile.
  int64_t tile_rows() const { return tile_rows_; }

 private:
  Sampler(const ModelConfig& config, Backend& backend, int64_t tile_rows);

  absl::Status CheckTask(const SamplerTask& task) const;
  // Pools the texts that the tasks are rows of, whole ones.
  absl::Status RunPooled(MatrixView hidden, absl::Span<const SamplerTask> tasks,
                         absl::Span<SampledToken> results);
  // Does the tasks of one tile; `first_row` is its first row's number in the call.
  absl::Status RunTile(MatrixView hidden, absl::Span<const SamplerTask> tasks, int64_t first_row,
                       absl::Span<SampledToken> results);
  // Finds the tokens, and the processed logprobs where they are asked for.
  absl::Status Choose(MatrixView logits, absl::Span<const SamplerTask> tasks, int64_t first_row,
                      absl::Span<SampledToken> results);
  // Fills in the ids of `top` for the rows that want some of the model's own.
  absl::Status FindTop(MatrixView logits, absl::Span<const SamplerTask> tasks,
                       absl::Span<SampledToken> results);
  // Fills in the model's own logprobs, turning the logits into log-probabilities.
  absl::Status FillLogprobs(MatrixView logits, absl::Span<const SamplerTask> tasks,
                            absl::Span<SampledToken> results);

  Backend& backend_;
  const int64_t vocab_size_, hidden_size_, row_width_;
  const int64_t tile_rows_;
  // At least one of the two.
  std::optional<LmHead> head_;
  std::optional<Pooler> pooler_;
  std::unique_ptr<Buffer> logits_;  // [tile_rows, V], with a head
};

}  // namespace sluice
