// Resources that requests hold and have used, as text for people and as JSON. Pure functions.
// Strings chosen by clients, such as a request's id, are escaped for terminals.
//
// `width` is that of the terminal in characters; 0: what is written goes elsewhere, and nothing is
// cut or left out.
#pragma once

#include <cstddef>
#include <string>

#include "clients/cli/json.h"
#include "sluice/v1/status.pb.h"

namespace sluice {

// A line for each request, `most` at most and then how many more there are, under a line of names.
std::string RequestsTable(const v1::GetStatusResponse& status, int most, size_t width);

// All that is known of one request, its sequences too.
std::string RequestText(const v1::RequestStatus& request, size_t width);

Json RequestJson(const v1::RequestStatus& request);

// A line for each tenant under a line of names; empty where there are none.
std::string TenantsTable(const v1::GetStatusResponse& status, int most, size_t width);

}  // namespace sluice
