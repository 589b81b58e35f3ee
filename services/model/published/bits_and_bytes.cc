#include "services/model/published/bits_and_bytes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {
namespace {

constexpr int64_t kMostBlock = 1 << 20;

// What the JSON says.
struct BlockState {
  int64_t block = 0;         // weights that share a scale
  int64_t nested_block = 0;  // scales that share a nested scale; 0: none are nested
  float nested_offset = 0;
};

class BitsAndBytesMatrix final : public PublishedMatrix {
 public:
  // Codes, numbers, scales and, where nested, the scales' own scales and numbers.
  BitsAndBytesMatrix(std::vector<PackedTensor> tensors, int64_t columns, const BlockState& state)
      : PublishedMatrix(std::move(tensors)), columns_(columns), state_(state) {
    for (int i = 0; i < 16; ++i) numbers_[i] = this->tensors()[1].Number(i);
  }

  absl::Status Read(const MatrixPart& part, absl::Span<float> out) const override {
    float* to = out.data();
    for (int64_t row = part.first_row; row < part.first_row + part.rows; ++row) {
      int64_t at = row * columns_ + part.first_column;
      for (const int64_t end = at + part.columns; at < end;) {
        const int64_t block_end = std::min((at / state_.block + 1) * state_.block, end);
        const float scale = ScaleOf(at / state_.block);
        if (!std::isfinite(scale)) {
          return tensors()[2].Error("has a scale that is not finite; accepted: numbers");
        }
        for (; at < block_end; ++at) *to++ = numbers_[CodeAt(at)] * scale;
      }
    }
    return absl::OkStatus();
  }

 private:
  int CodeAt(int64_t at) const {
    return static_cast<int>(tensors()[0].bytes[at / 2]) >> (at % 2 == 0 ? 4 : 0) & 15;
  }
  float ScaleOf(int64_t block) const {
    const PackedTensor& scales = tensors()[2];
    if (state_.nested_block == 0) return scales.Number(block);
    const auto code = static_cast<int64_t>(scales.bytes[block]);
    return tensors()[4].Number(code) * tensors()[3].Number(block / state_.nested_block) +
           state_.nested_offset;
  }

  const int64_t columns_;
  const BlockState state_;
  std::array<float, 16> numbers_;
};

std::optional<int64_t> BlockIn(const nlohmann::json& state, const char* name) {
  const auto found = state.find(name);
  if (found == state.end() || !found->is_number_integer()) return std::nullopt;
  const auto size = found->get<int64_t>();
  if (size < 1 || size > kMostBlock) return std::nullopt;
  return size;
}

absl::StatusOr<BlockState> ReadState(const PackedTensor& tensor, int64_t rows, int64_t columns,
                                     bool nested) {
  constexpr size_t kLongest = size_t{1} << 12;  // the writer's has some 200
  if (tensor.bytes.size() > kLongest) {
    return tensor.Error(
        absl::StrCat("has ", tensor.bytes.size(), " bytes; accepted: at most ", kLongest));
  }
  const auto* text = reinterpret_cast<const char*>(tensor.bytes.data());
  const auto state =
      nlohmann::json::parse(text, text + tensor.bytes.size(), nullptr, /*allow_exceptions=*/false);
  if (!state.is_object()) return tensor.Error("is no JSON object");
  if (const auto shape = state.find("shape");
      shape == state.end() || *shape != nlohmann::json({rows, columns})) {
    return tensor.Error(absl::StrCat("has another shape; accepted: [", rows, ", ", columns,
                                     "], as config.json has it"));
  }
  BlockState read;
  const auto block = BlockIn(state, "blocksize");
  if (!block.has_value()) return tensor.Error("has no blocksize; accepted: 1 to 1048576");
  read.block = *block;
  if (!nested) return read;
  const auto nested_block = BlockIn(state, "nested_blocksize");
  const auto offset = state.find("nested_offset");
  if (!nested_block.has_value() || offset == state.end() || !offset->is_number()) {
    return tensor.Error("has no nested_blocksize or nested_offset; accepted: numbers");
  }
  read.nested_block = *nested_block;
  read.nested_offset = offset->get<float>();
  return read;
}

int64_t NumBlocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

absl::StatusOr<PackedTensor> FindState(const PackedFiles& files, const std::string& name) {
  const std::string fp4 = name + ".quant_state.bitsandbytes__fp4";
  const bool is_fp4 = files.Has(fp4);
  return files.Find(is_fp4 ? fp4 : name + ".quant_state.bitsandbytes__nf4", {"U8"}, {{-1}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenBitsAndBytes(const PackedFiles& files,
                                                                  const std::string& name,
                                                                  int64_t rows, int64_t columns) {
  const auto codes = files.Find(name, {"U8"}, {{(rows * columns + 1) / 2, 1}});
  if (!codes.ok()) return codes.status();
  const auto numbers = files.Find(name + ".quant_map", ScaleTypes(), {{16}});
  if (!numbers.ok()) return numbers.status();
  for (int i = 0; i < 16; ++i) {
    if (std::isfinite(numbers->Number(i))) continue;
    return numbers->Error("has a number that is not finite; accepted: numbers");
  }
  const auto text = FindState(files, name);
  if (!text.ok()) return text.status();
  const bool nested = files.Has(name + ".nested_absmax");
  const auto state = ReadState(*text, rows, columns, nested);
  if (!state.ok()) return state.status();
  const int64_t blocks = NumBlocks(rows * columns, state->block);
  const auto scales = files.Find(
      name + ".absmax", nested ? std::vector<std::string>{"U8"} : ScaleTypes(), {{blocks}});
  if (!scales.ok()) return scales.status();
  std::vector<PackedTensor> tensors = {*codes, *numbers, *scales};
  if (nested) {
    const int64_t of_scales = NumBlocks(blocks, state->nested_block);
    const auto nested_scales = files.Find(name + ".nested_absmax", ScaleTypes(), {{of_scales}});
    if (!nested_scales.ok()) return nested_scales.status();
    const auto nested_numbers = files.Find(name + ".nested_quant_map", ScaleTypes(), {{256}});
    if (!nested_numbers.ok()) return nested_numbers.status();
    tensors.push_back(*nested_scales);
    tensors.push_back(*nested_numbers);
  }
  return std::make_unique<BitsAndBytesMatrix>(std::move(tensors), columns, *state);
}

}  // namespace sluice
