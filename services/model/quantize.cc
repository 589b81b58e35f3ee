#include "services/model/quantize.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/check.h"
#include "services/model/json_fields.h"
#include "services/model/quantization_fields.h"
#include "services/model/quantized_tensor.h"
#include "services/model/safetensors_writer.h"
#include "services/model/tensor_layout.h"
#include "services/model/weights.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigFile[] = "config.json";
// Weights that are read between two looks at whether to go on.
constexpr int64_t kChunkWeights = int64_t{4} << 20;

// A tensor of the model on its way from one file to another.
struct Transfer {
  TensorPlace from;
  TensorPlace to;  // rows of `from`, in another order of bytes
  WeightFormat format;

  bool quantized() const { return to.quantized.has_value(); }
  uint64_t num_bytes() const {
    return static_cast<uint64_t>(to.stored.rows) * RowBytes(format, to.stored.columns);
  }
};

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

absl::Status ErrorOf(const std::string& path, const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(), path);
}

// Whether a file of a model's folder holds weights, in whatever format.
bool HoldsWeights(const std::string& name) {
  for (const char* suffix : {".safetensors", ".index.json", ".bin", ".pt", ".pth", ".ckpt", ".gguf",
                             ".ggml", ".h5", ".msgpack", ".onnx", ".ot", ".npz"}) {
    if (absl::EndsWith(name, suffix)) return true;
  }
  return false;
}

class Quantizer {
 public:
  Quantizer(const QuantizeOptions& options, const ModelConfig& config, const WeightSource& source)
      : options_(options), config_(config), source_(source), partial_(Partial(options.out)) {
    ListTransfers();
  }

  absl::StatusOr<QuantizeResult> Run();
  uint64_t bytes_to_read() const;

 private:
  struct File {
    std::string name;
    std::vector<Transfer> transfers;
  };

  static fs::path Partial(const std::string& out) {
    return fs::path(fs::path(out + "/").lexically_normal().parent_path().string() + ".partial");
  }

  void ListTransfers();
  template <typename Tensor, typename... Layer>
  void AddTransfer(const TensorPlaces& target, Tensor tensor, Layer... layer);
  std::vector<File> Files() const;

  absl::Status CheckOut() const;
  absl::Status CheckSpace() const;
  absl::Status WriteAll();
  absl::Status WriteWeights();
  absl::Status WriteTensor(const Transfer& transfer, SafetensorsStream& stream);
  absl::Status ReadRows(const Transfer& transfer, IndexRange rows, absl::Span<std::byte> out) const;
  absl::Status Append(absl::Span<const std::byte> bytes, SafetensorsStream& stream);
  absl::Status WriteIndex(const std::vector<File>& files) const;
  absl::Status WriteConfig() const;
  absl::Status WriteText(const std::string& name, const nlohmann::json& json) const;
  absl::Status CopyOtherFiles() const;
  absl::Status Publish() const;

  const QuantizeOptions& options_;
  const ModelConfig& config_;
  const WeightSource& source_;
  const fs::path partial_;
  std::vector<Transfer> transfers_;
  Hash hash_;
  QuantizeResult result_;
};

template <typename Tensor, typename... Layer>
void Quantizer::AddTransfer(const TensorPlaces& target, Tensor tensor, Layer... layer) {
  Transfer transfer{source_.places().Of(tensor, layer...).Whole(),
                    target.Of(tensor, layer...).Whole(),
                    FormatOf(tensor, config_, options_.format)};
  // Vectors stay as they are; F16, which no format is, fits F32.
  if (ShapeOf(tensor, config_).columns == 1 && source_.StoredType(transfer.from) == DType::kBF16) {
    transfer.format = WeightFormat::kBF16;
  }
  transfers_.push_back(std::move(transfer));
}

// Fused projections and tied tensors come by several roles and are listed once.
void Quantizer::ListTransfers() {
  const TensorPlaces target = source_.places().Quantized({.format = options_.format});
  for (const ModelTensor tensor : ModelTensors(config_)) AddTransfer(target, tensor);
  for (int layer = 0; layer < config_.num_layers; ++layer) {
    for (const LayerTensor tensor : LayerTensors(config_)) AddTransfer(target, tensor, layer);
  }
  std::set<std::string> names;
  std::erase_if(transfers_,
                [&](const Transfer& transfer) { return !names.insert(transfer.to.name).second; });
  for (const Transfer& transfer : transfers_) {
    if (transfer.to.stored.columns == 1) continue;
    ++(transfer.quantized() ? result_.num_quantized : result_.num_kept);
  }
}

uint64_t Quantizer::bytes_to_read() const {
  uint64_t bytes = 0;
  for (const Transfer& transfer : transfers_) {
    bytes += source_.BytesOf(transfer.from, WholeOf(transfer.from.stored));
  }
  return bytes;
}

// In order, as many to a file as it holds.
std::vector<Quantizer::File> Quantizer::Files() const {
  std::vector<File> files;
  uint64_t bytes = 0;
  for (const Transfer& transfer : transfers_) {
    if (files.empty() || bytes + transfer.num_bytes() > options_.max_file_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().transfers.push_back(transfer);
    bytes += transfer.num_bytes();
  }
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].name = files.size() == 1
                        ? "model.safetensors"
                        : absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, files.size());
  }
  return files;
}

absl::Status Quantizer::CheckOut() const {
  std::error_code error;
  const fs::file_status status = fs::status(options_.out, error);
  if (fs::exists(status) && !fs::is_directory(status)) {
    return absl::AlreadyExistsError(absl::StrCat(options_.out, ": is no folder"));
  }
  if (fs::is_directory(status) && !fs::is_empty(options_.out, error)) {
    return absl::AlreadyExistsError(absl::StrCat(options_.out, ": holds files already"));
  }
  if (error && fs::exists(status)) return ErrorOf(options_.out, error);
  if (fs::exists(partial_, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        partial_.string(), ": is being written, or was left behind; remove it if nothing does"));
  }
  return absl::OkStatus();
}

absl::Status Quantizer::CheckSpace() const {
  uint64_t needed = 0;
  for (const Transfer& transfer : transfers_) needed += transfer.num_bytes();
  std::error_code error;
  const fs::space_info space = fs::space(partial_, error);
  if (error || space.available >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(partial_.string(), ": needs ", needed,
                                                   " bytes, the disk has ", space.available));
}

absl::StatusOr<QuantizeResult> Quantizer::Run() {
  if (absl::Status free = CheckOut(); !free.ok()) return free;
  std::error_code error;
  fs::create_directory(partial_, error);
  if (error) return ErrorOf(partial_.string(), error);
  absl::Status status = WriteAll();
  if (status.ok()) status = Publish();
  if (status.ok()) return result_;
  fs::remove_all(partial_, error);
  return status;
}

absl::Status Quantizer::WriteAll() {
  absl::Status status = CheckSpace();
  if (status.ok()) status = CopyOtherFiles();
  if (status.ok()) status = WriteWeights();
  if (status.ok()) status = WriteConfig();
  return status;
}

std::vector<TensorHeader> HeadersOf(const Transfer& transfer) {
  const auto header = [](const std::string& name, const std::string& type, MatrixShape shape,
                         uint64_t num_bytes) {
    std::vector<uint64_t> sizes = {static_cast<uint64_t>(shape.rows)};
    if (shape.columns > 1) sizes.push_back(static_cast<uint64_t>(shape.columns));
    return TensorHeader{name, type, std::move(sizes), num_bytes};
  };
  const MatrixShape shape = transfer.to.stored;
  if (!transfer.quantized()) {
    return {
        header(transfer.to.name, std::string(Name(transfer.format)), shape, transfer.num_bytes())};
  }
  const MatrixShape quotients = QuotientShape(transfer.format, shape);
  const MatrixShape scales = ScaleShape(shape);
  return {header(transfer.to.name, QuotientType(transfer.format), quotients, quotients.size()),
          header(transfer.to.name + kScaleSuffix, kScaleType, scales, 2 * scales.size())};
}

// The id is that of all bytes, so headers are written once more at the end.
absl::Status Quantizer::WriteWeights() {
  const std::vector<File> files = Files();
  std::vector<SafetensorsStream> streams;
  for (const File& file : files) {
    std::vector<TensorHeader> headers;
    for (const Transfer& transfer : file.transfers) {
      for (TensorHeader& header : HeadersOf(transfer)) headers.push_back(std::move(header));
    }
    auto stream = SafetensorsStream::Create((partial_ / file.name).string(), std::move(headers),
                                            MetadataWith(0));
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

absl::Status Quantizer::WriteTensor(const Transfer& transfer, SafetensorsStream& stream) {
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
absl::Status Quantizer::ReadRows(const Transfer& transfer, IndexRange rows,
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
    threads.emplace_back([&, part, slice, to] {
      statuses[part] = source_.Read(transfer.from, slice, transfer.format, to);
    });
  }
  absl::Status status;
  for (int part = 0; part < options_.num_threads; ++part) {
    threads[part].join();
    status.Update(statuses[part]);
  }
  return status;
}

absl::Status Quantizer::Append(absl::Span<const std::byte> bytes, SafetensorsStream& stream) {
  hash_.Add(bytes);
  result_.bytes_written += bytes.size();
  return stream.Append(bytes);
}

absl::Status Quantizer::WriteIndex(const std::vector<File>& files) const {
  nlohmann::json weight_map;
  for (const File& file : files) {
    for (const Transfer& transfer : file.transfers) {
      for (const TensorHeader& header : HeadersOf(transfer)) weight_map[header.name] = file.name;
    }
  }
  return WriteText("model.safetensors.index.json",
                   {{"metadata", {{"total_size", result_.bytes_written}}},
                    {"weight_map", std::move(weight_map)}});
}

absl::Status Quantizer::WriteConfig() const {
  const std::string path = options_.model + "/" + kConfigFile;
  const auto text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  auto config = ParseJson(*text, path);
  if (!config.ok()) return config.status();
  std::vector<std::string> kept;
  for (const Transfer& transfer : transfers_) {
    if (transfer.quantized() || transfer.to.stored.columns == 1) continue;
    kept.push_back(transfer.to.name.substr(0, transfer.to.name.size() - strlen(kWeightSuffix)));
  }
  (*config)["quantization_config"] =
      QuantizationFields({options_.format, CheckpointIdText(hash_.value())}, kept);
  return WriteText(kConfigFile, *config);
}

absl::Status Quantizer::WriteText(const std::string& name, const nlohmann::json& json) const {
  const std::string path = (partial_ / name).string();
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << json.dump(2) << "\n";
  file.close();
  return file ? absl::OkStatus() : absl::ErrnoToStatus(errno == 0 ? EIO : errno, path);
}

absl::Status Quantizer::CopyOtherFiles() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.model, error)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file(error) || name == kConfigFile || name[0] == '.' ||
        HoldsWeights(name)) {
      continue;
    }
    fs::copy_file(entry.path(), partial_ / name, error);
    if (error) return ErrorOf(entry.path().string(), error);
  }
  return error ? ErrorOf(options_.model, error) : absl::OkStatus();
}

// rename(2) puts a folder in the place of an empty one, never of one that holds anything.
absl::Status Quantizer::Publish() const {
  std::error_code error;
  fs::rename(partial_, fs::path(options_.out + "/").lexically_normal().parent_path(), error);
  return error ? ErrorOf(options_.out, error) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<QuantizeResult> QuantizeModel(const QuantizeOptions& options, Progress* progress) {
  SLUICE_CHECK(IsQuantized(options.format) && options.num_threads >= 1);
  const auto config = LoadModelConfig(options.model);
  if (!config.ok()) return config.status();
  if (config->quantization.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(options.model, ": is quantized already, as ",
                                                   TypeName(config->quantization->format),
                                                   "; accepted: a model in F32, F16 or BF16"));
  }
  const auto source = WeightSource::Open(options.model, *config, progress);
  if (!source.ok()) return source.status();
  Quantizer quantizer(options, *config, *source);
  if (progress != nullptr) progress->Expect(quantizer.bytes_to_read());
  auto result = quantizer.Run();
  if (result.ok()) result->bytes_read = quantizer.bytes_to_read();
  return result;
}

}  // namespace sluice
