// JSON files read strictly, with errors that name the file, the field and its value. Only .cc files
// include this header: nlohmann-json is heavy to compile.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// Parses `text`, which messages call `source`. INVALID_ARGUMENT with line and column where it is
// not JSON, a number is out of range, nesting is deeper than 64 or an object has a key twice.
absl::StatusOr<nlohmann::json> ParseJson(const std::string& text, const std::string& source);

// The path of a model folder's file.
std::string PathIn(const std::string& folder, const std::string& name);

// The text of a file. NOT_FOUND where it is missing, FAILED_PRECONDITION where something stands in its
// place (services/model/stand_in.h) or a link to it leads nowhere, INVALID_ARGUMENT where it is longer
// than 64 MB or no regular file, else what the system says against reading it.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// The value in a form fit for a message: at most some 60 characters, printable.
std::string ValueText(const nlohmann::json& value);

// The fields of one JSON object. A getter that meets a bad field keeps the first error, for
// status(), and returns a value in range, so that a mapping reads as a list of fields and asks once
// at its end. A field that is null counts as absent. Not thread-safe.
class JsonFields {
 public:
  // `source` names the file in messages, `prefix` the path to the object inside it ("" or
  // "rope_parameters."). `object` is borrowed.
  JsonFields(std::string source, const nlohmann::json& object, std::string prefix = "");

  // Whether the field is there and null, for the few where that says something else than absence.
  bool IsNull(const std::string& name) const;
  bool Has(const std::string& name) const { return Get(name) != nullptr; }
  // The value, or nullptr where the field is absent or null.
  const nlohmann::json* Get(const std::string& name) const;

  // Integers from `min` to `max`, which may be written as 256.0; required, or absent for nullopt.
  int Int(const std::string& name, int min, int max);
  std::optional<int> OptionalInt(const std::string& name, int min, int max);
  // Finite numbers above `above` (or equal, for AtLeast), up to `max`.
  std::optional<double> NumberAbove(const std::string& name, double above, double max);
  std::optional<double> NumberAtLeast(const std::string& name, double min, double max);
  std::optional<bool> Bool(const std::string& name);
  // False, and rejected, where it is absent.
  bool RequiredBool(const std::string& name);
  std::optional<std::string> String(const std::string& name);
  // Empty, and rejected, where it is absent.
  std::string RequiredString(const std::string& name);
  // One integer or a list of them, as token ids are given; absent: nullopt.
  std::optional<std::vector<int>> IntOrList(const std::string& name, int min, int max);

  // Records "<source>: <prefix><name> is <value>; accepted: <accepted>".
  void Reject(const std::string& name, const std::string& accepted,
              absl::StatusCode code = absl::StatusCode::kInvalidArgument);
  // Records "<source>: <message>".
  void Fail(const std::string& message, absl::StatusCode code = absl::StatusCode::kInvalidArgument);

  // The fields of the object in field `name`, present; its errors come back through Adopt.
  JsonFields Inner(const std::string& name) const;
  void Adopt(const JsonFields& inner);

  const absl::Status& status() const { return status_; }

 private:
  std::optional<double> Number(const std::string& name, double min, double max, bool open);

  std::string source_;
  std::string prefix_;
  const nlohmann::json* object_;
  absl::Status status_;
};

}  // namespace sluice
