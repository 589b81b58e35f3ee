// The certificate that a server shows, read again when its files change: a Secret that is rotated, a
// certificate that is renewed. Thread-safe.
#pragma once

#include <sys/stat.h>

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice::http {

class TlsCertificate {
 public:
  // Of PEM files; TLS 1.2 and later. NOT_FOUND where one can't be used.
  static absl::StatusOr<std::unique_ptr<TlsCertificate>> Load(std::string certificate,
                                                              std::string key);

  // For the next handshake. Files are looked at once a second at most; while they can't be used
  // together, as in the middle of a change, the last that could be stay.
  std::shared_ptr<boost::asio::ssl::context> Current();

 private:
  // What tells a file from the one that was there before.
  struct Version {
    ino_t inode = 0;
    timespec changed = {};
    bool operator==(const Version& other) const;
  };
  static Version VersionOf(const std::string& path);

  TlsCertificate(std::string certificate, std::string key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}

  const std::string certificate_;
  const std::string key_;
  absl::Mutex mutex_;
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  Version certificate_version_ ABSL_GUARDED_BY(mutex_);
  Version key_version_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<boost::asio::ssl::context> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::http
