// Times the choice of a token from a row of logits on one core, by CPU time, so that other work on
// the machine matters less. Every way of choosing is measured in turns with the others, and its
// tokens are compared with the plain implementation's first.
//
// usage: sluice-sampling-bench [rows [vocabulary [rounds]]]   (16 rows of 128256 logits, 20 rounds)
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/sample_row.h"
#include "kernels/reference/reference_sampling.h"

namespace sluice::testing {
namespace {

struct Case {
  std::string name;
  SamplingOptions options;
  bool edited = false;  // 2,000 tokens with penalties, as after a long text
};

std::vector<Case> Cases() {
  return {{"greedy", {.temperature = 0}},
          {"greedy, penalties", {.repetition_penalty = 1.1F, .temperature = 0}, true},
          {"temperature", {.temperature = 0.8F}},
          {"top-k 40", {.top_k = 40}},
          {"top-p 0.95", {.top_p = 0.95F}},
          {"penalties, top-p 0.95", {.repetition_penalty = 1.1F, .top_p = 0.95F}, true},
          {"min-p 0.05", {.min_p = 0.05F}},
          {"top-p 0.95, min-p 0.05", {.top_p = 0.95F, .min_p = 0.05F}},
          {"penalties, top-p 0.95, min-p 0.05",
           {.repetition_penalty = 1.1F, .top_p = 0.95F, .min_p = 0.05F},
           true},
          {"typical 0.9", {.typical_p = 0.9F}},
          {"top-n-sigma 1", {.top_n_sigma = 1}},
          {"top-k 40, top-p, min-p, xtc",
           {.top_k = 40, .top_p = 0.95F, .min_p = 0.02F, .xtc_probability = 0.5F}}};
}

// Logits as models have them: most tokens far below a few.
std::vector<std::vector<float>> MakeRows(int rows, int vocabulary, float spread) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, spread);
  std::vector<std::vector<float>> result(rows, std::vector<float>(vocabulary));
  for (std::vector<float>& row : result) {
    for (float& logit : row) logit = normal(random);
  }
  return result;
}

std::vector<LogitEdit> MakeEdits(int vocabulary) {
  std::vector<LogitEdit> edits;
  for (int id = 0; id < vocabulary; id += std::max(1, vocabulary / 2000)) {
    edits.push_back({.id = id, .penalty = 0.5F, .repeated = true});
  }
  return edits;
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

SampleRow RowOf(const Case& item, const std::vector<LogitEdit>& edits, int index) {
  SampleRow row{.options = &item.options, .token_uniform = index * 0.6180339887};
  row.token_uniform -= static_cast<int>(row.token_uniform);
  row.xtc_uniform = row.token_uniform;
  if (item.edited) row.edits = edits;
  return row;
}

void Check(const Case& item, const std::vector<float>& logits, const SampleRow& row) {
  RowSampler sampler;
  if (sampler.Sample(logits, row).token.id == ReferenceSample(logits, row).token.id) return;
  std::fprintf(stderr, "%s: another token than the plain implementation's\n", item.name.c_str());
  std::exit(1);
}

void Measure(int num_rows, int vocabulary, int rounds, float spread) {
  const std::vector<Case> cases = Cases();
  const auto rows = MakeRows(num_rows, vocabulary, spread);
  const std::vector<LogitEdit> edits = MakeEdits(vocabulary);
  for (const Case& item : cases) Check(item, rows[0], RowOf(item, edits, 0));
  std::vector<std::vector<double>> seconds(cases.size());
  RowSampler sampler;
  int64_t sum = 0;  // of ids, so that nothing is left out
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const double begin = CpuSeconds();
      for (int row = 0; row < num_rows; ++row) {
        sum += sampler.Sample(rows[row], RowOf(cases[i], edits, row)).token.id;
      }
      seconds[i].push_back((CpuSeconds() - begin) / num_rows);
    }
  }
  std::printf("%d rows of %d logits, deviation %g (checksum %lld)\n", num_rows, vocabulary, spread,
              static_cast<long long>(sum));
  std::printf("%-36s %12s %12s\n", "", "median us", "best us");
  for (size_t i = 0; i < cases.size(); ++i) {
    std::sort(seconds[i].begin(), seconds[i].end());
    std::printf("%-36s %12.1f %12.1f\n", cases[i].name.c_str(),
                seconds[i][seconds[i].size() / 2] * 1e6, seconds[i][0] * 1e6);
  }
}

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) {
  const auto argument = [&](int index, int otherwise) {
    return index < argc ? std::max(1, std::atoi(argv[index])) : otherwise;
  };
  for (const float spread : {1.0F, 3.0F}) {
    sluice::testing::Measure(argument(1, 16), argument(2, 128256), argument(3, 20), spread);
  }
  return 0;
}
