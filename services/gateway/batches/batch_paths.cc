#include "services/gateway/batches/batch_paths.h"

#include <openssl/sha.h>

#include <array>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/gateway/batches/multipart.h"
#include "services/gateway/http/message.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/error.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;
using Call = std::shared_ptr<ApiCall>;
// Answers a request, on the service's loop.
using Action = std::function<BatchService::Answer(BatchService&, const std::string& owner,
                                                  const http::Request&)>;

constexpr char kFiles[] = "/v1/files/";
constexpr char kBatches[] = "/v1/batches/";
constexpr char kContent[] = "/content";
constexpr char kCancel[] = "/cancel";
constexpr size_t kLongestFilename = 255;
constexpr size_t kMostOfPage = 10'000;
constexpr size_t kPiece = 64 << 10;

absl::Status Off() {
  return absl::UnimplementedError(
      "This server has no files and batches: its operator switches them on with --batch_dir.");
}

// What follows `prefix` in a path.
std::string IdOf(const http::Request& request, absl::string_view prefix,
                 absl::string_view suffix = "") {
  return std::string(absl::StripSuffix(absl::StripPrefix(request.path, prefix), suffix));
}

absl::StatusOr<PageQuery> ReadPageQuery(const http::Request& request) {
  PageQuery page;
  for (const absl::string_view pair : absl::StrSplit(request.query, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> split =
        absl::StrSplit(pair, absl::MaxSplits('=', 1));
    const std::string value = http::PercentDecoded(split.second).value_or("");
    if (split.first == "limit") {
      if (!absl::SimpleAtoi(value, &page.limit) || page.limit < 1 || page.limit > kMostOfPage) {
        return ParameterError("limit", "invalid_value",
                              absl::StrCat("'limit' is a number from 1 to ", kMostOfPage, "."));
      }
    } else if (split.first == "after") {
      page.after = value;
    } else if (split.first == "purpose") {
      page.purpose = value;
    } else if (split.first == "order" && value == "desc") {
      continue;
    } else {
      return ParameterError(split.first, "unknown_parameter",
                            absl::StrCat("Unknown parameter: '", split.first, "=", value, "'."));
    }
  }
  return page;
}

// ---- What the paths do

BatchService::Answer AddFile(BatchService& service, const std::string& owner,
                             const http::Request& request) {
  const absl::StatusOr<std::vector<FormPart>> form =
      ReadForm(request.Header("content-type").value_or(""), request.body);
  if (!form.ok()) return form.status();
  const FormPart* file = nullptr;
  std::string purpose;
  for (const FormPart& part : *form) {
    if (part.name == "file") {
      file = &part;
    } else if (part.name == "purpose") {
      purpose = std::string(part.content);
    } else {
      return ParameterError(part.name, "unsupported_parameter",
                            absl::StrCat("Unsupported parameter: '", part.name, "'."));
    }
  }
  if (purpose != "batch") {
    return ParameterError("purpose", "invalid_value",
                          absl::StrCat("Unsupported value: 'purpose' is '", purpose,
                                       "'. Supported values are: 'batch'."));
  }
  if (file == nullptr) {
    return ParameterError("file", "missing_required_parameter",
                          "Missing required parameter: 'file'.");
  }
  return service.AddFile(owner, file->filename.substr(0, kLongestFilename), file->content);
}

BatchService::Answer ListFiles(BatchService& service, const std::string& owner,
                               const http::Request& request) {
  const absl::StatusOr<PageQuery> page = ReadPageQuery(request);
  if (!page.ok()) return page.status();
  return service.ListFiles(owner, *page);
}

BatchService::Answer ListBatches(BatchService& service, const std::string& owner,
                                 const http::Request& request) {
  const absl::StatusOr<PageQuery> page = ReadPageQuery(request);
  if (!page.ok()) return page.status();
  return service.ListBatches(owner, *page);
}

BatchService::Answer CreateBatch(BatchService& service, const std::string& owner,
                                 const http::Request& request) {
  const absl::StatusOr<json> body = ParseJson(request.body);
  if (!body.ok()) return body.status();
  const absl::StatusOr<BatchRequest> wanted = ReadBatchRequest(*body, request.body);
  if (!wanted.ok()) return wanted.status();
  return service.CreateBatch(owner, *wanted);
}

BatchService::Answer CancelBatch(BatchService& service, const std::string& owner,
                                 const http::Request& request) {
  if (!absl::EndsWith(request.path, kCancel)) {
    return absl::NotFoundError(absl::StrCat("Invalid URL (POST ", request.path, ")"));
  }
  return service.CancelBatch(owner, IdOf(request, kBatches, kCancel));
}

// ---- How they are called

// Runs `action` on the service's loop and `done` with what it returns on the call's.
template <class Result>
void RunThere(BatchService& service, Call call,
              std::function<Result(const std::string& owner, const http::Request&)> action,
              std::function<void(const Call&, Result)> done) {
  const std::string owner = OwnerOf(call->caller().authorization);
  // The call ends on its own loop, whichever of them is faster.
  service.loop().Post([&service, call = std::move(call), owner, action = std::move(action),
                       done = std::move(done)]() mutable {
    Result result = action(owner, call->request());
    if (!result.ok()) result = service.ForClient(result.status());
    http::Loop& loop = *call->caller().loop;
    loop.Post(
        [call = std::move(call), result = std::move(result), done = std::move(done)]() mutable {
          done(call, std::move(result));
          call = nullptr;
        });
  });
}

void Answer(const Call& call, BatchService::Answer answer) {
  if (!answer.ok()) return call->Respond(openai::ErrorResponse(answer.status()));
  call->Respond(200, *answer);
}

// Calls `serve` with the service for a caller whom the orchestrator serves.
void ForKnownCaller(const ApiContext& context, const BatchServiceSource& source, const Call& call,
                    std::function<void(BatchService&)> serve) {
  context.backend.AskForModel(
      call->caller(),
      [source, call, serve = std::move(serve)](const absl::StatusOr<v1::GetModelResponse>& model) {
        if (!model.ok()) return call->Respond(openai::ErrorResponse(model.status()));
        BatchService* const service = source();
        if (service == nullptr) return call->Respond(openai::ErrorResponse(Off()));
        serve(*service);
      });
}

void Serve(const ApiContext& context, const BatchServiceSource& source,
           std::shared_ptr<http::Exchange> exchange, Action action) {
  const auto call = std::make_shared<ApiCall>(context, std::move(exchange));
  ForKnownCaller(context, source, call, [call, action = std::move(action)](BatchService& service) {
    RunThere<BatchService::Answer>(
        service, call,
        [&service, action](const std::string& owner, const http::Request& request) {
          return action(service, owner, request);
        },
        Answer);
  });
}

// A batch is refused at once where the server has no key to run its lines with.
void ServeCreate(const ApiContext& context, const BatchServiceSource& source,
                 std::shared_ptr<http::Exchange> exchange) {
  const auto call = std::make_shared<ApiCall>(context, exchange);
  ForKnownCaller(context, source, call, [&context, source, call, exchange](BatchService& service) {
    const http::Request line = service.LineRequest("");
    const Caller runner = {.loop = call->caller().loop,
                           .authorization = std::string(line.Header("authorization").value_or("")),
                           .trace = std::nullopt,
                           .tenant = line.tenant};
    context.backend.AskForModel(
        runner, [&service, call](const absl::StatusOr<v1::GetModelResponse>& model) {
          if (absl::IsUnauthenticated(model.status()) || absl::IsPermissionDenied(model.status())) {
            return call->Respond(openai::ErrorResponse(absl::FailedPreconditionError(
                "This server asks for API keys, and has none that lines of batches may run with: "
                "its operator sets --batch_token_file.")));
          }
          RunThere<BatchService::Answer>(
              service, call,
              [&service](const std::string& owner, const http::Request& request) {
                return CreateBatch(service, owner, request);
              },
              Answer);
        });
  });
}

// Sends a file as fast as it is taken.
class Download : public std::enable_shared_from_this<Download> {
 public:
  Download(Call call, const std::string& path)
      : call_(std::move(call)), file_(path, std::ios::binary) {}

  void Start() {
    if (!file_) {
      return call_->Respond(openai::ErrorResponse(absl::NotFoundError("The file is gone.")));
    }
    http::Exchange& exchange = *call_->exchange();
    exchange.BeginStream(
        {.headers = {{"content-type", "application/jsonl"}, {"x-request-id", call_->id()}}});
    exchange.set_on_drained([self = shared_from_this()] { self->Send(); });
    exchange.set_on_closed([self = shared_from_this()] { self->End(); });
    Send();
  }

 private:
  void Send() {
    const auto self = shared_from_this();
    std::array<char, kPiece> piece;
    while (call_ != nullptr && !call_->exchange()->congested()) {
      file_.read(piece.data(), piece.size());
      if (file_.gcount() == 0) {
        call_->exchange()->EndStream();
        return End();
      }
      call_->exchange()->Write({piece.data(), static_cast<size_t>(file_.gcount())});
    }
  }

  // Lets go of the exchange, which holds this.
  void End() { call_ = nullptr; }

  Call call_;
  std::ifstream file_;
};

void ServeFile(const ApiContext& context, const BatchServiceSource& source,
               std::shared_ptr<http::Exchange> exchange) {
  const http::Request& request = exchange->request();
  if (!absl::EndsWith(request.path, kContent) || request.method == "HEAD") {
    return Serve(context, source, std::move(exchange),
                 [](BatchService& service, const std::string& owner, const http::Request& request) {
                   return service.GetFile(owner, IdOf(request, kFiles, kContent));
                 });
  }
  const auto call = std::make_shared<ApiCall>(context, std::move(exchange));
  ForKnownCaller(context, source, call, [call](BatchService& service) {
    using Path = absl::StatusOr<std::string>;
    RunThere<Path>(
        service, call,
        [&service](const std::string& owner, const http::Request& request) {
          return service.ContentOf(owner, IdOf(request, kFiles, kContent));
        },
        [](const Call& call, const Path& path) {
          if (!path.ok()) return call->Respond(openai::ErrorResponse(path.status()));
          std::make_shared<Download>(call, *path)->Start();
        });
  });
}

}  // namespace

std::string OwnerOf(absl::string_view authorization) {
  if (authorization.empty()) return "public";
  if (absl::StartsWithIgnoreCase(authorization, "bearer ")) authorization.remove_prefix(7);
  std::array<uint8_t, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const uint8_t*>(authorization.data()), authorization.size(), hash.data());
  return absl::BytesToHexString({reinterpret_cast<const char*>(hash.data()), hash.size() / 2});
}

void AddBatchRoutes(http::Router& router, const ApiContext& context, BatchServiceSource service) {
  const auto add = [&](const char* method, const char* path, Action action) {
    router.Add(
        method, path,
        [&context, service, action = std::move(action)](std::shared_ptr<http::Exchange> exchange) {
          Serve(context, service, std::move(exchange), action);
        });
  };
  add("POST", "/v1/files", AddFile);
  add("GET", "/v1/files", ListFiles);
  add("DELETE", "/v1/files/*",
      [](BatchService& service, const std::string& owner, const http::Request& request) {
        return service.DeleteFile(owner, IdOf(request, kFiles));
      });
  router.Add("GET", "/v1/files/*", [&context, service](std::shared_ptr<http::Exchange> exchange) {
    ServeFile(context, service, std::move(exchange));
  });
  router.Add("POST", "/v1/batches", [&context, service](std::shared_ptr<http::Exchange> exchange) {
    ServeCreate(context, service, std::move(exchange));
  });
  add("GET", "/v1/batches", ListBatches);
  add("GET", "/v1/batches/*",
      [](BatchService& service, const std::string& owner, const http::Request& request) {
        return service.GetBatch(owner, IdOf(request, kBatches));
      });
  add("POST", "/v1/batches/*", CancelBatch);
}

}  // namespace sluice::gateway
