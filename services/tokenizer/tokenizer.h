// The tokenizer of a model folder: text to token ids and back, as Hugging Face's tokenizer.json
// defines it. The pipeline:
//
//   text -> added tokens cut out -> normalizer -> pre-tokenizer -> model -> post-processor -> ids
//   ids -> token texts -> decoder -> text
//
// Immutable after loading; every member function may be called from any thread at any time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/tokenizer/decoders/decoder.h"
#include "services/tokenizer/models/model.h"
#include "services/tokenizer/normalizers/normalizer.h"
#include "services/tokenizer/post_processors/post_processor.h"
#include "services/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "services/tokenizer/text/object_pool.h"
#include "services/tokenizer/text/pace.h"
#include "services/tokenizer/text/token.h"
#include "services/tokenizer/tiktoken/tiktoken_format.h"
#include "services/tokenizer/tokenizer_config.h"
#include "services/tokenizer/vocabulary/added_vocabulary.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {

struct EncodeOptions {
  // Adds what the post-processor puts around a text, such as a beginning-of-sequence token.
  bool add_special = true;
  // Recognises special tokens spelled out in the text. False for text that is not trusted: no part
  // of it becomes a special token then, unless that token is one character or marked single_word.
  // By default as the programs do that the file is made for: true for tokenizer.json, false for
  // SentencePiece models and tiktoken files.
  std::optional<bool> parse_special;
  // Parts of the text in which no special token is recognised, nor one that reaches into them:
  // those that came with a request, in a prompt around them. The ids are otherwise those of the
  // whole text. Rising, not touching one another; borrowed.
  absl::Span<const ByteRange> untrusted = {};
  bool offsets = false;
  // Takes bytes that are not UTF-8 for U+FFFD, one for each beginning of a character, rather than
  // refusing the text. Offsets are those of the bytes as they are.
  bool replace_invalid = false;
  // Called every few hundred microseconds, so that others are served meanwhile. Where it returns
  // false the work ends with CANCELLED. Borrowed, null for none.
  const Pace::Checkpoint* checkpoint = nullptr;
  // Longer texts are refused: a text of one long word takes some 30 bytes of memory for each of its
  // own.
  size_t max_bytes = size_t{16} << 20;
  // Cuts what the text becomes, at its end, so that with what is put around it has at most so many
  // tokens. Of a pair the longer text is cut first, as Hugging Face's "longest_first". 0: not cut.
  size_t max_tokens = 0;
};

// The tokens of a pair of texts, as one sequence.
struct PairEncoding {
  std::vector<TokenId> ids;
  size_t second_begin = 0;  // where those of token type 1 begin; ids.size(): there are none
};

struct DecodeOptions {
  bool skip_special = false;
  // Special tokens that skip_special does not leave out. Sorted.
  std::vector<TokenId> kept_special;
  // Ids without a token have no text, rather than being an error: for models that have more ids
  // than their tokenizer has tokens.
  bool skip_unknown = false;
  // As EncodeOptions::checkpoint; of Tokenizer::Decode alone.
  const Pace::Checkpoint* checkpoint = nullptr;
};

class Tokenizer {
 public:
  // From what `folder` holds, the first there is of: tokenizer.json; a SentencePiece model
  // (tokenizer.model, spiece.model, sentencepiece.bpe.model); a tiktoken rank file (tokenizer.model
  // or *.tiktoken). With tokenizer_config.json where there is one. Or from the GGUF file `folder`.
  // NOT_FOUND where there is none, naming what was looked for; INVALID_ARGUMENT for what is
  // malformed and UNIMPLEMENTED for what is not supported, naming file, path within it, value and
  // what would be accepted. `chat_template` as LoadTokenizerConfig's, with its errors too; not looked
  // at where the folder has no tokenizer.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> Load(
      const std::string& folder, const std::string& chat_template = "");

  // From the bytes of such a file, which messages call `source`. Errors as Load.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> FromJson(std::string_view text,
                                                                   std::string_view source,
                                                                   TokenizerConfig config = {});
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> FromSentencePiece(
      std::string_view bytes, std::string_view source, TokenizerConfig config = {});
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> FromTiktoken(std::string_view bytes,
                                                                       std::string_view source,
                                                                       const TiktokenFormat& format,
                                                                       TokenizerConfig config = {});

  // In time linear in the text, but for the logarithm of its longest word. INVALID_ARGUMENT with
  // the offset of the first byte that is not UTF-8; RESOURCE_EXHAUSTED where the text is longer
  // than options.max_bytes or a regular expression runs into its limits.
  absl::StatusOr<Encoding> Encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The two texts joined as the post-processor joins pairs; errors as Encode. Without offsets.
  absl::StatusOr<PairEncoding> EncodePair(std::string_view first, std::string_view second,
                                          const EncodeOptions& options = {}) const;
  // Several texts; the first error, naming the text's index.
  absl::StatusOr<std::vector<Encoding>> EncodeBatch(absl::Span<const std::string_view> texts,
                                                    const EncodeOptions& options = {}) const;

  // Valid UTF-8, with U+FFFD where bytes form no character. INVALID_ARGUMENT naming the first id
  // that is no token's. For text that grows, see IncrementalDecoder.
  absl::StatusOr<std::string> Decode(absl::Span<const TokenId> ids,
                                     const DecodeOptions& options = {}) const;

  // How many tokens there are. Ids may have gaps and reach higher.
  size_t vocabulary_size() const { return vocabulary_size_; }
  // One more than the largest id.
  TokenId id_limit() const { return static_cast<TokenId>(tokens_.size()); }
  bool HasToken(TokenId id) const {
    return id >= 0 && id < id_limit() && tokens_[id].text.data() != nullptr;
  }
  // As the vocabulary spells it, in whatever alphabet. REQUIRES: HasToken(id).
  std::string_view TokenText(TokenId id) const { return tokens_[id].text; }
  // The bytes that a token stands for; a part of a character is not UTF-8. REQUIRES: HasToken(id).
  std::string TokenBytes(TokenId id) const { return decoder_->TokenBytes(tokens_[id].text); }
  // nullopt where no token is spelled so.
  std::optional<TokenId> FindToken(std::string_view text) const;
  // Whether skip_special leaves it out. False for ids without a token.
  bool IsSpecial(TokenId id) const { return HasToken(id) && tokens_[id].is_special; }
  // In rising order.
  std::vector<TokenId> SpecialIds() const;

  // The tokens that begin and end a text by tokenizer_config.json; nullopt where it does not say,
  // or names no token.
  std::optional<TokenId> bos_id() const { return FindNamed(config_.bos_token); }
  std::optional<TokenId> eos_id() const { return FindNamed(config_.eos_token); }
  const TokenizerConfig& config() const { return config_; }

 private:
  friend class IncrementalDecoder;

  struct Token {
    std::string_view text;         // data() is nullptr where the id has no token
    std::string_view decode_text;  // what decoding begins with
    bool is_special = false;
  };
  struct Scratch {
    RegexScratch regex;
    std::unique_ptr<ModelScratch> model;
  };

  Tokenizer() : scratch_pool_(kMaxIdleScratches) {}

  void BuildTokenTable();
  std::optional<TokenId> FindNamed(const std::optional<std::string>& name) const {
    return name.has_value() ? FindToken(*name) : std::nullopt;
  }

  // Encode once the text is known to be UTF-8 of a length that is accepted.
  absl::StatusOr<Encoding> EncodeUtf8(std::string_view text, const EncodeOptions& options) const;
  // The same before the post-processor.
  absl::StatusOr<Encoding> EncodeBare(std::string_view text, const EncodeOptions& options) const;
  // How many tokens the post-processor adds to a text, or to a pair.
  size_t NumAdded(bool add_special, bool is_pair) const;

  // The stages of Encode, each for a part of the text that the one before hands it.
  class EncodeRun;

  // INVALID_ARGUMENT naming the first of `ids` that is no token's.
  absl::Status CheckIds(absl::Span<const TokenId> ids) const;

  static constexpr size_t kMaxIdleScratches = 16;  // a little over 1 MB each

  Vocabulary vocabulary_;  // the model's tokens
  AddedVocabulary added_;
  std::unique_ptr<Normalizer> normalizer_;       // nullptr for none
  std::unique_ptr<PreTokenizer> pre_tokenizer_;  // nullptr for none
  std::unique_ptr<Model> model_;
  std::unique_ptr<PostProcessor> post_processor_;  // nullptr for none
  std::unique_ptr<Decoder> decoder_;
  TokenizerConfig config_;
  std::vector<Token> tokens_;  // by id; views into vocabulary_ and added_
  size_t vocabulary_size_ = 0;
  bool parses_special_by_default_ = true;

  mutable ObjectPool<Scratch> scratch_pool_;  // synchronises itself
};

}  // namespace sluice
