// docs/http_api.md: the HTTP API for people, made of path_table.h.
#pragma once

#include <string>

namespace sluice::gateway {

std::string HttpApiReference();

}  // namespace sluice::gateway
