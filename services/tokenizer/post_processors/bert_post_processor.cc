#include "services/tokenizer/post_processors/bert_post_processor.h"

#include <optional>

#include "services/tokenizer/post_processors/byte_level_post_processor.h"
#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {
namespace {

struct BertOptions {
  TokenId cls = kNoToken;  // before the text, if any
  TokenId sep = kNoToken;  // behind it, if any
  bool trim_offsets = false;
  bool add_prefix_space = false;
  bool is_roberta = false;  // two separators between texts, one token type
};

class BertPostProcessor : public PostProcessor {
 public:
  explicit BertPostProcessor(const BertOptions& options) : options_(options) {}

  void Process(const Input& input, Encoding* encoding) const override {
    if (options_.trim_offsets) TrimOffsets(input, options_.add_prefix_space, encoding);
    if (!input.add_special) return;
    if (options_.cls != kNoToken) {
      encoding->ids.insert(encoding->ids.begin(), options_.cls);
      if (input.has_offsets) encoding->offsets.insert(encoding->offsets.begin(), ByteRange{});
    }
    if (options_.sep != kNoToken) {
      encoding->ids.push_back(options_.sep);
      if (input.has_offsets) encoding->offsets.push_back({});
    }
  }

  size_t JoinPair(bool add_special, const std::vector<TokenId>& second,
                  std::vector<TokenId>* first) const override {
    const auto add = [&](TokenId id) {
      if (add_special && id != kNoToken) first->push_back(id);
    };
    if (add_special && options_.cls != kNoToken) first->insert(first->begin(), options_.cls);
    add(options_.sep);
    if (options_.is_roberta) add(options_.sep);
    const size_t begin = first->size();
    first->insert(first->end(), second.begin(), second.end());
    add(options_.sep);
    return options_.is_roberta ? first->size() : begin;
  }

 private:
  const BertOptions options_;
};

// The id of a token given as [text, id].
absl::StatusOr<TokenId> TokenIdFromJson(const JsonPlace& place) {
  const nlohmann::json& pair = *place.value;
  const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_string() &&
                       pair[1].is_number_unsigned() &&
                       pair[1].get<uint64_t>() < uint64_t{Vocabulary::kMaxIds};
  if (!is_pair) return place.Reject("a token and its id");
  return pair[1].get<TokenId>();
}

absl::StatusOr<BertOptions> OptionsFromJson(const JsonPlace& place) {
  BertOptions options;
  const absl::StatusOr<TokenId> cls = TokenIdFromJson(place.Member("cls"));
  if (!cls.ok()) return cls.status();
  const absl::StatusOr<TokenId> sep = TokenIdFromJson(place.Member("sep"));
  if (!sep.ok()) return sep.status();
  options.cls = *cls;
  options.sep = *sep;
  return options;
}

}  // namespace

std::unique_ptr<PostProcessor> MakeFramingPostProcessor(TokenId before, TokenId behind) {
  return std::make_unique<BertPostProcessor>(BertOptions{.cls = before, .sep = behind});
}

absl::StatusOr<std::unique_ptr<PostProcessor>> BertPostProcessorFromJson(const JsonPlace& place) {
  const absl::StatusOr<BertOptions> options = OptionsFromJson(place);
  if (!options.ok()) return options.status();
  return std::make_unique<BertPostProcessor>(*options);
}

absl::StatusOr<std::unique_ptr<PostProcessor>> RobertaPostProcessorFromJson(
    const JsonPlace& place) {
  absl::StatusOr<BertOptions> options = OptionsFromJson(place);
  if (!options.ok()) return options.status();
  JsonFields fields = place.Fields();
  const std::optional<bool> trim_offsets = fields.Bool("trim_offsets");
  if (!trim_offsets.has_value()) fields.Reject("trim_offsets", "true or false");
  const std::optional<bool> add_prefix_space = fields.Bool("add_prefix_space");
  if (!add_prefix_space.has_value()) fields.Reject("add_prefix_space", "true or false");
  if (!fields.status().ok()) return fields.status();
  options->trim_offsets = *trim_offsets;
  options->add_prefix_space = *add_prefix_space;
  options->is_roberta = true;
  return std::make_unique<BertPostProcessor>(*options);
}

}  // namespace sluice
