#include "tests/kernels/backend/operation_bits.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/expert_ops.h"
#include "kernels/recurrent_ops.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

// The same floats on every machine: the standard's distributions are up to the library.
class Floats {
 public:
  explicit Floats(uint32_t seed) : random_(seed) {}

  HostMatrix Matrix(int64_t rows, int64_t cols, float scale = 1) {
    HostMatrix matrix(rows, cols);
    for (float& value : matrix.values) {
      const auto whole = static_cast<int32_t>(random_() >> 8) - (1 << 23);
      value = scale * static_cast<float>(whole) / static_cast<float>(1 << 22);
    }
    return matrix;
  }

 private:
  std::mt19937 random_;
};

// FNV-1a.
class Hash {
 public:
  void Add(const void* data, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      value_ = (value_ ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3u;
    }
  }
  void Add(const HostMatrix& matrix) {
    Add(matrix.values.data(), matrix.values.size() * sizeof(float));
  }
  std::string Text() const {
    std::ostringstream text;
    text << std::hex << value_;
    return text.str();
  }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// Runs on x [rows, cols], in place.
void InPlace(Backend& backend, const HostMatrix& x, Hash& hash,
             const std::function<void(MatrixView)>& operation) {
  DeviceMatrix device(backend, x);
  operation(device.view());
  hash.Add(device.Read());
}

void Norms(Backend& backend, Hash& hash) {
  Floats floats(1);
  for (const int64_t size : {1, 48, 64, 960, 4200}) {
    const DeviceMatrix weight(backend, floats.Matrix(1, size));
    const DeviceMatrix bias(backend, floats.Matrix(1, size));
    const HostMatrix x = floats.Matrix(3, size);
    InPlace(backend, x, hash, [&](MatrixView m) { backend.RmsNorm(m, weight.data(), 1e-5f, m); });
    InPlace(backend, x, hash,
            [&](MatrixView m) { backend.LayerNorm(m, weight.data(), bias.data(), 1e-5f, m); });
    InPlace(backend, x, hash,
            [&](MatrixView m) { backend.LayerNorm(m, weight.data(), nullptr, 1e-5f, m); });
  }
  const DeviceMatrix weight(backend, floats.Matrix(1, 80));
  InPlace(backend, floats.Matrix(5, 240), hash,
          [&](MatrixView m) { HeadRmsNorm(backend, m, 80, weight.data(), 1e-6f); });
}

void Products(Backend& backend, WeightFormat format, Hash& hash) {
  Floats floats(2);
  const int64_t inputs = TraitsOf(format).group > 32 ? 1024 : 640;  // whole groups in each slice
  for (const int num_slices : {1, 4}) {
    const auto packed = Pack(backend, floats.Matrix(75, inputs, 0.1f), format, num_slices);
    for (const int64_t rows : {1, 3, 16, 101}) {
      const DeviceMatrix x(backend, floats.Matrix(rows, inputs));
      DeviceMatrix out(backend, rows, 75);
      backend.Gemm(x.view(), *packed, out.view());
      hash.Add(out.Read());
    }
  }
}

void Epilogues(Backend& backend, Hash& hash) {
  Floats floats(3);
  const HostMatrix weights = floats.Matrix(96, 64, 0.1f);
  const DeviceMatrix bias(backend, floats.Matrix(1, 96));
  const DeviceMatrix x(backend, floats.Matrix(7, 64, 2));
  for (const bool gated : {false, true}) {
    const auto packed =
        Pack(backend, weights, {.format = WeightFormat::kF32, .num_slices = 1, .gated = gated});
    for (const Activation activation :
         {Activation::kRelu, Activation::kSilu, Activation::kGelu, Activation::kGeluTanh}) {
      DeviceMatrix out(backend, floats.Matrix(7, gated ? 48 : 96));
      backend.Gemm(x.view(), *packed, out.view(),
                   {.bias = bias.data(), .activation = activation, .add_to_out = true});
      hash.Add(out.Read());
    }
  }
}

void Rotations(Backend& backend, Hash& hash) {
  Floats floats(4);
  const DeviceMatrix cos(backend, floats.Matrix(4, 20)), sin(backend, floats.Matrix(4, 20));
  for (const RopeLayout layout : {RopeLayout::kHalfSplit, RopeLayout::kInterleaved}) {
    InPlace(backend, floats.Matrix(4, 144), hash, [&](MatrixView m) {
      Rope(backend, m, 48, {cos.view(), sin.view(), RopeTables::Index::kRow}, layout);
    });
  }
}

// Contexts longer than any unit in which attention works, met by chunks and by a window.
void Attention(Backend& backend, DType dtype, Hash& hash) {
  Floats floats(5);
  for (const int block_size : {16, 5}) {
    constexpr int64_t kLength = 1100;
    const KvPoolSpec spec{.num_layers = 1,
                          .num_blocks = static_cast<int>(kLength / block_size + 1),
                          .block_size = block_size,
                          .num_kv_heads = 2,
                          .head_dim = 24,
                          .dtype = dtype};
    const Sequence sequence{floats.Matrix(kLength, 144, 2), floats.Matrix(kLength, 48),
                            floats.Matrix(kLength, 48), BlocksInOrder(kLength, block_size)};
    for (const int64_t window : {0, 700}) {
      const auto pool = NewKvPool(backend, spec);
      const AttentionOptions options{.scale = 0.25f, .window = window};
      hash.Add(AttendChunk(backend, *pool, 0, sequence, 0, 40, options));
      hash.Add(AttendChunk(backend, *pool, 0, sequence, 40, kLength - 41, options));
      hash.Add(AttendChunk(backend, *pool, 0, sequence, kLength - 1, 1, options));
    }
  }
}

void Elementwise(Backend& backend, Hash& hash) {
  Floats floats(6);
  const DeviceMatrix bias(backend, floats.Matrix(1, 99));
  const DeviceMatrix other(backend, floats.Matrix(5, 99));
  const HostMatrix x = floats.Matrix(5, 99);
  InPlace(backend, x, hash, [&](MatrixView m) { AddBias(backend, bias.data(), m); });
  InPlace(backend, x, hash, [&](MatrixView m) { backend.Scale(1.7f, m); });
  InPlace(backend, x, hash, [&](MatrixView m) { backend.AddResidual(other.view(), m); });
  std::vector<DeviceMatrix> parts;
  for (int i = 0; i < 8; ++i) parts.emplace_back(backend, floats.Matrix(5, 99));
  std::vector<MatrixView> views;
  for (const DeviceMatrix& part : parts) views.push_back(part.view());
  backend.TreeAdd(views, views[0]);
  hash.Add(parts[0].Read());
}

void Logits(Backend& backend, Hash& hash) {
  Floats floats(7);
  const HostMatrix x = floats.Matrix(2, 5003, 5);
  InPlace(backend, x, hash, [&](MatrixView m) { backend.LogSoftmax(m, m); });
  const DeviceMatrix logits(backend, x);
  std::vector<float> values(2 * 50);
  std::vector<int32_t> ids(values.size());
  ASSERT_TRUE(backend.TopK(logits.view(), 50, absl::MakeSpan(values), absl::MakeSpan(ids)).ok());
  hash.Add(values.data(), values.size() * sizeof(float));
  hash.Add(ids.data(), ids.size() * sizeof(int32_t));
}

// Draws from all of a row, from what a threshold keeps, and from what a sort of it keeps.
void Samples(Backend& backend, Hash& hash) {
  Floats floats(9);
  const DeviceMatrix logits(backend, floats.Matrix(4, 9001, 5));
  const std::vector<LogitEdit> edits = {{.id = 7, .bias = 9, .penalty = 0.3F, .repeated = true}};
  const SamplingOptions all{.repetition_penalty = 1.3F, .temperature = 0.7F};
  const SamplingOptions nucleus{.top_p = 0.9F, .min_p = 0.01F};
  const SamplingOptions typical{.temperature = 1.2F, .dynatemp_range = 0.5F, .typical_p = 0.8F};
  const SamplingOptions few{.top_k = 40, .top_n_sigma = 1.5F, .xtc_probability = 1};
  const std::vector<SampleRow> rows = {
      {.options = &all, .edits = edits, .token_uniform = 0.3, .num_top = 20},
      {.options = &nucleus, .token_uniform = 0.5, .num_top = 20},
      {.options = &typical, .token_uniform = 0.7, .num_top = 20},
      {.options = &few, .token_uniform = 0.1, .num_top = 20}};
  std::vector<SampledRow> results(rows.size());
  ASSERT_TRUE(backend.Sample(logits.view(), rows, absl::MakeSpan(results)).ok());
  for (SampledRow& result : results) {
    result.top.push_back(result.token);
    for (const TokenProbability& token : result.top) {
      hash.Add(&token.id, sizeof(token.id));
      hash.Add(&token.probability, sizeof(token.probability));
    }
  }
}

void Embeddings(Backend& backend, Hash& hash) {
  Floats floats(8);
  const HostMatrix table = floats.Matrix(9, 33);
  const std::vector<int32_t> ids = {8, 0, 3, 3};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const DeviceMatrix device(backend, table, 0, dtype);
    DeviceMatrix out(backend, 4, 33);
    backend.GatherRows(device.view(), ids, out.view());
    hash.Add(out.Read());
  }
}

// Which rows an expert has, and what becomes of them. The products are those of `format`.
void Experts(Backend& backend, WeightFormat format, Hash& hash) {
  constexpr int kExperts = 8, kChosen = 3;
  constexpr int64_t kHidden = 64, kWidth = 96, kRows = 11;
  ExpertOps& experts = *backend.experts();
  Floats floats(10);
  const auto packed = [&](int64_t outputs, int64_t inputs, bool gated) {
    std::vector<std::unique_ptr<PackedMatrix>> matrices;
    for (int expert = 0; expert < kExperts; ++expert) {
      matrices.push_back(Pack(backend, floats.Matrix(outputs, inputs, 0.1f),
                              {.format = format, .num_slices = 1, .gated = gated}));
    }
    return ExpertMatrices(std::move(matrices));
  };
  const ExpertMatrices gate_up = packed(2 * kWidth, kHidden, true);
  const ExpertMatrices down = packed(kHidden, kWidth, false);
  const HostMatrix outputs = floats.Matrix(kRows, kExperts, 2);
  const HostMatrix rows = floats.Matrix(kRows, kHidden);
  experts.ReserveForExperts(gate_up, down, nullptr, kChosen, kRows);
  for (const RouterScores scores : {RouterScores::kSoftmax, RouterScores::kSigmoid}) {
    const size_t size = Routing::SizeBytes(kRows, kExperts, kChosen);
    const auto memory = backend.Allocate(size);
    ASSERT_TRUE(memory.ok()) << memory.status();
    const Routing routing = Routing::In((*memory)->data(), kRows, kExperts, kChosen);
    const DeviceMatrix router(backend, outputs), x(backend, rows);
    const DeviceMatrix inner(backend, kRows * kChosen, kWidth), out(backend, kRows, kHidden);
    const RouteParams params{.scores = scores, .num_chosen = kChosen, .normalised = true};
    experts.Route(router.view(), params, routing);
    experts.GroupedGemm(x.view(), gate_up, routing, {}, inner.view());
    experts.CombineExperts(inner.view(), down, routing, {}, out.view());
    std::vector<std::byte> chosen(size);
    ASSERT_TRUE(backend.CopyOut((*memory)->data(), absl::MakeSpan(chosen)).ok());
    hash.Add(chosen.data(), chosen.size());
    hash.Add(out.Read());
  }
}

// A sequence over a boundary, a chunk and a position by itself.
void Recurrence(Backend& backend, bool has_correction, Hash& hash) {
  constexpr int64_t kLength = 80;
  constexpr int kHeads = 4;
  const StatePoolSpec spec{.num_layers = 1,
                           .num_slots = 2,
                           .num_heads = kHeads,
                           .num_key_heads = 2,
                           .key_dim = 16,
                           .value_dim = 24,
                           .conv_width = 4};
  RecurrentOps& ops = *backend.recurrence();
  const auto pool = ops.NewStatePool(spec);
  ASSERT_TRUE(pool.ok()) << pool.status();
  Floats floats(11);
  const DeviceMatrix conv(backend, floats.Matrix(spec.conv_width, spec.channels()));
  const DeviceMatrix bias(backend, floats.Matrix(1, kHeads)),
      rate(backend, floats.Matrix(1, kHeads));
  const DeviceMatrix norm(backend, floats.Matrix(1, spec.value_dim));
  const DeviceMatrix skip(backend, floats.Matrix(1, kHeads));
  const RecurrenceParams params{.has_correction = has_correction,
                                .conv = conv.data(),
                                .decay_bias = bias.data(),
                                .log_rate = rate.data(),
                                .norm = norm.data(),
                                .norm_eps = 1e-5F,
                                .skip = skip.data(),
                                .most_step = 100};
  const HostMatrix mixed = floats.Matrix(kLength, spec.channels());
  const HostMatrix gate = floats.Matrix(kLength, spec.values_width());
  const HostMatrix beta = floats.Matrix(kLength, kHeads), decay = floats.Matrix(kLength, kHeads);
  const std::vector<int32_t> slots = {0, 1};
  for (const auto& [first, count] :
       {std::pair<int64_t, int64_t>{0, kLength - 1}, {kLength - 1, 1}}) {
    DeviceMatrix in(backend, mixed.Rows(first, count));
    const DeviceMatrix gates(backend, gate.Rows(first, count));
    const DeviceMatrix betas(backend, beta.Rows(first, count));
    const DeviceMatrix decays(backend, decay.Rows(first, count));
    const DeviceMatrix out(backend, count, spec.values_width());
    const StateSegment segment{.num_rows = count,
                               .first_position = first,
                               .slots = absl::MakeConstSpan(slots).subspan(first > 0 ? 1 : 0)};
    backend.BeginStep({}, count);
    ops.BeginStates({&segment, 1});
    ops.Recur(
        {.mixed = in.view(), .gate = gates.view(), .beta = betas.view(), .decay = decays.view()},
        params, 0, **pool, out.view());
    hash.Add(out.Read());
  }
}

const char* RecordPath() { return SLUICE_BITS_RECORD; }

}  // namespace

std::map<std::string, std::string> BitsOf(Backend& backend) {
  using Operation = std::function<void(Backend&, Hash&)>;
  std::map<std::string, Operation> operations = {{"norms", Norms},
                                                 {"epilogues", Epilogues},
                                                 {"rotations", Rotations},
                                                 {"elementwise", Elementwise},
                                                 {"log_softmax_top_k", Logits},
                                                 {"sample", Samples},
                                                 {"embedding", Embeddings}};
  for (const WeightFormatTraits& traits : kWeightFormats) {
    if (traits.on_cpu != traits.format) continue;  // has the bits of that one (gemm_test.cc)
    operations["products_" + std::string(traits.name)] =
        [format = traits.format](Backend& b, Hash& hash) { Products(b, format, hash); };
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    operations["attention_" + std::string(Name(dtype))] = [dtype](Backend& b, Hash& hash) {
      Attention(b, dtype, hash);
    };
  }
  if (backend.experts() != nullptr) {
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kMxFp4}) {
      operations["experts_" + std::string(Name(format))] = [format](Backend& b, Hash& hash) {
        Experts(b, format, hash);
      };
    }
  }
  if (backend.recurrence() != nullptr) {
    operations["recurrence_delta"] = [](Backend& b, Hash& hash) { Recurrence(b, true, hash); };
    operations["recurrence_state_space"] = [](Backend& b, Hash& hash) {
      Recurrence(b, false, hash);
    };
  }
  std::map<std::string, std::string> bits;
  for (const auto& [name, operation] : operations) {
    Hash hash;
    operation(backend, hash);
    bits[name] = hash.Text();
  }
  return bits;
}

Record ReadRecord() {
  Record record;
  std::ifstream file(RecordPath());
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find('|'), last = line.rfind('|');
    if (line.empty() || line[0] == '#' || first == last) continue;
    record[line.substr(0, first)][line.substr(first + 1, last - first - 1)] = line.substr(last + 1);
  }
  return record;
}

void WriteRecord(const Record& record) {
  std::ofstream file(RecordPath());
  file << "# The bits of every operation by the name of the backend: see bits_test.cc.\n";
  for (const auto& [name, operations] : record) {
    for (const auto& [operation, bits] : operations) {
      file << name << '|' << operation << '|' << bits << '\n';
    }
  }
}

}  // namespace sluice::testing
