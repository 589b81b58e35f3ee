#include "services/sampler/lm_head.h"

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

absl::StatusOr<LmHead> LmHead::Load(const ModelConfig& config, const WeightSource& source,
                                    WeightType weights, int64_t max_rows, Backend& backend) {
  SLUICE_CHECK(max_rows >= 1);
  if (config.norm != NormKind::kRmsNorm) {
    return absl::UnimplementedError(
        absl::StrCat("model_type ", config.model_type, ": this sampler computes RMSNorm only"));
  }
  LmHead head(backend, config.norm_eps, max_rows);
  auto normed = backend.Allocate(max_rows * config.hidden_size * sizeof(float));
  absl::Status status = normed.status();
  if (status.ok()) status = head.LoadNorm(config, source);
  if (status.ok()) status = head.LoadHead(config, source, source.Resolve(weights));
  if (!status.ok()) return status;
  head.normed_ = *std::move(normed);
  return head;
}

absl::Status LmHead::LoadNorm(const ModelConfig& config, const WeightSource& source) {
  const auto norm =
      source.ReadFloats(ModelTensor::kFinalNorm, WholeOf(ShapeOf(ModelTensor::kFinalNorm, config)));
  if (!norm.ok()) return norm.status();
  auto memory = backend_->Allocate(norm->size() * sizeof(float));
  if (!memory.ok()) return memory.status();
  norm_ = *std::move(memory);
  backend_->CopyIn({reinterpret_cast<const std::byte*>(norm->data()), norm->size() * sizeof(float)},
                   norm_->data());
  return backend_->Synchronize();  // `norm` goes
}

absl::Status LmHead::LoadHead(const ModelConfig& config, const WeightSource& source, DType dtype) {
  const MatrixShape shape = ShapeOf(ModelTensor::kHead, config);
  auto packed = backend_->Pack(
      {.num_outputs = shape.rows, .num_inputs = shape.columns, .dtype = dtype},
      [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
        return source.Read(ModelTensor::kHead, WholeOf(shape).Rows(begin, end), dtype, out);
      });
  if (!packed.ok()) return packed.status();
  head_ = *std::move(packed);
  return absl::OkStatus();
}

void LmHead::Logits(MatrixView hidden, MatrixView logits) {
  SLUICE_CHECK(hidden.rows <= max_rows_ && hidden.cols == hidden_size());
  SLUICE_CHECK(logits.rows == hidden.rows && logits.cols == vocab_size());
  const MatrixView normed{normed_->data(), DType::kF32, hidden.rows, hidden.cols, hidden.cols};
  backend_->RmsNorm(hidden, static_cast<const float*>(norm_->data()), norm_eps_, normed);
  backend_->Gemm(normed, *head_, logits);
}

}  // namespace sluice
