#include "services/tokenizer/post_processors/template_post_processor.h"

#include <utility>
#include <vector>

#include "services/tokenizer/text/json_place.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {
namespace {

struct TemplatePiece {
  bool is_text = false;              // the text's own tokens
  std::vector<TokenId> special_ids;  // otherwise
};

class TemplatePostProcessor : public PostProcessor {
 public:
  explicit TemplatePostProcessor(std::vector<TemplatePiece> pieces) : pieces_(std::move(pieces)) {}

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

 private:
  std::vector<TemplatePiece> pieces_;
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

absl::StatusOr<TemplatePiece> PieceFromJson(const JsonPlace& place, const JsonPlace& specials) {
  const JsonPlace text = place.Member("Sequence");
  if (text.value->is_object()) {
    if (*text.Member("id").value != "A") return text.Member("id").Reject("\"A\"");
    return TemplatePiece{.is_text = true};
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
  return TemplatePiece{.special_ids = *std::move(ids)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostProcessor>> TemplatePostProcessorFromJson(
    const JsonPlace& place) {
  absl::StatusOr<JsonPlace> list = place.Array("single");
  if (!list.ok()) return list.status();
  std::vector<TemplatePiece> pieces;
  for (size_t i = 0; i < list->value->size(); ++i) {
    absl::StatusOr<TemplatePiece> piece =
        PieceFromJson(list->Element(i), place.Member("special_tokens"));
    if (!piece.ok()) return piece.status();
    pieces.push_back(*std::move(piece));
  }
  return std::make_unique<TemplatePostProcessor>(std::move(pieces));
}

}  // namespace sluice
