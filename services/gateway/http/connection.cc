#include "services/gateway/http/connection.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace sluice::http {
namespace {

// What a client may send ahead of responses it waits for before it is no longer read.
constexpr size_t kMostSentAhead = 16 << 10;
constexpr size_t kWritePiece = 64 << 10;
// A body is there as it came, as the message that is made of it, and as that goes out: so many
// times its size are accounted for, and so many once it was read.
constexpr uint64_t kCopies = 3;
constexpr uint64_t kCopiesWithoutBody = 2;
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
  ActiveExchange(std::shared_ptr<Connection> connection, Request request,
                 std::optional<MemoryBudget::Charge> charge)
      : connection_(std::move(connection)),
        loop_(connection_->loop_),
        request_(std::move(request)),
        charge_(std::move(charge)) {}

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

  void ReleaseBody() override {
    std::string().swap(request_.body);
    if (charge_.has_value()) charge_->Resize(charge_->bytes() / kCopies * kCopiesWithoutBody);
  }

  bool has_begun() const { return begun_; }

  void Respond(Response response) override {
    if (connection_ == nullptr || begun_) return;
    begun_ = true;
    if (response.status == 401 && connection_->context_.on_unauthorized) {
      connection_->context_.on_unauthorized(request_, loop_);
    }
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
  Request request_;
  std::optional<MemoryBudget::Charge> charge_;  // of a body that is not small
  bool begun_ = false;
  std::function<void()> on_drained_;
  std::function<void()> on_closed_;
};

std::shared_ptr<Connection> Connection::Start(const ConnectionContext& context, Loop& loop,
                                              std::unique_ptr<ByteStream> stream,
                                              std::unique_ptr<ConnectionTable::Entry> entry,
                                              std::function<void()> on_closed) {
  auto connection = std::shared_ptr<Connection>(
      new Connection(context, loop, std::move(stream), std::move(entry), std::move(on_closed)));
  if (connection->entry_ != nullptr) connection->entry_->SetWaiting(true);
  connection->WatchTime(Watch::kHeader);
  connection->stream_->Handshake([connection](bool ok) {
    if (!ok) return connection->Close();
    connection->Read();
  });
  return connection;
}

Connection::Connection(const ConnectionContext& context, Loop& loop,
                       std::unique_ptr<ByteStream> stream,
                       std::unique_ptr<ConnectionTable::Entry> entry,
                       std::function<void()> on_closed)
    : context_(context),
      loop_(loop),
      stream_(std::move(stream)),
      on_closed_(std::move(on_closed)),
      entry_(std::move(entry)),
      parser_(context.limits) {}

void Connection::Read() {
  if (closed_ || is_reading_ || has_ended_ || is_admitting_) return;
  if (is_serving_ && parser_.num_waiting_bytes() > kMostSentAhead) return;
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
    if (!HoldsBody()) return;
  }
  Read();
}

// The client sends no more. It may still read (RFC 9112, 9.6), or have gone: a response that has not
// begun may take long, and what is sent ahead of it tells. Everybody reads over a 100.
void Connection::OnEnd() {
  has_ended_ = true;
  if (std::exchange(lingers_, false)) return CloseWhenDone();
  if (!is_serving_) return Advance();
  FindOutWhetherGone();
  stream_->WatchGone([weak = weak_from_this()] {
    if (const std::shared_ptr<Connection> self = weak.lock()) self->Close();
  });
}

void Connection::FindOutWhetherGone() {
  const auto exchange = exchange_.lock();
  if (exchange == nullptr || exchange->has_begun() || !exchange->request().chunked) return;
  Send("HTTP/1.1 100 Continue\r\n\r\n");
}

// Acts on what the parser has, unless a response is under way: then it waits for its turn.
void Connection::Advance() {
  if (closed_ || is_serving_ || is_admitting_ || closes_when_written_) return;
  if (parser_.state() == RequestParser::State::kFailed) {
    return Refuse(parser_.failure().status, parser_.failure().message);
  }
  const bool is_complete = parser_.state() == RequestParser::State::kComplete;
  if (is_complete || parser_.state() == RequestParser::State::kBody) {
    if (RefusesHead()) return;
    if (!is_admitted_ && parser_.num_body_bytes() > context_.limits.small_body_bytes) {
      return Admit();
    }
    if (parser_.TakeExpectation()) Send("HTTP/1.1 100 Continue\r\n\r\n");
  }
  if (is_complete) return Serve(parser_.TakeRequest());
  if (has_ended_) {
    closes_when_written_ = true;
    return CloseWhenDone();
  }
  WatchReading();
}

// Once for each request. True where it was refused.
bool Connection::RefusesHead() {
  if (std::exchange(is_head_checked_, true) || !context_.refusal) return false;
  const std::optional<Response> refusal = context_.refusal(parser_.head());
  if (!refusal.has_value()) return false;
  CountUnauthorized(refusal->status, parser_.head());
  Refuse(*refusal);
  return true;
}

void Connection::CountUnauthorized(int status, Request head) {
  if (status != 401 || !context_.on_unauthorized) return;
  if (entry_ != nullptr) head.peer = entry_->peer();
  context_.on_unauthorized(head, loop_);
}

// Nothing more is read until it is known whether the body may come.
void Connection::Admit() {
  is_admitting_ = true;
  StopWatching();
  auto head = std::make_shared<Request>(parser_.head());
  if (entry_ != nullptr) head->peer = entry_->peer();
  if (!context_.admit) return OnAdmitted(*head, std::nullopt);
  context_.admit(head, loop_, [self = shared_from_this(), head](std::optional<Response> refusal) {
    self->OnAdmitted(*head, std::move(refusal));
  });
}

void Connection::OnAdmitted(const Request& head, std::optional<Response> refusal) {
  is_admitting_ = false;
  if (closed_) return;
  if (refusal.has_value()) {
    CountUnauthorized(refusal->status, head);
    Refuse(*refusal);
    return Read();
  }
  is_admitted_ = true;
  if (entry_ != nullptr) {
    entry_->SetWaiting(false);
    entry_->SetBytes(0);
  }
  if (context_.bodies != nullptr) {
    std::string tenant = context_.tenant ? context_.tenant(head) : "";
    if (tenant.empty()) tenant = head.peer;
    charge_ = context_.bodies->Take(tenant, kCopies * parser_.num_body_bytes());
  }
  if (!HoldsBody()) return;
  Advance();
  Read();
}

// Accounts for what of a request is held. False, and the connection ends, where there is no room.
bool Connection::HoldsBody() {
  if (closed_ || is_serving_ || is_admitting_ || lingers_) return !closed_;
  if (!is_admitted_) {
    if (entry_ == nullptr || entry_->SetBytes(parser_.num_held_bytes())) return true;
    Close();
    return false;
  }
  if (context_.bodies == nullptr) return true;
  const uint64_t needed = kCopies * parser_.num_body_bytes();
  if (charge_.has_value() && (needed <= charge_->bytes() || charge_->Resize(needed))) return true;
  charge_.reset();
  Response response = context_.error_response(
      503, "the bodies of other requests leave no room for this one; try again later");
  response.headers.emplace_back("retry-after", "1");
  Refuse(response);
  Read();
  return false;
}

void Connection::Serve(Request request) {
  is_serving_ = true;
  StopWatching();
  if (!request.keep_alive) closes_when_written_ = true;
  if (entry_ != nullptr) {
    request.peer = entry_->peer();
    entry_->SetWaiting(false);
    entry_->SetBytes(0);
  }
  is_head_checked_ = is_admitted_ = false;
  auto exchange = std::make_shared<ActiveExchange>(shared_from_this(), std::move(request),
                                                   std::exchange(charge_, std::nullopt));
  exchange_ = exchange;
  if (has_ended_) FindOutWhetherGone();
  context_.handler(std::move(exchange));
}

// Answers what is no request that can be served, and closes. Not at once: a client that is still
// sending would be reset, and never read why.
void Connection::Refuse(int status, absl::string_view message) {
  Refuse(context_.error_response(status, message));
}

void Connection::Refuse(const Response& response) {
  if (closed_ || closes_when_written_) return;
  closes_when_written_ = true;
  lingers_ = !has_ended_;
  if (entry_ != nullptr) {
    entry_->SetWaiting(true);
    entry_->SetBytes(0);
  }
  Send(Head(response, absl::StrCat("content-length: ", response.body.size(), "\r\n"), false));
  Send(response.body);
}

// Bounds the time of the part of a request that is being read.
void Connection::WatchReading() {
  if (is_writing_) return;  // see OnWritten
  if (entry_ != nullptr && !is_admitted_) entry_->SetWaiting(true);
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
  charge_.reset();
  entry_.reset();
  if (const auto exchange = exchange_.lock()) exchange->OnClosed();
  if (on_closed_) std::exchange(on_closed_, nullptr)();
}

}  // namespace sluice::http
