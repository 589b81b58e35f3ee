// Reads the members of a JSON object by name. Every member a client sends is used, deliberately
// ignored, or rejected by name: Finish() returns an error that names the first unknown member.
//
// A member that is null counts as absent. The first fault is kept; reading goes on after it, so
// that callers check once, at the end. Faults are INVALID_ARGUMENT with the payloads below.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/gateway/json/parameter_log.h"

namespace sluice::gateway {

// Payloads of a status: which parameter is at fault, and how, in OpenAI's words
// ("unknown_parameter", "invalid_type", ...).
constexpr char kParameterPayload[] = "sluice/parameter";
constexpr char kCodePayload[] = "sluice/code";

// The largest value of the protos' int32.
constexpr int32_t kMaxInt32 = std::numeric_limits<int32_t>::max();

absl::Status ParameterError(absl::string_view parameter, absl::string_view code,
                            absl::string_view message);

class ObjectReader {
 public:
  // Borrows `object`. `path` is what its members' names are shown below, such as "messages[2]".
  explicit ObjectReader(const nlohmann::json& object, std::string path = "");

  std::optional<bool> Bool(const char* name);
  // In [min, max].
  std::optional<int64_t> Integer(const char* name, int64_t min, int64_t max);
  // Of 64 bits with or without a sign, from -2^63 to 2^64 - 1, as its bits.
  std::optional<uint64_t> Bits(const char* name);
  std::optional<double> Number(const char* name);
  std::optional<std::string> String(const char* name);
  std::optional<std::vector<int32_t>> Integers(const char* name);
  // Borrowed from the object; null where absent.
  const nlohmann::json* Array(const char* name);
  const nlohmann::json* Object(const char* name);
  const nlohmann::json* Any(const char* name);

  // Members without an effect on what is answered, such as hints for caches.
  void PassOver(absl::Span<const char* const> names);
  // Members that this server can't honour: a fault where they are there.
  void Refuse(std::initializer_list<const char*> names, absl::string_view why);

  // Notes a fault with a member that was read.
  void Fail(absl::string_view name, absl::string_view code, absl::string_view message);
  void Fail(absl::Status status);
  bool ok() const { return status_.ok(); }

  std::string PathOf(absl::string_view name) const;
  // The first fault, or that of an unknown member.
  absl::Status Finish() const;

 private:
  const nlohmann::json* Find(const char* name);
  // As Find, and notes for the ParameterLog of this thread what is asked for.
  const nlohmann::json* FindNoted(const char* name, const ParameterNote& note);
  void FailType(const char* name, const char* expected, const nlohmann::json& value);

  const nlohmann::json& object_;
  const std::string path_;
  std::set<std::string, std::less<>> asked_;
  absl::Status status_;
};

}  // namespace sluice::gateway
