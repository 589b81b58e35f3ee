// What documents and the chart say of options, made from the table. Pure functions.
#pragma once

#include <string>

#include "services/options/option.h"

namespace sluice {

// The tables of docs/options.md, a heading and a table for each section.
std::string OptionsReference();

// The JSON schema of the option's value in the chart: {"enum": [...]} or {"type": ..., ...}.
std::string ChartSchema(const Option& option);

}  // namespace sluice
