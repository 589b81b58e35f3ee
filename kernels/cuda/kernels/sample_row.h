// The choice of a token from one row of logits by a block of threads, in the steps of
// kernels/cpu/sample_row.h. Sums run in an order fixed by the number of threads. After simt.h.
#pragma once

#include "kernels/cuda/kernels/sample_stretch.h"
#include "kernels/cuda/kernels/sample_weights.h"
#include "kernels/cuda/kernels/select.h"
#include "kernels/cuda/sample.h"

namespace sluice::cuda::SIMT_NAMESPACE {

class RowChoice {
 public:
  SIMT_DEVICE RowChoice(const SampleTask& task, SelectShared& shared)
      : task_(task),
        request_(task.requests[Block()]),
        result_(task.results[Block()]),
        shared_(shared),
        size_(task.logits.cols),
        num_stretches_(NumStretches(size_)),
        stretches_(task.stretches + Block() * num_stretches_) {
    const SampleScratch scratch(task, Block());
    all_ = scratch.all;
    weights_ = scratch.weights;
    logits_ = scratch.logits;
    ids_ = scratch.ids;
  }

  SIMT_DEVICE void Run() {
    const auto bad = OverStretches<int64_t>(
        size_, Smaller(), [](const SampleStretch& each) { return int64_t{each.first_bad}; });
    if (bad < size_) return Fail(kNotFinite, static_cast<int32_t>(bad));
    largest_ = OverStretches<float>(-INFINITY, Larger(),
                                    [](const SampleStretch& each) { return each.largest; });
    if (largest_ == -INFINITY) return Fail(kNothingLeft, 0);
    Choose();
    if (request_.wants_logprob != 0) TellLogprob();
  }

 private:
  static constexpr int kNotFinite = 1, kNothingLeft = 2;  // of SampleError
  static constexpr float kLowest = -3.402823466e38f;      // lets all but -infinity through

  // ---- Passes over numbers ----

  // f(0), .., f(n - 1) joined, thread by thread and then pairwise.
  template <class T, class JoinTwo, class F>
  SIMT_DEVICE T Join(int64_t n, T first, JoinTwo join, F f) {
    T joined = first;
    SIMT_UNROLL_FOUR
    for (int64_t i = Thread(); i < n; i += NumThreads()) joined = join(joined, f(i));
    return JoinThreads(joined, join, reinterpret_cast<T*>(shared_.joined));
  }
  template <class F>
  SIMT_DEVICE double Sum(int64_t n, F f) {
    return Join<double>(n, 0, Plus(), f);
  }

  SIMT_DEVICE double LogWeight(float logit, double inverse_temperature) const {
    return (double{logit} - double{largest_}) * inverse_temperature;
  }
  SIMT_DEVICE double WeightOf(float logit) const {
    return WeightOfLogit(logit, largest_, inverse_temperature_);
  }
  SIMT_DEVICE double TotalWeight() {
    return Sum(count_, [&](int64_t i) { return weights_[i]; });
  }

  // Each stretch's f joined.
  template <class T, class JoinTwo, class F>
  SIMT_DEVICE T OverStretches(T first, JoinTwo join, F f) {
    return Join<T>(num_stretches_, first, join, [&](int64_t i) { return f(stretches_[i]); });
  }

  // ---- The row ----

  SIMT_DEVICE void Choose() {
    const double temperature = Temperature();
    if (temperature == 0) return ChooseLargest();
    inverse_temperature_ = 1 / temperature;
    KeepMostProbable();
    if (request_.typical_p < 1) KeepTypical();
    if (request_.top_n_sigma > 0) KeepTopSigma();
    if (request_.xtc_uniform < request_.xtc_probability) RemoveTopChoices();
    Draw();
  }

  SIMT_DEVICE void TellLogprob() {
    const LogSum of_row = JoinStretches(
        num_stretches_, [&](int64_t i) { return stretches_[i].exponentials; }, shared_.joined);
    Barrier();  // the token is told
    if (Thread() != 0) return;
    result_.logprob = LogProbability(RowOf(task_.logits, Block())[result_.token.id], of_row);
  }

  SIMT_DEVICE void Fail(int error, int32_t id) {
    if (Thread() != 0) return;
    result_ = {};
    result_.error = error;
    result_.token.id = id;
  }

  SIMT_DEVICE double Temperature() {
    const double temperature = request_.temperature, range = request_.dynatemp_range;
    if (range == 0) return temperature;
    const double count = Sum(size_, [&](int64_t i) { return all_[i] > -INFINITY ? 1.0 : 0.0; });
    double share = 0;
    if (count > 1) {
      const double total =
          Sum(size_, [&](int64_t i) { return ExpOfNegative(LogWeight(all_[i], 1)); });
      const double log_sum = Sum(size_, [&](int64_t i) {
        const double log_weight = LogWeight(all_[i], 1);
        return log_weight >= -708.0 ? ExpOfNegative(log_weight) * log_weight : 0.0;
      });
      const double entropy = Log(total) - log_sum / total;
      share = Smaller()(Larger()(entropy / Log(count), 0.0), 1.0);
    }
    return temperature - range + 2 * range * Power(share, double{request_.dynatemp_exponent});
  }

  SIMT_DEVICE void ChooseLargest() {
    const auto id = OverStretches<int64_t>(size_, Smaller(), [&](const SampleStretch& each) {
      return each.largest == largest_ ? int64_t{each.first_largest} : size_;
    });
    if (Thread() != 0) return;
    result_ = {};
    result_.token = {1, largest_, static_cast<int32_t>(id)};
    if (request_.num_top == 0) return;
    result_.num_top = 1;
    task_.top[request_.top_begin] = result_.token;
  }

  // ---- Filters ----

  // A float that is certainly not above the logit whose weight is `weight`, rounding included.
  SIMT_DEVICE float LogitOfWeight(double weight) const {
    const double logit = double{largest_} + Log(weight) / inverse_temperature_;
    const double magnitude =
        (logit < 0 ? -logit : logit) + (largest_ < 0 ? -double{largest_} : double{largest_});
    const double slack = 1e-12 * magnitude;
    return NextBelow(static_cast<float>(Larger()(double{kLowest}, logit - slack)));
  }

  SIMT_DEVICE void KeepMostProbable() {
    const bool limited = request_.top_k > 0 && request_.top_k < size_;
    float threshold = kLowest;
    double target = -1;  // of top-p: the mass to reach
    if (limited) {
      const KthLargest cut = FindKthLargest(
          size_, request_.top_k, [&](int64_t i) { return OrderedKey(all_[i]); }, shared_);
      threshold = Larger()(threshold, NumberOfKey(cut.key));
    }
    if (request_.top_p < 1 && !limited) {
      // At their tokens' places until Gather(), as StretchWeights has left them.
      const double total = request_.dynatemp_range == 0
                               ? Sum(size_, [&](int64_t i) { return weights_[i]; })
                               : Sum(size_, [&](int64_t i) { return WeightOf(all_[i]); });
      target = double{request_.top_p} * total;
      // All tokens below this weight together weigh less than what the nucleus leaves out.
      const double least = (1 - double{request_.top_p}) * total / static_cast<double>(size_) / 2;
      threshold = Larger()(threshold, LogitOfWeight(least));
    }
    if (request_.min_p > 0 && !limited) {
      threshold = Larger()(threshold, LogitOfWeight(request_.min_p));
    }
    if (IsWeighedWhole()) {
      count_ = size_;
    } else {
      Gather(threshold);
    }
    if (request_.top_p < 1 && limited) target = double{request_.top_p} * TotalWeight();
    if (target >= 0) {
      KeepMass(target, [&](int64_t i) { return logits_[i]; });
    }
    const double least = request_.min_p;  // the largest weight is 1
    if (least > 0) KeepIf([&](int64_t i) { return weights_[i] >= least; });
  }

  // Whether StretchWeights has left all that Gather() would: no token is left out.
  SIMT_DEVICE bool IsWeighedWhole() {
    if (!WeighsAllTokens(request_, size_) || request_.top_p < 1) return false;
    return OverStretches<int64_t>(0, Plus(), [](const SampleStretch& each) {
             return int64_t{each.num_weighed};
           }) == size_;
  }

  // The tokens whose logit is at least `threshold`: each warp those of a stretch of the row.
  SIMT_DEVICE void Gather(float threshold) {
    const int lane = Thread() % kWarpSize;
    const int64_t stretch = (size_ + NumThreads() - 1) / NumThreads() * kWarpSize;
    const int64_t begin = Thread() / kWarpSize * stretch;
    const int64_t end = Smaller()(begin + stretch, size_);
    constexpr int kStep = kReadsAtATime * kWarpSize;
    float logits[kReadsAtATime];
    int64_t found = 0;
    for (int64_t i = begin + lane; i - lane < end; i += kStep) {
      Read(i, end, logits);
      SIMT_UNROLL
      for (const float logit : logits) found += CountOnes(Ballot(logit >= threshold));
    }
    const Prefix<int> place = ScanThreads<int>(lane == 0 ? static_cast<int>(found) : 0, shared_);
    // Lane 0's place is its warp's.
    int64_t next = ShuffleFrom(place.before, 0);
    for (int64_t i = begin + lane; i - lane < end; i += kStep) {
      Read(i, end, logits);
      SIMT_UNROLL
      for (int j = 0; j < kReadsAtATime; ++j) {
        const uint32_t kept = Ballot(logits[j] >= threshold);
        if (logits[j] >= threshold) {
          const int64_t to = next + CountOnes(kept & ((1u << lane) - 1));
          ids_[to] = static_cast<int32_t>(i + j * kWarpSize);
          logits_[to] = logits[j];
          weights_[to] = WeightOf(logits[j]);
        }
        next += CountOnes(kept);
      }
    }
    count_ = place.total;
    Barrier();
  }

  // Numbers i, i + 32 and so on of the row, as far as they are before `end`: behind it those that are
  // never kept.
  SIMT_DEVICE void Read(int64_t i, int64_t end, float (&logits)[kReadsAtATime]) const {
    SIMT_UNROLL
    for (int j = 0; j < kReadsAtATime; ++j) {
      logits[j] = i + j * kWarpSize < end ? all_[i + j * kWarpSize] : -INFINITY;
    }
  }

  // Keeps what keeps(i, before) names, `before` being the sum of mass(j) over all j < i.
  template <class Mass, class Keeps>
  SIMT_DEVICE void KeepByMass(Mass mass, Keeps keeps) {
    int64_t kept = 0;
    double mass_before = 0;
    for (int64_t begin = 0; begin < count_; begin += NumThreads()) {
      const int64_t i = begin + Thread();
      const Prefix<double> masses = ScanThreads<double>(i < count_ ? mass(i) : 0.0, shared_);
      const bool is_kept = i < count_ && keeps(i, mass_before + masses.before);
      const Prefix<int> places = ScanThreads<int>(is_kept ? 1 : 0, shared_);
      const int32_t id = is_kept ? ids_[i] : 0;
      const float logit = is_kept ? logits_[i] : 0;
      const double weight = is_kept ? weights_[i] : 0;
      Barrier();  // all is read that is written over
      if (is_kept) {
        const int64_t to = kept + places.before;
        ids_[to] = id;
        logits_[to] = logit;
        weights_[to] = weight;
      }
      kept += places.total;
      mass_before += masses.total;
    }
    Barrier();
    count_ = kept;
  }
  template <class Keeps>
  SIMT_DEVICE void KeepIf(Keeps keeps) {
    KeepByMass([](int64_t) { return 0.0; }, [&](int64_t i, double) { return keeps(i); });
  }

  // Tokens by falling key, ties by index, while the weights of those before one are below `target`
  // (kernels/cpu/mass_select.h): the key at which they reach it is found bit by bit.
  template <class KeyOf>
  SIMT_DEVICE void KeepMass(double target, KeyOf key_of) {
    const auto key_at = [&](int64_t i) { return uint64_t{OrderedKey(key_of(i))}; };
    const auto mass_from = [&](uint64_t key) {
      return Sum(count_, [&](int64_t i) { return key_at(i) >= key ? weights_[i] : 0.0; });
    };
    uint64_t low = Join<uint64_t>(count_, ~uint64_t{0}, Smaller(), key_at);
    uint64_t high = Join<uint64_t>(count_, 0, Larger(), key_at) + 1;
    if (mass_from(low) < target) return;
    double before = 0;  // the mass from `high` on, below the target
    while (high - low > 1) {
      const uint64_t middle = low + (high - low) / 2;
      const double mass = mass_from(middle);
      if (mass >= target) {
        low = middle;
      } else {
        high = middle;
        before = mass;
      }
    }
    KeepByMass([&](int64_t i) { return key_at(i) == low ? weights_[i] : 0.0; },
               [&](int64_t i, double mass) {
                 const uint64_t key = key_at(i);
                 return key > low || (key == low && before + mass < target);
               });
  }

  SIMT_DEVICE double Scaled(int64_t i) const {
    return (double{logits_[i]} - double{largest_}) * inverse_temperature_;
  }

  SIMT_DEVICE void KeepTypical() {
    const double total = TotalWeight();
    // With s = (logit - largest) / temperature, -log(p) - entropy is mean(s) - s.
    const double mean =
        Sum(count_, [&](int64_t i) { return weights_[i] > 0 ? weights_[i] * Scaled(i) : 0.0; }) /
        total;
    KeepMass(double{request_.typical_p} * total, [&](int64_t i) {
      const double distance = mean - Scaled(i);
      return distance < 0 ? distance : -distance;
    });
  }

  SIMT_DEVICE void KeepTopSigma() {
    const auto of_finite = [&](auto f) {
      return Sum(size_, [&](int64_t i) { return all_[i] > -INFINITY ? f(double{all_[i]}) : 0.0; });
    };
    const double count = of_finite([](double) { return 1.0; });
    const double mean = of_finite([](double x) { return x; }) / count;
    const double squares = of_finite([mean](double x) { return (x - mean) * (x - mean); });
    const double deviation = SquareRoot(squares / count);
    const double least = double{largest_} - double{request_.top_n_sigma} * deviation;
    KeepIf([&](int64_t i) { return double{logits_[i]} >= least; });
  }

  SIMT_DEVICE void RemoveTopChoices() {
    const double least = double{request_.xtc_threshold} * TotalWeight();
    const float logit = Join<float>(count_, INFINITY, Smaller(), [&](int64_t i) {
      return weights_[i] >= least ? logits_[i] : INFINITY;
    });
    if (logit == INFINITY) return;
    const int64_t last = Join<int64_t>(count_, -1, Larger(), [&](int64_t i) {
      return weights_[i] >= least && logits_[i] == logit ? i : int64_t{-1};
    });
    KeepIf([&](int64_t i) { return logits_[i] < logit || i == last; });
  }

  // ---- The draw ----

  // Each warp adds up the weights of a run of candidates; that in whose run the target is passed
  // goes through it once more.
  SIMT_DEVICE void Draw() {
    const int warp = Thread() / kWarpSize, lane = Thread() % kWarpSize;
    const int64_t run = (count_ + NumThreads() - 1) / NumThreads() * kWarpSize;
    const int64_t begin = warp * run, end = Smaller()(begin + run, count_);
    double sum = 0;
    for (int64_t i = begin + lane; i < end; i += kWarpSize) sum += weights_[i];
    sum = JoinLanes(sum, Plus());
    Barrier();
    if (lane == 0) shared_.scanned[warp] = sum;
    Barrier();
    double total = 0;
    for (int i = 0; i < NumThreads() / kWarpSize; ++i) total += shared_.scanned[i];
    const double target = request_.token_uniform * total;
    // The run that passes it, or, where rounding put the target behind all, the last of any weight.
    int owner = 0;
    double before = 0, before_owner = 0;
    for (int i = 0; i < NumThreads() / kWarpSize && before <= target; ++i) {
      if (shared_.scanned[i] > 0) {
        owner = i;
        before_owner = before;
      }
      before += shared_.scanned[i];
    }
    const int64_t num_top = Smaller()(int64_t{request_.num_top}, count_);
    if (warp == owner) {
      const int64_t chosen = PassedAt(begin, end, before_owner, target);
      if (lane == 0) {
        result_ = {};
        result_.token = {weights_[chosen] / total, logits_[chosen], ids_[chosen]};
        result_.num_top = static_cast<int32_t>(num_top);
      }
    }
    if (num_top > 0) WriteTop(num_top, total);
  }

  // By one warp: the first candidate of [begin, end) with which the weights, `before` included, pass
  // `target`, or the last of any weight.
  SIMT_DEVICE int64_t PassedAt(int64_t begin, int64_t end, double before, double target) const {
    const int lane = Thread() % kWarpSize;
    int64_t chosen = begin;
    for (; begin < end; begin += kWarpSize) {
      const int64_t i = begin + lane;
      const double weight = i < end ? weights_[i] : 0.0;
      double upto = weight;
      for (int delta = 1; delta < kWarpSize; delta *= 2) {
        const double other = ShuffleUp(upto, delta);
        if (lane >= delta) upto = other + upto;
      }
      const uint32_t passing = Ballot(weight > 0 && before + upto > target);
      // Of the lowest bit: as many as there are below it.
      if (passing != 0) return begin + CountOnes((passing & (~passing + 1)) - 1);
      chosen = JoinLanes(weight > 0 ? i : chosen, Larger());
      before += ShuffleFrom(upto, kWarpSize - 1);
    }
    return chosen;
  }

  SIMT_DEVICE void WriteTop(int64_t num_top, double total) {
    const auto key_at = [&](int64_t i) { return OrderedKey(logits_[i]); };
    const KthLargest cut = FindKthLargest(count_, num_top, key_at, shared_);
    SampleToken* const top = task_.top + request_.top_begin;
    WriteLargest(
        count_, cut, key_at,
        [&](int64_t place, int64_t i) {
          top[place] = {weights_[i] / total, logits_[i], ids_[i]};
        },
        shared_);
  }

  const SampleTask& task_;
  const SampleRequest& request_;
  SampleResult& result_;
  SelectShared& shared_;
  const int64_t size_;
  const int64_t num_stretches_;
  const SampleStretch* const stretches_;
  float* all_;  // as SampleScratch says
  double* weights_;
  float* logits_;
  int32_t* ids_;
  int64_t count_ = 0;
  float largest_ = 0;
  double inverse_temperature_ = 1;
};

}  // namespace sluice::cuda::SIMT_NAMESPACE
