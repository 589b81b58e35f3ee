#include "services/sampler/lm_head.h"

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

void LmHead::Logits(MatrixView hidden, MatrixView logits) {
  SLUICE_CHECK(hidden.rows <= max_rows_);
  SLUICE_CHECK(hidden.cols == hidden_size() || hidden.cols == row_width());
  hidden = hidden.Columns(0, hidden_size());
  SLUICE_CHECK(logits.rows == hidden.rows && logits.cols == vocab_size());
  const MatrixView normed{normed_->data(), backend_->operand_dtype(), hidden.rows, hidden.cols,
                          hidden.cols};
  Norm(hidden, normed);
  backend_->Gemm(normed, *head_, logits, {.bias = DataOrNull(head_bias_)});
  if (logit_scale_ != 1) backend_->Scale(logit_scale_, logits);
  if (logit_softcap_ > 0) backend_->SoftCap(logit_softcap_, logits);
}

void LmHead::Norm(MatrixView x, MatrixView out) {
  const auto* weight = static_cast<const float*>(norm_->data());
  if (norm_kind_ == NormKind::kRmsNorm) return backend_->RmsNorm(x, weight, norm_eps_, out);
  backend_->LayerNorm(x, weight, DataOrNull(norm_bias_), norm_eps_, out);
}

}  // namespace sluice
