#include "services/gateway/http/request_parser.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice::http {
namespace {

namespace beast = boost::beast;
using BeastParser = beast::http::request_parser<beast::http::string_body>;
using BeastError = beast::http::error;

absl::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

struct Answer {
  int status;
  std::string message;
};

Answer AnswerTo(const boost::system::error_code& error, const Limits& limits) {
  if (error == BeastError::header_limit) {
    return {431, absl::StrCat("the request's headers exceed ", limits.max_header_bytes, " bytes")};
  }
  if (error == BeastError::body_limit) {
    return {413, absl::StrCat("the request's body exceeds ", limits.max_body_bytes, " bytes")};
  }
  if (error == BeastError::bad_version) return {505, "only HTTP/1.0 and HTTP/1.1 are spoken here"};
  return {400, absl::StrCat("not an HTTP request: ", error.message())};
}

// The path and the host of the request's target (RFC 9112, 3.2): "/path?query", the same behind
// "http://host", or "*". False where it is none of them.
bool SplitTarget(absl::string_view target, Request& request) {
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    request.authority = std::string(target.substr(0, end));
    target.remove_prefix(end);
    if (request.authority.empty() || absl::StrContains(request.authority, '@')) return false;
  }
  const size_t question = target.find('?');
  if (question != absl::string_view::npos) request.query = std::string(target.substr(question + 1));
  std::optional<std::string> path = PercentDecoded(target.substr(0, question));
  if (!path.has_value()) return false;
  request.path = path->empty() ? "/" : *std::move(path);
  return request.path[0] == '/' || request.path == "*";
}

bool IsHost(absl::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<uint8_t>(c)) || absl::StrContains("-._~:[]%", c);
  });
}

// What is wrong with a head that Beast accepts.
std::optional<Answer> FaultOf(Request& request, bool is_http_1_1) {
  const size_t num_hosts = request.Count("host");
  if (num_hosts > 1 || (num_hosts == 0 && is_http_1_1)) {
    return Answer{400, absl::StrCat("the request has ", num_hosts, " headers Host; accepted: 1")};
  }
  // That of the target counts where it has one.
  const absl::string_view host = request.Header("host").value_or("");
  if (request.authority.empty()) request.authority = std::string(host);
  if (num_hosts > 0 && (!IsHost(host) || !IsHost(request.authority))) {
    return Answer{400, "the header Host is no host"};
  }
  if (request.Count("transfer-encoding") > 0) {
    if (!is_http_1_1) return Answer{400, "HTTP/1.0 has no Transfer-Encoding"};
    if (!absl::EqualsIgnoreCase(request.Joined("transfer-encoding"), "chunked")) {
      return Answer{501, "the only Transfer-Encoding that is served is chunked"};
    }
  }
  const std::string coding = request.Joined("content-encoding");
  if (!coding.empty() && !absl::EqualsIgnoreCase(coding, "identity")) {
    return Answer{415, "the request's Content-Encoding is not served; send it without one"};
  }
  return std::nullopt;
}

}  // namespace

struct RequestParser::Parser {
  explicit Parser(const Limits& limits) {
    parser.header_limit(limits.max_header_bytes);
    parser.body_limit(limits.max_body_bytes);
    parser.eager(false);  // stops behind the headers: what follows a chunked body are no headers
  }
  BeastParser parser;
};

RequestParser::RequestParser(const Limits& limits)
    : limits_(limits), parser_(std::make_unique<Parser>(limits)) {}

RequestParser::~RequestParser() = default;

void RequestParser::Feed(absl::string_view bytes) {
  if (state_ == State::kFailed) return;
  waiting_.append(bytes.data(), bytes.size());
  if (state_ != State::kComplete) Parse();
}

// Empty lines before a request, as some clients send them behind a body (RFC 9112, 2.2).
void RequestParser::SkipEmptyLines() {
  size_t end = 0;
  while (waiting_.compare(end, 2, "\r\n") == 0) end += 2;
  waiting_.erase(0, end);
}

void RequestParser::Parse() {
  BeastParser& parser = parser_->parser;
  if (!parser.got_some()) {
    SkipEmptyLines();
    if (waiting_ == "\r") return;  // half an empty line, or the beginning of what is no request
  }
  size_t at = 0;
  while (at < waiting_.size() && !parser.is_done()) {
    state_ = parser.is_header_done() ? State::kBody : State::kHeader;
    boost::system::error_code error;
    const bool had_header = parser.is_header_done();
    at += parser.put(boost::asio::const_buffer(waiting_.data() + at, waiting_.size() - at), error);
    if (!had_header && parser.is_header_done()) {
      TakeHead();
      if (state_ == State::kFailed) return;
    }
    if (error == BeastError::need_more) {
      // Beast counts only what it has consumed: of headers, chunks' heads and trailers whole lines.
      if (waiting_.size() - at <= limits_.max_header_bytes) break;
      error = BeastError::header_limit;
    }
    if (error) {
      const Answer answer = AnswerTo(error, limits_);
      return Fail(answer.status, answer.message);
    }
  }
  waiting_.erase(0, at);
  if (parser.is_done()) state_ = State::kComplete;
}

void RequestParser::TakeHead() {
  const auto& message = parser_->parser.get();
  head_ = Request();
  head_.method = std::string(View(message.method_string()));
  head_.keep_alive = message.keep_alive();
  head_.chunked = message.version() >= 11;
  for (const auto& field : message) {
    head_.headers.emplace_back(absl::AsciiStrToLower(View(field.name_string())),
                               std::string(View(field.value())));
  }
  state_ = State::kBody;
  expects_continue_ =
      absl::EqualsIgnoreCase(View(message[beast::http::field::expect]), "100-continue");
  if (!SplitTarget(View(message.target()), head_)) {
    return Fail(400, "the request's target is no path, and no URL of one");
  }
  if (const std::optional<Answer> fault = FaultOf(head_, head_.chunked)) {
    Fail(fault->status, fault->message);
  }
}

uint64_t RequestParser::num_body_bytes() const {
  const BeastParser& parser = parser_->parser;
  const uint64_t is_there = parser.get().body().size();
  const boost::optional<uint64_t> length = parser.content_length();
  return length.has_value() ? std::max<uint64_t>(*length, is_there) : is_there;
}

uint64_t RequestParser::num_held_bytes() const {
  return parser_->parser.get().body().size() + waiting_.size();
}

void RequestParser::Fail(int status, absl::string_view message) {
  state_ = State::kFailed;
  failure_ = {status, std::string(message)};
  waiting_.clear();
}

bool RequestParser::TakeExpectation() { return std::exchange(expects_continue_, false); }

Request RequestParser::TakeRequest() {
  Request request = std::exchange(head_, {});
  request.body = std::move(parser_->parser.get().body());
  parser_ = std::make_unique<Parser>(limits_);
  state_ = State::kNothing;
  expects_continue_ = false;
  Parse();
  return request;
}

}  // namespace sluice::http
