#include "services/rpc/grpc_runtime.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/process/log.h"
#include "services/rpc/reflection_service.h"

namespace sluice {
namespace {

// gRPC's callback threads end with the last server or channel that uses them. Where one of their
// own callbacks lets go of that one, a thread waits for itself, then works on with freed memory.
// This server, which nobody reaches, keeps them for as long as the process lives.
class CallbackThreads {
 public:
  CallbackThreads() {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }

 private:
  grpc::CallbackGenericService service_;
  std::unique_ptr<grpc::Server> server_;
};

// A connection that is tried again and again fails for the same reasons each time: each is logged
// once a minute. Numbers (ports, times) do not make a reason another.
class Repeats {
 public:
  // Whether a line like `message` was logged within the last minute.
  bool Has(absl::string_view message) {
    constexpr size_t kMostReasons = 64;
    const absl::Time now = absl::Now();
    const std::string reason = ReasonOf(message);
    const absl::MutexLock lock(&mutex_);
    const auto logged = logged_.find(reason);
    if (logged != logged_.end() && now - logged->second < absl::Minutes(1)) return true;
    if (logged == logged_.end() && logged_.size() >= kMostReasons) logged_.clear();
    logged_.insert_or_assign(reason, now);
    return false;
  }

 private:
  static std::string ReasonOf(absl::string_view message) {
    std::string reason;
    for (const char letter : message) {
      const bool is_digit = absl::ascii_isdigit(letter);
      if (!is_digit || reason.empty() || reason.back() != '0') reason += is_digit ? '0' : letter;
    }
    return reason;
  }

  absl::Mutex mutex_;
  std::map<std::string, absl::Time> logged_ ABSL_GUARDED_BY(mutex_);
};

// What is no news, or is said by others.
bool IsKnown(absl::string_view message) {
  // Of every connection between processes, whose certificates name roles instead of hosts.
  return absl::StartsWith(message, "No match found for server name") ||
         // What a client has sent, which it is told; any client could fill the log.
         absl::StartsWith(message, "Error parsing metadata") ||
         // Of an address that can't be listened on, which whoever wanted to says in a sentence.
         absl::StrContains(message, "No address added out of total");
}

// What gRPC has to say, in lines like all others. Its errors are about connections, which are tried
// again, or told to whoever made the call: warnings here.
void LogForGrpc(gpr_log_func_args* line) {
  if (IsKnown(line->message)) return;
  static Repeats& repeats = *new Repeats;
  if (repeats.Has(line->message)) return;
  const bool is_error = line->severity == GPR_LOG_SEVERITY_ERROR;
  Log(is_error ? LogLevel::kWarning : LogLevel::kInfo, "grpc", "message",
      {{"text", line->message}});
}

struct Runtime {
  Runtime() {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();  // v1alpha
    AddReflectionToServers();                                    // v1
  }

  CallbackThreads callback_threads;
  // Protocol Buffers would print a line for every text that is not UTF-8: any client could fill the
  // log. The client is told.
  google::protobuf::LogSilencer silencer;
};

}  // namespace

void LogWhatGrpcSays() {
  gpr_set_log_function(&LogForGrpc);
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

void PrepareGrpc() {
  LogWhatGrpcSays();  // before it has anything to say
  // Never destroyed. Nobody reads it, which would allow a compiler to drop the pointer.
  [[gnu::used]] static const Runtime* const runtime = new Runtime;
}

}  // namespace sluice
