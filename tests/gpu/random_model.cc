// sluice-random-model: a folder with the weights of a Llama of some shape, drawn at random, on all
// cores: as fast as the folder can be written. Such a model writes noise at the speed of a trained
// one; activations stay finite.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/weight_format.h"
#include "services/model/safetensors_writer.h"

namespace sluice {
namespace {

struct Shape {
  const char* name;
  uint64_t hidden, layers, heads, kv_heads, head_dim, mlp, vocabulary;
};

constexpr Shape kShapes[] = {
    {"llama3.1-8b", 4096, 32, 32, 8, 128, 14336, 128256},
    {"small", 512, 4, 8, 8, 64, 1536, 4096},  // for trying a script
    {"tiny", 256, 2, 8, 4, 32, 512, 512},     // for a GPU that is emulated
};

// A tensor's place in the file, and how its numbers are drawn.
struct Drawn {
  TensorHeader header;
  float deviation = 0;  // of numbers around 0; 0: all are 1
};

std::vector<Drawn> TensorsOf(const Shape& shape) {
  std::vector<Drawn> tensors;
  const auto matrix = [&](const std::string& name, uint64_t outputs, uint64_t inputs) {
    tensors.push_back({{name, "BF16", {outputs, inputs}, outputs * inputs * 2},
                       1 / std::sqrt(static_cast<float>(inputs))});
  };
  const auto norm = [&](const std::string& name) {
    tensors.push_back({{name, "BF16", {shape.hidden}, shape.hidden * 2}});
  };
  matrix("model.embed_tokens.weight", shape.vocabulary, shape.hidden);
  for (uint64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    norm(prefix + "input_layernorm.weight");
    matrix(prefix + "self_attn.q_proj.weight", shape.heads * shape.head_dim, shape.hidden);
    matrix(prefix + "self_attn.k_proj.weight", shape.kv_heads * shape.head_dim, shape.hidden);
    matrix(prefix + "self_attn.v_proj.weight", shape.kv_heads * shape.head_dim, shape.hidden);
    matrix(prefix + "self_attn.o_proj.weight", shape.hidden, shape.heads * shape.head_dim);
    norm(prefix + "post_attention_layernorm.weight");
    matrix(prefix + "mlp.gate_proj.weight", shape.mlp, shape.hidden);
    matrix(prefix + "mlp.up_proj.weight", shape.mlp, shape.hidden);
    matrix(prefix + "mlp.down_proj.weight", shape.hidden, shape.mlp);
  }
  norm("model.norm.weight");
  matrix("lm_head.weight", shape.vocabulary, shape.hidden);
  return tensors;
}

std::string ConfigOf(const Shape& shape) {
  return absl::StrCat(
      "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": ",
      shape.hidden, ", \"num_hidden_layers\": ", shape.layers,
      ", \"num_attention_heads\": ", shape.heads, ", \"num_key_value_heads\": ", shape.kv_heads,
      ", \"head_dim\": ", shape.head_dim, ", \"intermediate_size\": ", shape.mlp,
      ", \"vocab_size\": ", shape.vocabulary,
      ", \"max_position_embeddings\": 16384, \"rms_norm_eps\": 1e-05, \"rope_theta\": 500000.0, "
      "\"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"attention_bias\": false, "
      "\"mlp_bias\": false, \"bos_token_id\": 1, \"eos_token_id\": 2, \"torch_dtype\": "
      "\"bfloat16\"}\n");
}

// A run of one tensor's bytes in the file.
struct Piece {
  const Drawn* tensor;
  uint64_t offset;  // in the file
  uint64_t bytes;
};

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;

std::vector<Piece> PiecesOf(const std::vector<Drawn>& tensors, uint64_t offset) {
  std::vector<Piece> pieces;
  for (const Drawn& tensor : tensors) {
    for (uint64_t done = 0; done < tensor.header.num_bytes; done += kPieceBytes) {
      pieces.push_back(
          {&tensor, offset + done, std::min(kPieceBytes, tensor.header.num_bytes - done)});
    }
    offset += tensor.header.num_bytes;
  }
  return pieces;
}

// Splitmix64 (Steele, Lea and Flood 2014).
uint64_t Next(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// The sum of two uniform numbers, scaled to the deviation: a triangle is bell enough.
void Draw(const Piece& piece, std::vector<uint16_t>& numbers) {
  numbers.resize(piece.bytes / 2);
  if (piece.tensor->deviation == 0) {
    std::fill(numbers.begin(), numbers.end(), BFloat16FromFloat(1));
    return;
  }
  const float scale = piece.tensor->deviation * std::sqrt(6.0f) / 32768;
  uint64_t state = piece.offset;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    const uint64_t bits = Next(state);
    const auto number = [&](int shift) {
      const auto a = static_cast<int>(bits >> shift & 0x7fff);
      const auto b = static_cast<int>(bits >> (shift + 16) & 0x7fff);
      return BFloat16FromFloat(scale * static_cast<float>(a + b - 0x7fff));
    };
    numbers[i] = number(0);
    if (i + 1 < numbers.size()) numbers[i + 1] = number(32);
  }
}

bool WriteAt(int file, const void* bytes, uint64_t count, uint64_t offset) {
  const auto* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = pwrite(file, next, count, static_cast<off_t>(offset));
    if (written <= 0) return false;
    next += written;
    offset += written;
    count -= written;
  }
  return true;
}

bool WriteWeights(int file, const std::vector<Piece>& pieces) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      std::vector<uint16_t> numbers;
      for (size_t piece = next++; piece < pieces.size() && !failed; piece = next++) {
        Draw(pieces[piece], numbers);
        if (!WriteAt(file, numbers.data(), pieces[piece].bytes, pieces[piece].offset))
          failed = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return !failed;
}

int Make(const Shape& shape, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::ofstream(folder / "config.json") << ConfigOf(shape);
  std::ofstream(folder / "generation_config.json")
      << "{\"bos_token_id\": 1, \"eos_token_id\": 2}\n";
  const std::vector<Drawn> tensors = TensorsOf(shape);
  std::vector<TensorHeader> headers;
  for (const Drawn& tensor : tensors) headers.push_back(tensor.header);
  const std::string header = SafetensorsHeader(headers, {});
  const std::string path = (folder / "model.safetensors").string();
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  const bool written = file >= 0 && WriteAt(file, header.data(), header.size(), 0) &&
                       WriteWeights(file, PiecesOf(tensors, header.size()));
  if (!written)
    std::fprintf(stderr, "sluice-random-model: %s: %s\n", path.c_str(), strerror(errno));
  if (file >= 0) close(file);
  return written ? 0 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  for (const sluice::Shape& shape : sluice::kShapes) {
    if (argc == 3 && std::string(argv[1]) == shape.name) return sluice::Make(shape, argv[2]);
  }
  std::fprintf(stderr, "usage: sluice-random-model SHAPE FOLDER\n  SHAPE is one of");
  for (const sluice::Shape& shape : sluice::kShapes) std::fprintf(stderr, " %s", shape.name);
  std::fprintf(stderr, "\n");
  return 2;
}
