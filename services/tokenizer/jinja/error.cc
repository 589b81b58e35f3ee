#include "services/tokenizer/jinja/error.h"

#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice::jinja {
namespace {

constexpr char kPayload[] = "sluice.jinja.Error";

}  // namespace

absl::Status Error::ToStatus(std::string_view name) const {
  const absl::StatusCode code = kind == Kind::kLimit ? absl::StatusCode::kResourceExhausted
                                                     : absl::StatusCode::kInvalidArgument;
  absl::Status status(
      code, absl::StrCat(std::string(name), ":", place.line, ":", place.column, ": ", message));
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(static_cast<int>(kind), " ", place.line, " ",
                                                      place.column, " ", message)));
  return status;
}

std::optional<Error> ErrorOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 3));
  Error error;
  int kind = 0;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[0], &kind) ||
      !absl::SimpleAtoi(parts[1], &error.place.line) ||
      !absl::SimpleAtoi(parts[2], &error.place.column)) {
    return std::nullopt;
  }
  error.kind = static_cast<Error::Kind>(kind);
  error.message = parts[3];
  return error;
}

}  // namespace sluice::jinja
