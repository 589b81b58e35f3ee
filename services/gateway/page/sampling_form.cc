#include "services/gateway/page/sampling_form.h"

#include <cmath>
#include <type_traits>
#include <variant>

#include "kernels/sampling_options/sampling_options.h"
#include "kernels/sampling_options/sampling_reference.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

template <class Value>
const char* KindOf(Value SamplingOptions::*) {
  if constexpr (std::is_floating_point_v<Value>) return "number";
  if constexpr (std::is_integral_v<Value>) return "integer";
  if constexpr (std::is_same_v<Value, std::vector<int32_t>>) return "ids";
  if constexpr (std::is_same_v<Value, std::vector<TokenBias>>) return "biases";
  return "lists";
}

}  // namespace

json SamplingForm() {
  json form = json::array();
  for (const SamplingParameter& parameter : kSamplingParameters) {
    const char* const kind =
        std::visit([](auto member) { return KindOf(member); }, parameter.member);
    json row = {{"name", parameter.name},
                {"kind", kind},
                {"neutral", NeutralText(parameter)},
                {"help", parameter.help},
                {"min", parameter.range.min}};
    if (std::isfinite(parameter.range.max)) row["max"] = parameter.range.max;
    form.push_back(std::move(row));
  }
  return form;
}

}  // namespace sluice::gateway
