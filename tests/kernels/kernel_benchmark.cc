// Times the CPU kernels on shapes of real models, each after checking its result against the
// reference, and sets them beside what this machine can do at best, measured in turns with them.
// --help explains the flags.
//
// A share of the bandwidth above 100% means that the operands fit the caches. On a machine with
// other work, one thread gives figures to trust: it is timed by its own CPU time.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/attention_benchmark.h"
#include "tests/kernels/checked_result.h"
#include "tests/kernels/expert_benchmark.h"
#include "tests/kernels/gemm_benchmark.h"
#include "tests/kernels/meter.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

constexpr char kHelp[] =
    "usage: sluice-kernel-bench [flags]\n"
    "  --threads=N         default: one per core\n"
    "  --only=KINDS        of gemv, draft (5 rows), batch (16 rows), gemm (512 rows), attention,\n"
    "                      rows, experts (512 rows), ceilings; by comma; default: all but experts\n"
    "  --rows=ROWS         of products, instead of one, 5, 16 and 512; by comma\n"
    "  --formats=FORMATS   such as bf16, int4-zp-g128; by comma; default: f32, bf16, int8,\n"
    "                      int6, int4, fp8\n"
    "  --models=MODELS     of smollm2-360m, tinyllama-1.1b, llama3.1-8b, qwen3-a3b-4l (experts);\n"
    "                      by comma; default: all\n"
    "  --instructions=NAME of the products: auto, portable, avx512_bf16, amx_bf16; default: auto\n"
    "  --json              a JSON object a line instead of a table\n";

struct Flags {
  int threads = 0;
  std::vector<std::string> kinds = {"gemv", "draft", "batch", "gemm", "attention", "rows"};
  std::vector<int64_t> product_rows;  // instead of those that kinds stand for
  std::vector<WeightFormat> formats = {WeightFormat::kBF16, WeightFormat::kInt8,
                                       WeightFormat::kInt6, WeightFormat::kInt4,
                                       WeightFormat::kFp8,  WeightFormat::kF32};
  std::vector<std::string> models;  // empty: all
  std::optional<InstructionSet> instructions;
  OutputFormat output = OutputFormat::kTable;

  bool Wants(std::string_view kind) const {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  }
  bool WantsModel(std::string_view model) const {
    return models.empty() || std::find(models.begin(), models.end(), model) != models.end();
  }
};

[[noreturn]] void Usage(FILE* to, int exit_code) {
  std::fputs(kHelp, to);
  std::exit(exit_code);
}

std::vector<std::string> Among(const std::string& list, const std::vector<std::string>& accepted) {
  const std::vector<std::string> names = absl::StrSplit(list, ',');
  for (const std::string& name : names) {
    if (std::find(accepted.begin(), accepted.end(), name) != accepted.end()) continue;
    std::fprintf(stderr, "\"%s\" is not known\n", name.c_str());
    Usage(stderr, 2);
  }
  return names;
}

std::vector<int64_t> NumbersOf(const std::string& list) {
  std::vector<int64_t> numbers;
  for (const absl::string_view text : absl::StrSplit(list, ',')) {
    if (!absl::SimpleAtoi(text, &numbers.emplace_back()) || numbers.back() < 1) {
      std::fprintf(stderr, "\"%s\" is no list of numbers of rows\n", list.c_str());
      Usage(stderr, 2);
    }
  }
  return numbers;
}

std::vector<WeightFormat> FormatsOf(const std::string& list) {
  std::vector<std::string> names;
  for (const WeightFormatTraits& traits : kWeightFormats) names.emplace_back(traits.flag);
  std::vector<WeightFormat> formats;
  for (const std::string& name : Among(list, names)) {
    const auto index = std::find(names.begin(), names.end(), name) - names.begin();
    formats.push_back(kWeightFormats[index].format);
  }
  return formats;
}

Flags ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::pair<std::string, std::string> flag =
        absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    const auto& [name, value] = flag;
    if (name == "--help") Usage(stdout, 0);
    if (name == "--json" && value.empty()) {
      flags.output = OutputFormat::kJsonLines;
    } else if (name == "--only") {
      flags.kinds = Among(
          value, {"gemv", "draft", "batch", "gemm", "attention", "rows", "experts", "ceilings"});
    } else if (name == "--rows") {
      flags.product_rows = NumbersOf(value);
    } else if (name == "--formats") {
      flags.formats = FormatsOf(value);
    } else if (name == "--models") {
      flags.models =
          Among(value, {"smollm2-360m", "tinyllama-1.1b", "llama3.1-8b", "qwen3-a3b-4l"});
    } else if (name == "--instructions") {
      const absl::StatusOr<InstructionSet> instructions = ParseInstructionSet(value);
      if (!instructions.ok()) {
        std::fprintf(stderr, "%s\n", std::string(instructions.status().message()).c_str());
        Usage(stderr, 2);
      }
      flags.instructions = *instructions;
    } else if (name != "--threads" || !absl::SimpleAtoi(value, &flags.threads) ||
               flags.threads < 1) {
      std::fprintf(stderr, "\"%s\" is not known\n", argv[i]);
      Usage(stderr, 2);
    }
  }
  return flags;
}

using RowOperation = std::function<void(Backend&, const DeviceMatrix& in, const DeviceMatrix& out)>;

void MeasureRowKernel(Meter& meter, Backend& backend, const std::string& name, int64_t rows,
                      int64_t in_width, int64_t out_width, const RowOperation& run) {
  const auto reference = MakeReferenceBackend();
  Random random(1);
  const HostMatrix x = RandomMatrix(random, rows, in_width);
  const DeviceMatrix in(backend, x), out(backend, rows, out_width);
  const DeviceMatrix expected_in(*reference, x), expected(*reference, rows, out_width);
  run(backend, in, out);
  run(*reference, expected_in, expected);
  ExpectNear(name, out.Read(), expected.Read(), 2e-5);
  meter.Measure({.kernel = name + " T " + std::to_string(rows) + ", " + std::to_string(in_width),
                 .format = "F32",
                 .bytes = 4.0 * static_cast<double>(rows * (in_width + out_width)),
                 .group = "rows"},
                [&] { run(backend, in, out); });
}

void MeasureRowKernels(Meter& meter, Backend& backend) {
  meter.Measure({.kernel = "parallel loop, empty", .group = "rows"},
                [&] { meter.pool().ParallelFor(meter.pool().num_threads(), [](int64_t, int) {}); });
  for (const int64_t rows : {1, 512}) {
    MeasureRowKernel(meter, backend, "rms_norm", rows, 4096, 4096,
                     [](Backend& by, auto& in, auto& out) {
                       by.RmsNorm(in.view(), in.data(), 1e-5f, out.view());  // first row as weights
                     });
  }
  MeasureRowKernel(meter, backend, "log_softmax", 1, 128256, 128256,
                   [](Backend& by, auto& in, auto& out) { by.LogSoftmax(in.view(), out.view()); });
}

// How many rows the products have that are measured.
std::vector<int64_t> ProductRows(const Flags& flags) {
  constexpr std::pair<const char*, int64_t> kKinds[] = {
      {"gemv", 1}, {"draft", 5}, {"batch", 16}, {"gemm", 512}};
  std::vector<int64_t> rows;
  for (const auto& [kind, number] : kKinds) {
    if (flags.Wants(kind)) rows.push_back(number);
  }
  return rows.empty() || flags.product_rows.empty() ? rows : flags.product_rows;
}

void MeasureGemms(Meter& meter, Backend& backend, const Flags& flags, int64_t rows) {
  for (const ModelShape& model : kModelShapes) {
    if (!flags.WantsModel(model.name)) continue;
    for (const WeightFormat format : flags.formats) {
      MeasureModelGemms(meter, backend, model, format, rows);
    }
  }
}

void MeasureAttentions(Meter& meter, Backend& backend, const Flags& flags) {
  for (const HeadShape& heads : kHeadShapes) {
    if (!flags.WantsModel(heads.name)) continue;
    for (const DType dtype : {DType::kBF16, DType::kF32}) {
      for (const AttentionShape& shape :
           {AttentionShape{.sequences = 1, .rows = 1, .context = 16384},
            AttentionShape{.sequences = 1, .rows = 2, .context = 16384},
            AttentionShape{.sequences = 1, .rows = 5, .context = 16384},
            AttentionShape{.sequences = 1, .rows = 9, .context = 16384},
            AttentionShape{.sequences = 1, .rows = 1, .context = 32768},
            AttentionShape{.sequences = 16, .rows = 1, .context = 1024},
            AttentionShape{.sequences = 16, .rows = 1, .context = 64, .layers = 32},
            AttentionShape{.sequences = 1, .rows = 512, .context = 512},
            AttentionShape{.sequences = 1, .rows = 256, .context = 4096}}) {
        MeasureAttention(meter, backend, heads, shape, dtype);
      }
    }
  }
}

void MeasureMixtures(Meter& meter, Backend& backend, const Flags& flags) {
  for (const MixtureShape& shape : kMixtureShapes) {
    if (!flags.WantsModel(shape.name)) continue;
    for (const WeightFormat format : flags.formats) {
      MeasureExperts(backend, shape, format, /*rows=*/512, meter.pool().num_threads(),
                     flags.output);
    }
  }
}

void Run(const Flags& flags) {
  Meter meter(flags.threads, flags.output);
  const auto backend =
      MakeCpuBackend({.num_threads = flags.threads, .instructions = flags.instructions});
  if (flags.Wants("ceilings")) meter.PrintCeilings();
  for (const int64_t rows : ProductRows(flags)) MeasureGemms(meter, *backend, flags, rows);
  if (flags.Wants("attention")) MeasureAttentions(meter, *backend, flags);
  if (flags.Wants("experts")) MeasureMixtures(meter, *backend, flags);
  if (flags.Wants("rows")) MeasureRowKernels(meter, *backend);
}

}  // namespace
}  // namespace sluice::testing

int main(int argc, char** argv) {
  sluice::testing::Run(sluice::testing::ParseFlags(argc, argv));
  return 0;
}
