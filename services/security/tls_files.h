// Paths of a process's certificates. A plain value.
#pragma once

#include <string>

namespace sluice {

inline constexpr char kDefaultTlsDomain[] = "sluice.internal";

// Paths of PEM files, and the domain of the names that say what a peer is (role.h).
struct TlsFiles {
  std::string certificate;
  std::string key;
  std::string authority;  // whose certificates are accepted from the other side
  std::string domain = kDefaultTlsDomain;

  bool empty() const { return certificate.empty() && key.empty() && authority.empty(); }
  bool complete() const { return !certificate.empty() && !key.empty() && !authority.empty(); }
};

}  // namespace sluice
