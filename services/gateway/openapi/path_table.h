// The paths that HTTP clients call, and the parameters of each as the code that checks its requests asks
// for them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/gateway/json/parameter_log.h"

namespace sluice::gateway {

struct ApiPath {
  const char* method;
  const char* path;
  const char* group;    // heading
  const char* summary;  // one sentence
  // Reads a body whose text is `text` and returns what is wrong with it; null: the path takes none.
  absl::Status (*check)(const nlohmann::json& body, absl::string_view text) = nullptr;
  // Bodies in which all members below the first level are asked for, one after the other.
  absl::Span<const char* const> probes = {};
  // JSON schema of a body that is a form; null: it is none.
  const char* form = nullptr;
};

absl::Span<const ApiPath> ApiPaths();

// What `path.check` asks of an empty body, of its probes, and of texts that are none of those accepted.
ParameterNotes ParametersOf(const ApiPath& path);

}  // namespace sluice::gateway
