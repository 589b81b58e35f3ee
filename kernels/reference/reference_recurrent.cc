#include "kernels/reference/reference_recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/check.h"
#include "kernels/reference/element.h"

namespace sluice {
namespace {

constexpr int64_t kRun = StatePoolSpec::kRun;

class ReferenceStatePool final : public StatePool {
 public:
  explicit ReferenceStatePool(const StatePoolSpec& spec)
      : spec_(spec),
        floats_(size_t{1} * spec.num_layers * spec.num_slots * spec.floats_per_slot()) {}

  size_t size_bytes() const override { return floats_.size() * sizeof(float); }
  const StatePoolSpec& spec() const { return spec_; }
  float* Slot(int layer, int32_t slot) {
    SLUICE_CHECK(0 <= layer && layer < spec_.num_layers && 0 <= slot && slot < spec_.num_slots);
    return &floats_[(size_t{1} * layer * spec_.num_slots + slot) * spec_.floats_per_slot()];
  }

 private:
  const StatePoolSpec spec_;
  std::vector<float> floats_;
};

double SigmoidAt(double x) { return 1 / (1 + std::exp(-x)); }
double SiluAt(double x) { return x * SigmoidAt(x); }
double SoftPlusAt(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// One position of a layer.
class Position {
 public:
  Position(const RecurrenceInputs& inputs, const RecurrenceParams& params,
           const StatePoolSpec& spec, float* slot, const float* previous, int64_t position,
           int64_t row)
      : inputs_(inputs),
        params_(params),
        spec_(spec),
        slot_(slot),
        previous_(previous),
        position_(position),
        i_(position % kRun),
        row_(row) {}

  // The memory at the boundary, before anything is written to the slot, which may be the previous one.
  void CrossBoundary() {
    if (i_ > 0 || position_ == 0) return;
    for (int64_t head = 0; head < spec_.num_heads; ++head) AdvanceMemory(head);
  }

  void Convolve() {
    const int64_t channels = spec_.channels(), before = spec_.conv_width - 1;
    float* const kept = slot_ + spec_.inputs_begin();
    float* const x = inputs_.mixed.Row(row_);
    if (i_ == 0) {
      for (int64_t j = 0; j < before * channels; ++j) {
        kept[j] = position_ == 0 ? 0 : previous_[spec_.inputs_begin() + kRun * channels + j];
      }
    }
    for (int64_t c = 0; c < channels; ++c) {
      kept[(before + i_) * channels + c] = x[c];
      double sum = params_.conv_bias == nullptr ? 0 : params_.conv_bias[c];
      for (int64_t j = 0; j <= before; ++j) {
        sum += double{params_.conv[j * channels + c]} * kept[(i_ + j) * channels + c];
      }
      x[c] = static_cast<float>(SiluAt(sum));
    }
  }

  // Queries and keys, keys into the slot as well.
  void PlaceKeys() {
    const int64_t size = spec_.key_dim;
    for (int64_t head = 0; head < 2 * spec_.num_key_heads; ++head) {
      float* const x = inputs_.mixed.Row(row_) + head * size;
      double squares = 0;
      for (int64_t d = 0; d < size; ++d) squares += double{x[d]} * x[d];
      const bool is_query = head < spec_.num_key_heads;
      for (int64_t d = 0; d < size; ++d) {
        if (params_.has_correction) {
          x[d] = static_cast<float>(x[d] / std::sqrt(squares + 1e-6) /
                                    (is_query ? std::sqrt(static_cast<double>(size)) : 1.0));
        }
        if (!is_query) Key(slot_, head - spec_.num_key_heads, d, i_) = x[d];
      }
    }
  }

  void RecurHead(int64_t head, MatrixView out) {
    const int64_t width = spec_.value_dim;
    const float* const mixed = inputs_.mixed.Row(row_);
    const float* const query = mixed + KeyHead(head) * spec_.key_dim;
    const float* const key = query + spec_.keys_width();
    const float* const value = mixed + 2 * spec_.keys_width() + head * width;
    double step = SoftPlusAt(double{inputs_.decay.Row(row_)[head]} + params_.decay_bias[head]);
    if (!params_.has_correction) {
      step = std::clamp(step, double{params_.least_step}, double{params_.most_step});
    }
    Factor(slot_, head, i_) =
        static_cast<float>(std::exp(-std::exp(double{params_.log_rate[head]}) * step));
    const double factor = params_.has_correction ? SigmoidAt(inputs_.beta.Row(row_)[head]) : step;
    std::vector<double> said(width);
    if (params_.has_correction) said = Read(head, key, i_ - 1);
    for (int64_t v = 0; v < width; ++v) {
      Written(slot_, head, i_, v) = static_cast<float>(factor * (value[v] - said[v]));
    }
    Finish(head, Read(head, query, i_), value, out);
  }

 private:
  int64_t KeyHead(int64_t head) const { return head / spec_.heads_per_key_head(); }
  template <class T>
  T& Memory(T* slot, int64_t head, int64_t d, int64_t v) const {
    return slot[(head * spec_.key_dim + d) * spec_.value_dim + v];
  }
  template <class T>
  T& Key(T* slot, int64_t key_head, int64_t d, int64_t i) const {
    return slot[spec_.keys_begin() + (key_head * spec_.key_dim + d) * kRun + i];
  }
  template <class T>
  T& Written(T* slot, int64_t head, int64_t i, int64_t v) const {
    return slot[spec_.written_begin() + (head * kRun + i) * spec_.value_dim + v];
  }
  template <class T>
  T& Factor(T* slot, int64_t head, int64_t i) const {
    return slot[spec_.factors_begin() + head * kRun + i];
  }

  // By how much what position b + j wrote has faded by position b + last, and, first, what was there
  // before b.
  std::vector<double> Fades(const float* slot, int64_t head, int64_t last) const {
    std::vector<double> fades(last + 2, 1);
    for (int64_t j = last; j >= 0; --j) fades[j] = fades[j + 1] * Factor(slot, head, j);
    return fades;
  }

  // What the memory, with what was written up to slot row `last`, says of x.
  std::vector<double> Read(int64_t head, const float* x, int64_t last) const {
    const std::vector<double> fades = Fades(slot_, head, i_);
    std::vector<double> sums(spec_.value_dim);
    for (int64_t v = 0; v < spec_.value_dim && position_ >= kRun; ++v) {
      for (int64_t d = 0; d < spec_.key_dim; ++d) {
        sums[v] += double{x[d]} * Memory(slot_, head, d, v);
      }
      sums[v] *= fades[0];
    }
    for (int64_t j = 0; j <= last; ++j) {
      double product = 0;
      for (int64_t d = 0; d < spec_.key_dim; ++d) {
        product += double{x[d]} * Key(slot_, KeyHead(head), d, j);
      }
      for (int64_t v = 0; v < spec_.value_dim; ++v) {
        sums[v] += fades[j + 1] * product * Written(slot_, head, j, v);
      }
    }
    return sums;
  }

  void AdvanceMemory(int64_t head) {
    const std::vector<double> fades = Fades(previous_, head, kRun - 1);
    for (int64_t d = 0; d < spec_.key_dim; ++d) {
      for (int64_t v = 0; v < spec_.value_dim; ++v) {
        double sum = position_ == kRun ? 0 : fades[0] * Memory(previous_, head, d, v);
        for (int64_t j = 0; j < kRun; ++j) {
          sum +=
              fades[j + 1] * Key(previous_, KeyHead(head), d, j) * Written(previous_, head, j, v);
        }
        Memory(slot_, head, d, v) = static_cast<float>(sum);
      }
    }
  }

  void Finish(int64_t head, const std::vector<double>& answer, const float* value,
              MatrixView out) const {
    const int64_t width = spec_.value_dim;
    const float* const gate = inputs_.gate.Row(row_) + head * width;
    double squares = 0;
    for (const double each : answer) squares += each * each;
    const double rms = std::sqrt(squares / static_cast<double>(width) + params_.norm_eps);
    for (int64_t v = 0; v < width; ++v) {
      const double said = params_.has_correction
                              ? answer[v] / rms * params_.norm[v]
                              : answer[v] + double{params_.skip[head]} * value[v];
      StoreElement(out, row_, head * width + v, static_cast<float>(said * SiluAt(gate[v])));
    }
  }

  const RecurrenceInputs& inputs_;
  const RecurrenceParams& params_;
  const StatePoolSpec& spec_;
  float* const slot_;
  const float* const previous_;  // null in the first run
  const int64_t position_;
  const int64_t i_;  // of the slot's rows
  const int64_t row_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StatePool>> ReferenceRecurrent::NewStatePool(
    const StatePoolSpec& spec) {
  return std::make_unique<ReferenceStatePool>(spec);
}

void ReferenceRecurrent::CopyStates(absl::Span<const KvBlockCopy> copies, StatePool& pool) {
  auto& states = static_cast<ReferenceStatePool&>(pool);
  for (const KvBlockCopy& copy : copies) {
    for (int layer = 0; layer < states.spec().num_layers; ++layer) {
      const float* const source = states.Slot(layer, copy.source);
      std::copy_n(source, states.spec().floats_per_slot(), states.Slot(layer, copy.destination));
    }
  }
}

void ReferenceRecurrent::Recur(const RecurrenceInputs& inputs, const RecurrenceParams& params,
                               int layer, StatePool& pool, MatrixView out) {
  auto& states = static_cast<ReferenceStatePool&>(pool);
  const StatePoolSpec& spec = states.spec();
  for (const StateSegment& segment : states_.all()) {
    for (int64_t r = 0; r < segment.num_rows; ++r) {
      const int64_t position = segment.first_position + r;
      const int64_t first = std::max<int64_t>(segment.first_position - 1, 0) / kRun;
      const int64_t run = position / kRun - first;
      SLUICE_CHECK(run < std::ssize(segment.slots));
      Position at(inputs, params, spec, states.Slot(layer, segment.slots[run]),
                  run == 0 ? nullptr : states.Slot(layer, segment.slots[run - 1]), position,
                  segment.first_row + r);
      at.CrossBoundary();
      at.Convolve();
      at.PlaceKeys();
      for (int64_t head = 0; head < spec.num_heads; ++head) at.RecurHead(head, out);
    }
  }
}

void ReferenceRecurrent::GateBySigmoid(MatrixView gate, MatrixView x) {
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t n = 0; n < x.cols; ++n) {
      StoreElement(x, t, n, static_cast<float>(LoadElement(x, t, n) * SigmoidAt(gate.Row(t)[n])));
    }
  }
}

void ReferenceRecurrent::Square(MatrixView x) {
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t n = 0; n < x.cols; ++n) {
      const float element = LoadElement(x, t, n);
      StoreElement(x, t, n, element * element);
    }
  }
}

void ReferenceRecurrent::GroupRmsNorm(MatrixView x, const float* weight, float eps, int num_groups,
                                      MatrixView out) {
  const int64_t size = x.cols / num_groups;
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t first = 0; first < x.cols; first += size) {
      double squares = 0;
      for (int64_t n = first; n < first + size; ++n) squares += double{x.Row(t)[n]} * x.Row(t)[n];
      const double rms = std::sqrt(squares / static_cast<double>(size) + eps);
      for (int64_t n = first; n < first + size; ++n) {
        StoreElement(out, t, n, static_cast<float>(x.Row(t)[n] / rms * weight[n]));
      }
    }
  }
}

}  // namespace sluice
