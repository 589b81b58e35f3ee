#include "services/tokenizer/post_processors/post_processor.h"

#include <utility>
#include <vector>

#include "services/tokenizer/post_processors/bert_post_processor.h"
#include "services/tokenizer/post_processors/byte_level_post_processor.h"
#include "services/tokenizer/post_processors/template_post_processor.h"
#include "services/tokenizer/text/json_place.h"

namespace sluice {
namespace {

class SequencePostProcessor : public PostProcessor {
 public:
  explicit SequencePostProcessor(std::vector<std::unique_ptr<PostProcessor>> steps)
      : steps_(std::move(steps)) {}

  void Process(const Input& input, Encoding* encoding) const override {
    for (const auto& step : steps_) step->Process(input, encoding);
  }

  // Of the steps one puts tokens around texts, the last one; others change offsets.
  size_t JoinPair(bool add_special, const std::vector<TokenId>& second,
                  std::vector<TokenId>* first) const override {
    return steps_.empty() ? PostProcessor::JoinPair(add_special, second, first)
                          : steps_.back()->JoinPair(add_special, second, first);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> steps_;
};

absl::StatusOr<std::unique_ptr<PostProcessor>> SequencePostProcessorFromJson(
    const JsonPlace& place) {
  absl::StatusOr<JsonPlace> list = place.Array("processors");
  if (!list.ok()) return list.status();
  std::vector<std::unique_ptr<PostProcessor>> steps;
  for (size_t i = 0; i < list->value->size(); ++i) {
    absl::StatusOr<std::unique_ptr<PostProcessor>> step = PostProcessorFromJson(list->Element(i));
    if (!step.ok()) return step.status();
    if (*step == nullptr) return list->Element(i).Reject("a post-processor");
    steps.push_back(*std::move(step));
  }
  return std::make_unique<SequencePostProcessor>(std::move(steps));
}

}  // namespace

size_t PostProcessor::JoinPair(bool, const std::vector<TokenId>& second,
                               std::vector<TokenId>* first) const {
  const size_t begin = first->size();
  first->insert(first->end(), second.begin(), second.end());
  return begin;
}

absl::StatusOr<std::unique_ptr<PostProcessor>> PostProcessorFromJson(const JsonPlace& place) {
  if (place.value->is_null()) return nullptr;
  const std::string type = place.Type();
  if (type == "Sequence") return SequencePostProcessorFromJson(place);
  if (type == "TemplateProcessing") return TemplatePostProcessorFromJson(place);
  if (type == "ByteLevel") return ByteLevelPostProcessorFromJson(place);
  if (type == "BertProcessing") return BertPostProcessorFromJson(place);
  if (type == "RobertaProcessing") return RobertaPostProcessorFromJson(place);
  return place.RejectType(
      "BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing");
}

}  // namespace sluice
