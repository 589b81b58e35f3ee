#include "services/sampler/lm_head.h"

#include <algorithm>
#include <cstring>

#include "kernels/check.h"

namespace sluice {

absl::StatusOr<LmHead> LmHead::Load(const ModelConfig& config, const WeightSource& source,
                                    WeightType weights, int64_t max_rows, Backend& backend) {
  SLUICE_CHECK(max_rows >= 1);
  const auto format = source.Resolve(weights);
  if (!format.ok()) return format.status();
  LmHead head(backend, config, max_rows);
  auto normed = backend.Allocate(max_rows * config.hidden_size * SizeOf(backend.operand_dtype()));
  absl::Status status = normed.status();
  if (status.ok()) status = head.LoadNorm(config, source);
  if (status.ok()) status = head.LoadHead(config, source, *format);
  if (!status.ok()) return status;
  head.normed_ = *std::move(normed);
  return head;
}

absl::Status LmHead::LoadNorm(const ModelConfig& config, const WeightSource& source) {
  if (!config.final_norm) return absl::OkStatus();
  auto weight = LoadVector(config, source, {TensorRole::kFinalNorm});
  if (!weight.ok()) return weight.status();
  norm_ = *std::move(weight);
  if (!config.norm_bias) return absl::OkStatus();
  auto bias = LoadVector(config, source, {TensorRole::kFinalNormBias});
  if (!bias.ok()) return bias.status();
  norm_bias_ = *std::move(bias);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Buffer>> LmHead::LoadVector(const ModelConfig& config,
                                                           const WeightSource& source,
                                                           TensorId tensor) {
  const auto values = source.ReadFloats(tensor, WholeOf(ShapeOf(tensor, config)));
  if (!values.ok()) return values.status();
  auto memory = backend_->Allocate(values->size() * sizeof(float));
  if (!memory.ok()) return memory.status();
  backend_->CopyIn(
      {reinterpret_cast<const std::byte*>(values->data()), values->size() * sizeof(float)},
      (*memory)->data());
  return memory;
}

absl::Status LmHead::LoadHead(const ModelConfig& config, const WeightSource& source,
                              WeightFormat wanted) {
  const TensorId tensor{TensorRole::kHead};
  const WeightFormat format = FormatOf(tensor, config, wanted);
  const MatrixShape shape = ShapeOf(tensor, config);
  auto packed =
      backend_->Pack({.num_outputs = shape.rows, .num_inputs = shape.columns, .format = format},
                     [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
                       return source.Read(tensor, WholeOf(shape).Rows(begin, end), format, out);
                     });
  if (!packed.ok()) return packed.status();
  head_ = *std::move(packed);
  format_ = format;
  backend_->ReserveForGemm(*head_, max_rows_);
  if (!config.head_bias) return absl::OkStatus();
  auto bias = LoadVector(config, source, {TensorRole::kHeadBias});
  if (!bias.ok()) return bias.status();
  head_bias_ = *std::move(bias);
  return absl::OkStatus();
}

absl::Status LmHead::LoadAdapter(int slot, const AdapterSource& source) {
  DropAdapter(slot);
  const TensorId tensor{TensorRole::kHead};
  if (!source.Has(tensor) && !source.Replaces(tensor)) return absl::OkStatus();
  auto adapter = std::make_unique<HeadAdapter>(*backend_);
  if (source.Replaces(tensor)) {
    auto packed = backend_->Pack(
        {.num_outputs = shape_.rows, .num_inputs = shape_.columns, .format = WeightFormat::kF32},
        [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
          const std::vector<float> rows = source.ReadSaved(tensor, {begin, end});
          std::memcpy(out.data(), rows.data(), out.size());
          return absl::OkStatus();
        });
    if (!packed.ok()) return packed.status();
    adapter->replaced = *std::move(packed);
    backend_->ReserveForGemm(*adapter->replaced, max_rows_);
  }
  if (source.Has(tensor)) {
    const LowRankFactors read = source.Read(tensor, WholeOf(shape_));
    const PlainAdapter plain{
        .a = read.a, .b = read.b, .rank = read.rank, .num_outputs = shape_.rows};
    auto factors = adapter->memory.Add({&plain, 1}, shape_.columns, 1);
    if (!factors.ok()) return factors.status();
    adapter->factors = *std::move(factors);
    const size_t bytes = max_rows_ * adapter->factors->rank * sizeof(float);
    if (sums_ == nullptr || sums_->size_bytes() < bytes) {
      auto memory = backend_->Allocate(bytes);
      if (!memory.ok()) return memory.status();
      sums_ = *std::move(memory);
    }
  }
  if (adapters_.size() <= static_cast<size_t>(slot)) adapters_.resize(slot + 1);
  adapters_[slot] = std::move(adapter);
  return absl::OkStatus();
}

void LmHead::DropAdapter(int slot) {
  if (static_cast<size_t>(slot) < adapters_.size()) adapters_[slot] = nullptr;
}

const PackedMatrix& LmHead::HeadOf(int32_t slot) const {
  const bool has = slot >= 0 && static_cast<size_t>(slot) < adapters_.size() &&
                   adapters_[slot] != nullptr && adapters_[slot]->replaced != nullptr;
  return has ? *adapters_[slot]->replaced : *head_;
}

void LmHead::AddAdapters(MatrixView normed, absl::Span<const int32_t> slots, MatrixView logits) {
  std::vector<const AdapterFactors*> factors(adapters_.size());
  std::vector<int32_t> known(slots.begin(), slots.end());
  int64_t width = 0;
  for (int32_t& slot : known) {
    if (slot < 0 || static_cast<size_t>(slot) >= adapters_.size()) slot = -1;
    if (slot < 0 || adapters_[slot] == nullptr || !adapters_[slot]->factors.has_value()) continue;
    factors[slot] = &*adapters_[slot]->factors;
    width = std::max(width, factors[slot]->rank);
  }
  if (width == 0) return;
  const MatrixView sums{sums_->data(), DType::kF32, normed.rows, width, width};
  AdapterOps& ops = *backend_->adapters();
  ops.SumAdapterInputs(normed, known, factors, sums);
  ops.AddAdapterOutputs(sums, known, factors, /*scores=*/nullptr, logits);
}

void LmHead::Logits(MatrixView hidden, absl::Span<const int32_t> slots, MatrixView logits) {
  SLUICE_CHECK(hidden.rows <= max_rows_);
  SLUICE_CHECK(hidden.cols == hidden_size() || hidden.cols == row_width());
  hidden = hidden.Columns(0, hidden_size());
  SLUICE_CHECK(logits.rows == hidden.rows && logits.cols == vocab_size());
  const MatrixView normed{normed_->data(), backend_->operand_dtype(), hidden.rows, hidden.cols,
                          hidden.cols};
  Norm(hidden, normed);
  // Rows one after another that have the same head.
  for (int64_t begin = 0, end = 0; begin < normed.rows; begin = end) {
    const PackedMatrix* const head = slots.empty() ? head_.get() : &HeadOf(slots[begin]);
    end = slots.empty() ? normed.rows : begin + 1;
    while (end < normed.rows && &HeadOf(slots[end]) == head) ++end;
    backend_->Gemm(normed.Rows(begin, end - begin), *head, logits.Rows(begin, end - begin),
                   {.bias = DataOrNull(head_bias_)});
  }
  if (!slots.empty()) AddAdapters(normed, slots, logits);
  if (logit_scale_ != 1) backend_->Scale(logit_scale_, logits);
  if (logit_softcap_ > 0) backend_->SoftCap(logit_softcap_, logits);
}

void LmHead::Norm(MatrixView x, MatrixView out) {
  if (norm_ == nullptr) return backend_->TreeAdd({&x, 1}, out);
  const auto* weight = static_cast<const float*>(norm_->data());
  if (norm_kind_ == NormKind::kRmsNorm) return backend_->RmsNorm(x, weight, norm_eps_, out);
  backend_->LayerNorm(x, weight, DataOrNull(norm_bias_), norm_eps_, out);
}

}  // namespace sluice
