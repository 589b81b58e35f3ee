// Members of requests that have no effect here: what public clients send along, each by its name. A
// test holds the tables against docs/http_clients.md. Whatever is in none of them, and is not read,
// is refused.
#pragma once

namespace sluice::gateway::openai {

// Of a request. Who is behind it is told by its token; what is kept of prompts is kept by prefixes;
// how long a model stays is not a request's to say.
constexpr const char* kIgnoredParameters[] = {
    "cache_prompt",           "client_metadata",   "keep_alive", "metadata", "prompt_cache_key",
    "prompt_cache_retention", "safety_identifier", "user",       "verbosity"};

// Of a message: what servers add to those that they answer with, and clients send back.
constexpr const char* kIgnoredMessageFields[] = {
    "annotations",       "cache_control",  "id", "metadata", "parsed", "provider_specific_fields",
    "reasoning_details", "thinking_blocks"};

// Of a call of a tool in a message, and of its function.
constexpr const char* kIgnoredCallFields[] = {"extra_content", "index", "parsed_arguments",
                                              "provider_specific_fields"};

// Of a tool that is offered, and of its function.
constexpr const char* kIgnoredToolFields[] = {"cache_control", "defer_loading", "return",
                                              "returns"};

}  // namespace sluice::gateway::openai
