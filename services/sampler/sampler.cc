#include "services/sampler/sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/sampler/philox.h"

namespace sluice {
namespace {

// A tile's logits take at most so much, or one row.
constexpr int64_t kTileBytes = int64_t{16} << 20;
constexpr int64_t kMaxTileRows = 256;

absl::Span<std::byte> BytesOf(absl::Span<float> values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
}

absl::Status CheckFinite(absl::Span<const float> logits) {
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float logit) { return !std::isfinite(logit); });
  if (bad == logits.end()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the logit of token ", bad - logits.begin(), " is ", *bad,
                                          "; weights or activations are broken"));
}

absl::Status InRow(int64_t row, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("row ", row, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Sampler>> Sampler::Load(const ModelConfig& config,
                                                       const WeightSource& source,
                                                       WeightType weights, Backend& backend) {
  const int64_t row_bytes = config.vocab_size * static_cast<int64_t>(sizeof(float));
  const int64_t tile_rows = std::clamp<int64_t>(kTileBytes / row_bytes, 1, kMaxTileRows);
  auto head = LmHead::Load(config, source, weights, tile_rows, backend);
  if (!head.ok()) return head.status();
  auto logits = backend.Allocate(tile_rows * row_bytes);
  if (!logits.ok()) return logits.status();
  return std::unique_ptr<Sampler>(
      new Sampler(backend, *std::move(head), tile_rows, *std::move(logits)));
}

Sampler::Sampler(Backend& backend, LmHead head, int64_t tile_rows, std::unique_ptr<Buffer> logits)
    : backend_(backend),
      head_(std::move(head)),
      tile_rows_(tile_rows),
      logits_(std::move(logits)),
      workers_(backend.num_host_threads()) {
  for (Worker& worker : workers_) worker.logits.resize(head_.vocab_size());
}

absl::StatusOr<std::vector<SampledToken>> Sampler::Run(MatrixView hidden,
                                                       absl::Span<const SamplerTask> tasks) {
  SLUICE_CHECK(hidden.rows == static_cast<int64_t>(tasks.size()));
  std::vector<SampledToken> results(tasks.size());
  for (int64_t row = 0; row < hidden.rows; row += tile_rows_) {
    const int64_t count = std::min(tile_rows_, hidden.rows - row);
    absl::Status done = RunTile(hidden.Rows(row, count), tasks.subspan(row, count), row,
                                absl::MakeSpan(results).subspan(row, count));
    if (!done.ok()) return done;
  }
  return results;
}

absl::Status Sampler::CheckTask(const SamplerTask& task) const {
  if (task.num_logprobs < 0 || task.num_logprobs > vocab_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_logprobs is ", task.num_logprobs, "; accepted: 0 to ", vocab_size()));
  }
  if (const auto* options = std::get_if<SamplingOptions>(&task.token)) {
    return CheckSamplingOptions(*options);
  }
  const int32_t id = std::get<TokenToScore>(task.token).id;
  if (id >= 0 && id < vocab_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("score_token_id is ", id, "; accepted: 0 to ", vocab_size() - 1));
}

absl::Status Sampler::RunTile(MatrixView hidden, absl::Span<const SamplerTask> tasks,
                              int64_t first_row, absl::Span<SampledToken> results) {
  const int64_t vocab = vocab_size();
  const MatrixView logits{logits_->data(), DType::kF32, hidden.rows, vocab, vocab};
  head_.Logits(hidden, logits);
  if (absl::Status done = backend_.Synchronize(); !done.ok()) return done;
  backend_.RunOnHost(hidden.rows, [&](int64_t row, int worker) {
    const absl::Status status =
        ChooseInRow(tasks[row], logits.Row(row), workers_[worker], results[row].token.id);
    if (!status.ok()) results[row].status = InRow(first_row + row, status);
  });
  if (absl::Status found = FindTop(logits, tasks, results); !found.ok()) return found;
  return FillLogprobs(logits, results);
}

absl::Status Sampler::ChooseInRow(const SamplerTask& task, const float* logits, Worker& worker,
                                  int32_t& id) {
  absl::Status status = CheckTask(task);
  status.Update(backend_.CopyOut(logits, BytesOf(absl::MakeSpan(worker.logits))));
  status.Update(CheckFinite(worker.logits));
  if (status.ok()) id = Choose(task, worker);
  return status;
}

int32_t Sampler::Choose(const SamplerTask& task, Worker& worker) {
  if (const auto* scored = std::get_if<TokenToScore>(&task.token)) return scored->id;
  const auto& options = std::get<SamplingOptions>(task.token);
  FilteredDistribution(worker.logits, options, worker.distribution);
  if (worker.distribution.size() == 1) return worker.distribution.front().id;
  return DrawToken(worker.distribution,
                   UniformFor(options.seed, task.sequence_index, task.position));
}

absl::Status Sampler::FindTop(MatrixView logits, absl::Span<const SamplerTask> tasks,
                              absl::Span<SampledToken> results) {
  int most = 0;
  for (size_t row = 0; row < tasks.size(); ++row) {
    if (results[row].status.ok()) most = std::max(most, tasks[row].num_logprobs);
  }
  if (most == 0) return absl::OkStatus();
  std::vector<float> values(tasks.size() * most);
  std::vector<int32_t> ids(values.size());
  absl::Status found = backend_.TopK(logits, most, absl::MakeSpan(values), absl::MakeSpan(ids));
  if (!found.ok()) return found;
  for (size_t row = 0; row < tasks.size(); ++row) {
    if (!results[row].status.ok()) continue;
    const int32_t* of_row = ids.data() + row * most;
    for (int i = 0; i < tasks[row].num_logprobs; ++i) results[row].top.push_back({.id = of_row[i]});
  }
  return absl::OkStatus();
}

absl::Status Sampler::FillLogprobs(MatrixView logits, absl::Span<SampledToken> results) {
  backend_.LogSoftmax(logits, logits);
  for (size_t row = 0; row < results.size(); ++row) {
    if (!results[row].status.ok()) continue;
    const float* logprobs = logits.Row(static_cast<int64_t>(row));
    const auto fill = [&](TokenLogprob& token) {
      return backend_.CopyOut(logprobs + token.id, BytesOf(absl::MakeSpan(&token.logprob, 1)));
    };
    if (absl::Status filled = fill(results[row].token); !filled.ok()) return filled;
    for (TokenLogprob& token : results[row].top) {
      if (absl::Status filled = fill(token); !filled.ok()) return filled;
    }
  }
  return absl::OkStatus();
}

}  // namespace sluice
