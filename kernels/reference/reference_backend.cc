#include "kernels/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/cross_attention_ops.h"
#include "kernels/fp8_activations.h"
#include "kernels/host_rank_group.h"
#include "kernels/host_step.h"
#include "kernels/latent_ops.h"
#include "kernels/open_attention_ops.h"
#include "kernels/reference/element.h"
#include "kernels/reference/primitives.h"
#include "kernels/reference/reference_adapters.h"
#include "kernels/reference/reference_attention.h"
#include "kernels/reference/reference_experts.h"
#include "kernels/reference/reference_kv_pool.h"
#include "kernels/reference/reference_recurrent.h"
#include "kernels/reference/reference_sampling.h"

namespace sluice {
namespace {

class HeapBuffer final : public Buffer {
 public:
  explicit HeapBuffer(size_t size_bytes) : lines_((size_bytes + 63) / 64), size_(size_bytes) {}
  void* data() override { return lines_.data(); }
  size_t size_bytes() const override { return size_; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines_;
  size_t size_;
};

class RowMajorMatrix final : public PackedMatrix {
 public:
  RowMajorMatrix(const PackSpec& spec, std::vector<float> elements)
      : spec_(spec), elements_(std::move(elements)) {}
  int64_t num_outputs() const override { return spec_.num_outputs; }
  int64_t num_inputs() const override { return spec_.num_inputs; }
  size_t size_bytes() const override { return elements_.size() * sizeof(float); }
  bool gated() const { return spec_.gated; }
  int64_t num_columns() const { return spec_.gated ? spec_.num_outputs / 2 : spec_.num_outputs; }
  // Row t of x as it is multiplied.
  std::vector<float> Operand(MatrixView x, int64_t t) const {
    std::vector<float> row(x.cols);
    for (int64_t k = 0; k < x.cols; ++k) row[k] = LoadElement(x, t, k);
    if (spec_.format.activations == ActivationFormat::kFp8) {
      const int64_t depth = x.cols / spec_.num_slices;
      for (int64_t begin = 0; begin < x.cols; begin += depth) {
        RoundSliceToFp8(absl::MakeConstSpan(row).subspan(begin, depth), row.data() + begin);
      }
    }
    if (spec_.format.weights != WeightFormat::kF32) {
      for (float& value : row) value = FloatFromBFloat16(BFloat16FromFloat(value));
    }
    return row;
  }
  const float* Row(int64_t output) const { return elements_.data() + output * spec_.num_inputs; }

 private:
  PackSpec spec_;
  std::vector<float> elements_;
};

// Output n for a row of inputs.
double Sum(const std::vector<float>& x, const RowMajorMatrix& matrix, int64_t n,
           const float* bias) {
  double sum = 0;
  for (int64_t k = 0; k < matrix.num_inputs(); ++k) sum += double{x[k]} * matrix.Row(n)[k];
  return bias == nullptr ? sum : sum + bias[n];
}

double AddendOf(const SumAddends& addends, int64_t row, int64_t output) {
  if (addends.empty() || addends.rows[row] == 0) return 0;
  return addends.values.Row(row)[output];
}

float TreeSum(absl::Span<const MatrixView> partials, int64_t row, int64_t column) {
  if (partials.size() == 1) return partials[0].Row(row)[column];
  const size_t half = partials.size() / 2;
  return TreeSum(partials.first(half), row, column) + TreeSum(partials.subspan(half), row, column);
}

double Activated(Activation activation, double z) {
  switch (activation) {
    case Activation::kRelu:
      return std::max(z, 0.0);
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
    case Activation::kGelu:
      return z / 2 * std::erfc(-z / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return z / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (z + 0.044715 * z * z * z)));
    case Activation::kClampedSwiGlu:
      break;  // of a gate and its up together
  }
  SLUICE_CHECK(false);
  return 0;
}

double ClampedSwiGlu(const GatedClamp& clamp, double gate, double up) {
  const double limit = clamp.limit;
  gate = std::min(gate, limit);
  up = std::clamp(up, -limit, limit);
  return (up + 1) * gate / (1 + std::exp(-clamp.alpha * gate));
}

// Larger first, then lower column; NaN below everything else.
bool Ranks(const float* row, int32_t a, int32_t b) {
  if (std::isnan(row[a]) || std::isnan(row[b])) {
    return std::isnan(row[a]) == std::isnan(row[b]) ? a < b : std::isnan(row[b]);
  }
  return row[a] != row[b] ? row[a] > row[b] : a < b;
}

// The logarithm of the sum of exponentials.
double LogSum(const float* row, int64_t size) {
  const double maximum = *std::max_element(row, row + size);
  double sum = 0;
  for (int64_t v = 0; v < size; ++v) sum += std::exp(row[v] - maximum);
  return maximum + std::log(sum);
}

class ReferenceBackend final : public Backend,
                               private LatentOps,
                               private OpenAttentionOps,
                               private CrossAttentionOps,
                               private ReferenceAdapters {
 public:
  explicit ReferenceBackend(DType operand_dtype) : operand_dtype_(operand_dtype) {}

  std::string_view name() const override { return "reference"; }
  DType operand_dtype() const override { return operand_dtype_; }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) override {
    return std::make_unique<HeapBuffer>(size_bytes);
  }

  void CopyIn(absl::Span<const std::byte> host, void* device) override {
    std::copy(host.begin(), host.end(), static_cast<std::byte*>(device));
  }

  absl::Status CopyOut(const void* device, absl::Span<std::byte> host) override {
    std::copy_n(static_cast<const std::byte*>(device), host.size(), host.begin());
    return absl::OkStatus();
  }

  absl::Status Synchronize(Deadline) override { return absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                     const RowReader& read) override {
    std::vector<std::byte> row(RowBytes(spec.format.weights, spec.num_inputs));
    std::vector<float> elements(spec.num_outputs * spec.num_inputs);
    for (int64_t n = 0; n < spec.num_outputs; ++n) {
      if (absl::Status status = read(n, n + 1, absl::MakeSpan(row)); !status.ok()) return status;
      DecodeRow(spec.format.weights, row,
                absl::MakeSpan(elements).subspan(n * spec.num_inputs, spec.num_inputs));
    }
    return std::make_unique<RowMajorMatrix>(spec, std::move(elements));
  }

  absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) override {
    return std::make_unique<ReferenceKvPool>(spec);
  }

  void ReserveForGemm(const PackedMatrix&, int64_t) override {}
  void ReserveForAttention(const KvPool&, int64_t) override {}

  absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) override {
    return HostRankGroup::Create(spec, *this);
  }

  LatentOps* latents() override { return this; }
  ExpertOps* experts() override { return &experts_; }
  RecurrentOps* recurrence() override { return &recurrence_; }
  AdapterOps* adapters() override { return this; }
  OpenAttentionOps* open_attention() override { return this; }
  CrossAttentionOps* cross_attention() override { return this; }

  void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) override {
    step_.Begin(segments, rows);
  }

  void GatherRows(MatrixView table, absl::Span<const int32_t> rows, MatrixView out) override {
    for (int64_t t = 0; t < out.rows; ++t) {
      SLUICE_CHECK(0 <= rows[t] && rows[t] < table.rows);
      for (int64_t h = 0; h < out.cols; ++h) out.Row(t)[h] = LoadElement(table, rows[t], h);
    }
  }

  absl::Status GatherElements(MatrixView x, absl::Span<const MatrixElement> elements,
                              absl::Span<float> values) override {
    for (size_t i = 0; i < elements.size(); ++i) {
      values[i] = x.Row(elements[i].row)[elements[i].col];
    }
    return absl::OkStatus();
  }

  void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) override {
    reference::RmsNorm(x, weight, eps, out);
  }

  void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                 MatrixView out) override {
    reference::LayerNorm(x, weight, bias, eps, out);
  }

  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
            const GemmEpilogue& epilogue) override {
    GemmWithAddends(x, weights, out, epilogue, SumAddends());
  }

  void GemmWithAddends(MatrixView x, const PackedMatrix& weights, MatrixView out,
                       const GemmEpilogue& epilogue, const SumAddends& addends) override {
    const auto& matrix = static_cast<const RowMajorMatrix&>(weights);
    SLUICE_CHECK(x.cols == matrix.num_inputs() && out.cols == matrix.num_columns());
    SLUICE_CHECK(!matrix.gated() || epilogue.activation.has_value());
    for (int64_t t = 0; t < x.rows; ++t) {
      const std::vector<float> row = matrix.Operand(x, t);
      for (int64_t n = 0; n < out.cols; ++n) {
        const auto sum = [&](int64_t output) {
          return Sum(row, matrix, output, epilogue.bias) + AddendOf(addends, t, output);
        };
        double result = sum(n);
        const double up = matrix.gated() ? sum(out.cols + n) : 1;
        if (epilogue.activation == Activation::kClampedSwiGlu) {
          result = ClampedSwiGlu(epilogue.clamp, result, up);
        } else {
          if (epilogue.activation.has_value()) result = Activated(*epilogue.activation, result);
          if (matrix.gated()) result *= up;
        }
        const auto rounded = static_cast<float>(result);
        StoreElement(out, t, n, epilogue.add_to_out ? LoadElement(out, t, n) + rounded : rounded);
      }
    }
  }

  void GroupedGemmWithAddends(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                              const GroupedOptions& options, const SumAddends& addends,
                              MatrixView out) override {
    for (int expert = 0; expert < routing.num_experts; ++expert) {
      const PackedMatrix& matrix = weights.Of(expert);
      const float* const bias =
          options.bias == nullptr ? nullptr : options.bias + expert * matrix.num_outputs();
      for (int32_t g = routing.first[expert]; g < routing.first[expert + 1]; ++g) {
        std::vector<float> row(x.cols);
        const float weight = options.weighs_inputs ? routing.weights[g] : 1;
        for (int64_t k = 0; k < x.cols; ++k) row[k] = weight * LoadElement(x, routing.rows[g], k);
        GemmWithAddends({row.data(), DType::kF32, 1, x.cols, x.cols}, matrix, out.Rows(g, 1),
                        {.bias = bias, .activation = options.activation, .clamp = options.clamp},
                        {.values = addends.values.Rows(g, 1), .rows = addends.rows + g});
      }
    }
  }

  void ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& params, int layer,
                                 KvPool& pool) override {
    const int64_t query_width = int64_t{params.num_heads} * params.head_dim;
    const int64_t kv_width = int64_t{params.num_kv_heads} * params.head_dim;
    SLUICE_CHECK(qkv.cols == query_width + 2 * kv_width);
    if (params.clip > 0) reference::Clamp(params.clip, qkv);
    const MatrixView queries = qkv.Columns(0, query_width);
    const MatrixView keys = qkv.Columns(query_width, kv_width);
    if (params.query_norm != nullptr) reference::NormQueryHeads(queries, params);
    if (params.key_norm != nullptr) reference::NormKeyHeads(keys, params);
    if (params.rotations != nullptr) {
      reference::Rope(queries, params.head_dim, *params.rotations, params.layout, step_);
      reference::Rope(keys, params.head_dim, *params.rotations, params.layout, step_);
    }
    if (params.num_kv_heads == 0) return;
    ReferenceStoreKv(keys, qkv.Columns(query_width + kv_width, kv_width), step_.segments(), layer,
                     static_cast<ReferenceKvPool&>(pool));
  }

  void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) override {
    for (const KvBlockCopy& copy : copies) static_cast<ReferenceKvPool&>(pool).CopyBlock(copy);
  }

  void PagedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      MatrixView out) override {
    OpenAttention(q, pool, layer, options, /*ahead=*/0, out);
  }

  void OpenAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                     int64_t ahead, MatrixView out) override {
    ReferenceAttention(q, static_cast<const ReferenceKvPool&>(pool), layer, step_.segments(),
                       options, /*bias=*/{}, ahead, out);
  }

  void BiasedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                       const DistanceBias& bias, int64_t ahead, MatrixView out) override {
    ReferenceAttention(q, static_cast<const ReferenceKvPool&>(pool), layer, step_.segments(),
                       options, bias, ahead, out);
  }

  void CrossAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      absl::Span<const SourceSegment> sources, MatrixView out) override {
    std::vector<AttentionSegment> segments;
    for (const SourceSegment& source : sources) segments.push_back(AsAttentionSegment(source));
    ReferenceAttention(q, static_cast<const ReferenceKvPool&>(pool), layer, segments, options,
                       /*bias=*/{}, kWholeSource, out);
  }

  void Scale(float factor, MatrixView x) override {
    for (int64_t t = 0; t < x.rows; ++t) {
      for (int64_t n = 0; n < x.cols; ++n) x.Row(t)[n] *= factor;
    }
  }

  void ScaleRows(const float* factors, MatrixView x) override {
    for (int64_t t = 0; t < x.rows; ++t) Scale(factors[t], x.Rows(t, 1));
  }

  void SoftCap(float cap, MatrixView x) override {
    for (int64_t t = 0; t < x.rows; ++t) {
      for (int64_t n = 0; n < x.cols; ++n) {
        float& element = x.Row(t)[n];
        element = static_cast<float>(cap * std::tanh(double{element} / cap));
      }
    }
  }

  void SumSquares(MatrixView x, int /*num_slices*/, MatrixView out) override {
    for (int64_t t = 0; t < x.rows; ++t) {
      double squares = 0;
      for (int64_t n = 0; n < x.cols; ++n) squares += double{x.Row(t)[n]} * x.Row(t)[n];
      *out.Row(t) = static_cast<float>(squares);
    }
  }

  void RmsNormOfPart(MatrixView x, MatrixView squares, int64_t count, const float* weight,
                     float eps) override {
    for (int64_t t = 0; t < x.rows; ++t) {
      const double rms = std::sqrt(*squares.Row(t) / static_cast<double>(count) + eps);
      for (int64_t n = 0; n < x.cols; ++n) {
        x.Row(t)[n] = static_cast<float>(x.Row(t)[n] / rms * weight[n]);
      }
    }
  }

  void AddResidual(MatrixView x, MatrixView residual) override {
    reference::AddResidual(x, residual);
  }

  void TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) override {
    for (int64_t t = 0; t < out.rows; ++t) {
      for (int64_t n = 0; n < out.cols; ++n) out.Row(t)[n] = TreeSum(partials, t, n);
    }
  }

  void TreeAddToResidual(absl::Span<const MatrixView> partials,
                         const ResidualUpdate& update) override {
    const MatrixView sum = partials[0];
    TreeAdd(partials, sum);
    if (update.bias != nullptr) reference::AddBias(update.bias, sum);
    reference::AddResidual(sum, update.residual);
    if (!update.norm.has_value()) return;
    const RowNorm& norm = *update.norm;
    if (norm.centred) {
      LayerNorm(update.residual, norm.weight, norm.bias, norm.eps, update.normed);
    } else {
      RmsNorm(update.residual, norm.weight, norm.eps, update.normed);
    }
  }

  void LogSoftmax(MatrixView x, MatrixView out) override {
    for (int64_t t = 0; t < x.rows; ++t) {
      const float* row = x.Row(t);
      const double log_sum = LogSum(row, x.cols);
      for (int64_t v = 0; v < x.cols; ++v) out.Row(t)[v] = static_cast<float>(row[v] - log_sum);
    }
  }

  absl::Status TopK(MatrixView x, int k, absl::Span<float> values,
                    absl::Span<int32_t> ids) override {
    std::vector<int32_t> order(x.cols);
    for (int64_t t = 0; t < x.rows; ++t) {
      const float* row = x.Row(t);
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(),
                [row](int32_t a, int32_t b) { return Ranks(row, a, b); });
      for (int i = 0; i < k; ++i) {
        ids[t * k + i] = order[i];
        values[t * k + i] = row[order[i]];
      }
    }
    return absl::OkStatus();
  }

  absl::Status Sample(MatrixView logits, absl::Span<const SampleRow> rows,
                      absl::Span<SampledRow> results) override {
    for (int64_t t = 0; t < logits.rows; ++t) {
      const float* row = logits.Row(t);
      SampledRow& result = results[t];
      result = ReferenceSample({row, static_cast<size_t>(logits.cols)}, rows[t]);
      if (!rows[t].wants_logprob || result.error != SampleError::kNone) continue;
      result.logprob = static_cast<float>(row[result.token.id] - LogSum(row, logits.cols));
    }
    return absl::OkStatus();
  }

 private:
  void GemmOfHeads(const HeadColumns& x, absl::Span<const PackedMatrix* const> weights,
                   const HeadColumns& out) override {
    for (size_t head = 0; head < weights.size(); ++head) {
      const PackedMatrix& matrix = *weights[head];
      Gemm(x.Of(head, matrix.num_inputs()), matrix, out.Of(head, matrix.num_outputs()), {});
    }
  }

  void ReserveForGemmOfHeads(absl::Span<const PackedMatrix* const>, int64_t) override {}

  void PrepareLatentAttention(MatrixView q, MatrixView kv, const LatentParams& params, int layer,
                              KvPool& pool, MatrixView queries) override {
    const int query_dim = params.nope_dim + params.rope_dim;
    const int stored_dim = params.latent_dim + params.rope_dim;
    SLUICE_CHECK(kv.cols == stored_dim && q.cols == int64_t{params.num_heads} * query_dim);
    SLUICE_CHECK(queries.cols == int64_t{params.num_heads} * stored_dim);
    const MatrixView latent = kv.Columns(0, params.latent_dim);
    reference::RmsNorm(latent, params.latent_norm, params.norm_eps, latent);
    reference::Rope(kv.Columns(params.latent_dim, params.rope_dim), params.rope_dim,
                    *params.rotations, params.layout, step_);
    ReferenceStoreLatent(kv, step_.segments(), layer, static_cast<ReferenceKvPool&>(pool));
    for (int head = 0; head < params.num_heads; ++head) {
      const MatrixView from = q.Columns(head * query_dim + params.nope_dim, params.rope_dim);
      const MatrixView to = queries.Columns(head * stored_dim + params.latent_dim, params.rope_dim);
      for (int64_t t = 0; t < q.rows; ++t) std::copy_n(from.Row(t), from.cols, to.Row(t));
      reference::Rope(to, params.rope_dim, *params.rotations, params.layout, step_);
    }
  }

  const DType operand_dtype_;
  ReferenceExperts experts_{*this};
  ReferenceRecurrent recurrence_;
  HostStep step_;
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend(DType operand_dtype) {
  return std::make_unique<ReferenceBackend>(operand_dtype);
}

}  // namespace sluice
