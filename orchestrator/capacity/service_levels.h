// Service levels: the times that a request has to keep. Plain values.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// Limits in seconds, > 0; not set: none.
struct ServiceLevels {
  std::optional<double> first_token;     // from arrival
  std::optional<double> between_tokens;  // mean over a request's tokens after the first
  std::optional<double> request;         // from arrival to the last token

  bool any() const {
    return first_token.has_value() || between_tokens.has_value() || request.has_value();
  }
  bool KeptBy(double first_token_seconds, double between_tokens_seconds,
              double request_seconds) const {
    return first_token_seconds <= first_token.value_or(first_token_seconds) &&
           between_tokens_seconds <= between_tokens.value_or(between_tokens_seconds) &&
           request_seconds <= request.value_or(request_seconds);
  }
};

// "ttft=1s,tpot=50ms,e2e=30s": at least one, each at most once, in any order. INVALID_ARGUMENT with
// what is accepted.
absl::StatusOr<ServiceLevels> ParseServiceLevels(const std::string& text);

// The same back: "ttft 1s, tpot 50ms".
std::string FormatServiceLevels(const ServiceLevels& levels);

}  // namespace sluice
