#include "services/gateway/http/connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace sluice::http {
namespace {

// What a client may send ahead of responses it waits for before it is no longer read.
constexpr size_t kMostSentAhead = 64 << 10;
constexpr size_t kWritePiece = 64 << 10;
// How long what a refused client still sends is read.
constexpr absl::Duration kLinger = absl::Seconds(5);

std::string DateHeader() {
  return absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone());
}

std::string Head(const Response& response, absl::string_view framing, bool keep_alive) {
  std::string head =
      absl::StrCat("HTTP/1.1 ", response.status, " ", ReasonPhrase(response.status), "\r\n");
  for (const auto& [name, value] : response.headers)
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  absl::StrAppend(&head, framing, "date: ", DateHeader(),
                  "\r\nconnection: ", keep_alive ? "keep-alive" : "close", "\r\n\r\n");
  return head;
}

}  // namespace

// The exchange that a handler holds. Lets go of the connection when the response is complete, and
// answers 500 for a handler that drops it without one.
class Connection::ActiveExchange final : public Exchange {
 public:
  ActiveExchange(std::shared_ptr<Connection> connection, Request request)
      : connection_(std::move(connection)),
        loop_(connection_->loop_),
        request_(std::move(request)) {}

  ~ActiveExchange() override {
    if (connection_ == nullptr) return;
    if (begun_) {
      connection_->Close();
    } else {
      Respond(connection_->context_.error_response(500, "the request was dropped"));
    }
  }

  const Request& request() const override { return request_; }
  Loop& loop() override { return loop_; }

  void Respond(Response response) override {
    if (connection_ == nullptr || begun_) return;
    begun_ = true;
    AddCommonHeaders(response);
    const bool no_body = response.status == 204 || response.status == 304;
    const std::string length =
        no_body ? "" : absl::StrCat("content-length: ", response.body.size(), "\r\n");
    connection_->Send(Head(response, length, keep_alive()));
    if (request_.method != "HEAD" && !no_body) connection_->Send(response.body);
    Complete();
  }

  void BeginStream(Response response) override {
    if (connection_ == nullptr || begun_) return;
    begun_ = true;
    AddCommonHeaders(response);
    if (!request_.chunked) connection_->closes_when_written_ = true;  // its end is the body's
    connection_->Send(
        Head(response, request_.chunked ? "transfer-encoding: chunked\r\n" : "", keep_alive()));
    Write(response.body);
  }

  void Write(absl::string_view bytes) override {
    if (connection_ == nullptr || bytes.empty()) return;  // an empty chunk would be the last
    if (!request_.chunked) return connection_->Send(bytes);
    connection_->Send(absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n"));
  }

  void EndStream() override {
    if (connection_ == nullptr) return;
    if (request_.chunked) connection_->Send("0\r\n\r\n");
    Complete();
  }

  bool congested() const override { return connection_ != nullptr && connection_->congested(); }
  void set_on_drained(std::function<void()> f) override { on_drained_ = std::move(f); }
  void set_on_closed(std::function<void()> f) override { on_closed_ = std::move(f); }

  void OnDrained() {
    if (on_drained_) on_drained_();
  }
  void OnClosed() {
    connection_ = nullptr;
    on_drained_ = nullptr;
    if (on_closed_) std::exchange(on_closed_, nullptr)();
  }

 private:
  void AddCommonHeaders(Response& response) const {
    if (!connection_->context_.common_headers) return;
    for (auto& header : connection_->context_.common_headers(request_)) {
      response.headers.push_back(std::move(header));
    }
  }

  bool keep_alive() const { return !connection_->closes_when_written_; }

  void Complete() {
    on_closed_ = nullptr;
    on_drained_ = nullptr;
    std::exchange(connection_, nullptr)->OnExchangeComplete();
  }

  std::shared_ptr<Connection> connection_;  // until the response is complete or the client left
  Loop& loop_;
  const Request request_;
  bool begun_ = false;
  std::function<void()> on_drained_;
  std::function<void()> on_closed_;
};

std::shared_ptr<Connection> Connection::Start(const ConnectionContext& context, Loop& loop,
                                              std::unique_ptr<ByteStream> stream,
                                              std::function<void()> on_closed) {
  auto connection = std::shared_ptr<Connection>(
      new Connection(context, loop, std::move(stream), std::move(on_closed)));
  connection->WatchTime(Watch::kHeader);
  connection->stream_->Handshake([connection](bool ok) {
    if (!ok) return connection->Close();
    connection->Read();
  });
  return connection;
}

Connection::Connection(const ConnectionContext& context, Loop& loop,
                       std::unique_ptr<ByteStream> stream, std::function<void()> on_closed)
    : context_(context),
      loop_(loop),
      stream_(std::move(stream)),
      on_closed_(std::move(on_closed)),
      parser_(context.limits) {}

void Connection::Read() {
  if (closed_ || is_reading_ || parser_.num_waiting_bytes() > kMostSentAhead) return;
  is_reading_ = true;
  stream_->Read(absl::MakeSpan(incoming_), [self = shared_from_this()](size_t num_bytes) {
    self->is_reading_ = false;
    self->OnRead(num_bytes);
  });
}

void Connection::OnRead(size_t num_bytes) {
  if (closed_) return;
  if (num_bytes == 0) return OnEnd();
  if (!lingers_) {
    parser_.Feed({incoming_.data(), num_bytes});
    Advance();
  }
  Read();
}

// The client sends no more. What is answered already is still written.
void Connection::OnEnd() {
  closes_when_written_ = true;
  lingers_ = false;
  is_serving_ = false;
  if (const auto exchange = exchange_.lock()) exchange->OnClosed();
  exchange_.reset();
  CloseWhenDone();
}

// Acts on what the parser has, unless a response is under way: then it waits for its turn.
void Connection::Advance() {
  if (closed_ || is_serving_ || closes_when_written_) return;
  if (parser_.TakeExpectation()) Send("HTTP/1.1 100 Continue\r\n\r\n");
  if (parser_.state() == RequestParser::State::kComplete) return Serve(parser_.TakeRequest());
  if (parser_.state() == RequestParser::State::kFailed) {
    return Refuse(parser_.failure().status, parser_.failure().message);
  }
  WatchReading();
}

void Connection::Serve(Request request) {
  is_serving_ = true;
  StopWatching();
  if (!request.keep_alive) closes_when_written_ = true;
  auto exchange = std::make_shared<ActiveExchange>(shared_from_this(), std::move(request));
  exchange_ = exchange;
  context_.handler(std::move(exchange));
}

// Answers what is no request that can be served, and closes. Not at once: a client that is still
// sending would be reset, and never read why.
void Connection::Refuse(int status, absl::string_view message) {
  if (closed_ || closes_when_written_) return;
  closes_when_written_ = true;
  lingers_ = true;
  const Response response = context_.error_response(status, message);
  Send(Head(response, absl::StrCat("content-length: ", response.body.size(), "\r\n"), false));
  Send(response.body);
}

// Bounds the time of the part of a request that is being read.
void Connection::WatchReading() {
  if (is_writing_) return;  // see OnWritten
  switch (parser_.state()) {
    case RequestParser::State::kNothing:
      return WatchTime(Watch::kIdle);
    case RequestParser::State::kHeader:
      return WatchTime(Watch::kHeader);
    default:
      return WatchTime(Watch::kBody);
  }
}

// Sets the timer, once as a part begins: a byte now and then wins no time.
void Connection::WatchTime(Watch watch) {
  if (watch == watched_ && watch != Watch::kWrite) return;
  watched_ = watch;
  const Limits& limits = context_.limits;
  const absl::Duration time = watch == Watch::kIdle     ? limits.idle_timeout
                              : watch == Watch::kHeader ? limits.header_timeout
                              : watch == Watch::kBody   ? limits.body_timeout
                              : watch == Watch::kWrite  ? limits.write_timeout
                                                        : kLinger;
  stream_->SetTimer(time, [weak = weak_from_this(), watch] {
    if (const std::shared_ptr<Connection> self = weak.lock()) self->OnTime(watch);
  });
}

void Connection::StopWatching() {
  watched_.reset();
  stream_->SetTimer(absl::InfiniteDuration(), nullptr);
}

void Connection::OnTime(Watch watch) {
  const bool within_request = parser_.state() != RequestParser::State::kNothing;
  if (watch == Watch::kHeader && within_request) {
    return Refuse(408, "the request's headers took too long");
  }
  if (watch == Watch::kBody) return Refuse(408, "the request's body took too long");
  Close();
}

void Connection::Send(absl::string_view bytes) {
  if (closed_) return;
  outgoing_.append(bytes.data(), bytes.size());
  was_congested_ = was_congested_ || congested();
  if (is_writing_ || outgoing_.empty()) return;
  // From a task of its own, so that what one callback sends is written together.
  is_writing_ = true;
  loop_.Post([self = shared_from_this()] { self->WriteNext(); });
}

// Writes what the socket takes at once, and then a piece: the time that a client has is that for a
// piece.
void Connection::WriteNext() {
  if (closed_) return;
  if (num_written_ == writing_.size()) {
    writing_.clear();
    if (writing_.capacity() > context_.limits.congestion_bytes) writing_.shrink_to_fit();
    std::swap(writing_, outgoing_);
    num_written_ = 0;
  }
  num_written_ += stream_->TryWrite(absl::string_view(writing_).substr(num_written_));
  if (num_written_ == writing_.size()) return OnWritten(true);
  WatchTime(Watch::kWrite);
  const absl::string_view piece = absl::string_view(writing_).substr(num_written_, kWritePiece);
  num_written_ += piece.size();
  stream_->Write(piece, [self = shared_from_this()](bool ok) { self->OnWritten(ok); });
}

void Connection::OnWritten(bool ok) {
  if (closed_) return;
  if (!ok) return Close();
  if (was_congested_ && !congested()) {
    was_congested_ = false;
    if (const auto exchange = exchange_.lock()) exchange->OnDrained();
  }
  if (closed_) return;
  if (num_written_ < writing_.size() || !outgoing_.empty()) return WriteNext();
  is_writing_ = false;
  if (watched_ == Watch::kWrite) StopWatching();
  if (lingers_) {
    stream_->EndWrites();
    return WatchTime(Watch::kLinger);
  }
  if (is_serving_) return;
  if (closes_when_written_) return Close();
  WatchReading();
}

void Connection::OnExchangeComplete() {
  is_serving_ = false;
  exchange_.reset();
  // Not from within the handler that has just answered.
  loop_.Post([self = shared_from_this()] {
    self->CloseWhenDone();
    self->Advance();
    self->Read();
  });
}

void Connection::CloseWhenDone() {
  if (closes_when_written_ && !lingers_ && !is_serving_ && !is_writing_) Close();
}

bool Connection::congested() const {
  return outgoing_.size() + writing_.size() - num_written_ > context_.limits.congestion_bytes;
}

void Connection::Drain() {
  closes_when_written_ = true;
  CloseWhenDone();
}

void Connection::Close() {
  if (std::exchange(closed_, true)) return;
  stream_->SetTimer(absl::InfiniteDuration(), nullptr);
  stream_->Close();
  outgoing_.clear();
  if (const auto exchange = exchange_.lock()) exchange->OnClosed();
  if (on_closed_) std::exchange(on_closed_, nullptr)();
}

}  // namespace sluice::http
