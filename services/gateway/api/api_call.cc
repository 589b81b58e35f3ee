#include "services/gateway/api/api_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/api/authorization.h"
#include "services/gateway/backend/random_id.h"
#include "services/gateway/json/json_text.h"

namespace sluice::gateway {
namespace {

// In place of an authorization that is refused before a call is made of it.
constexpr char kInvalid[] = "invalid";
constexpr size_t kMaxRequestIdBytes = 128;  // as GenerateRequest.request_id

std::string IdOf(const http::Request& request) {
  const absl::string_view sent = request.Header("x-request-id").value_or("");
  const bool fit = !sent.empty() && sent.size() <= kMaxRequestIdBytes &&
                   std::all_of(sent.begin(), sent.end(),
                               [](char c) { return absl::ascii_isgraph(static_cast<uint8_t>(c)); });
  return fit ? std::string(sent) : RandomId("req_");
}

}  // namespace

ApiCall::ApiCall(Tracer* tracer, std::shared_ptr<http::Exchange> exchange)
    : exchange_(std::move(exchange)),
      id_(IdOf(exchange_->request())),
      span_(tracer, exchange_->request()),
      caller_{&exchange_->loop(),
              AuthorizationOf(exchange_->request()).value_or(kInvalid),
              span_.context(),
              id_,
              exchange_->request().tenant,
              exchange_->request().cache_scope} {}

absl::StatusOr<nlohmann::json> ApiCall::Body() const { return ParseJson(request().body); }

void ApiCall::ReadBody(BodyReader& reader, BodyReader::Read read,
                       std::function<void(const absl::Status&)> done) const {
  reader.Start(exchange_->loop(), TenantOf(request()), request().body, std::move(read),
               [exchange = exchange_, done = std::move(done)](const absl::Status& status) {
                 exchange->ReleaseBody();
                 done(status);
               });
}

void ApiCall::Respond(int status, const nlohmann::json& body) {
  Respond(
      {.status = status, .headers = {{"content-type", "application/json"}}, .body = ToJson(body)});
}

void ApiCall::Respond(http::Response response) {
  span_.set_status(response.status);
  response.headers.emplace_back("x-request-id", id_);
  exchange_->Respond(std::move(response));
}

void ApiCall::BeginEvents() {
  if (std::exchange(has_sent_events_, true)) return;
  span_.set_status(200);
  // The last header keeps nginx from holding events back.
  exchange_->BeginStream({.headers = {{"content-type", "text/event-stream; charset=utf-8"},
                                      {"cache-control", "no-cache"},
                                      {"x-accel-buffering", "no"},
                                      {"x-request-id", id_}}});
}

void ApiCall::SendEvent(absl::string_view data) {
  BeginEvents();
  exchange_->Write(absl::StrCat("data: ", data, "\n\n"));
}

void ApiCall::SendEvent(absl::string_view name, absl::string_view data) {
  BeginEvents();
  exchange_->Write(absl::StrCat("event: ", name, "\ndata: ", data, "\n\n"));
}

void ApiCall::EndEvents() { exchange_->EndStream(); }

}  // namespace sluice::gateway
