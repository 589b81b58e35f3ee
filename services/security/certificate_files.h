// Validates the PEM files of a process before gRPC reads them, with better error messages.
// Thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/security/tls_files.h"

namespace sluice {

// Reads every file that is named. NOT_FOUND where one can't be read, INVALID_ARGUMENT where it
// holds no PEM of its kind or the key is not the certificate's, FAILED_PRECONDITION where the
// certificate has expired by `now` or begins to hold later.
absl::Status CheckCertificateFiles(const TlsFiles& tls, absl::Time now);

// FAILED_PRECONDITION where the certificate was not issued by an authority of the file of
// authorities, directly or by those that come with it in its own file: no peer that trusts these
// would accept it. Errors of reading them. REQUIRES: both are named.
absl::Status CheckIssuer(const TlsFiles& tls);

// The whole of a file. NOT_FOUND where it is not there or is empty; errors of ReadRegularFile.
absl::Status ReadSecurityFile(const std::string& path, std::string* into);

}  // namespace sluice
