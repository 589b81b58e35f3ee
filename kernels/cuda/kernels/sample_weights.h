// The weights of a stretch of a row's tokens, for rows whose choice begins with those of all
// (WeighsAllTokens). The exponential function in double takes a multiprocessor's few units for it
// some 100 us for a row: here all multiprocessors share them. After simt.h.
#pragma once

#include "kernels/cuda/kernels/sample_stretch.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// What a token weighs beside one of the largest logit.
SIMT_DEVICE double WeightOfLogit(float logit, float largest, double inverse_temperature) {
  return ExpOfNegative((double{logit} - double{largest}) * inverse_temperature);
}

class StretchWeights {
 public:
  SIMT_DEVICE StretchWeights(const SampleTask& task, double* joined)
      : stretch_(StretchOfBlock(task.logits.cols)),
        task_(task),
        request_(task.requests[stretch_.row]),
        joined_(joined) {}

  // Leaves weights, logits and ids at their tokens' places, and says how many tokens may be drawn.
  SIMT_DEVICE void Run() {
    if (!WeighsAllTokens(request_, task_.logits.cols)) return;
    const float largest =
        OverRow<float>(-INFINITY, Larger(), [](const SampleStretch& each) { return each.largest; });
    const auto bad = OverRow<int64_t>(task_.logits.cols, Smaller(), [](const SampleStretch& each) {
      return int64_t{each.first_bad};
    });
    if (largest == -INFINITY || bad < task_.logits.cols) return;  // the row fails
    const int64_t kept = Weigh(largest);
    const auto all = JoinThreads(kept, Plus(), reinterpret_cast<int64_t*>(joined_));
    if (Thread() == 0) task_.stretches[Block()].num_weighed = static_cast<int32_t>(all);
  }

 private:
  // Number of the thread's tokens that may be drawn.
  SIMT_DEVICE int64_t Weigh(float largest) const {
    const SampleScratch scratch(task_, stretch_.row);
    const double inverse_temperature = 1 / double{request_.temperature};
    int64_t kept = 0;
    for (int64_t id = stretch_.begin + Thread(); id < stretch_.end; id += kStretchThreads) {
      const float logit = scratch.all[id];
      scratch.weights[id] = WeightOfLogit(logit, largest, inverse_temperature);
      scratch.logits[id] = logit;
      scratch.ids[id] = static_cast<int32_t>(id);
      if (logit > -INFINITY) ++kept;
    }
    return kept;
  }

  // Each stretch's f of the row joined.
  template <class T, class JoinTwo, class F>
  SIMT_DEVICE T OverRow(T first, JoinTwo join, F f) const {
    const int64_t count = NumStretches(task_.logits.cols);
    T joined = first;
    for (int64_t i = Thread(); i < count; i += kStretchThreads) {
      joined = join(joined, f(task_.stretches[stretch_.row * count + i]));
    }
    return JoinThreads(joined, join, reinterpret_cast<T*>(joined_));
  }

  const Stretch stretch_;
  const SampleTask& task_;
  const SampleRequest& request_;
  double* const joined_;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
