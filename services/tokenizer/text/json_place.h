// A value inside a JSON file together with the file's name and the path to the value, for the
// parsers of the tokenizer's components and their messages. Borrows the value. Only .cc files
// include this header: nlohmann-json is heavy to compile.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/model/json_fields.h"

namespace sluice {

struct JsonPlace {
  const nlohmann::json* value = nullptr;
  std::string source;  // the file
  std::string path;    // such as "pre_tokenizer.pretokenizers[1]"

  // The fields of this object; messages name them by their whole path.
  JsonFields Fields() const { return JsonFields(source, *value, path + "."); }

  // "" where this is no object or its "type" is no string.
  std::string Type() const;

  // The member `name`; a null value where it is absent.
  JsonPlace Member(std::string_view name) const;

  // The member `name`, which must be an array. INVALID_ARGUMENT otherwise.
  absl::StatusOr<JsonPlace> Array(std::string_view name) const;

  // REQUIRES: this is an array of more than `index` elements.
  JsonPlace Element(size_t index) const;

  // "<source>: <path> is <value>; accepted: <accepted>".
  absl::Status Reject(std::string_view accepted) const;

  // The same for "<path>.type", UNIMPLEMENTED.
  absl::Status RejectType(std::string_view accepted) const;

  // `status` with "<source>: <path>: " before its message.
  absl::Status Annotate(const absl::Status& status) const;
};

}  // namespace sluice
