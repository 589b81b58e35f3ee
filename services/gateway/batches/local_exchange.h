// A request of this process to its own paths, without a connection: the handlers of the API serve
// it as they serve those of clients. Belongs to its loop.
#pragma once

#include <functional>
#include <memory>

#include "services/gateway/http/exchange.h"

namespace sluice::gateway {

class LocalExchange final : public http::Exchange {
 public:
  // `done` is called once with the whole response, on the loop, unless it was cancelled. A handler
  // that drops the exchange answers 500.
  LocalExchange(http::Loop& loop, http::Request request, std::function<void(http::Response)> done);
  ~LocalExchange() override;

  // As a client that leaves.
  void Cancel();

  const http::Request& request() const override { return request_; }
  void ReleaseBody() override;
  http::Loop& loop() override { return loop_; }
  void Respond(http::Response response) override;
  void BeginStream(http::Response response) override;
  void Write(absl::string_view bytes) override;
  void EndStream() override;
  bool congested() const override { return false; }
  void set_on_drained(std::function<void()>) override {}
  void set_on_closed(std::function<void()> on_closed) override {
    on_closed_ = std::move(on_closed);
  }

 private:
  http::Loop& loop_;
  http::Request request_;
  std::function<void(http::Response)> done_;  // until it was called
  std::function<void()> on_closed_;
  http::Response streamed_;
};

}  // namespace sluice::gateway
