// Initialisation of gRPC and Protocol Buffers, once in a process.
#pragma once

namespace sluice {

// From now on what gRPC says goes to our log (services/process/log.h): its errors, and more where
// GRPC_VERBOSITY asks for it. Programs call it first; PrepareGrpc() does so too. Thread-safe.
void LogWhatGrpcSays();

// Called before a server or channel is created. Thread-safe; only the first call does anything.
void PrepareGrpc();

}  // namespace sluice
