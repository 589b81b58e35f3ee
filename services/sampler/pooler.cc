#include "services/sampler/pooler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/model/checkpoint.h"

namespace sluice {
namespace {

constexpr int64_t kTileRows = 256;
constexpr int64_t kTileTexts = 64;

double Activated(StepActivation activation, double x) {
  switch (activation) {
    case StepActivation::kNone:
      return x;
    case StepActivation::kTanh:
      return std::tanh(x);
    case StepActivation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case StepActivation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case StepActivation::kRelu:
      return std::max(x, 0.0);
    case StepActivation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

// What a pooling makes of the rows of a text, row by row, in double.
class Pooled {
 public:
  Pooled(Pooling pooling, int64_t width, int64_t count)
      : pooling_(pooling), count_(count), sum_(width) {}

  void Add(const float* row) {
    const auto number = static_cast<double>(++num_added_);
    switch (pooling_) {
      case Pooling::kCls:
        if (num_added_ == 1) std::copy_n(row, sum_.size(), sum_.begin());
        break;
      case Pooling::kLast:
        if (num_added_ == count_) std::copy_n(row, sum_.size(), sum_.begin());
        break;
      case Pooling::kMax:
        for (size_t i = 0; i < sum_.size(); ++i) {
          sum_[i] = num_added_ == 1 ? row[i] : std::max(sum_[i], double{row[i]});
        }
        break;
      case Pooling::kMean:
      case Pooling::kMeanSqrtLength:
        for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += row[i];
        break;
      case Pooling::kWeightedMean:
        for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += number * row[i];
        break;
    }
  }

  // REQUIRES: all rows have been added.
  void AppendTo(std::vector<float>& x) const {
    const auto n = static_cast<double>(count_);
    double divisor = 1;
    if (pooling_ == Pooling::kMean) divisor = n;
    if (pooling_ == Pooling::kMeanSqrtLength) divisor = std::sqrt(n);
    if (pooling_ == Pooling::kWeightedMean) divisor = n * (n + 1) / 2;
    for (const double sum : sum_) x.push_back(static_cast<float>(sum / divisor));
  }

 private:
  const Pooling pooling_;
  const int64_t count_;
  int64_t num_added_ = 0;
  std::vector<double> sum_;
};

void Normalise(absl::Span<float> x) {
  double squares = 0;
  for (const float value : x) squares += double{value} * value;
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& value : x) value = static_cast<float>(value / length);
}

void LayerNormOf(absl::Span<float> x, const std::vector<float>& weight,
                 const std::vector<float>& offset, float eps) {
  const auto count = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / count;
  double squares = 0;
  for (const float value : x) squares += (value - mean) * (value - mean);
  const double scale = 1 / std::sqrt(squares / count + eps);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>((x[i] - mean) * scale * weight[i] + (offset.empty() ? 0 : offset[i]));
  }
}

absl::StatusOr<std::vector<float>> ReadTensor(const Checkpoint& checkpoint, const std::string& name,
                                              MatrixShape shape) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float));
  absl::Status read = checkpoint.Read(name, shape, WholeOf(shape), DType::kF32, bytes);
  if (!read.ok()) return read;
  return values;
}

absl::Span<const std::byte> BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)};
}

absl::StatusOr<std::unique_ptr<Buffer>> ToBackend(const std::vector<float>& values,
                                                  Backend& backend) {
  auto memory = backend.Allocate(values.size() * sizeof(float));
  if (memory.ok()) backend.CopyIn(BytesOf(values), (*memory)->data());
  return memory;
}

}  // namespace

Pooler::Pooler(const ModelConfig& config, Backend& backend)
    : backend_(&backend),
      spec_(*config.embedder),
      norm_kind_(config.norm),
      norm_eps_(config.norm_eps),
      hidden_size_(config.hidden_size) {}

absl::StatusOr<Pooler> Pooler::Load(const ModelConfig& config, const WeightSource& source,
                                    Backend& backend) {
  SLUICE_CHECK(config.embedder.has_value());
  Pooler pooler(config, backend);
  auto rows = backend.Allocate(kTileRows * config.hidden_size * sizeof(float));
  if (!rows.ok()) return rows.status();
  pooler.rows_ = *std::move(rows);
  absl::Status loaded = pooler.LoadFinalNorm(config, source);
  int64_t widest = 0;
  for (const EmbedderStep& step : pooler.spec_.steps) {
    if (loaded.ok()) loaded = pooler.LoadLayer(step);
    widest = std::max({widest, step.shape.rows, step.shape.columns});
  }
  if (!loaded.ok() || widest == 0)
    return loaded.ok() ? absl::StatusOr<Pooler>(std::move(pooler)) : loaded;
  for (std::unique_ptr<Buffer>* buffer : {&pooler.inputs_, &pooler.outputs_}) {
    auto memory = backend.Allocate(kTileTexts * widest * sizeof(float));
    if (!memory.ok()) return memory.status();
    *buffer = *std::move(memory);
  }
  return pooler;
}

absl::Status Pooler::LoadFinalNorm(const ModelConfig& config, const WeightSource& source) {
  const auto load = [&](TensorRole role, std::unique_ptr<Buffer>& into) {
    const auto values = source.ReadFloats({role}, WholeOf(ShapeOf({role}, config)));
    if (!values.ok()) return values.status();
    auto memory = ToBackend(*values, *backend_);
    if (memory.ok()) into = *std::move(memory);
    return memory.status();
  };
  absl::Status loaded;
  if (HasTensor({TensorRole::kFinalNorm}, config)) loaded = load(TensorRole::kFinalNorm, norm_);
  if (loaded.ok() && HasTensor({TensorRole::kFinalNormBias}, config)) {
    loaded = load(TensorRole::kFinalNormBias, norm_bias_);
  }
  return loaded;
}

absl::Status Pooler::LoadLayer(const EmbedderStep& spec) {
  Layer& layer = layers_.emplace_back();
  layer.spec = spec;
  if (spec.kind == EmbedderStep::Kind::kNormalise) return absl::OkStatus();
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(spec.folder);
  if (!checkpoint.ok()) return checkpoint.status();
  const auto weight = ReadTensor(*checkpoint, spec.name + ".weight", spec.shape);
  if (!weight.ok()) return weight.status();
  std::vector<float> bias;
  if (spec.bias) {
    auto read = ReadTensor(*checkpoint, spec.name + ".bias", {spec.shape.rows, 1});
    if (!read.ok()) return read.status();
    bias = *std::move(read);
  }
  if (spec.kind == EmbedderStep::Kind::kNorm) {
    layer.weight = *weight;
    layer.offset = std::move(bias);
    return absl::OkStatus();
  }
  const int64_t columns = spec.shape.columns;
  auto packed = backend_->Pack(
      {.num_outputs = spec.shape.rows, .num_inputs = columns, .format = WeightFormat::kF32},
      [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
        const auto rows =
            absl::MakeConstSpan(*weight).subspan(begin * columns, (end - begin) * columns);
        std::ranges::copy(BytesOf(rows), out.begin());
        return absl::OkStatus();
      });
  if (!packed.ok()) return packed.status();
  layer.matrix = *std::move(packed);
  backend_->ReserveForGemm(*layer.matrix, kTileTexts);
  if (bias.empty()) return absl::OkStatus();
  auto memory = ToBackend(bias, *backend_);
  if (memory.ok()) layer.bias = *std::move(memory);
  return memory.status();
}

size_t Pooler::weight_bytes() const {
  size_t bytes = 0;
  for (const std::unique_ptr<Buffer>* buffer : {&norm_, &norm_bias_}) {
    if (*buffer != nullptr) bytes += (*buffer)->size_bytes();
  }
  for (const Layer& layer : layers_) {
    if (layer.matrix != nullptr) bytes += layer.matrix->size_bytes();
    if (layer.bias != nullptr) bytes += layer.bias->size_bytes();
    bytes += (layer.weight.size() + layer.offset.size()) * sizeof(float);
  }
  return bytes;
}

absl::Status Pooler::ReadRows(MatrixView hidden, absl::Span<float> out) {
  const MatrixView rows{rows_->data(), DType::kF32, hidden.rows, hidden_size_, hidden_size_};
  if (norm_ == nullptr) {
    backend_->TreeAdd({&hidden, 1}, rows);
  } else if (norm_kind_ == NormKind::kRmsNorm) {
    backend_->RmsNorm(hidden, static_cast<const float*>(norm_->data()), norm_eps_, rows);
  } else {
    const auto* bias =
        norm_bias_ == nullptr ? nullptr : static_cast<const float*>(norm_bias_->data());
    backend_->LayerNorm(hidden, static_cast<const float*>(norm_->data()), bias, norm_eps_, rows);
  }
  return backend_->CopyOut(rows.data,
                           {reinterpret_cast<std::byte*>(out.data()), out.size() * sizeof(float)});
}

absl::StatusOr<std::vector<std::vector<float>>> Pooler::Pool(MatrixView hidden,
                                                             absl::Span<const int64_t> counts) {
  SLUICE_CHECK(std::accumulate(counts.begin(), counts.end(), int64_t{0}) == hidden.rows);
  hidden = hidden.Columns(0, hidden_size_);
  std::vector<float> tile;
  std::vector<std::vector<float>> pooled(counts.size());
  int64_t first = 0;
  for (size_t text = 0; text < counts.size(); ++text) {
    std::vector<Pooled> poolings;
    for (const Pooling each : spec_.poolings) {
      poolings.emplace_back(each, hidden_size_, counts[text]);
    }
    for (int64_t begin = 0; begin < counts[text]; begin += kTileRows) {
      const int64_t rows = std::min(kTileRows, counts[text] - begin);
      tile.resize(static_cast<size_t>(rows * hidden_size_));
      absl::Status read = ReadRows(hidden.Rows(first + begin, rows), absl::MakeSpan(tile));
      if (!read.ok()) return read;
      for (int64_t row = 0; row < rows; ++row) {
        for (Pooled& each : poolings) each.Add(tile.data() + row * hidden_size_);
      }
    }
    for (const Pooled& each : poolings) each.AppendTo(pooled[text]);
    first += counts[text];
  }
  for (size_t begin = 0; begin < pooled.size(); begin += kTileTexts) {
    const auto texts = absl::MakeSpan(pooled).subspan(begin, kTileTexts);
    std::vector<float> x;
    for (const std::vector<float>& text : texts) x.insert(x.end(), text.begin(), text.end());
    const auto count = static_cast<int64_t>(texts.size());
    for (const Layer& layer : layers_) {
      if (absl::Status applied = Apply(layer, count, x); !applied.ok()) return applied;
    }
    const auto width = static_cast<ptrdiff_t>(x.size() / texts.size());
    for (int64_t text = 0; text < count; ++text) {
      texts[text].assign(x.begin() + text * width, x.begin() + (text + 1) * width);
    }
  }
  return pooled;
}

absl::Status Pooler::Apply(const Layer& layer, int64_t texts, std::vector<float>& x) {
  if (layer.spec.kind == EmbedderStep::Kind::kDense) return ApplyDense(layer, texts, x);
  const size_t width = x.size() / texts;
  for (int64_t text = 0; text < texts; ++text) {
    const auto row = absl::MakeSpan(x).subspan(text * width, width);
    if (layer.spec.kind == EmbedderStep::Kind::kNormalise) {
      Normalise(row);
    } else {
      LayerNormOf(row, layer.weight, layer.offset, layer.spec.norm_eps);
    }
  }
  return absl::OkStatus();
}

absl::Status Pooler::ApplyDense(const Layer& layer, int64_t texts, std::vector<float>& x) {
  const MatrixShape shape = layer.spec.shape;
  const MatrixView in{inputs_->data(), DType::kF32, texts, shape.columns, shape.columns};
  const MatrixView out{outputs_->data(), DType::kF32, texts, shape.rows, shape.rows};
  SLUICE_CHECK(static_cast<int64_t>(x.size()) == texts * shape.columns);
  backend_->CopyIn(BytesOf(x), in.data);
  backend_->Gemm(
      in, *layer.matrix, out,
      {.bias = layer.bias == nullptr ? nullptr : static_cast<const float*>(layer.bias->data())});
  x.resize(static_cast<size_t>(texts * shape.rows));
  absl::Status read = backend_->CopyOut(
      out.data, {reinterpret_cast<std::byte*>(x.data()), x.size() * sizeof(float)});
  if (!read.ok() || layer.spec.activation == StepActivation::kNone) return read;
  for (float& value : x) value = static_cast<float>(Activated(layer.spec.activation, value));
  return absl::OkStatus();
}

}  // namespace sluice
