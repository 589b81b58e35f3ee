#include "tests/kernels/meter.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "hwy/highway.h"
#include "kernels/check.h"

namespace sluice::testing {
namespace {

constexpr int kRounds = 7;
constexpr double kSampleSeconds = 10e-3;
constexpr Arithmetic kArithmetics[] = {Arithmetic::kF32, Arithmetic::kBF16, Arithmetic::kInt8};

const char* BestTarget() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

// How many calls a sample needs.
int CallsPerSample(const std::function<void()>& call, int num_threads) {
  for (int calls = 1;; calls *= 2) {
    const double start = Seconds(num_threads);
    for (int i = 0; i < calls; ++i) call();
    const double seconds = Seconds(num_threads) - start;
    if (seconds >= kSampleSeconds) return calls;
  }
}

std::string Quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

double Median(std::vector<double> values) {
  SLUICE_CHECK(!values.empty());
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

Meter::Meter(int num_threads, OutputFormat output)
    : pool_(num_threads), output_(output), read_(pool_) {
  PrintHeader();
}

Meter::Ceilings Meter::MeasureCeilings(absl::Span<const Arithmetic> arithmetics) {
  Ceilings ceilings;
  ceilings.bandwidth = read_.Measure();
  for (const Arithmetic arithmetic : arithmetics) {
    ceilings.peak[static_cast<int>(arithmetic)] = MeasurePeak(pool_, arithmetic);
  }
  return ceilings;
}

void Meter::PrintCeilings() {
  std::vector<double> bandwidths;
  std::vector<double> peaks[std::size(kArithmetics)];
  for (int round = 0; round < kRounds; ++round) {
    const Ceilings ceilings = MeasureCeilings(kArithmetics);
    bandwidths.push_back(ceilings.bandwidth);
    for (const Arithmetic arithmetic : kArithmetics) {
      const int index = static_cast<int>(arithmetic);
      peaks[index].push_back(ceilings.peak[index]);
    }
  }
  const auto peak_of = [&](Arithmetic arithmetic) {
    return Median(peaks[static_cast<int>(arithmetic)]);
  };
  if (output_ == OutputFormat::kJsonLines) {
    std::printf(
        "{\"ceilings\":{\"threads\":%d,\"bytes_per_second\":%.4g,\"f32_operations_per_second\":%."
        "4g,"
        "\"bf16_operations_per_second\":%.4g,\"int8_operations_per_second\":%.4g}}\n",
        pool_.num_threads(), Median(bandwidths), peak_of(Arithmetic::kF32),
        peak_of(Arithmetic::kBF16), peak_of(Arithmetic::kInt8));
  } else {
    std::printf("reads %.1f GB/s", Median(bandwidths) / 1e9);
    for (const Arithmetic arithmetic : kArithmetics) {
      const std::string instruction(InstructionOf(arithmetic));
      if (instruction.empty()) continue;
      std::printf("; %s %.0f GOP/s", instruction.c_str(), peak_of(arithmetic) / 1e9);
    }
    std::printf("\n");
  }
  std::fflush(stdout);
}

void Meter::Measure(absl::Span<const Work> works, const Sample& sample) {
  std::vector<Arithmetic> arithmetics;
  for (const Work& work : works) {
    if (work.operations > 0) arithmetics.push_back(work.arithmetic);
  }
  std::sort(arithmetics.begin(), arithmetics.end());
  arithmetics.erase(std::unique(arithmetics.begin(), arithmetics.end()), arithmetics.end());

  const size_t count = works.size();
  std::vector<std::vector<double>> seconds(count), bandwidth_shares(count), peak_shares(count);
  Ceilings before = MeasureCeilings(arithmetics);
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> times = sample();
    const Ceilings after = MeasureCeilings(arithmetics);
    const double bandwidth = (before.bandwidth + after.bandwidth) / 2;
    for (size_t i = 0; i < count; ++i) {
      const int index = static_cast<int>(works[i].arithmetic);
      const double peak = (before.peak[index] + after.peak[index]) / 2;
      seconds[i].push_back(times[i]);
      bandwidth_shares[i].push_back(works[i].bytes / times[i] / bandwidth);
      peak_shares[i].push_back(peak > 0 ? works[i].operations / times[i] / peak : 0);
    }
    before = after;
  }
  for (size_t i = 0; i < count; ++i) {
    Print(works[i], Median(seconds[i]), Median(bandwidth_shares[i]), Median(peak_shares[i]));
  }
}

void Meter::Measure(const Work& work, const std::function<void()>& call) {
  const int threads = pool_.num_threads();
  const int calls = CallsPerSample(call, threads);
  Measure({&work, 1}, [&] {
    const double start = Seconds(threads);
    for (int i = 0; i < calls; ++i) call();
    return std::vector<double>{(Seconds(threads) - start) / calls};
  });
}

void Meter::PrintHeader() {
  if (output_ == OutputFormat::kJsonLines) return;
  std::printf("%s, %d threads: ", BestTarget(), pool_.num_threads());
  PrintCeilings();
  std::printf("\n%-44s %-5s %12s %9s %6s %10s %6s\n", "kernel", "dtype", "time us", "GB/s", "share",
              "GOP/s", "share");
}

void Meter::Print(const Work& work, double seconds, double bandwidth_share,
                  double peak_share) const {
  const double bytes = work.bytes / seconds;
  const double operations = work.operations / seconds;
  if (output_ == OutputFormat::kJsonLines) {
    std::printf(
        "{\"kernel\":%s,\"group\":%s,\"format\":%s,\"seconds\":%.4g,\"bytes_per_second\":%.4g,"
        "\"share_of_bandwidth\":%.4g,\"operations_per_second\":%.4g,\"share_of_peak\":%.4g}\n",
        Quoted(work.kernel).c_str(), Quoted(work.group).c_str(), Quoted(work.format).c_str(),
        seconds, bytes, bandwidth_share, operations, peak_share);
  } else {
    std::printf("%-44s %-5s %12.1f %9.1f %5.0f%% %10.1f %5.0f%%\n", work.kernel.c_str(),
                work.format.c_str(), seconds * 1e6, bytes / 1e9, 100 * bandwidth_share,
                operations / 1e9, 100 * peak_share);
  }
  std::fflush(stdout);
}

}  // namespace sluice::testing
