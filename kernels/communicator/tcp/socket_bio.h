// How OpenSSL reaches a socket: as its own way does, but without SIGPIPE where the peer is gone.
#pragma once

#include <openssl/types.h>

namespace sluice {

// What the socket said last, which OpenSSL does not tell. Outlives the BIO.
struct SocketBioState {
  int fd = -1;
  bool closed = false;  // by the peer
  int error = 0;        // errno of the last failure
};

BIO* MakeSocketBio(SocketBioState* state);

}  // namespace sluice
