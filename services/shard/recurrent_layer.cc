// ShardModel's layers with a state in place of keys and values.
#include "kernels/recurrent_ops.h"
#include "services/shard/shard_model.h"

namespace sluice {

absl::Status ShardModel::RunRecurrence(const RecurrentWeights& weights, int index,
                                       const Step& step) {
  const RecurrentSpec& spec = weights.spec;
  const RecurrentViews& views = step.views.recurrent;
  RecurrentOps& ops = *backend_.recurrence();
  const bool has_correction = spec.kind == RecurrenceKind::kGatedDelta;
  const auto multiply = [&](const PackedMatrix& matrix, TensorRole first, MatrixView out) {
    return Multiply(step.input, matrix, first, out, {}, step);
  };
  absl::Status made = multiply(*weights.mixed, TensorRole::kRecurrentQ, views.mixed);
  if (made.ok()) made = multiply(*weights.gate, TensorRole::kRecurrentGate, views.gate);
  if (made.ok() && has_correction) made = multiply(*weights.beta, TensorRole::kBeta, views.beta);
  if (made.ok()) made = multiply(*weights.decay, TensorRole::kDecay, views.decay);
  if (!made.ok()) return made;
  ops.Recur({.mixed = views.mixed, .gate = views.gate, .beta = views.beta, .decay = views.decay},
            {.has_correction = has_correction,
             .conv = weights.conv.data(),
             .conv_bias = weights.conv_bias.data_or_null(),
             .decay_bias = weights.decay_bias.data(),
             .log_rate = weights.log_rate.data(),
             .norm = has_correction ? weights.norm.data() : nullptr,
             .norm_eps = spec.norm_eps,
             .skip = weights.skip.data_or_null(),
             .least_step = spec.least_step,
             .most_step = spec.most_step},
            pool_layers_[index], *state_pool_, views.attended);
  if (has_correction) return absl::OkStatus();
  if (spec.norm_groups > 1) {
    const int groups = spec.norm_groups / plan_.placement.num_ranks;
    ops.GroupRmsNorm(views.attended, weights.norm.data(), spec.norm_eps, groups, views.attended);
    return absl::OkStatus();
  }
  return NormOverRanks(weights, step);
}

absl::Status ShardModel::NormOverRanks(const RecurrentWeights& weights, const Step& step) {
  const MatrixView x = step.views.recurrent.attended;
  MatrixView squares = step.views.squares;
  backend_.SumSquares(x, static_cast<int>(plan_.recurrent_out.slices.size()),
                      squares.Columns(0, 1));
  if (square_ranks_ != nullptr) {
    backend_.SumSquares(x.Columns(0, 0), 1, squares.Columns(1, 1));  // not used
    const MatrixView zeros = step.views.zeros.Columns(0, 2);
    backend_.TreeAdd({&zeros, 1}, step.views.all_squares);
    const ResidualUpdate update{.residual = step.views.all_squares};
    if (absl::Status sent = square_ranks_->SumToResidual(squares, update); !sent.ok()) return sent;
    squares = step.views.all_squares;
  }
  backend_.RmsNormOfPart(x, squares.Columns(0, 1), weights.spec.values_width(), weights.norm.data(),
                         weights.spec.norm_eps);
  return absl::OkStatus();
}

}  // namespace sluice
