// Tokenizer's way from a tiktoken rank file.
#include <utility>
#include <vector>

#include "services/tokenizer/decoders/byte_level_decoder.h"
#include "services/tokenizer/models/bpe_model.h"
#include "services/tokenizer/models/ranked_merges.h"
#include "services/tokenizer/post_processors/bert_post_processor.h"
#include "services/tokenizer/pre_tokenizers/byte_level_pre_tokenizer.h"
#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/tiktoken/tiktoken_file.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

// The format's special tokens and the configuration's, which goes first.
absl::StatusOr<AddedVocabulary> SpecialTokens(const TiktokenFormat& format,
                                              const TokenizerConfig& config,
                                              const Vocabulary& vocabulary,
                                              std::string_view source) {
  AddedVocabulary added;
  for (const std::vector<AddedToken>* tokens : {&config.added_tokens, &format.special_tokens}) {
    for (const AddedToken& token : *tokens) {
      const bool is_known =
          added.entries().contains(token.id) || added.Find(token.content) != kNoToken;
      if (is_known && tokens == &format.special_tokens) continue;
      if (is_known || vocabulary.Has(token.id)) {
        return absl::InvalidArgumentError(StrCat(source, ": the special token ",
                                                 Quoted(token.content), " has the id ", token.id,
                                                 "; accepted: an id and a text of its own"));
      }
      added.AddToken(token, token.content);
    }
  }
  added.BuildFinders();
  return added;
}

// A token's rank is its id.
std::unique_ptr<Model> MakeModel(const Vocabulary& vocabulary) {
  std::vector<uint32_t> ranks(vocabulary.id_limit());
  for (TokenId id = 0; id < vocabulary.id_limit(); ++id) ranks[id] = static_cast<uint32_t>(id);
  BpeOptions options;
  options.ignore_merges = true;
  return std::make_unique<BpeModel>(vocabulary, MergesOfRanks(vocabulary, ranks),
                                    std::move(options));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::FromTiktoken(
    std::string_view bytes, std::string_view source, const TiktokenFormat& format,
    TokenizerConfig config) {
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
  tokenizer->parses_special_by_default_ = false;
  absl::StatusOr<std::unique_ptr<PreTokenizer>> pre_tokenizer =
      MakeByteLevelPreTokenizer(format.pattern);
  if (!pre_tokenizer.ok()) {
    return absl::Status(pre_tokenizer.status().code(),
                        StrCat(source, ": ", pre_tokenizer.status().message()));
  }
  tokenizer->pre_tokenizer_ = *std::move(pre_tokenizer);
  absl::StatusOr<Vocabulary> vocabulary = ParseTiktokenFile(bytes, source);
  if (!vocabulary.ok()) return vocabulary.status();
  tokenizer->vocabulary_ = *std::move(vocabulary);
  absl::StatusOr<AddedVocabulary> added =
      SpecialTokens(format, config, tokenizer->vocabulary_, source);
  if (!added.ok()) return added.status();
  tokenizer->added_ = *std::move(added);
  tokenizer->model_ = MakeModel(tokenizer->vocabulary_);
  tokenizer->decoder_ = MakeByteLevelDecoder();
  if (!config.bos_token.has_value()) config.bos_token = format.bos_token;
  const auto id_of = [&](const std::optional<std::string>& token) {
    return token.has_value() ? tokenizer->added_.Find(*token) : kNoToken;
  };
  const bool adds_bos = config.add_bos_token.value_or(format.bos_token.has_value());
  tokenizer->post_processor_ = MakeFramingPostProcessor(
      adds_bos ? id_of(config.bos_token) : kNoToken,
      config.add_eos_token.value_or(false) ? id_of(config.eos_token) : kNoToken);
  tokenizer->config_ = std::move(config);
  tokenizer->BuildTokenTable();
  return tokenizer;
}

}  // namespace sluice
