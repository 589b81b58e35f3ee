#include "services/gateway/openapi/path_table.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "services/gateway/anthropic/message_request.h"
#include "services/gateway/batches/batch_service.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/adapter_paths.h"
#include "services/gateway/openai/chat_request.h"
#include "services/gateway/openai/completion_request.h"
#include "services/gateway/openai/embedding_paths.h"
#include "services/gateway/openai/response_request.h"
#include "services/gateway/openai/text_paths.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

template <auto kRead>
absl::Status Check(const json& body, absl::string_view text) {
  return kRead(body, text).status();
}

constexpr const char* kCompletionProbes[] = {
    R"({"stream": true, "stream_options": {}})",
    R"({"response_format": {"type": "json_schema", "json_schema": {}}})",
    R"({"structured_outputs": {}})",
};
constexpr const char* kChatProbes[] = {
    R"({"stream": true, "stream_options": {}})",
    R"({"response_format": {"type": "json_schema", "json_schema": {}}})",
    R"({"structured_outputs": {}})",
    R"({"prediction": {}})",
    R"({"messages": [{}]})",
    R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {}}]}]})",
    R"({"tools": [{"type": "function", "function": {}}]})",
};
constexpr const char* kResponseProbes[] = {
    R"({"text": {"format": {"type": "json_schema"}}})",
    R"({"reasoning": {}, "stream_options": {}})",
    R"({"tools": [{"type": "function"}]})",
};
constexpr const char* kMessageProbes[] = {
    R"({"messages": [{"role": "user", "content": ""}]})",
    R"({"thinking": {}, "tool_choice": {}, "output_config": {"format": {}}})",
    R"({"tools": [{"name": "f"}]})",
};

constexpr char kOpenAi[] = "OpenAI's API";
constexpr char kBatches[] = "Files and batches";
constexpr char kAnthropic[] = "Anthropic's API";
constexpr char kTexts[] = "Token ids and scores";
constexpr char kEmbeddings[] = "Embeddings, reranking, classification";
constexpr char kServer[] = "The server";

constexpr char kFileForm[] = R"({
  "type": "object", "required": ["file", "purpose"], "additionalProperties": false,
  "properties": {"file": {"type": "string", "format": "binary"}, "purpose": {"const": "batch"}}})";

constexpr ApiPath kPaths[] = {
    {"GET", "/v1/models", kOpenAi, "The model that is served and its adapters, in a list."},
    {"GET", "/v1/models/{model}", kOpenAi,
     "The model, where it is the one that is served, or one of its adapters."},
    {"POST", "/v1/chat/completions", kOpenAi, "Answers a conversation, whole or streamed.",
     Check<openai::ReadChatRequest>, kChatProbes},
    {"POST", "/v1/completions", kOpenAi, "Continues a text, whole or streamed.",
     Check<openai::ReadCompletionRequest>, kCompletionProbes},
    {"POST", "/v1/responses", kOpenAi,
     "Answers an input of text or items, whole or streamed; nothing is stored.",
     Check<openai::ReadResponseRequest>, kResponseProbes},
    {"POST",
     "/v1/files",
     kBatches,
     "Stores a file of lines for a batch: a form (`multipart/form-data`) with `purpose`, which is "
     "`batch`, and `file`. Needs `--batch_dir`, as do the others of this section.",
     nullptr,
     {},
     kFileForm},
    {"GET", "/v1/files", kBatches,
     "The files of this API key, newest first: `?purpose=batch_output&limit=20&after=ID`."},
    {"GET", "/v1/files/{file_id}", kBatches, "What is known of a file."},
    {"GET", "/v1/files/{file_id}/content", kBatches, "The file itself."},
    {"DELETE", "/v1/files/{file_id}", kBatches,
     "Deletes a file; not one that a batch still reads."},
    {"POST", "/v1/batches", kBatches, "Runs the lines of a file.", Check<ReadBatchRequest>},
    {"GET", "/v1/batches", kBatches,
     "The batches of this API key, newest first: `?limit=20&after=ID`."},
    {"GET", "/v1/batches/{batch_id}", kBatches,
     "A batch: its status, how many lines are done, and the files of its results."},
    {"POST", "/v1/batches/{batch_id}/cancel", kBatches,
     "Ends a batch; results that are there stay."},
    {"POST", "/v1/messages", kAnthropic, "Answers a conversation, whole or streamed.",
     Check<anthropic::ReadMessageRequest>, kMessageProbes},
    {"POST", "/v1/messages/count_tokens", kAnthropic,
     "Counts the tokens of the prompt that a conversation becomes.",
     Check<anthropic::ReadCountRequest>, kMessageProbes},
    {"POST", "/tokenize", kTexts, "Turns a text, or a conversation, into token ids.",
     openai::CheckTokenizeBody},
    {"POST", "/detokenize", kTexts, "Turns token ids into text.", openai::CheckDetokenizeBody},
    {"POST", "/v1/score", kTexts,
     "Returns the log-probability of every token of a text, or of each of several.",
     openai::CheckScoreBody},
    {"POST", "/v1/embeddings", kEmbeddings,
     "Returns the embedding of each text, as numbers or in base64.", openai::CheckEmbeddingsBody},
    {"POST", "/rerank", kEmbeddings,
     "Orders documents by how well they answer a query, as vLLM and Jina have it.",
     openai::CheckRerankBody},
    {"POST", "/v1/rerank", kEmbeddings, "The same.", openai::CheckRerankBody},
    {"POST", "/v2/rerank", kEmbeddings,
     "The same, as Cohere has it: without the documents unless `return_documents` is true.",
     openai::CheckRerankBody},
    {"POST", "/score", kEmbeddings,
     "Returns a score for each pair of texts, as vLLM has it: one `text_1` with all of `text_2`, "
     "or "
     "pair by pair.",
     openai::CheckPairScoreBody},
    {"POST", "/classify", kEmbeddings,
     "Returns the label of each text and the probability of every label, as vLLM has it.",
     openai::CheckClassifyBody},
    {"POST", "/v1/load_lora_adapter", kServer,
     "Makes a LoRA adapter known, which `model` may name from then on: a PEFT folder of the "
     "server. "
     "For callers whom the operator's rules allow it.",
     openai::CheckLoadAdapterBody},
    {"POST", "/v1/unload_lora_adapter", kServer, "Forgets one.", openai::CheckUnloadAdapterBody},
    {"GET", "/health", kServer,
     "200 while the pipeline serves, else 503; with `?grace=60`, 503 once it has not served for 60 "
     "s."},
    {"GET", "/version", kServer, "The version of Sluice."},
    {"GET", "/openapi.json", kServer, "This API as an OpenAPI 3.1 document."},
    {"GET", "/metrics", kServer, "Figures of the gateway for Prometheus."},
    {"GET", "/v2/health/live", kServer, "KServe's: whether the process lives."},
    {"GET", "/v2/health/ready", kServer, "KServe's: whether the pipeline serves."},
    {"GET", "/v2/models/{model}", kServer, "KServe's: the model's inputs and outputs."},
};

void RunCheck(const ApiPath& path, const json& body) { (void)path.check(body, ToJson(body)); }

// "'auto', 'flex'" in a refusal of a text, where it says what is accepted.
std::string AcceptedIn(absl::string_view message) {
  for (const absl::string_view before : {"Supported values are: ", "accepted: "}) {
    const size_t at = message.find(before);
    if (at == absl::string_view::npos) continue;
    return std::string(absl::StripSuffix(message.substr(at + before.size()), "."));
  }
  return "";
}

// Sends a text that no parameter knows, and notes what the refusal names instead.
void NoteAcceptedTexts(const ApiPath& path, const std::string& name, ParameterNote& note) {
  const json body = {{name, "?"}};
  const absl::Status status = path.check(body, ToJson(body));
  const absl::optional<absl::Cord> parameter = status.GetPayload(kParameterPayload);
  if (parameter.has_value() && *parameter == name) note.accepted = AcceptedIn(status.message());
}

}  // namespace

absl::Span<const ApiPath> ApiPaths() { return kPaths; }

ParameterNotes ParametersOf(const ApiPath& path) {
  if (path.check == nullptr) return {};
  ParameterNotes notes;
  {
    ParameterLog log;
    RunCheck(path, json::object());
    for (const char* probe : path.probes) RunCheck(path, json::parse(probe));
    notes = log.notes();
  }
  for (auto& [name, note] : notes) {
    const bool is_text = note.use == ParameterUse::kRead && note.type == "string";
    if (is_text && name.find('.') == std::string::npos) NoteAcceptedTexts(path, name, note);
  }
  return notes;
}

}  // namespace sluice::gateway
