#include "services/gateway/http/request_parser.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/string_body.hpp>
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

Request Convert(BeastParser& parser) {
  auto message = parser.release();
  Request request;
  request.method = std::string(View(message.method_string()));
  const absl::string_view target = View(message.target());
  const size_t question = target.find('?');
  request.path = std::string(target.substr(0, question));
  if (question != absl::string_view::npos) request.query = std::string(target.substr(question + 1));
  request.keep_alive = message.keep_alive();
  request.chunked = message.version() >= 11;
  for (const auto& field : message) {
    request.headers.emplace_back(absl::AsciiStrToLower(View(field.name_string())),
                                 std::string(View(field.value())));
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace

struct RequestParser::Parser {
  explicit Parser(const Limits& limits) {
    parser.header_limit(limits.max_header_bytes);
    parser.body_limit(limits.max_body_bytes);
    parser.eager(true);
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

void RequestParser::Parse() {
  BeastParser& parser = parser_->parser;
  while (!waiting_.empty() && !parser.is_done()) {
    state_ = parser.is_header_done() ? State::kBody : State::kHeader;
    boost::system::error_code error;
    const bool had_header = parser.is_header_done();
    const size_t used =
        parser.put(boost::asio::const_buffer(waiting_.data(), waiting_.size()), error);
    waiting_.erase(0, used);
    if (!had_header && parser.is_header_done()) {
      expects_continue_ =
          absl::EqualsIgnoreCase(View(parser.get()[beast::http::field::expect]), "100-continue");
      state_ = State::kBody;
    }
    if (error == BeastError::need_more) {
      // Beast counts only what it has consumed, and of headers it consumes whole lines.
      if (!parser.is_header_done() && waiting_.size() > limits_.max_header_bytes) {
        error = BeastError::header_limit;
      } else {
        break;
      }
    }
    if (error) {
      const Answer answer = AnswerTo(error, limits_);
      return Fail(answer.status, answer.message);
    }
  }
  if (parser.is_done()) state_ = State::kComplete;
}

void RequestParser::Fail(int status, absl::string_view message) {
  state_ = State::kFailed;
  failure_ = {status, std::string(message)};
  waiting_.clear();
}

bool RequestParser::TakeExpectation() { return std::exchange(expects_continue_, false); }

Request RequestParser::TakeRequest() {
  Request request = Convert(parser_->parser);
  parser_ = std::make_unique<Parser>(limits_);
  state_ = State::kNothing;
  expects_continue_ = false;
  Parse();
  return request;
}

}  // namespace sluice::http
