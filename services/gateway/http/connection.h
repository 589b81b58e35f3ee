// A client's connection: reads requests, hands each to the handler, writes its response, and goes
// on with the next. One request at a time; requests that are sent ahead wait. While a response is
// under way the connection is read on, so that a client that leaves is noticed at once.
//
// Lives on one loop; kept alive by its stream's callbacks until it is closed.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "services/gateway/http/byte_stream.h"
#include "services/gateway/http/exchange.h"
#include "services/gateway/http/limits.h"
#include "services/gateway/http/request_parser.h"

namespace sluice::http {

// What a connection shares with the others of its server. Outlives the connection.
struct ConnectionContext {
  Limits limits;
  Handler handler;
  // The body of an error that HTTP itself raises, such as 413, as the API spells errors.
  std::function<Response(int status, absl::string_view message)> error_response;
  // Headers that every response to this request has, such as those of CORS. May be empty.
  std::function<Headers(const Request&)> common_headers;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Begins to serve. `on_closed` is called once, last.
  static std::shared_ptr<Connection> Start(const ConnectionContext& context, Loop& loop,
                                           std::unique_ptr<ByteStream> stream,
                                           std::function<void()> on_closed);

  // Answers with an error instead of a response to a request, and closes.
  void Refuse(int status, absl::string_view message);
  // Finishes the response under way and closes then; at once where there is none.
  void Drain();
  void Close();
  bool closed() const { return closed_; }

 private:
  class ActiveExchange;
  // What the timer bounds.
  enum class Watch { kIdle, kHeader, kBody, kWrite, kLinger };

  Connection(const ConnectionContext& context, Loop& loop, std::unique_ptr<ByteStream> stream,
             std::function<void()> on_closed);

  void Read();
  void OnRead(size_t num_bytes);
  void OnEnd();
  void Advance();
  void Serve(Request request);

  void WatchReading();
  void WatchTime(Watch watch);
  void StopWatching();
  void OnTime(Watch watch);

  void Send(absl::string_view bytes);
  void WriteNext();
  void OnWritten(bool ok);
  void OnExchangeComplete();
  void CloseWhenDone();

  bool congested() const;

  const ConnectionContext& context_;
  Loop& loop_;
  const std::unique_ptr<ByteStream> stream_;
  std::function<void()> on_closed_;
  RequestParser parser_;
  std::array<char, 4096> incoming_;
  bool is_reading_ = false;
  std::optional<Watch> watched_;

  std::string outgoing_;    // to be written next
  std::string writing_;     // in the stream's hands, piece by piece
  size_t num_written_ = 0;  // of writing_
  bool is_writing_ = false;
  bool was_congested_ = false;

  std::weak_ptr<ActiveExchange> exchange_;
  bool is_serving_ = false;           // from a request's last byte to its response's
  bool closes_when_written_ = false;  // no request follows the one that is served
  bool lingers_ = false;  // after a refusal: what the client still sends is read and dropped
  bool closed_ = false;
};

}  // namespace sluice::http
