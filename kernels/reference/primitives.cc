#include "kernels/reference/primitives.h"

#include <cmath>

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

void HeadRmsNorm(MatrixView x, int head_dim, const float* weight, float eps) {
  for (int64_t first = 0; first < x.cols; first += head_dim) {
    const MatrixView head = x.Columns(first, head_dim);
    RmsNorm(head, weight, eps, head);
  }
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
