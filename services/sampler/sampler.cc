#include "services/sampler/sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/sampler/philox.h"

namespace sluice {
namespace {

// A tile's logits take at most so much, or one row: on a host what stays near its processors, on a
// device all rows of an ordinary step, since every tile reads the head once.
constexpr int64_t kTileBytes = int64_t{16} << 20;
constexpr int64_t kTileBytesOnDevice = int64_t{128} << 20;
constexpr int64_t kMaxTileRows = 256;

absl::Status InRow(int64_t row, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("row ", row, ": ", status.message()));
}

// The row of a task that chooses nothing: its logits are looked at all the same.
const SampleRow& GreedyRow() {
  static const SamplingOptions& greedy = *new SamplingOptions{.temperature = 0};
  static const SampleRow& row = *new SampleRow{.options = &greedy};
  return row;
}

bool IsPooled(const SamplerTask& task) { return std::holds_alternative<PooledRow>(task.token); }

SampleRow RowOf(const SamplerTask& task) {
  const auto* sampled = std::get_if<SampleRow>(&task.token);
  if (sampled == nullptr || !task.refusal.ok()) return GreedyRow();
  SampleRow row = *sampled;
  if (task.processed_logprobs) row.num_top = task.num_logprobs;
  row.wants_logprob = !task.processed_logprobs;
  return row;
}

TokenLogprob LogprobOf(const TokenProbability& token) {
  return {.id = token.id, .logprob = static_cast<float>(std::log(token.probability))};
}

absl::Status StatusOf(const SampledRow& sampled) {
  switch (sampled.error) {
    case SampleError::kNone:
      break;
    case SampleError::kNotFinite:
      return absl::InternalError(absl::StrCat("the logit of token ", sampled.token.id,
                                              " is not finite; weights or activations are broken"));
    case SampleError::kNothingLeft:
      return absl::FailedPreconditionError("the sampling options forbid every token");
  }
  return absl::OkStatus();
}

// Whether the row of log-probabilities is looked at, beyond what choosing a token told of it.
bool WantsRawLogprobs(const SamplerTask& task, const SampledToken& result) {
  const bool is_scored = std::holds_alternative<TokenToScore>(task.token);
  return result.status.ok() && !task.processed_logprobs && (is_scored || task.num_logprobs > 0);
}

}  // namespace

SampleRow SampleRowFor(const SamplingOptions& options, int32_t sequence_index, int32_t position) {
  return {.options = &options,
          .token_uniform = UniformFor(options.seed, sequence_index, position),
          .xtc_uniform = UniformFor(options.seed, sequence_index, position, DrawPurpose::kXtc)};
}

absl::StatusOr<std::unique_ptr<Sampler>> Sampler::Load(const ModelConfig& config,
                                                       const WeightSource& source,
                                                       WeightType weights, Backend& backend) {
  const int64_t row_bytes = config.vocab_size * static_cast<int64_t>(sizeof(float));
  const int64_t tile_bytes = backend.memory().has_value() ? kTileBytesOnDevice : kTileBytes;
  const int64_t tile_rows = std::clamp<int64_t>(tile_bytes / row_bytes, 1, kMaxTileRows);
  std::unique_ptr<Sampler> sampler(new Sampler(config, backend, tile_rows));
  if (config.embedder.has_value()) {
    auto pooler = Pooler::Load(config, source, backend);
    if (!pooler.ok()) return pooler.status();
    sampler->pooler_ = *std::move(pooler);
  }
  if (!config.has_head) return sampler;
  auto head = LmHead::Load(config, source, weights, tile_rows, backend);
  if (!head.ok()) return head.status();
  sampler->head_ = *std::move(head);
  auto logits = backend.Allocate(tile_rows * row_bytes);
  if (!logits.ok()) return logits.status();
  sampler->logits_ = *std::move(logits);
  return sampler;
}

Sampler::Sampler(const ModelConfig& config, Backend& backend, int64_t tile_rows)
    : backend_(backend),
      vocab_size_(config.vocab_size),
      hidden_size_(config.hidden_size),
      row_width_(config.row_width()),
      tile_rows_(tile_rows) {}

absl::StatusOr<std::vector<SampledToken>> Sampler::Run(MatrixView hidden,
                                                       absl::Span<const SamplerTask> tasks) {
  SLUICE_CHECK(hidden.rows == static_cast<int64_t>(tasks.size()));
  std::vector<SampledToken> results(tasks.size());
  for (int64_t row = 0; row < hidden.rows;) {
    const bool pooled = IsPooled(tasks[row]);
    const int64_t most = pooled ? hidden.rows : std::min(row + tile_rows_, hidden.rows);
    int64_t end = row + 1;
    while (end < most && IsPooled(tasks[end]) == pooled) ++end;
    const MatrixView rows = hidden.Rows(row, end - row);
    const auto of_rows = tasks.subspan(row, end - row);
    const auto into = absl::MakeSpan(results).subspan(row, end - row);
    absl::Status done = pooled ? RunPooled(rows, of_rows, into) : RunTile(rows, of_rows, row, into);
    if (!done.ok()) return done;
    row = end;
  }
  return results;
}

absl::Status Sampler::CheckTask(const SamplerTask& task) const {
  if (!task.refusal.ok()) return task.refusal;
  if (task.num_logprobs < 0 || task.num_logprobs > vocab_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_logprobs is ", task.num_logprobs, "; accepted: 0 to ", vocab_size()));
  }
  const auto* scored = std::get_if<TokenToScore>(&task.token);
  if (scored == nullptr || (scored->id >= 0 && scored->id < vocab_size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("score_token_id is ", scored->id, "; accepted: 0 to ", vocab_size() - 1));
}

absl::Status Sampler::RunPooled(MatrixView hidden, absl::Span<const SamplerTask> tasks,
                                absl::Span<SampledToken> results) {
  if (!pooler_.has_value()) {
    for (SampledToken& result : results) {
      result.status = absl::FailedPreconditionError("this model makes no embeddings");
    }
    return absl::OkStatus();
  }
  std::vector<int64_t> counts, last;
  for (size_t i = 0, first = 0; i < tasks.size(); ++i) {
    if (!std::get<PooledRow>(tasks[i].token).is_last && i + 1 < tasks.size()) continue;
    counts.push_back(static_cast<int64_t>(i + 1 - first));
    last.push_back(static_cast<int64_t>(i));
    first = i + 1;
  }
  auto embeddings = pooler_->Pool(hidden, counts);
  if (!embeddings.ok()) return embeddings.status();
  for (size_t text = 0; text < last.size(); ++text) {
    SampledToken& result = results[last[text]];
    std::vector<float>& embedding = (*embeddings)[text];
    if (std::all_of(embedding.begin(), embedding.end(), [](float x) { return std::isfinite(x); })) {
      result.embedding = std::move(embedding);
    } else {
      result.status =
          absl::InternalError("the embedding is not finite; weights or activations are broken");
    }
  }
  return absl::OkStatus();
}

absl::Status Sampler::RunTile(MatrixView hidden, absl::Span<const SamplerTask> tasks,
                              int64_t first_row, absl::Span<SampledToken> results) {
  if (!head_.has_value()) {
    for (SampledToken& result : results) {
      result.status =
          absl::FailedPreconditionError("this model has no LM head to choose tokens by");
    }
    return absl::OkStatus();
  }
  const int64_t vocab = vocab_size();
  const MatrixView logits{logits_->data(), DType::kF32, hidden.rows, vocab, vocab};
  std::vector<int32_t> slots;  // empty: no row has an adapter
  const bool has_adapters = std::any_of(
      tasks.begin(), tasks.end(), [](const SamplerTask& task) { return task.adapter_slot >= 0; });
  if (has_adapters) {
    for (const SamplerTask& task : tasks) slots.push_back(task.adapter_slot);
  }
  head_->Logits(hidden, slots, logits);
  absl::Status done = Choose(logits, tasks, first_row, results);
  if (done.ok()) done = FindTop(logits, tasks, results);
  if (done.ok()) done = FillLogprobs(logits, tasks, results);
  return done;
}

absl::Status Sampler::Choose(MatrixView logits, absl::Span<const SamplerTask> tasks,
                             int64_t first_row, absl::Span<SampledToken> results) {
  std::vector<SampleRow> rows;
  rows.reserve(tasks.size());
  for (const SamplerTask& task : tasks) rows.push_back(RowOf(task));
  std::vector<SampledRow> sampled(tasks.size());
  absl::Status done = backend_.Sample(logits, rows, absl::MakeSpan(sampled));
  if (!done.ok()) return done;
  for (size_t i = 0; i < tasks.size(); ++i) {
    SampledToken& result = results[i];
    absl::Status status = CheckTask(tasks[i]);
    status.Update(StatusOf(sampled[i]));
    if (!status.ok()) {
      result.status = InRow(first_row + static_cast<int64_t>(i), status);
    } else if (const auto* scored = std::get_if<TokenToScore>(&tasks[i].token)) {
      result.token.id = scored->id;
    } else {
      result.token = rows[i].wants_logprob ? TokenLogprob{sampled[i].token.id, sampled[i].logprob}
                                           : LogprobOf(sampled[i].token);
      for (const TokenProbability& top : sampled[i].top) result.top.push_back(LogprobOf(top));
    }
  }
  return absl::OkStatus();
}

absl::Status Sampler::FindTop(MatrixView logits, absl::Span<const SamplerTask> tasks,
                              absl::Span<SampledToken> results) {
  int most = 0;
  for (size_t row = 0; row < tasks.size(); ++row) {
    if (WantsRawLogprobs(tasks[row], results[row])) most = std::max(most, tasks[row].num_logprobs);
  }
  if (most == 0) return absl::OkStatus();
  std::vector<float> values(tasks.size() * most);
  std::vector<int32_t> ids(values.size());
  absl::Status found = backend_.TopK(logits, most, absl::MakeSpan(values), absl::MakeSpan(ids));
  if (!found.ok()) return found;
  for (size_t row = 0; row < tasks.size(); ++row) {
    if (!WantsRawLogprobs(tasks[row], results[row])) continue;
    const int32_t* of_row = ids.data() + row * most;
    for (int i = 0; i < tasks[row].num_logprobs; ++i) results[row].top.push_back({.id = of_row[i]});
  }
  return absl::OkStatus();
}

absl::Status Sampler::FillLogprobs(MatrixView logits, absl::Span<const SamplerTask> tasks,
                                   absl::Span<SampledToken> results) {
  std::vector<MatrixElement> elements;
  std::vector<float*> places;  // of their values
  for (size_t row = 0; row < tasks.size(); ++row) {
    if (!WantsRawLogprobs(tasks[row], results[row])) continue;
    const auto add = [&](TokenLogprob& token) {
      elements.push_back({.row = static_cast<int64_t>(row), .col = token.id});
      places.push_back(&token.logprob);
    };
    if (std::holds_alternative<TokenToScore>(tasks[row].token)) add(results[row].token);
    for (TokenLogprob& token : results[row].top) add(token);
  }
  if (elements.empty()) return absl::OkStatus();
  backend_.LogSoftmax(logits, logits);
  std::vector<float> values(elements.size());
  absl::Status done = backend_.GatherElements(logits, elements, absl::MakeSpan(values));
  if (!done.ok()) return done;
  for (size_t i = 0; i < values.size(); ++i) *places[i] = values[i];
  return absl::OkStatus();
}

}  // namespace sluice
