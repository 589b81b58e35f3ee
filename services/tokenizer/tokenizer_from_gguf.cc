#include "services/tokenizer/tokenizer_from_gguf.h"

#include <string>
#include <utility>

#include "services/tokenizer/gguf/gguf_tokenizer.h"
#include "services/tokenizer/gguf/gguf_vocabulary.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<const Tokenizer>> TokenizerFromGguf(const GgufView& view) {
  const absl::StatusOr<GgufVocabulary> vocabulary = ReadGgufVocabulary(view);
  if (!vocabulary.ok()) return vocabulary.status();
  absl::StatusOr<TokenizerConfig> config = GgufTokenizerConfig(view);
  if (!config.ok()) return config.status();
  const absl::StatusOr<std::string> text = GgufTokenizerJson(*vocabulary, view.source);
  if (!text.ok()) return text.status();
  return Tokenizer::FromJson(*text, view.source + ", as tokenizer.json", *std::move(config));
}

}  // namespace sluice
