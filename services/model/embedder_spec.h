// How the hidden rows of a text become one vector: its embedding, or the scores of a classifier. Read
// from a sentence-transformers folder (modules.json and the folders that it names), or a classifier's
// config.json. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// What becomes of rows h [n, H], after the model's final norm where it has one.
enum class Pooling : uint8_t {
  kCls,             // h[0]
  kMean,            // the mean of all rows
  kMax,             // the largest of every column
  kMeanSqrtLength,  // their sum over sqrt(n)
  kWeightedMean,    // their mean weighted by 1, 2, ..., n
  kLast,            // h[n - 1]
};

// As config files call it: "cls_token", ...
const char* PoolingName(Pooling pooling);

enum class StepActivation : uint8_t { kNone, kTanh, kGelu, kGeluTanh, kRelu, kSilu };

// One of the steps that a pooled vector x takes after another.
struct EmbedderStep {
  enum class Kind : uint8_t {
    kDense,      // activation(W x + b), W [outputs, inputs]
    kNorm,       // LayerNorm over all of x
    kNormalise,  // x / max(|x|, 1e-12)
  };

  Kind kind = Kind::kNormalise;
  // Of kDense and kNorm: the folder of the checkpoint with "<name>.weight" and "<name>.bias".
  std::string folder;
  std::string name;
  MatrixShape shape;  // of the weight; {inputs, 1} of kNorm
  bool bias = false;
  StepActivation activation = StepActivation::kNone;
  float norm_eps = 0;  // of kNorm
};

struct EmbedderSpec {
  std::vector<Pooling> poolings;  // at least one; their results are joined
  std::vector<EmbedderStep> steps;

  // Texts that go before a text, by name, such as {"query", "query: "}.
  struct Prompt {
    std::string name;
    std::string text;
  };
  std::vector<Prompt> prompts;
  std::string
      default_prompt;  // the name of the one that is used unless another is asked for; or ""

  // Of a classifier, whose steps end with one score for each: their names. Empty: embeddings.
  std::vector<std::string> labels;

  int dimensions = 0;  // of what the steps end with

  bool is_classifier() const { return !labels.empty(); }
  // Which rows are needed.
  bool needs_all_rows() const;
  const Prompt* FindPrompt(const std::string& name) const;
};

struct ModelConfig;

// What the folder's modules.json says of a model with rows of config.hidden_size numbers; without the
// file what config.json says of a classifier, else for an encoder the mean of all rows, as
// sentence-transformers reads such folders, and for a decoder nothing. INVALID_ARGUMENT or
// UNIMPLEMENTED, naming the file, where a module or a pooling is unknown.
absl::StatusOr<std::optional<EmbedderSpec>> LoadEmbedderSpec(const std::string& folder,
                                                             const ModelConfig& config);

// The texts of the files that LoadEmbedderSpec reads beside config.json, for ModelIdentity.
std::string EmbedderTexts(const std::string& folder);

}  // namespace sluice
