// `sluice tokenize` and `sluice detokenize`: texts to token ids and back, a line at a time.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/json.h"
#include "clients/cli/outcome.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

constexpr absl::Duration kCallTimeout = absl::Minutes(1);

// Where the texts go: a folder's tokenizer, or a running pipeline's.
struct SourceFlags {
  std::optional<std::string> tokenizer;
  EndpointFlags endpoint;
};

void AddSourceFlags(FlagSet& flags, SourceFlags* into) {
  flags.Section("Tokenizer (exactly one)");
  flags.Add("tokenizer", "DIR",
            "Folder with tokenizer.json, a SentencePiece model or a tiktoken file; or a GGUF file.",
            &into->tokenizer);
  AddEndpointFlags(flags, "Uses the tokenizer of a running pipeline.", &into->endpoint);
}

// Takes SLUICE_ENDPOINT for an endpoint where neither is given.
absl::Status CheckSource(const Environment& environment, SourceFlags& flags) {
  if (!flags.tokenizer.has_value()) flags.endpoint = WithEnvironment(flags.endpoint, environment);
  if (flags.tokenizer.has_value() != flags.endpoint.endpoint.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError("give exactly one of --tokenizer DIR and --endpoint HOST:PORT");
}

class TextCodec {
 public:
  virtual ~TextCodec() = default;
  virtual absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request) = 0;
  virtual absl::StatusOr<std::string> Detokenize(const v1::DetokenizeRequest& request) = 0;
};

class FolderCodec : public TextCodec {
 public:
  explicit FolderCodec(std::unique_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}

  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request) override {
    EncodeOptions options{.add_special = request.add_special_tokens(),
                          .offsets = request.return_offsets()};
    if (request.has_parse_special_tokens()) options.parse_special = request.parse_special_tokens();
    const absl::StatusOr<Encoding> encoding = tokenizer_->Encode(request.text(), options);
    if (!encoding.ok()) return encoding.status();
    v1::TokenizeResponse response;
    response.mutable_token_ids()->Add(encoding->ids.begin(), encoding->ids.end());
    for (const ByteRange& range : encoding->offsets) {
      response.add_begin_bytes(range.begin);
      response.add_end_bytes(range.end);
    }
    return response;
  }

  absl::StatusOr<std::string> Detokenize(const v1::DetokenizeRequest& request) override {
    return tokenizer_->Decode(request.token_ids(), {.skip_special = request.skip_special_tokens()});
  }

 private:
  const std::unique_ptr<const Tokenizer> tokenizer_;
};

class RemoteCodec : public TextCodec {
 public:
  explicit RemoteCodec(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request) override {
    return client_->Tokenize(request, kCallTimeout);
  }

  absl::StatusOr<std::string> Detokenize(const v1::DetokenizeRequest& request) override {
    absl::StatusOr<v1::DetokenizeResponse> response = client_->Detokenize(request, kCallTimeout);
    if (!response.ok()) return response.status();
    return std::move(*response->mutable_text());
  }

 private:
  const std::unique_ptr<Client> client_;
};

absl::StatusOr<std::unique_ptr<TextCodec>> OpenCodec(const SourceFlags& flags,
                                                     Environment& environment) {
  if (flags.tokenizer.has_value()) {
    absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer = Tokenizer::Load(*flags.tokenizer);
    if (!tokenizer.ok()) return tokenizer.status();
    return std::make_unique<FolderCodec>(*std::move(tokenizer));
  }
  absl::StatusOr<std::unique_ptr<Client>> client = ConnectToEndpoint(flags.endpoint, environment);
  if (!client.ok()) return client.status();
  return std::make_unique<RemoteCodec>(*std::move(client));
}

// As much of a malformed line as a message shows.
constexpr size_t kShownBytes = 60;

absl::Status Refused(const Json& value, const char* accepted) {
  const std::string shown = value.dump(-1, ' ', /*ensure_ascii=*/true).substr(0, kShownBytes);
  return absl::InvalidArgumentError(absl::StrCat("is ", shown, "; accepted: ", accepted));
}

// Hands each line of stdin to `convert`, which answers with a line of stdout.
int ConvertLines(Environment& environment,
                 const std::function<absl::StatusOr<Json>(const Json&)>& convert) {
  std::string line;
  for (int number = 1; std::getline(environment.in, line); ++number) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    absl::StatusOr<Json> answer =
        json.is_discarded()
            ? absl::InvalidArgumentError(absl::StrCat("not JSON: ", line.substr(0, kShownBytes),
                                                      "; accepted: one JSON value a line"))
            : convert(json);
    if (!answer.ok()) {
      const absl::Status& status = answer.status();
      const std::string message = absl::StrCat("line ", number, ": ", status.message());
      return Fail(absl::Status(status.code(), message), environment);
    }
    environment.out << DumpLine(*answer) << "\n";
  }
  return Succeed(environment);
}

Json TokensJson(const v1::TokenizeResponse& response, bool with_offsets) {
  Json tokens = Json::array();
  for (int i = 0; i < response.token_ids_size(); ++i) {
    const Json id = response.token_ids(i);
    if (with_offsets) {
      tokens.push_back(Json::array({id, response.begin_bytes(i), response.end_bytes(i)}));
    } else {
      tokens.push_back(id);
    }
  }
  return tokens;
}

absl::StatusOr<v1::DetokenizeRequest> IdsRequest(const Json& ids) {
  constexpr char kAccepted[] = "a JSON array of token ids";
  if (!ids.is_array()) return Refused(ids, kAccepted);
  v1::DetokenizeRequest request;
  for (const Json& id : ids) {
    if (!id.is_number_integer() || id < INT32_MIN || id > INT32_MAX) {
      return Refused(ids, kAccepted);
    }
    request.add_token_ids(id.get<int32_t>());
  }
  return request;
}

}  // namespace

int TokenizeCommand(absl::Span<const std::string> arguments, Environment& environment) {
  SourceFlags source;
  bool no_special = false;
  bool parse_special = false;
  bool no_parse_special = false;
  bool offsets = false;
  FlagSet flags("tokenize", "[flags]",
                "Reads a JSON string a line and prints a JSON array of its token ids a line.");
  AddSourceFlags(flags, &source);
  flags.Section("Tokens");
  flags.AddSwitch("no_special",
                  "Leaves out what the tokenizer puts around a text, such as a "
                  "beginning-of-sequence token.",
                  &no_special);
  flags.AddSwitch("parse_special",
                  "Recognises special tokens spelled out. Default for a tokenizer.json, not for "
                  "SentencePiece models and tiktoken files.",
                  &parse_special);
  flags.AddSwitch("no_parse_special",
                  "Takes special tokens spelled out for plain text, as is right for text that is "
                  "not trusted.",
                  &no_parse_special);
  flags.AddSwitch("offsets",
                  "Prints [id, begin, end] for each token: the bytes of the text's UTF-8 that it "
                  "stands for.",
                  &offsets);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  absl::Status usage = CheckSource(environment, source);
  if (usage.ok() && parse_special && no_parse_special) {
    usage =
        absl::InvalidArgumentError("--parse_special and --no_parse_special contradict each other");
  }
  if (!usage.ok()) return FailUsage(flags.command(), usage, environment);
  absl::StatusOr<std::unique_ptr<TextCodec>> codec = OpenCodec(source, environment);
  if (!codec.ok()) return Fail(codec.status(), environment);
  return ConvertLines(environment, [&](const Json& text) -> absl::StatusOr<Json> {
    if (!text.is_string()) {
      return Refused(text, "a JSON string");
    }
    v1::TokenizeRequest request;
    request.set_text(text.get<std::string>());
    request.set_add_special_tokens(!no_special);
    if (parse_special || no_parse_special) request.set_parse_special_tokens(parse_special);
    request.set_return_offsets(offsets);
    const absl::StatusOr<v1::TokenizeResponse> response = (*codec)->Tokenize(request);
    if (!response.ok()) return response.status();
    return TokensJson(*response, offsets);
  });
}

int DetokenizeCommand(absl::Span<const std::string> arguments, Environment& environment) {
  SourceFlags source;
  bool skip_special = false;
  FlagSet flags("detokenize", "[flags]",
                "Reads a JSON array of token ids a line and prints their text as a JSON string a "
                "line.");
  AddSourceFlags(flags, &source);
  flags.Section("Text");
  flags.AddSwitch("skip_special", "Leaves out special tokens.", &skip_special);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status usage = CheckSource(environment, source); !usage.ok()) {
    return FailUsage(flags.command(), usage, environment);
  }
  absl::StatusOr<std::unique_ptr<TextCodec>> codec = OpenCodec(source, environment);
  if (!codec.ok()) return Fail(codec.status(), environment);
  return ConvertLines(environment, [&](const Json& ids) -> absl::StatusOr<Json> {
    absl::StatusOr<v1::DetokenizeRequest> request = IdsRequest(ids);
    if (!request.ok()) return request.status();
    request->set_skip_special_tokens(skip_special);
    absl::StatusOr<std::string> text = (*codec)->Detokenize(*request);
    if (!text.ok()) return text.status();
    return Json(*std::move(text));
  });
}

}  // namespace sluice
