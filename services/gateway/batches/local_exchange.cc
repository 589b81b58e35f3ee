#include "services/gateway/batches/local_exchange.h"

#include <string>
#include <utility>

namespace sluice::gateway {

LocalExchange::LocalExchange(http::Loop& loop, http::Request request,
                             std::function<void(http::Response)> done)
    : loop_(loop), request_(std::move(request)), done_(std::move(done)) {}

LocalExchange::~LocalExchange() { Respond({.status = 500}); }

void LocalExchange::Cancel() {
  done_ = nullptr;
  if (on_closed_) std::exchange(on_closed_, nullptr)();
}

void LocalExchange::ReleaseBody() { std::string().swap(request_.body); }

void LocalExchange::Respond(http::Response response) {
  on_closed_ = nullptr;
  if (done_) std::exchange(done_, nullptr)(std::move(response));
}

void LocalExchange::BeginStream(http::Response response) { streamed_ = std::move(response); }

void LocalExchange::Write(absl::string_view bytes) {
  streamed_.body.append(bytes.data(), bytes.size());
}

void LocalExchange::EndStream() { Respond(std::move(streamed_)); }

}  // namespace sluice::gateway
