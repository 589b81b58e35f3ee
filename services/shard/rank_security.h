// Mutual authentication of the ranks of a stage on several hosts, by the certificates of their
// processes. A pure function.
#pragma once

#include "kernels/communicator/tcp/tls_stream.h"
#include "services/security/tls_files.h"

namespace sluice {

// TLS with the process's own certificate. A peer's must name the role `shard` under the domain;
// PERMISSION_DENIED tells what it names instead. `files` are complete.
RankTls RankTlsOf(const TlsFiles& files);

}  // namespace sluice
