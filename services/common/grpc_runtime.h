// What gRPC and Protocol Buffers need once in a process of Sluice.
#pragma once

namespace sluice {

// From now on what gRPC says goes to our log (services/common/log.h): its errors, and more where
// GRPC_VERBOSITY asks for it. Programs call it first; PrepareGrpc() does so too. Thread-safe.
void LogWhatGrpcSays();

// Called by whoever serves or dials, before. Thread-safe; only the first call does anything.
void PrepareGrpc();

}  // namespace sluice
