#include "kernels/reference/primitives.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/reference/element.h"

namespace sluice::reference {

void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) {
  for (int64_t t = 0; t < x.rows; ++t) {
    double squares = 0;
    for (int64_t h = 0; h < x.cols; ++h) squares += double{x.Row(t)[h]} * x.Row(t)[h];
    const double rms = std::sqrt(squares / static_cast<double>(x.cols) + eps);
    for (int64_t h = 0; h < x.cols; ++h) {
      StoreElement(out, t, h, static_cast<float>(x.Row(t)[h] / rms * weight[h]));
    }
  }
}

void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps, MatrixView out) {
  const auto size = static_cast<double>(x.cols);
  for (int64_t t = 0; t < x.rows; ++t) {
    const float* row = x.Row(t);
    const double mean = std::accumulate(row, row + x.cols, 0.0) / size;
    double squares = 0;
    for (int64_t h = 0; h < x.cols; ++h) squares += (row[h] - mean) * (row[h] - mean);
    const double deviation = std::sqrt(squares / size + eps);
    for (int64_t h = 0; h < x.cols; ++h) {
      const double shift = bias == nullptr ? 0 : bias[h];
      const double scaled = (row[h] - mean) / deviation * weight[h];
      StoreElement(out, t, h, static_cast<float>(scaled + shift));
    }
  }
}

namespace {

void NormHeads(MatrixView x, const float* weight, const float* bias,
               const QkNormRopeParams& params) {
  for (int64_t first = 0; first < x.cols; first += params.head_dim) {
    const MatrixView head = x.Columns(first, params.head_dim);
    const float* const own = params.norms_by_head ? weight + first : weight;
    if (params.norms_centred) {
      LayerNorm(head, own, bias, params.norm_eps, head);
    } else {
      RmsNorm(head, own, params.norm_eps, head);
    }
  }
}

}  // namespace

void NormQueryHeads(MatrixView queries, const QkNormRopeParams& params) {
  NormHeads(queries, params.query_norm, params.query_norm_bias, params);
}

void NormKeyHeads(MatrixView keys, const QkNormRopeParams& params) {
  NormHeads(keys, params.key_norm, params.key_norm_bias, params);
}

void Rope(MatrixView x, int head_dim, const RopeTables& tables, RopeLayout layout,
          const HostStep& step) {
  step.CheckRope(x, head_dim, tables);
  const int64_t pairs = tables.cos.cols;
  const bool neighbours = layout == RopeLayout::kInterleaved;
  for (int64_t t = 0; t < x.rows; ++t) {
    const float* cos = tables.cos.Row(step.RopeRow(tables, t));
    const float* sin = tables.sin.Row(step.RopeRow(tables, t));
    for (float* head = x.Row(t); head != x.Row(t) + x.cols; head += head_dim) {
      for (int64_t i = 0; i < pairs; ++i) {
        float& first = head[neighbours ? 2 * i : i];
        float& second = head[neighbours ? 2 * i + 1 : i + pairs];
        const double a = first, b = second, c = cos[i], s = sin[i];
        first = static_cast<float>(a * c - b * s);
        second = static_cast<float>(b * c + a * s);
      }
    }
  }
}

void Clamp(float limit, MatrixView x) {
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t n = 0; n < x.cols; ++n) x.Row(t)[n] = std::clamp(x.Row(t)[n], -limit, limit);
  }
}

void AddBias(const float* bias, MatrixView x) {
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t n = 0; n < x.cols; ++n) x.Row(t)[n] += bias[n];
  }
}

void AddResidual(MatrixView x, MatrixView residual) {
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t h = 0; h < x.cols; ++h) residual.Row(t)[h] += x.Row(t)[h];
  }
}

}  // namespace sluice::reference
