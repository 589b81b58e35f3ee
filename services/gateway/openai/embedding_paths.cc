#include "services/gateway/openai/embedding_paths.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/gateway/backend/random_id.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_writer.h"
#include "services/gateway/openai/ignored_fields.h"
#include "services/gateway/openai/path_action.h"
#include "services/gateway/openai/prompts.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;
using EmbedCall = std::shared_ptr<ApiCall>;

constexpr size_t kMostInputs = 2048;
constexpr size_t kMostDocuments = 1024;
constexpr size_t kMostPairCalls = 128;

// What the bodies of all these paths may say of a call, but for the texts.
template <class Request>
void ReadCallOptions(ObjectReader& reader, Request& request) {
  for (const char* name : {"truncate_prompt_tokens", "max_tokens_per_doc"}) {
    if (const auto most = reader.Integer(name, 1, kMaxInt32)) {
      request.set_truncate_tokens(static_cast<int32_t>(*most));
    }
  }
  // vLLM's priorities fall: smaller goes first.
  if (const auto priority = reader.Integer("priority", -kMaxInt32, kMaxInt32)) {
    request.set_priority(static_cast<int32_t>(-*priority));
  }
  reader.PassOver(kIgnoredParameters);
}

json TokensUsed(int64_t num_tokens) {
  return {{"prompt_tokens", num_tokens}, {"total_tokens", num_tokens}};
}

// ---- /v1/embeddings ----

struct EmbeddingsInput {
  v1::EmbedRequest request;
  bool base64 = false;
};

absl::StatusOr<EmbeddingsInput> ReadEmbeddings(ObjectReader& reader) {
  EmbeddingsInput input;
  if (const auto format = reader.String("encoding_format")) {
    input.base64 = *format == "base64";
    if (!input.base64 && *format != "float") {
      reader.Fail(
          "encoding_format", "invalid_value",
          absl::StrCat("Invalid value: '", *format, "'. Supported values are: 'float', 'base64'."));
    }
  }
  for (const Prompt& prompt : ReadPrompts(reader, "input", kMostInputs)) {
    SetInput(prompt, *input.request.add_inputs());
  }
  if (const auto dimensions = reader.Integer("dimensions", 1, kMaxInt32)) {
    input.request.set_dimensions(static_cast<int32_t>(*dimensions));
  }
  if (const auto name = reader.String("prompt_name")) input.request.set_prompt_name(*name);
  ReadCallOptions(reader, input.request);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return input;
}

// The fewest digits that read back as the same floats.
std::string NumbersText(const google::protobuf::RepeatedField<float>& numbers) {
  std::string text = "[";
  for (const float x : numbers) {
    char digits[24];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), x);
    if (text.size() > 1) text += ',';
    text.append(digits, end.ptr);
  }
  return text + "]";
}

// Little-endian, as OpenAI's clients read them.
std::string NumbersBase64(const google::protobuf::RepeatedField<float>& numbers) {
  static_assert(std::endian::native == std::endian::little);
  const absl::string_view bytes(reinterpret_cast<const char*>(numbers.data()),
                                static_cast<size_t>(numbers.size()) * sizeof(float));
  return absl::StrCat("\"", absl::Base64Escape(bytes), "\"");
}

// A text, as numbers are many: a value of JSON would take some twenty times their bytes.
std::string EmbeddingsText(const v1::EmbedResponse& response, bool base64,
                           const std::string& model) {
  std::string data = "[";
  for (int i = 0; i < response.embeddings_size(); ++i) {
    const auto& numbers = response.embeddings(i).values();
    absl::StrAppend(&data, i > 0 ? "," : "", "{\"object\":\"embedding\",\"index\":", i,
                    ",\"embedding\":", base64 ? NumbersBase64(numbers) : NumbersText(numbers), "}");
  }
  return ObjectWriter()
      .Add("object", "list")
      .AddText("data", absl::StrCat(data, "]"))
      .Add("model", model)
      .Add("usage", TokensUsed(response.num_tokens()))
      .Text();
}

void ServeEmbeddings(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ServeBody(
      context, std::move(exchange),
      [](ObjectReader& reader, const auto&, const auto&) { return ReadEmbeddings(reader); },
      [&context](const EmbedCall& call, const EmbeddingsInput& input, const auto& model) {
        context.backend.Embed(call->caller(), input.request,
                              [call, base64 = input.base64, name = model.name()](
                                  const absl::StatusOr<v1::EmbedResponse>& response) {
                                if (!response.ok())
                                  return call->Respond(ErrorResponse(response.status()));
                                call->Respond({.status = 200,
                                               .headers = {{"content-type", "application/json"}},
                                               .body = EmbeddingsText(*response, base64, name)});
                              });
      });
}

// ---- Reranking ----

struct RerankInput {
  v1::RerankRequest request;
  size_t top_n = 0;
  bool return_documents = true;
};

// A document is a text, or an object with one in "text".
void ReadDocuments(ObjectReader& reader, v1::RerankRequest& request) {
  const json* const documents = reader.Array("documents");
  const bool fits =
      documents != nullptr && !documents->empty() && documents->size() <= kMostDocuments;
  for (const json& document : fits ? *documents : json::array()) {
    const json* text = &document;
    if (document.is_object() && document.contains("text")) text = &document["text"];
    if (!text->is_string()) break;
    request.add_documents(text->get<std::string>());
  }
  if (fits && static_cast<size_t>(request.documents_size()) == documents->size()) return;
  reader.Fail("documents", documents == nullptr ? "missing_required_parameter" : "invalid_type",
              absl::StrCat("'documents' must be an array of 1 to ", kMostDocuments,
                           " strings or objects with a 'text'."));
}

absl::StatusOr<RerankInput> ReadRerank(ObjectReader& reader, bool returns_documents) {
  RerankInput input;
  const std::optional<std::string> query = reader.String("query");
  if (!query.has_value()) {
    reader.Fail("query", "missing_required_parameter", "Missing required parameter: 'query'.");
  }
  input.request.set_query(query.value_or(""));
  ReadDocuments(reader, input.request);
  input.top_n = static_cast<size_t>(input.request.documents_size());
  if (const auto top = reader.Integer("top_n", 0, kMaxInt32); top.has_value() && *top > 0) {
    input.top_n = std::min(input.top_n, static_cast<size_t>(*top));
  }
  input.return_documents = reader.Bool("return_documents").value_or(returns_documents);
  if (const auto instruction = reader.String("instruction")) {
    input.request.set_instruction(*instruction);
  }
  ReadCallOptions(reader, input.request);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return input;
}

// Best first; of equal ones the earlier document.
json RerankJson(const v1::RerankResponse& response, const RerankInput& input,
                const std::string& model) {
  std::vector<int> order(static_cast<size_t>(response.scores_size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return response.scores(a) > response.scores(b); });
  order.resize(std::min(order.size(), input.top_n));
  json results = json::array();
  for (const int index : order) {
    results.push_back({{"index", index}, {"relevance_score", response.scores(index)}});
    if (!input.return_documents) continue;
    results.back()["document"] = {{"text", input.request.documents(index)}};
  }
  return {{"id", RandomId("rerank-")},
          {"object", "list"},
          {"model", model},
          {"results", std::move(results)},
          {"usage", TokensUsed(response.num_tokens())},
          {"meta", {{"billed_units", {{"search_units", 1}}}}}};
}

void ServeRerankAs(const ApiContext& context, std::shared_ptr<http::Exchange> exchange,
                   bool returns_documents) {
  ServeBody(
      context, std::move(exchange),
      [returns_documents](ObjectReader& reader, const auto&, const auto&) {
        return ReadRerank(reader, returns_documents);
      },
      [&context](const EmbedCall& call, const RerankInput& input, const auto& model) {
        context.backend.Rerank(call->caller(), input.request,
                               AnswerWith<v1::RerankResponse>(
                                   call, [input, name = model.name()](const auto& response) {
                                     return RerankJson(response, input, name);
                                   }));
      });
}

void ServeRerank(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ServeRerankAs(context, std::move(exchange), /*returns_documents=*/true);
}

// Cohere's second version has no documents in its answer.
void ServeRerankV2(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ServeRerankAs(context, std::move(exchange), /*returns_documents=*/false);
}

// ---- /score ----

// Calls that are answered together: each a query and its documents.
using PairCalls = std::vector<v1::RerankRequest>;

std::vector<std::string> ReadTexts(ObjectReader& reader, const char* name) {
  const json* const value = reader.Any(name);
  std::vector<std::string> texts;
  if (value != nullptr && value->is_string()) texts.push_back(value->get<std::string>());
  const bool is_list = value != nullptr && value->is_array();
  for (const json& text : is_list ? *value : json::array()) {
    if (!text.is_string()) break;
    texts.push_back(text.get<std::string>());
  }
  if (!texts.empty() && (!is_list || texts.size() == value->size())) return texts;
  reader.Fail(name, value == nullptr ? "missing_required_parameter" : "invalid_type",
              absl::StrCat("'", name, "' must be a string or an array of strings."));
  return {};
}

// One first text with all second ones, or as many of both, pair by pair.
absl::StatusOr<PairCalls> ReadPairs(ObjectReader& reader) {
  const std::vector<std::string> first = ReadTexts(reader, "text_1");
  const std::vector<std::string> second = ReadTexts(reader, "text_2");
  v1::RerankRequest options;
  ReadCallOptions(reader, options);
  const bool in_pairs = first.size() > 1;
  if (in_pairs && first.size() != second.size()) {
    reader.Fail("text_1", "invalid_value",
                "'text_1' must be one text, or as many as 'text_2' has.");
  }
  if (in_pairs ? first.size() > kMostPairCalls : second.size() > kMostDocuments) {
    reader.Fail("text_2", "invalid_value",
                absl::StrCat("'text_2' may have up to ", kMostDocuments,
                             " texts, or with as many "
                             "in 'text_1' up to ",
                             kMostPairCalls, "."));
  }
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  PairCalls calls(first.size(), options);
  for (size_t i = 0; i < first.size(); ++i) {
    calls[i].set_query(first[i]);
    if (in_pairs) {
      calls[i].add_documents(second[i]);
    } else {
      calls[i].mutable_documents()->Add(second.begin(), second.end());
    }
  }
  return calls;
}

// Makes the calls one after another, and answers with all scores.
class PairScores : public std::enable_shared_from_this<PairScores> {
 public:
  PairScores(const ApiContext& context, EmbedCall call, PairCalls calls, std::string model)
      : context_(context),
        call_(std::move(call)),
        calls_(std::move(calls)),
        model_(std::move(model)) {}

  void Next() {
    if (next_ == calls_.size()) return call_->Respond(200, Answer());
    context_.backend.Rerank(
        call_->caller(), calls_[next_++],
        [self = shared_from_this()](const absl::StatusOr<v1::RerankResponse>& response) {
          if (!response.ok()) return self->call_->Respond(ErrorResponse(response.status()));
          self->num_tokens_ += response->num_tokens();
          self->scores_.insert(self->scores_.end(), response->scores().begin(),
                               response->scores().end());
          self->Next();
        });
  }

 private:
  json Answer() const {
    json data = json::array();
    for (const double score : scores_) {
      data.push_back({{"index", data.size()}, {"object", "score"}, {"score", score}});
    }
    return {{"id", RandomId("score-")},
            {"object", "list"},
            {"created", absl::ToUnixSeconds(absl::Now())},
            {"model", model_},
            {"data", std::move(data)},
            {"usage", TokensUsed(num_tokens_)}};
  }

  const ApiContext& context_;
  const EmbedCall call_;
  const PairCalls calls_;
  const std::string model_;
  size_t next_ = 0;
  std::vector<double> scores_;
  int64_t num_tokens_ = 0;
};

void ServePairScore(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ServeBody(
      context, std::move(exchange),
      [](ObjectReader& reader, const auto&, const auto&) { return ReadPairs(reader); },
      [&context](const EmbedCall& call, const PairCalls& calls, const auto& model) {
        std::make_shared<PairScores>(context, call, calls, model.name())->Next();
      });
}

// ---- /classify ----

absl::StatusOr<v1::EmbedRequest> ReadClassify(ObjectReader& reader) {
  v1::EmbedRequest request;
  for (const Prompt& prompt : ReadPrompts(reader, "input", kMostInputs)) {
    SetInput(prompt, *request.add_inputs());
  }
  ReadCallOptions(reader, request);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

// Of several labels the softmax of their scores, of one its sigmoid.
std::vector<double> ProbabilitiesOf(const google::protobuf::RepeatedField<float>& scores) {
  if (scores.size() == 1) return {1 / (1 + std::exp(-double{scores[0]}))};
  const double largest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> probabilities;
  for (const float score : scores) probabilities.push_back(std::exp(score - largest));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

json ClassesJson(const v1::EmbedResponse& response, const v1::GetModelResponse& model) {
  json data = json::array();
  for (const v1::Embedding& scores : response.embeddings()) {
    if (scores.values().empty()) continue;
    const std::vector<double> probabilities = ProbabilitiesOf(scores.values());
    const auto best = std::max_element(probabilities.begin(), probabilities.end());
    const auto label = static_cast<int>(best - probabilities.begin());
    data.push_back({{"index", data.size()},
                    {"label", label < model.labels_size() ? json(model.labels(label)) : json()},
                    {"probs", probabilities},
                    {"num_classes", probabilities.size()}});
  }
  return {{"id", RandomId("classify-")},
          {"object", "list"},
          {"created", absl::ToUnixSeconds(absl::Now())},
          {"model", model.name()},
          {"data", std::move(data)},
          {"usage", TokensUsed(response.num_tokens())}};
}

absl::Status CheckClassifier(const v1::GetModelResponse& model) {
  if (!model.labels().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "model ", model.name(), " (", model.architecture(),
      ") classifies no texts; accepted: models of classes ...ForSequenceClassification"));
}

void ServeClassify(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  ServeBody(
      context, std::move(exchange),
      [](ObjectReader& reader, const auto&,
         const v1::GetModelResponse& model) -> absl::StatusOr<v1::EmbedRequest> {
        absl::StatusOr<v1::EmbedRequest> request = ReadClassify(reader);
        if (absl::Status status = CheckClassifier(model); request.ok() && !status.ok()) {
          return status;
        }
        return request;
      },
      [&context](const EmbedCall& call, const v1::EmbedRequest& request, const auto& model) {
        context.backend.Embed(call->caller(), request,
                              AnswerWith<v1::EmbedResponse>(call, [model](const auto& response) {
                                return ClassesJson(response, model);
                              }));
      });
}

}  // namespace

absl::Status CheckEmbeddingsBody(const json& body, absl::string_view) {
  ObjectReader reader = ReaderWithModel(body);
  return ReadEmbeddings(reader).status();
}

absl::Status CheckRerankBody(const json& body, absl::string_view) {
  ObjectReader reader = ReaderWithModel(body);
  return ReadRerank(reader, /*returns_documents=*/true).status();
}

absl::Status CheckPairScoreBody(const json& body, absl::string_view) {
  ObjectReader reader = ReaderWithModel(body);
  return ReadPairs(reader).status();
}

absl::Status CheckClassifyBody(const json& body, absl::string_view) {
  ObjectReader reader = ReaderWithModel(body);
  return ReadClassify(reader).status();
}

void AddEmbeddingRoutes(http::Router& router, const ApiContext& context) {
  const auto add = [&](const char* path, ServePath serve) {
    AddPost(router, context, path, serve);
  };
  add("/v1/embeddings", &ServeEmbeddings);
  add("/rerank", &ServeRerank);
  add("/v1/rerank", &ServeRerank);
  add("/v2/rerank", &ServeRerankV2);
  add("/score", &ServePairScore);
  add("/classify", &ServeClassify);
}

}  // namespace sluice::gateway::openai
