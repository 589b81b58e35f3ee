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
#include "services/gateway/http/connection_table.h"
#include "services/gateway/http/exchange.h"
#include "services/gateway/http/limits.h"
#include "services/gateway/http/memory_budget.h"
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
  // Why a request is refused, before anything of its body is read; nothing where it is not. May be
  // empty: none is.
  std::function<std::optional<Response>(const Request& head)> refusal = nullptr;
  // The same for a request whose body is not small, answered later, on the loop. May be empty: all
  // are admitted.
  std::function<void(std::shared_ptr<const Request> head, Loop& loop,
                     std::function<void(std::optional<Response>)> done)>
      admit = nullptr;
  // Whose bodies share the memory for them; the peer's where empty.
  std::function<std::string(const Request& head)> tenant = nullptr;
  MemoryBudget* bodies = nullptr;  // for bodies that are not small; null: without a limit
  // Of a response that is 401. May be empty.
  std::function<void(const Request&, Loop&)> on_unauthorized = nullptr;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Begins to serve. `entry` is its place among the others; null: it has none, and is to be
  // refused. `on_closed` is called once, last.
  static std::shared_ptr<Connection> Start(const ConnectionContext& context, Loop& loop,
                                           std::unique_ptr<ByteStream> stream,
                                           std::unique_ptr<ConnectionTable::Entry> entry,
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
             std::unique_ptr<ConnectionTable::Entry> entry, std::function<void()> on_closed);

  void Read();
  void OnRead(size_t num_bytes);
  void OnEnd();
  void FindOutWhetherGone();
  void Advance();
  bool RefusesHead();
  void CountUnauthorized(int status, Request head);
  void Admit();
  void OnAdmitted(const Request& head, std::optional<Response> refusal);
  bool HoldsBody();
  void Serve(Request request);
  void Refuse(const Response& response);

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
  std::unique_ptr<ConnectionTable::Entry> entry_;
  RequestParser parser_;
  bool is_head_checked_ = false;  // of the request that is read, as the next
  bool is_admitting_ = false;
  bool is_admitted_ = false;
  std::optional<MemoryBudget::Charge> charge_;
  bool has_ended_ = false;  // the client sends no more
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
