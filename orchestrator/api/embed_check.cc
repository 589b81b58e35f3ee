#include "orchestrator/api/embed_check.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "orchestrator/api/request_check.h"

namespace sluice {
namespace {

constexpr int kMostInputs = 2048;
constexpr int kMostDocuments = 1024;
constexpr size_t kMostIdBytes = 128;

absl::Status Refusal(const std::string& field, const std::string& value,
                     const std::string& accepted) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; accepted: ", accepted));
}

absl::Status CheckInput(const v1::EmbedInput& input, int index) {
  const std::string prefix = absl::StrCat("inputs[", index, "]: ");
  if (input.has_text() && input.text().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(prefix, "the text is empty"));
  }
  if (input.has_token_ids() && input.token_ids().token_ids().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(prefix, "token_ids are empty"));
  }
  if (input.has_pair() && (input.pair().first().empty() || input.pair().second().empty())) {
    return absl::InvalidArgumentError(absl::StrCat(prefix, "a text of the pair is empty"));
  }
  if (input.has_text() || input.has_token_ids() || input.has_pair()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(prefix, "nothing to embed: set text, token_ids or pair"));
}

// What Embed and Rerank calls have in common.
absl::Status CheckCall(const auto& request) {
  if (request.has_truncate_tokens() && request.truncate_tokens() < 1) {
    return Refusal("truncate_tokens", absl::StrCat(request.truncate_tokens()), "1 or more");
  }
  if (request.request_id().size() <= kMostIdBytes) return absl::OkStatus();
  return Refusal("the length of request_id", absl::StrCat(request.request_id().size()),
                 absl::StrCat("up to ", kMostIdBytes, " bytes"));
}

absl::Status CheckPromptName(const v1::EmbedRequest& request, const EmbedderSpec& embedder) {
  const std::string& name = request.prompt_name();
  if (name.empty() || embedder.FindPrompt(name) != nullptr) return absl::OkStatus();
  const std::string known = absl::StrJoin(embedder.prompts, ", ",
                                          [](std::string* out, const EmbedderSpec::Prompt& prompt) {
                                            absl::StrAppend(out, "\"", prompt.name, "\"");
                                          });
  return Refusal("prompt_name", absl::StrCat("\"", name.substr(0, 60), "\""),
                 known.empty() ? "none: this model has no prompts"
                               : absl::StrCat(known, ", or \"\" for none"));
}

}  // namespace

absl::Status CheckEmbed(const v1::EmbedRequest& request, const ModelDescription& model) {
  if (absl::Status known = CheckKnownFields(request); !known.ok()) return known;
  if (!model.embedder.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "model ", model.name, " (", model.architecture,
        ") makes no embeddings; accepted: encoders, and folders with a modules.json of "
        "sentence-transformers"));
  }
  if (request.inputs().empty() || request.inputs_size() > kMostInputs) {
    return Refusal("the number of inputs", absl::StrCat(request.inputs_size()),
                   absl::StrCat("1 to ", kMostInputs));
  }
  for (int i = 0; i < request.inputs_size(); ++i) {
    if (absl::Status input = CheckInput(request.inputs(i), i); !input.ok()) return input;
  }
  const EmbedderSpec& embedder = *model.embedder;
  if (request.has_dimensions() && embedder.is_classifier()) {
    return Refusal("dimensions", absl::StrCat(request.dimensions()),
                   "none: this model is a classifier, with a score for each label");
  }
  if (request.has_dimensions() &&
      (request.dimensions() < 1 || request.dimensions() > embedder.dimensions)) {
    return Refusal("dimensions", absl::StrCat(request.dimensions()),
                   absl::StrCat("1 to ", embedder.dimensions));
  }
  if (absl::Status call = CheckCall(request); !call.ok()) return call;
  return CheckPromptName(request, embedder);
}

std::optional<RerankKind> RerankKindOf(const ModelDescription& model) {
  if (model.embedder.has_value()) {
    if (!model.embedder->is_classifier()) return RerankKind::kCosine;
    return model.embedder->labels.size() == 1 ? std::optional(RerankKind::kPair) : std::nullopt;
  }
  return model.architecture == "qwen3" ? std::optional(RerankKind::kYesOrNo) : std::nullopt;
}

absl::Status CheckRerank(const v1::RerankRequest& request, const ModelDescription& model) {
  if (absl::Status known = CheckKnownFields(request); !known.ok()) return known;
  const std::optional<RerankKind> kind = RerankKindOf(model);
  if (!kind.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "model ", model.name, " (", model.architecture,
        ") judges no documents; accepted: classifiers with one label, models that make "
        "embeddings, and Qwen3-Reranker"));
  }
  if (request.query().empty()) return absl::InvalidArgumentError("query is empty");
  if (request.documents().empty() || request.documents_size() > kMostDocuments) {
    return Refusal("the number of documents", absl::StrCat(request.documents_size()),
                   absl::StrCat("1 to ", kMostDocuments));
  }
  for (int i = 0; i < request.documents_size(); ++i) {
    if (!request.documents(i).empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("documents[", i, "] is empty"));
  }
  if (!request.instruction().empty() && *kind != RerankKind::kYesOrNo) {
    return absl::InvalidArgumentError(
        "instruction is set; accepted: none, as this model is no Qwen3-Reranker");
  }
  return CheckCall(request);
}

absl::Status CheckGenerates(const ModelDescription& model) {
  if (model.generates) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "model ", model.name, " (", model.architecture, ") ",
      model.embedder.has_value() && model.embedder->is_classifier() ? "classifies" : "embeds",
      " texts and generates none; accepted: EmbedService.Embed"));
}

}  // namespace sluice
