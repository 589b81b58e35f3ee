#include "services/model/quantize.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/model/gguf_model.h"
#include "services/model/json_fields.h"
#include "services/model/new_folder.h"
#include "services/model/quantization_fields.h"
#include "services/model/quantize_plan.h"
#include "services/model/quantized_tensor.h"
#include "services/model/safetensors_writer.h"
#include "services/model/tensor_layout.h"
#include "services/model/weights.h"

namespace sluice {
namespace {

constexpr char kConfigFile[] = "config.json";
// Weights that are read between two looks at whether to go on.
constexpr int64_t kChunkWeights = int64_t{4} << 20;

// A hash of bytes in order; sizes are multiples of 2, as those of all weights.
class Hash {
 public:
  void Add(absl::Span<const std::byte> bytes) {
    uint64_t word = 0;
    for (; bytes.size() >= sizeof(word); bytes.remove_prefix(sizeof(word))) {
      std::memcpy(&word, bytes.data(), sizeof(word));
      Mix(word);
    }
    word = 0;
    if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
    Mix(word ^ uint64_t{bytes.size()} << 56);
  }
  uint64_t value() const { return value_; }

 private:
  // FNV-1a, on words.
  void Mix(uint64_t word) {
    value_ = (value_ ^ word) * 0x100000001b3;
    value_ ^= value_ >> 29;
  }

  uint64_t value_ = 0xcbf29ce484222325;
};

SafetensorsMetadata MetadataWith(uint64_t id) {
  return {{"format", "pt"}, {kCheckpointIdKey, CheckpointIdText(id)}};
}

// Whether a file of a model's folder is copied: neither weights, in whatever format, nor the
// configuration, which changes, nor hidden.
bool IsNoWeight(const std::string& name) {
  for (const char* suffix : {".safetensors", ".index.json", ".bin", ".pt", ".pth", ".ckpt", ".gguf",
                             ".ggml", ".h5", ".msgpack", ".onnx", ".ot", ".npz"}) {
    if (absl::EndsWith(name, suffix)) return false;
  }
  return name != kConfigFile && name[0] != '.';
}

QuantizeResult ResultOf(const std::vector<Transfer>& transfers, const WeightSource& source) {
  QuantizeResult result;
  for (const Transfer& transfer : transfers) {
    result.bytes_read += source.BytesOf(transfer.from, WholeOf(transfer.to.stored));
    result.bytes_written += transfer.num_bytes();
    if (transfer.is_matrix()) ++(transfer.quantized() ? result.num_quantized : result.num_kept);
  }
  return result;
}

// Writes weights and configuration.
class QuantizedWriter {
 public:
  QuantizedWriter(const QuantizeOptions& options, const WeightSource& source,
                  const std::vector<Transfer>& transfers, const NewFolder& folder)
      : options_(options), source_(source), transfers_(transfers), folder_(folder) {}

  absl::Status Write() {
    absl::Status status = WriteWeights();
    if (status.ok()) status = WriteConfig();
    return status;
  }

 private:
  absl::Status WriteWeights();
  absl::Status WriteTensor(const Transfer& transfer, SafetensorsStream& stream);
  absl::Status ReadRows(const Transfer& transfer, IndexRange rows, absl::Span<std::byte> out) const;
  absl::Status Append(absl::Span<const std::byte> bytes, SafetensorsStream& stream);
  absl::Status WriteIndex(const std::vector<QuantizedFile>& files) const;
  absl::Status WriteConfig() const;
  absl::Status WriteJson(const char* name, const nlohmann::json& json) const {
    return folder_.WriteText(name, json.dump(2) + "\n");
  }

  const QuantizeOptions& options_;
  const WeightSource& source_;
  const std::vector<Transfer>& transfers_;
  const NewFolder& folder_;
  Hash hash_;
};

// The id is that of all bytes, so headers are written once more at the end.
absl::Status QuantizedWriter::WriteWeights() {
  const std::vector<QuantizedFile> files = FilesOf(transfers_, options_.max_file_bytes);
  std::vector<SafetensorsStream> streams;
  for (const QuantizedFile& file : files) {
    std::vector<TensorHeader> headers;
    for (const Transfer& transfer : file.transfers) {
      for (TensorHeader& header : transfer.Headers()) headers.push_back(std::move(header));
    }
    auto stream =
        SafetensorsStream::Create(folder_.PathOf(file.name), std::move(headers), MetadataWith(0));
    if (!stream.ok()) return stream.status();
    for (const Transfer& transfer : file.transfers) {
      absl::Status written = WriteTensor(transfer, *stream);
      if (!written.ok()) return written;
    }
    streams.push_back(*std::move(stream));
  }
  for (SafetensorsStream& stream : streams) {
    absl::Status finished = stream.Finish(MetadataWith(hash_.value()));
    if (!finished.ok()) return finished;
  }
  return files.size() == 1 ? absl::OkStatus() : WriteIndex(files);
}

absl::Status QuantizedWriter::WriteTensor(const Transfer& transfer, SafetensorsStream& stream) {
  const MatrixShape shape = transfer.to.stored;
  const size_t row_bytes = RowBytes(transfer.format, shape.columns);
  const int64_t step = std::clamp<int64_t>(kChunkWeights / shape.columns, 1, shape.rows);
  std::vector<std::byte> rows, quotients, scales;
  for (int64_t begin = 0; begin < shape.rows; begin += step) {
    if (options_.cancelled && options_.cancelled()) return absl::CancelledError("interrupted");
    const IndexRange range{begin, std::min(begin + step, shape.rows)};
    rows.resize(static_cast<size_t>(range.size()) * row_bytes);
    absl::Status status = ReadRows(transfer, range, absl::MakeSpan(rows));
    if (!status.ok()) return status;
    if (transfer.quantized()) {
      quotients.resize(static_cast<size_t>(
          QuotientShape(transfer.format, {range.size(), shape.columns}).size()));
      const size_t scale_bytes = rows.size() - quotients.size();
      scales.resize(scales.size() + scale_bytes);
      SplitGroups(transfer.format, rows, absl::MakeSpan(quotients),
                  absl::MakeSpan(scales).last(scale_bytes));
    }
    status = Append(transfer.quantized() ? quotients : rows, stream);
    if (!status.ok()) return status;
  }
  return Append(scales, stream);
}

// In as many parts as there are threads.
absl::Status QuantizedWriter::ReadRows(const Transfer& transfer, IndexRange rows,
                                       absl::Span<std::byte> out) const {
  const MatrixShape shape = transfer.to.stored;
  const size_t row_bytes = RowBytes(transfer.format, shape.columns);
  std::vector<absl::Status> statuses(options_.num_threads);
  std::vector<std::thread> threads;
  for (int part = 0; part < options_.num_threads; ++part) {
    const int64_t begin = rows.size() * part / options_.num_threads;
    const int64_t end = rows.size() * (part + 1) / options_.num_threads;
    const TensorSlice slice{{rows.begin + begin, rows.begin + end}, {0, shape.columns}};
    const auto to = out.subspan(begin * row_bytes, (end - begin) * row_bytes);
    const auto read = [&, part, slice, to] {
      statuses[part] = source_.Read(transfer.from, slice, transfer.format, to);
    };
    try {
      threads.emplace_back(read);
    } catch (const std::system_error&) {
      read();  // the system gives no more threads
    }
  }
  for (std::thread& thread : threads) thread.join();
  absl::Status status;
  for (const absl::Status& part : statuses) status.Update(part);
  return status;
}

absl::Status QuantizedWriter::Append(absl::Span<const std::byte> bytes, SafetensorsStream& stream) {
  hash_.Add(bytes);
  return stream.Append(bytes);
}

absl::Status QuantizedWriter::WriteIndex(const std::vector<QuantizedFile>& files) const {
  nlohmann::json weight_map;
  uint64_t num_bytes = 0;
  for (const QuantizedFile& file : files) {
    for (const Transfer& transfer : file.transfers) {
      num_bytes += transfer.num_bytes();
      for (const TensorHeader& header : transfer.Headers()) weight_map[header.name] = file.name;
    }
  }
  return WriteJson("model.safetensors.index.json", {{"metadata", {{"total_size", num_bytes}}},
                                                    {"weight_map", std::move(weight_map)}});
}

absl::Status QuantizedWriter::WriteConfig() const {
  const std::string path = options_.model + "/" + kConfigFile;
  const auto text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  auto config = ParseJson(*text, path);
  if (!config.ok()) return config.status();
  std::vector<std::string> kept;
  for (const Transfer& transfer : transfers_) {
    if (transfer.quantized() || !transfer.is_matrix()) continue;
    kept.push_back(transfer.to.name.substr(0, transfer.to.name.size() - strlen(kWeightSuffix)));
  }
  (*config)["quantization_config"] =
      QuantizationFields({options_.format, CheckpointIdText(hash_.value())}, kept);
  return WriteJson(kConfigFile, *config);
}

}  // namespace

absl::StatusOr<QuantizeResult> QuantizeModel(const QuantizeOptions& options, Progress* progress) {
  SLUICE_CHECK(IsQuantized(options.format) && options.num_threads >= 1);
  if (IsGgufPath(options.model)) {
    return absl::UnimplementedError(
        absl::StrCat(options.model,
                     ": is a GGUF file; accepted: a folder with config.json and model.safetensors, "
                     "such as the one that it was made from"));
  }
  const auto config = LoadModelConfig(options.model);
  if (!config.ok()) return config.status();
  if (config->quantization.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(options.model, ": is quantized already, as ",
                                                   TypeName(config->quantization->format),
                                                   "; accepted: a model in F32, F16 or BF16"));
  }
  const auto source = WeightSource::Open(options.model, *config, progress);
  if (!source.ok()) return source.status();
  const auto folder = NewFolder::Create(options.out);
  if (!folder.ok()) return folder.status();
  const std::vector<Transfer> transfers = PlanQuantization(*config, *source, options.format);
  const QuantizeResult expected = ResultOf(transfers, *source);
  if (progress != nullptr) progress->Expect(expected.bytes_read);
  absl::Status status = (*folder)->CheckSpace(expected.bytes_written);
  if (status.ok()) status = (*folder)->CopyFrom(options.model, IsNoWeight);
  if (status.ok()) status = QuantizedWriter(options, *source, transfers, **folder).Write();
  if (status.ok()) status = (*folder)->Publish();
  if (!status.ok()) return status;
  return expected;
}

}  // namespace sluice
