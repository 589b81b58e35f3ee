#include "orchestrator/api/embed_call.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "orchestrator/api/embed_batch.h"
#include "orchestrator/api/embed_check.h"

namespace sluice {
namespace {

using Results = std::vector<EmbedBatch::Result>;

// The text of a prompt by its name; "" where there is none.
std::string PromptNamed(const std::string& name, const EmbedderSpec& embedder) {
  const EmbedderSpec::Prompt* const prompt = embedder.FindPrompt(name);
  return prompt == nullptr ? "" : prompt->text;
}

double LengthOf(const std::vector<float>& x) {
  double squares = 0;
  for (const float value : x) squares += double{value} * value;
  return std::max(std::sqrt(squares), 1e-12);
}

// Brings an embedding to `dimensions`.
void Shorten(int32_t dimensions, const EmbedderSpec& embedder, std::vector<float>& embedding) {
  if (std::ssize(embedding) <= dimensions) return;
  embedding.resize(static_cast<size_t>(dimensions));
  const std::vector<EmbedderStep>& steps = embedder.steps;
  if (steps.empty() || steps.back().kind != EmbedderStep::Kind::kNormalise) return;
  const double length = LengthOf(embedding);
  for (float& x : embedding) x = static_cast<float>(x / length);
}

int64_t NumTokens(const Results& results) {
  int64_t sum = 0;
  for (const EmbedBatch::Result& result : results) sum += result.num_tokens;
  return sum;
}

// Has the engine make numbers of the texts, and answers with what `respond` makes of them.
template <class Response>
void Run(const TextCallContext& context, TextBatch::Options options, const EmbedBatch::What& what,
         std::vector<EmbedBatch::Text> texts, UnaryCall* call,
         const std::shared_ptr<UnaryAnswer<Response>>& answer,
         std::function<Response(Results)> respond) {
  if (options.name.empty()) options.name = "embed";
  const auto batch = std::make_shared<EmbedBatch>(
      context, std::move(options), what, std::move(texts),
      [answer, respond = std::move(respond)](absl::StatusOr<Results> results) {
        if (!results.ok()) return answer->Give(results.status());
        answer->Give(respond(*std::move(results)));
      });
  StartBatch(batch, call, answer);
}

v1::EmbedResponse ToEmbedResponse(Results results, std::optional<int32_t> dimensions,
                                  const EmbedderSpec& embedder) {
  v1::EmbedResponse response;
  response.set_num_tokens(NumTokens(results));
  for (EmbedBatch::Result& result : results) {
    if (dimensions.has_value()) Shorten(*dimensions, embedder, result.numbers);
    v1::Embedding& embedding = *response.add_embeddings();
    embedding.mutable_values()->Add(result.numbers.begin(), result.numbers.end());
    embedding.set_num_tokens(result.num_tokens);
  }
  return response;
}

// ---- Reranking ----

constexpr char kDefaultInstruction[] =
    "Given a web search query, retrieve relevant passages that answer the query";

// The prompt of Qwen3-Reranker.
std::string YesOrNoPrompt(const v1::RerankRequest& request, const std::string& document) {
  return absl::StrCat(
      "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
      "and "
      "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
      "<|im_start|>user\n<Instruct>: ",
      request.instruction().empty() ? kDefaultInstruction : request.instruction(),
      "\n<Query>: ", request.query(), "\n<Document>: ", document,
      "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

std::vector<EmbedBatch::Text> TextsToRerank(const v1::RerankRequest& request,
                                            const ModelDescription& model) {
  std::vector<EmbedBatch::Text> texts;
  const RerankKind kind = *RerankKindOf(model);
  if (kind == RerankKind::kCosine) {
    EmbedBatch::Text& query = texts.emplace_back();
    query.input.set_text(request.query());
    query.prompt = PromptNamed("query", *model.embedder);
  }
  for (const std::string& document : request.documents()) {
    EmbedBatch::Text& text = texts.emplace_back();
    switch (kind) {
      case RerankKind::kPair:
        text.input.mutable_pair()->set_first(request.query());
        text.input.mutable_pair()->set_second(document);
        break;
      case RerankKind::kCosine:
        text.input.set_text(document);
        text.prompt = PromptNamed("document", *model.embedder);
        break;
      case RerankKind::kYesOrNo:
        text.input.set_text(YesOrNoPrompt(request, document));
        break;
    }
  }
  return texts;
}

double Cosine(const std::vector<float>& x, const std::vector<float>& y) {
  double product = 0;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) product += double{x[i]} * y[i];
  return product / (LengthOf(x) * LengthOf(y));
}

v1::RerankResponse ToRerankResponse(const Results& results, RerankKind kind) {
  v1::RerankResponse response;
  response.set_num_tokens(NumTokens(results));
  for (size_t i = kind == RerankKind::kCosine ? 1 : 0; i < results.size(); ++i) {
    const std::vector<float>& numbers = results[i].numbers;
    if (kind == RerankKind::kCosine) {
      response.add_scores(Cosine(results[0].numbers, numbers));
    } else if (kind == RerankKind::kYesOrNo) {
      response.add_scores(numbers.at(0));
    } else {
      response.add_scores(1 / (1 + std::exp(-double{numbers.at(0)})));
    }
  }
  return response;
}

// Calls back with the ids of the tokens "yes" and "no".
void FindYesAndNo(const TextCallContext& context, const RequestContext& of_request,
                  std::function<void(absl::StatusOr<EmbedBatch::YesOrNo>)> callback) {
  const auto find = [&tokenizer = context.tokenizer, of_request](
                        const std::string& word,
                        std::function<void(absl::StatusOr<int32_t>)> found) {
    v1::TokenizeRequest request;
    request.set_text(word);
    request.set_add_special_tokens(false);
    tokenizer.Tokenize(std::move(request), of_request,
                       [word, found](const absl::StatusOr<v1::TokenizeResponse>& response) {
                         if (!response.ok()) return found(response.status());
                         if (response->token_ids_size() == 1) return found(response->token_ids(0));
                         found(absl::FailedPreconditionError(
                             absl::StrCat("this model's vocabulary has no token \"", word,
                                          "\", by which it would judge a document")));
                       });
  };
  find("yes", [find, callback](absl::StatusOr<int32_t> yes) {
    if (!yes.ok()) return callback(yes.status());
    find("no", [yes = *yes, callback](absl::StatusOr<int32_t> no) {
      if (!no.ok()) return callback(no.status());
      callback(EmbedBatch::YesOrNo{.yes = yes, .no = *no});
    });
  });
}

}  // namespace

void StartEmbed(const TextCallContext& context, const absl::StatusOr<v1::EmbedRequest>& request,
                SteadyTime deadline, UnaryCall* call) {
  const auto answer =
      std::make_shared<UnaryAnswer<v1::EmbedResponse>>(call, context.trace, context.tracer);
  absl::Status status = request.ok() ? CheckEmbed(*request, context.model) : request.status();
  if (status.ok()) status = context.tenants.CheckPriority(context.tenant, request->priority());
  if (!status.ok()) return answer->Give(status);
  const EmbedderSpec& embedder = *context.model.embedder;
  const std::string prompt = PromptNamed(
      request->has_prompt_name() ? request->prompt_name() : embedder.default_prompt, embedder);
  std::vector<EmbedBatch::Text> texts;
  for (const v1::EmbedInput& input : request->inputs()) texts.push_back({input, prompt});
  std::optional<int32_t> dimensions;
  if (request->has_dimensions()) dimensions = request->dimensions();
  Run<v1::EmbedResponse>(
      context,
      {.name = request->request_id(), .priority = request->priority(), .deadline = deadline},
      {.truncate_tokens = request->truncate_tokens()}, std::move(texts), call, answer,
      [dimensions, &embedder](Results results) {
        return ToEmbedResponse(std::move(results), dimensions, embedder);
      });
}

void StartRerank(const TextCallContext& context, const absl::StatusOr<v1::RerankRequest>& request,
                 SteadyTime deadline, UnaryCall* call) {
  const auto answer =
      std::make_shared<UnaryAnswer<v1::RerankResponse>>(call, context.trace, context.tracer);
  absl::Status status = request.ok() ? CheckRerank(*request, context.model) : request.status();
  if (status.ok()) status = context.tenants.CheckPriority(context.tenant, request->priority());
  if (!status.ok()) return answer->Give(status);
  const RerankKind kind = *RerankKindOf(context.model);
  TextBatch::Options options = {.name = request->request_id(),
                                .priority = request->priority(),
                                .deadline = deadline,
                                .list = "documents"};
  EmbedBatch::What what = {.truncate_tokens = request->truncate_tokens()};
  const auto respond = [kind](const Results& results) { return ToRerankResponse(results, kind); };
  std::vector<EmbedBatch::Text> texts = TextsToRerank(*request, context.model);
  if (kind != RerankKind::kYesOrNo) {
    return Run<v1::RerankResponse>(context, std::move(options), what, std::move(texts), call,
                                   answer, respond);
  }
  const RequestContext of_request{
      .deadline = deadline,
      .work = {.owner = context.tenants.OwnerFor(context.tenant),
               .meter = context.engine.MeterFor(context.tenant)},
      .cancellation = std::shared_ptr<Cancellation>(std::shared_ptr<void>(), call->caller())};
  FindYesAndNo(context, of_request,
               [context, options, what, texts = std::move(texts), call, answer,
                respond](absl::StatusOr<EmbedBatch::YesOrNo> tokens) mutable {
                 if (!tokens.ok()) return answer->Give(tokens.status());
                 what.yes_or_no = *tokens;
                 Run<v1::RerankResponse>(context, std::move(options), what, std::move(texts), call,
                                         answer, respond);
               });
}

}  // namespace sluice
