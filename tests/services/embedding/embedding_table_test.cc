#include "services/embedding/embedding_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/kernels/testing/test_backend.h"
#include "tests/services/model/gguf_bytes.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

constexpr char kTable[] = "model.embed_tokens.weight";

// A tiny model with the given vocabulary, stored as `stored`.
class EmbeddingTableTest : public ::testing::Test {
 protected:
  absl::StatusOr<EmbeddingTable> Load(WeightType weights, DType stored = DType::kF32,
                                      int vocab_size = 10) {
    std::vector<OwnedTensor> tensors = TinyLlamaTensors(stored);
    for (OwnedTensor& tensor : tensors) {
      if (tensor.name != kTable && tensor.name != "lm_head.weight") continue;
      tensor = MakeTensor(tensor.name, stored, {static_cast<uint64_t>(vocab_size), 16});
    }
    folder_.Write("config.json",
                  absl::StrReplaceAll(
                      TinyLlamaConfig(),
                      {{"\"vocab_size\": 10", absl::StrCat("\"vocab_size\": ", vocab_size)}}));
    folder_.Write("model.safetensors", SafetensorsBytes(tensors));
    const auto config = LoadModelConfig(folder_.path());
    if (!config.ok()) return config.status();
    const auto source = WeightSource::Open(folder_.path(), *config);
    if (!source.ok()) return source.status();
    return EmbeddingTable::Load(*config, *source, weights, *backend_);
  }

  // Rows [T, 16] of memory of the backend, all 7.
  MatrixView NewRows(size_t rows) {
    memory_ = backend_->Allocate(rows * 16 * sizeof(float)).value();
    const std::vector<float> sevens(rows * 16, 7.0F);
    backend_->CopyIn({reinterpret_cast<const std::byte*>(sevens.data()), rows * 16 * sizeof(float)},
                     memory_->data());
    return {memory_->data(), DType::kF32, static_cast<int64_t>(rows), 16, 16};
  }

  // What lies there, row after row.
  std::vector<float> Read(MatrixView rows) {
    std::vector<float> values(rows.rows * 16);
    EXPECT_TRUE(backend_
                    ->CopyOut(rows.data, absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()),
                                                        values.size() * sizeof(float)))
                    .ok());
    return values;
  }

  TempFolder folder_;
  std::unique_ptr<Backend> backend_ = NewTestBackend();
  std::unique_ptr<Buffer> memory_;
};

TEST_F(EmbeddingTableTest, LooksUpRowsAsStored) {
  const std::vector<int32_t> ids = {9, 0, 3, 3, 7};
  const std::vector<int32_t> positions = {0, 1, 2, 3, 4};
  // The elements are exact in every type.
  for (const DType stored : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const WeightType weights : {WeightType::kAuto, WeightType::kF32, WeightType::kBF16}) {
      auto table = Load(weights, stored);
      ASSERT_TRUE(table.ok()) << table.status();
      EXPECT_EQ(table->vocab_size(), 10);
      EXPECT_EQ(table->hidden_size(), 16);
      const MatrixView out = NewRows(ids.size());
      ASSERT_TRUE(table->Embed(ids, positions, out).ok());
      const std::vector<float> rows = Read(out);
      for (size_t t = 0; t < ids.size(); ++t) {
        for (int h = 0; h < 16; ++h)
          EXPECT_EQ(rows[t * 16 + h], ElementOf(kTable, ids[t] * 16 + h));
      }
    }
  }
}

TEST_F(EmbeddingTableTest, KeepsTheTypeThatWasAskedFor) {
  EXPECT_EQ(Load(WeightType::kAuto, DType::kF32)->weight_bytes(), 10u * 16 * 4);
  EXPECT_EQ(Load(WeightType::kAuto, DType::kBF16)->weight_bytes(), 10u * 16 * 2);
  EXPECT_EQ(Load(WeightType::kBF16, DType::kF32)->weight_bytes(), 10u * 16 * 2);
  EXPECT_EQ(Load(WeightType::kF32, DType::kBF16)->weight_bytes(), 10u * 16 * 4);
}

// Of a GGUF file whose embedding lies in blocks of Q8_0.
TEST_F(EmbeddingTableTest, KeepsBlocksAndUnpacksTheirRows) {
  constexpr int kVocab = 10, kHidden = 64;
  std::string blocks;
  for (int i = 0; i < kVocab * kHidden / 32; ++i) {
    blocks += BytesOf<uint16_t>(0x3801);  // just above a half
    for (int k = 0; k < 32; ++k) blocks += static_cast<char>(i * 29 + k * 7);
  }
  const std::string name = GgufText("token_embd.weight");
  GgufBytes bytes;
  bytes.Tensor("token_embd.weight", {kVocab, kHidden}, /*type=*/8, blocks);
  std::string file = TinyGguf(bytes).Build();
  file.replace(file.rfind(name), name.size(), GgufText("token_embD.weight"));  // the one in F32
  const std::string path = folder_.Write("m.gguf", file);
  const auto config = LoadModelConfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto source = WeightSource::Open(path, *config);
  ASSERT_TRUE(source.ok()) << source.status();
  auto table = EmbeddingTable::Load(*config, *source, WeightType::kAuto, *backend_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->weight_bytes(), RowBytes(WeightFormat::kInt8Zp, kVocab * kHidden));
  const auto all = source->ReadFloats({TensorRole::kEmbedding}, {{0, kVocab}, {0, kHidden}});
  ASSERT_TRUE(all.ok()) << all.status();
  const std::vector<int32_t> ids = {9, 0, 3}, positions = {0, 1, 2};
  auto memory = backend_->Allocate(ids.size() * kHidden * sizeof(float));
  ASSERT_TRUE(memory.ok()) << memory.status();
  const MatrixView out{(*memory)->data(), DType::kF32, 3, kHidden, kHidden};
  ASSERT_TRUE(table->Embed(ids, positions, out).ok());
  std::vector<float> rows(ids.size() * kHidden);
  ASSERT_TRUE(backend_
                  ->CopyOut(out.data, absl::MakeSpan(reinterpret_cast<std::byte*>(rows.data()),
                                                     rows.size() * sizeof(float)))
                  .ok());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i], (*all)[ids[i / kHidden] * kHidden + i % kHidden]) << i;
  }
}

// More rows than are converted at a time.
TEST_F(EmbeddingTableTest, LoadsTablesPieceByPiece) {
  constexpr int kVocab = 40001;
  auto table = Load(WeightType::kF32, DType::kBF16, kVocab);
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<int32_t> ids, positions;
  for (int id = 0; id < kVocab; id += 97) ids.push_back(id);
  ids.push_back(kVocab - 1);
  positions.resize(ids.size());
  const MatrixView out = NewRows(ids.size());
  ASSERT_TRUE(table->Embed(ids, positions, out).ok());
  const std::vector<float> rows = Read(out);
  for (size_t t = 0; t < ids.size(); ++t) {
    ASSERT_EQ(rows[t * 16 + 5], ElementOf(kTable, ids[t] * 16 + 5)) << ids[t];
  }
}

TEST_F(EmbeddingTableTest, RefusesIdsOutsideTheVocabulary) {
  auto table = Load(WeightType::kF32);
  ASSERT_TRUE(table.ok()) << table.status();
  for (const int32_t bad : {10, -1}) {
    const MatrixView out = NewRows(2);
    const std::vector<int32_t> ids = {1, bad}, positions = {0, 1};
    const absl::Status status = table->Embed(ids, positions, out);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), absl::StrCat("token_ids[1] is ", bad, "; accepted: 0 to 9"));
    EXPECT_EQ(Read(out)[0], 7);
  }
}

TEST_F(EmbeddingTableTest, NoIdsAreNoWork) {
  auto table = Load(WeightType::kF32);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->Embed({}, {}, {nullptr, DType::kF32, 0, 16, 16}).ok());
}

// The same model, but with positions that are added: H 16, 64 positions.
class AddedPositionsTest : public EmbeddingTableTest {
 protected:
  absl::StatusOr<EmbeddingTable> LoadWith(const std::string& position, DType stored) {
    std::vector<OwnedTensor> tensors = TinyLlamaTensors(stored);
    tensors.push_back(MakeTensor("model.embed_positions.weight", stored, {64, 16}));
    folder_.Write("config.json",
                  absl::StrReplaceAll(
                      TinyLlamaConfig(),
                      {{"\"llama\"", "\"sluice_decoder\""},
                       {"\"rope_theta\": 10000.0",
                        absl::StrCat("\"with_bias\": true, \"position\": \"", position, "\"")}}));
    folder_.Write("model.safetensors", SafetensorsBytes(tensors));
    const auto config = LoadModelConfig(folder_.path());
    if (!config.ok()) return config.status();
    const auto source = WeightSource::Open(folder_.path(), *config);
    if (!source.ok()) return source.status();
    return EmbeddingTable::Load(*config, *source, WeightType::kAuto, *backend_);
  }
};

TEST_F(AddedPositionsTest, LearnedPositionsAreLookedUpAndAdded) {
  const std::vector<int32_t> ids = {9, 0, 3}, positions = {63, 0, 17};
  for (const DType stored : {DType::kF32, DType::kBF16}) {
    auto table = LoadWith("learned", stored);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->weight_bytes(), (10u + 64) * 16 * SizeOf(stored));
    const MatrixView out = NewRows(ids.size());
    ASSERT_TRUE(table->Embed(ids, positions, out).ok());
    const std::vector<float> rows = Read(out);
    for (size_t t = 0; t < ids.size(); ++t) {
      for (int h = 0; h < 16; ++h) {
        EXPECT_EQ(rows[t * 16 + h],
                  ElementOf(kTable, ids[t] * 16 + h) +
                      ElementOf("model.embed_positions.weight", positions[t] * 16 + h));
      }
    }
  }
}

TEST_F(AddedPositionsTest, SinusoidsAreAdded) {
  auto table = LoadWith("sinusoidal", DType::kF32);
  ASSERT_TRUE(table.ok()) << table.status();
  const std::vector<int32_t> ids = {4, 4}, positions = {0, 50};
  const MatrixView out = NewRows(ids.size());
  ASSERT_TRUE(table->Embed(ids, positions, out).ok());
  const std::vector<float> rows = Read(out);
  for (size_t t = 0; t < ids.size(); ++t) {
    for (int i = 0; i < 8; ++i) {
      const double angle = positions[t] * std::pow(10000.0, -2.0 * i / 16);
      EXPECT_NEAR(rows[t * 16 + 2 * i], ElementOf(kTable, 4 * 16 + 2 * i) + std::sin(angle), 1e-6);
      EXPECT_NEAR(rows[t * 16 + 2 * i + 1], ElementOf(kTable, 4 * 16 + 2 * i + 1) + std::cos(angle),
                  1e-6);
    }
  }
}

// A row's bits are its own, however many stand beside it.
TEST_F(AddedPositionsTest, NeighboursDoNotMatter) {
  for (const std::string position : {"learned", "sinusoidal"}) {
    auto table = LoadWith(position, DType::kF32);
    ASSERT_TRUE(table.ok()) << table.status();
    const std::vector<int32_t> ids = {1, 2, 3, 4, 5}, positions = {7, 50, 0, 8, 63};
    const MatrixView together = NewRows(ids.size());
    ASSERT_TRUE(table->Embed(ids, positions, together).ok());
    const std::vector<float> rows = Read(together);
    for (size_t t = 0; t < ids.size(); ++t) {
      const MatrixView alone = NewRows(1);
      ASSERT_TRUE(table->Embed({&ids[t], 1}, {&positions[t], 1}, alone).ok());
      EXPECT_EQ(Read(alone),
                std::vector<float>(rows.begin() + t * 16, rows.begin() + (t + 1) * 16));
    }
  }
}

TEST_F(AddedPositionsTest, PositionsOutsideTheModelAreRefused) {
  for (const std::string position : {"learned", "sinusoidal"}) {
    auto table = LoadWith(position, DType::kF32);
    ASSERT_TRUE(table.ok()) << table.status();
    for (const int32_t bad : {64, -1}) {
      const MatrixView out = NewRows(2);
      const std::vector<int32_t> ids = {1, 2}, positions = {0, bad};
      const absl::Status status = table->Embed(ids, positions, out);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(status.message(), absl::StrCat("positions[1] is ", bad, "; accepted: 0 to 63"));
      EXPECT_EQ(Read(out)[0], 7);
    }
  }
}

}  // namespace
}  // namespace sluice::testing
