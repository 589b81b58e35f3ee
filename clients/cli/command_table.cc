#include "clients/cli/command_table.h"

#include <array>

#include "clients/cli/commands.h"

namespace sluice {

absl::Span<const Command> AllCommands() {
  static constexpr std::array<Command, 21> kCommands = {{
      {"run", "write from a prompt, the whole pipeline in this process", RunCommand},
      {"up", "serve on this host, one process per service and shard", UpCommand},
      {"generate", "write from a prompt at a running pipeline", GenerateCommand},
      {"chat", "talk with a model, a line at a time", ChatCommand},
      {"chat-template", "the text that a template makes of a conversation", ChatTemplateCommand},
      {"score", "the log-probability of every token of a text", ScoreCommand},
      {"attention", "what a model looks at while it reads a text", AttentionCommand},
      {"embed", "what a model makes of texts as numbers", EmbedCommand},
      {"batch", "answer the requests of a file, each once", BatchCommand},
      {"prefer", "which of two answers a model prefers, relative to another", PreferCommand},
      {"tokenize", "texts to token ids", TokenizeCommand},
      {"detokenize", "token ids to texts", DetokenizeCommand},
      {"pull", "get a model from a hub", PullCommand},
      {"quantize", "make a model's weights smaller, once and for all", QuantizeCommand},
      {"plan", "what memory a model takes, before it is started", PlanCommand},
      {"bench", "put load on a pipeline and print what it takes", BenchCommand},
      {"simulate", "what a fleet would do with a load, before there is one", SimulateCommand},
      {"status", "what runs where, and how it is", StatusCommand},
      {"top", "a pipeline at work, on one screen", TopCommand},
      {"token", "make API keys for the tenants of a server", TokenCommand},
      {"health", "whether a process serves, for probes", HealthCommand},
  }};
  return kCommands;
}

}  // namespace sluice
