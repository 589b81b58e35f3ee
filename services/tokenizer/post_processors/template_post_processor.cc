#include "services/tokenizer/post_processors/template_post_processor.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {
namespace {

struct TemplatePiece {
  bool is_text = false;              // a text's own tokens
  bool is_second = false;            // of a pair's second text
  int type = 0;                      // of its tokens
  std::vector<TokenId> special_ids;  // otherwise
};

class TemplatePostProcessor : public PostProcessor {
 public:
  TemplatePostProcessor(std::vector<TemplatePiece> pieces, std::vector<TemplatePiece> pair)
      : pieces_(std::move(pieces)), pair_(std::move(pair)) {}

  void Process(const Input& input, Encoding* encoding) const override {
    Encoding out;
    for (const TemplatePiece& piece : pieces_) {
      if (piece.is_text) {
        out.ids.insert(out.ids.end(), encoding->ids.begin(), encoding->ids.end());
        out.offsets.insert(out.offsets.end(), encoding->offsets.begin(), encoding->offsets.end());
      } else if (input.add_special) {
        out.ids.insert(out.ids.end(), piece.special_ids.begin(), piece.special_ids.end());
        if (input.has_offsets) out.offsets.resize(out.offsets.size() + piece.special_ids.size());
      }
    }
    *encoding = std::move(out);
  }

  size_t JoinPair(bool add_special, const std::vector<TokenId>& second,
                  std::vector<TokenId>* first) const override {
    if (pair_.empty()) return PostProcessor::JoinPair(add_special, second, first);
    std::vector<TokenId> out;
    std::optional<size_t> begin;
    for (const TemplatePiece& piece : pair_) {
      if (piece.type == 1 && !begin.has_value()) begin = out.size();
      const std::vector<TokenId>& ids = !piece.is_text    ? piece.special_ids
                                        : piece.is_second ? second
                                                          : *first;
      if (piece.is_text || add_special) out.insert(out.end(), ids.begin(), ids.end());
    }
    *first = std::move(out);
    return begin.value_or(first->size());
  }

 private:
  const std::vector<TemplatePiece> pieces_;
  const std::vector<TemplatePiece> pair_;  // of pairs; empty: the file has none
};

absl::StatusOr<std::vector<TokenId>> IdsFromJson(const JsonPlace& list) {
  constexpr std::string_view kAccepted = "a list of token ids";
  if (!list.value->is_array()) return list.Reject(kAccepted);
  std::vector<TokenId> ids;
  for (const nlohmann::json& id : *list.value) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= uint64_t{Vocabulary::kMaxIds}) {
      return list.Reject(kAccepted);
    }
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

// 0 or 1, and in a pair never 0 behind 1, which a model could not be told.
absl::StatusOr<int> TypeFromJson(const JsonPlace& place) {
  const JsonPlace type = place.Member("type_id");
  if (type.value->is_null()) return 0;
  if (*type.value != 0 && *type.value != 1) return type.Reject("0 or 1");
  return type.value->get<int>();
}

// `texts`: "A", or "AB" in a pair.
absl::StatusOr<TemplatePiece> PieceFromJson(const JsonPlace& place, const JsonPlace& specials,
                                            std::string_view texts) {
  const JsonPlace text = place.Member("Sequence");
  if (text.value->is_object()) {
    const bool is_first = *text.Member("id").value == "A";
    const bool is_second = texts.size() > 1 && *text.Member("id").value == "B";
    if (!is_first && !is_second) {
      return text.Member("id").Reject(texts.size() > 1 ? "\"A\" or \"B\"" : "\"A\"");
    }
    const absl::StatusOr<int> type = TypeFromJson(text);
    if (!type.ok()) return type.status();
    return TemplatePiece{.is_text = true, .is_second = is_second, .type = *type};
  }
  const JsonPlace name = place.Member("SpecialToken").Member("id");
  if (!name.value->is_string()) {
    return place.Reject(
        "{\"Sequence\": {\"id\": \"A\"}} or {\"SpecialToken\": {\"id\": a string}}");
  }
  const JsonPlace special = specials.Member(name.value->get<std::string>());
  if (!special.value->is_object()) return name.Reject("a name that special_tokens lists");
  absl::StatusOr<std::vector<TokenId>> ids = IdsFromJson(special.Member("ids"));
  if (!ids.ok()) return ids.status();
  const absl::StatusOr<int> type = TypeFromJson(place.Member("SpecialToken"));
  if (!type.ok()) return type.status();
  return TemplatePiece{.type = *type, .special_ids = *std::move(ids)};
}

absl::StatusOr<std::vector<TemplatePiece>> PiecesFromJson(const JsonPlace& place, const char* name,
                                                          std::string_view texts) {
  absl::StatusOr<JsonPlace> list = place.Array(name);
  if (!list.ok()) return list.status();
  std::vector<TemplatePiece> pieces;
  for (size_t i = 0; i < list->value->size(); ++i) {
    absl::StatusOr<TemplatePiece> piece =
        PieceFromJson(list->Element(i), place.Member("special_tokens"), texts);
    if (!piece.ok()) return piece.status();
    pieces.push_back(*std::move(piece));
  }
  return pieces;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostProcessor>> TemplatePostProcessorFromJson(
    const JsonPlace& place) {
  absl::StatusOr<std::vector<TemplatePiece>> single = PiecesFromJson(place, "single", "A");
  if (!single.ok()) return single.status();
  std::vector<TemplatePiece> pair;
  if (place.Member("pair").value->is_array()) {
    // One that this can't represent counts as none: most models never see a pair.
    absl::StatusOr<std::vector<TemplatePiece>> read = PiecesFromJson(place, "pair", "AB");
    const auto falls = [](const TemplatePiece& a, const TemplatePiece& b) {
      return a.type > b.type;
    };
    if (read.ok() && std::ranges::adjacent_find(*read, falls) == read->end()) {
      pair = *std::move(read);
    }
  }
  return std::make_unique<TemplatePostProcessor>(*std::move(single), std::move(pair));
}

}  // namespace sluice
