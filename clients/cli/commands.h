// The commands. Each takes the arguments after its name and returns the program's exit status.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "clients/cli/environment.h"

namespace sluice {

// Writes from a prompt: in this process, or at an endpoint.
int RunCommand(absl::Span<const std::string> arguments, Environment& environment);
int GenerateCommand(absl::Span<const std::string> arguments, Environment& environment);
// A conversation, a line at a time.
int ChatCommand(absl::Span<const std::string> arguments, Environment& environment);
// What a model's template makes of a conversation.
int ChatTemplateCommand(absl::Span<const std::string> arguments, Environment& environment);
// What an embedding model, or a classifier, makes of texts.
int EmbedCommand(absl::Span<const std::string> arguments, Environment& environment);
// How probable a text is.
int BatchCommand(absl::Span<const std::string> arguments, Environment& environment);
int ScoreCommand(absl::Span<const std::string> arguments, Environment& environment);
// What a model looks at.
int AttentionCommand(absl::Span<const std::string> arguments, Environment& environment);
// Which of two answers a model prefers, relative to another model.
int PreferCommand(absl::Span<const std::string> arguments, Environment& environment);
// Texts to token ids and back.
int TokenizeCommand(absl::Span<const std::string> arguments, Environment& environment);
int DetokenizeCommand(absl::Span<const std::string> arguments, Environment& environment);
// Load, and what it measured.
int BenchCommand(absl::Span<const std::string> arguments, Environment& environment);
// A model's folder with quantized weights, made from another.
int QuantizeCommand(absl::Span<const std::string> arguments, Environment& environment);
// A model from a hub.
int PullCommand(absl::Span<const std::string> arguments, Environment& environment);
// What memory a model takes.
int PlanCommand(absl::Span<const std::string> arguments, Environment& environment);
// What a fleet of replicas would do with a load. kFailed where a search finds none that keeps it.
int SimulateCommand(absl::Span<const std::string> arguments, Environment& environment);
// How a pipeline is. kSuccess only while it serves.
int StatusCommand(absl::Span<const std::string> arguments, Environment& environment);
// A pipeline at work, until interrupted.
int TopCommand(absl::Span<const std::string> arguments, Environment& environment);
// API keys of a server's clients.
int TokenCommand(absl::Span<const std::string> arguments, Environment& environment);
// Whether one process serves, for probes.
int HealthCommand(absl::Span<const std::string> arguments, Environment& environment);
// One process per service on this host, until interrupted.
int UpCommand(absl::Span<const std::string> arguments, Environment& environment);

}  // namespace sluice
