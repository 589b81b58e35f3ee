#include "kernels/communicator/tcp/socket_bio.h"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <cerrno>

namespace sluice {
namespace {

SocketBioState& StateOf(BIO* bio) { return *static_cast<SocketBioState*>(BIO_get_data(bio)); }

// True where the call is to be made again later.
bool MustRetry(SocketBioState& state) {
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return true;
  state.error = errno;
  return false;
}

int Write(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  SocketBioState& state = StateOf(bio);
  const ssize_t sent = send(state.fd, data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && MustRetry(state)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int Read(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  SocketBioState& state = StateOf(bio);
  const ssize_t received = recv(state.fd, data, static_cast<std::size_t>(size), 0);
  if (received == 0) state.closed = true;
  if (received < 0 && MustRetry(state)) BIO_set_retry_read(bio);
  return static_cast<int>(received);
}

long Control(BIO* bio, int command, long, void*) {
  switch (command) {
    case BIO_CTRL_FLUSH:
      return 1;
    case BIO_CTRL_EOF:
      return StateOf(bio).closed ? 1 : 0;
    default:
      return 0;
  }
}

// Lives as long as the process.
const BIO_METHOD* Method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rank socket");
    BIO_meth_set_write(made, Write);
    BIO_meth_set_read(made, Read);
    BIO_meth_set_ctrl(made, Control);
    return made;
  }();
  return method;
}

}  // namespace

BIO* MakeSocketBio(SocketBioState* state) {
  BIO* bio = BIO_new(Method());
  BIO_set_data(bio, state);
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace sluice
