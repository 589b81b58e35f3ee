// Flags for constrained decoding. The server checks that they fit together.
#pragma once

#include <optional>
#include <string>

#include "services/options/flags.h"
#include "sluice/v1/generation.pb.h"

namespace sluice {

// What is given of these.
struct ConstraintFlags {
  v1::Constraint constraint;  // all but any_json
  bool any_json = false;
};

// --json_schema, --any_json, --regex, --grammar, --choice, in a section of this title. Files are read
// as the flags are parsed.
void AddConstraintFlags(FlagSet& flags, ConstraintFlags* into,
                        const std::string& title = "What the text must keep (one of these)");

// The constraint that was given; nothing where none was.
std::optional<v1::Constraint> ConstraintOf(const ConstraintFlags& flags);

// Sets the request's constraint where one was given.
void SetConstraint(const ConstraintFlags& flags, v1::GenerateRequest& request);

}  // namespace sluice
