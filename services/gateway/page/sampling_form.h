// Description of all sampling options for the page's form, from the table of
// kernels/sampling_options.
#pragma once

#include <nlohmann/json.hpp>

namespace sluice::gateway {

// [{"name", "kind", "neutral", "help", "min", "max"}, ..], by the order in which they take effect.
// `kind` is "number", "integer", "ids" (1,2,3), "lists" (1,2;3) or "biases" (1=-2.5); the bounds
// are of a number, `max` absent where there is none.
nlohmann::json SamplingForm();

}  // namespace sluice::gateway
