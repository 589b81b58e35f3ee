// Tools offered to a model, and whether it must call one. Guarantees beyond the offer (a required
// call, arguments that match their schema) are enforced by constrained decoding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/gateway/tool_calls/format.h"
#include "sluice/v1/constraint.pb.h"

namespace sluice::gateway {

struct OfferedTool {
  std::string name;
  std::string description;  // may be empty
  std::string parameters;   // a JSON schema as the client wrote it; empty: none
  bool strict = false;      // arguments keep the schema
};

struct ToolChoice {
  std::vector<OfferedTool> tools;
  bool required = false;  // the answer is calls, and nothing else
  bool parallel = true;   // it may be several
};

// As chat templates know tools: [{"type": "function", "function": {"name", "description",
// "parameters"}}], schemas in their own order. Empty without tools.
std::string ToolsJson(const std::vector<OfferedTool>& tools);

// The tool that the answer calls whatever happens: then the text is its arguments alone. Empty
// where there is a choice.
std::string OnlyTool(const ToolChoice& choice);

// How the model writes a required call of one among several tools, whatever its family's format is.
constexpr ToolFormat kRequiredFormat = ToolFormat::kMistral;

// What makes a model that writes calls as `format` keep the choice; nothing where nothing is
// promised. INVALID_ARGUMENT where `strict` can't be kept in that format.
absl::StatusOr<std::optional<v1::Constraint>> ToolConstraint(const ToolChoice& choice,
                                                             ToolFormat format);

}  // namespace sluice::gateway
