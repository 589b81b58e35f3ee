// An exchange that holds something for as long as its handler keeps it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "services/gateway/http/exchange.h"

namespace sluice::gateway {

class HeldExchange : public http::Exchange {
 public:
  HeldExchange(std::shared_ptr<http::Exchange> exchange, std::shared_ptr<void> held)
      : exchange_(std::move(exchange)), held_(std::move(held)) {}

  const http::Request& request() const override { return exchange_->request(); }
  void ReleaseBody() override { exchange_->ReleaseBody(); }
  http::Loop& loop() override { return exchange_->loop(); }
  void Respond(http::Response response) override { exchange_->Respond(std::move(response)); }
  void BeginStream(http::Response response) override {
    exchange_->BeginStream(std::move(response));
  }
  void Write(absl::string_view bytes) override { exchange_->Write(bytes); }
  void EndStream() override { exchange_->EndStream(); }
  bool congested() const override { return exchange_->congested(); }
  void set_on_drained(std::function<void()> on_drained) override {
    exchange_->set_on_drained(std::move(on_drained));
  }
  void set_on_closed(std::function<void()> on_closed) override {
    exchange_->set_on_closed(std::move(on_closed));
  }

 private:
  const std::shared_ptr<http::Exchange> exchange_;
  const std::shared_ptr<void> held_;
};

}  // namespace sluice::gateway
