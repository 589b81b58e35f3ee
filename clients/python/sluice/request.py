"""Requests from keyword arguments."""

from __future__ import annotations

import json
import sys
from typing import Any, Iterable, List, Mapping, Optional, Sequence, TypedDict, Union

from sluice.v1 import embed_pb2 as embed_pb
from sluice.v1 import generation_pb2 as pb

# Text; token ids as they are; or the turns of a conversation, such as [{"role": "user", "content": "Hello"}].
Prompt = Union[str, Sequence[int], Sequence[Mapping[str, str]]]


class Options(TypedDict, total=False):
    """What may be said of a generation, by the names of sampling.proto and generation.proto, which explain them.

    What is left out comes from the model's generation_config.json, else it changes nothing.
    """

    max_tokens: int
    n: int
    best_of: int
    logprobs: int
    prompt_logprobs: int
    priority: int
    adapter: str
    request_id: str
    cache_salt: str
    decline_prefix_cache: bool
    processed_logprobs: bool
    bad_words: Sequence[str]
    dry_breakers: Sequence[str]
    # Searching by beams instead of drawing.
    beam_width: int
    num_return: int
    length_penalty: float
    early_stopping: Union[bool, str]  # False, True or "never"
    stochastic: bool
    # Stopping.
    stop: Union[str, Sequence[str]]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    include_stop_string: bool
    # Conversations.
    tools_json: str
    template_name: str
    variables_json: str
    add_generation_prompt: bool
    # Sampling.
    temperature: float
    top_k: int
    top_p: float
    seed: int
    min_p: float
    typical_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    dynatemp_range: float
    dynatemp_exponent: float
    allowed_token_ids: Sequence[int]
    banned_token_ids: Sequence[int]
    logit_bias: Mapping[int, float]
    bad_words_ids: Iterable[Sequence[int]]
    min_tokens: int
    no_repeat_ngram_size: int
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_range: int
    dry_breaker_token_ids: Sequence[int]
    # What the text keeps, at most one of them: constraint.proto. A schema is a text, a mapping, or a class that has
    # model_json_schema(), as those of Pydantic.
    json_schema: Union[str, Mapping[str, Any], Any]
    any_json: bool
    regex: str
    grammar: str
    choices: Sequence[str]


if sys.version_info >= (3, 11):
    from typing import Unpack

    Keywords = Unpack[Options]
else:
    Keywords = Any


_EARLY_STOPPING = {False: pb.EARLY_STOPPING_HEURISTIC, True: pb.EARLY_STOPPING_AT_ONCE,
                   "never": pb.EARLY_STOPPING_NEVER}


def make_request(prompt: Prompt, options: Mapping[str, Any]) -> pb.GenerateRequest:
    """A request of options as Options names them. TypeError for a name that is none of them."""
    request = pb.GenerateRequest()
    _set_prompt(request, prompt)
    for name, value in options.items():
        if value is not None:
            _set_option(request, name, value)
    return request


def _set_prompt(request: pb.GenerateRequest, prompt: Prompt) -> None:
    if isinstance(prompt, str):
        request.text = prompt
    elif len(prompt) > 0 and isinstance(prompt[0], Mapping):
        for turn in prompt:
            request.chat.messages.add(**turn)
    else:
        request.token_ids.SetInParent()
        request.token_ids.token_ids.extend(prompt)


def _set_option(request: pb.GenerateRequest, name: str, value: Any) -> None:
    if name == "stop":
        request.stop.stop_strings.extend([value] if isinstance(value, str) else value)
    elif name == "json_schema":
        request.constraint.json_schema = _schema_text(value)
    elif name == "processed_logprobs":
        request.logprobs_mode = pb.LOGPROBS_MODE_PROCESSED if value else pb.LOGPROBS_MODE_RAW
    elif name == "early_stopping":
        request.beams.early_stopping = _EARLY_STOPPING[value]
    elif name == "bad_words_ids":
        for word in value:
            request.sampling.bad_words_ids.add(token_ids=word)
    elif name in pb.Chat.DESCRIPTOR.fields_by_name and request.WhichOneof("prompt") != "chat":
        raise TypeError(f"{name} is for conversations; the prompt is none")
    elif name in Options.__annotations__:
        for message in (request, request.sampling, request.stop, request.chat, request.constraint, request.beams):
            if name in message.DESCRIPTOR.fields_by_name:
                return _set_field(message, name, value)
    else:
        raise TypeError(f"unknown option {name!r}; there are: {', '.join(sorted(Options.__annotations__))}")


def _schema_text(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    # Members stay in their order, which is that of the text.
    return json.dumps(schema)


def _set_field(message: Any, name: str, value: Any) -> None:
    if name == "logit_bias":
        message.logit_bias.update(value)
    elif message.DESCRIPTOR.fields_by_name[name].label == 3:  # repeated
        getattr(message, name).extend(value)
    else:
        setattr(message, name, value)


def make_score_request(prompt: Union[str, Sequence[int]], top: int, priority: int,
                       adapter: str = "") -> pb.ScoreRequest:
    request = pb.ScoreRequest(top=top, priority=priority, adapter=adapter)
    if isinstance(prompt, str):
        request.text = prompt
    else:
        request.token_ids.token_ids.extend(prompt)
    return request


def make_scores_request(prompts: Sequence[Union[str, Sequence[int]]], top: int, priority: int,
                        adapter: str = "") -> pb.ScoreRequest:
    request = pb.ScoreRequest(top=top, priority=priority, adapter=adapter)
    for prompt in prompts:
        if isinstance(prompt, str):
            request.inputs.add(text=prompt)
        else:
            request.inputs.add().token_ids.token_ids.extend(prompt)
    return request


def make_embed_request(texts: Sequence[Union[str, Sequence[int]]], prompt_name: Optional[str], dimensions: Optional[int],
                       truncate_tokens: Optional[int], priority: int) -> embed_pb.EmbedRequest:
    request = embed_pb.EmbedRequest(prompt_name=prompt_name, dimensions=dimensions, truncate_tokens=truncate_tokens,
                                    priority=priority)
    for text in texts:
        if isinstance(text, str):
            request.inputs.add(text=text)
        else:
            request.inputs.add().token_ids.token_ids.extend(text)
    return request


def tokens_by_sequence(request: pb.GenerateRequest) -> List[pb.ResumedSequence]:
    return [pb.ResumedSequence() for _ in range(max(1, request.n))]


def seed_of(request: pb.GenerateRequest) -> Optional[int]:
    return request.sampling.seed if request.sampling.HasField("seed") else None
