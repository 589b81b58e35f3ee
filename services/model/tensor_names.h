// Tensor names of each model family, and their arrangement in files. Plain tables of constants.
#pragma once

#include <cstdint>

namespace sluice {

// Rows of a projection that files keep together with others.
enum class Fusion : uint8_t {
  kNone,     // a tensor for each
  kStacked,  // one below the other: q, k, v; or gate, up
  kByHead,   // q, k, v of head 0, then of head 1, ...; as many KV heads as heads
};

// Every name is a module's: its tensors are called "<name>.weight" and "<name>.bias". nullptr: no
// model of the family has it. Fused projections share a name.
struct TensorNames {
  // Outside the layers. The head of a model with tied embeddings is the embedding, which some files
  // store under the head's name.
  const char* embedding = nullptr;
  const char* positions = nullptr;  // learned ones
  const char* final_norm = nullptr;
  const char* head = nullptr;

  // Inside a layer, below `layer`. "$0" stands for the layer's index, "$1" for the expert's.
  const char* layer = nullptr;
  const char* attention_norm = nullptr;
  const char* q = nullptr;
  const char* k = nullptr;
  const char* v = nullptr;
  const char* q_norm = nullptr;
  const char* k_norm = nullptr;
  const char* o = nullptr;
  // Of latent attention.
  const char* q_a = nullptr;
  const char* q_a_norm = nullptr;
  const char* q_b = nullptr;
  const char* kv_a = nullptr;
  const char* kv_a_norm = nullptr;
  const char* kv_b = nullptr;
  const char* mlp_norm = nullptr;
  const char* gate = nullptr;
  const char* up = nullptr;
  const char* down = nullptr;

  Fusion qkv = Fusion::kNone;
  Fusion gate_up = Fusion::kNone;
  bool transposed = false;  // projections are stored as [inputs, outputs]
  // Some files leave it out of every name but the head's.
  const char* optional_prefix = "";
};

}  // namespace sluice
