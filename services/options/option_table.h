// Every option of Sluice's processes and of the commands that start them, once. Flags, --help, manual
// pages, what `up` and `run` hand on to the processes that they start, docs/options.md and the types of the
// chart's values follow from the table below. Several entries of one name are of different programs.
#pragma once

#include <array>

#include "services/options/option.h"

namespace sluice {

inline constexpr char kWeightWords[] = "auto, f32, bf16, int8, int4, fp8, int8-g64, fp8-w8a8";

inline constexpr std::array kOptions = {
    // --- Where clients come ---
    TextOption("config", kUp, "FILE",
               "Serves several models behind one gateway, as this YAML or JSON file says: options "
               "by name, and `models`, a list of the options of each (docs/serving.md). Options "
               "given beside it are of all of them.")
        .BeginsSection("Server")
        .SetByPlanner(),
    IntegerOption("port", kUp, "PORT", "Where clients reach it; 0: a free port.")
        .Default("8700")
        .From(0, 65535),
    TextOption("host", kUp, "HOST",
               "An address of this host; beyond loopback it needs TLS, and tokens or certificates "
               "of the clients.")
        .Default("127.0.0.1"),
    TextOption("listen", kReplica, "ADDRESS",
               "Where to serve: unix:/PATH, or HOST:PORT with certificates; port 0: a free one.")
        .Default("127.0.0.1:0")
        .SetByPlanner(),
    TextOption("listen", kGateway, "HOST:PORT", "Where to serve HTTP; port 0: a free one.")
        .Default("127.0.0.1:8080"),
    TextOption("owners_socket", kOrchestrator, "ADDRESS",
               "unix:/PATH where clients of this user, such as a gateway, come without TLS; with "
               "tokens all the same."),
    TextOption("tls_cert", kReplica, "FILE",
               "Certificate of this process (PEM); read again when it changes."),
    TextOption("tls_key", kReplica, "FILE", "Its key (PEM)."),
    TextOption("tls_ca", kReplica, "FILE", "Authority of peers' certificates (PEM)."),
    TextOption("tls_domain", kReplica, "DOMAIN",
               "Domain of the names by which certificates say what a process is, such as "
               "shard.sluice.internal.")
        .Default("sluice.internal"),
    TextOption("tls_cert", kGateway | kUp, "FILE",
               "Certificate that clients see (PEM), with which the gateway serves HTTPS; read "
               "again when it changes."),
    TextOption("tls_key", kGateway | kUp, "FILE", "Its key (PEM)."),
    TextOption("tls_ca", kUp, "FILE", "Authority of clients' certificates (PEM)."),
    TextOption("public_tls_cert", kOrchestrator, "FILE",
               "Certificate that clients see (PEM). Default: --tls_cert."),
    TextOption("public_tls_key", kOrchestrator, "FILE", "Its key (PEM)."),
    TextOption("public_tls_ca", kOrchestrator, "FILE",
               "Authority of clients' certificates (PEM). Default: --tls_ca, and the name "
               "client.DOMAIN in them."),
    TextOption("tokens", kOrchestrator | kUp, "FILE",
               "Bearer tokens that clients may show: on each line the SHA-256 of one and its "
               "tenant. Read again when it changes."),
    TextOption("api_key", kUp, "KEY",
               "The one key that clients have to show, in place of --tokens. Default: the "
               "environment's SLUICE_API_KEY, which other users of this host cannot read.")
        .SetByPlanner(),
    TextOption("tenants", kOrchestrator | kUp | kSimulate, "FILE",
               "JSON file of what tenants are granted: weights, priorities, limits. Read again on "
               "SIGHUP to the orchestrator. Default: all the same, and priority 0 alone."),
    SwitchOption("insecure_public", kOrchestrator | kUp,
                 "Serve clients on other hosts in plaintext, or without asking who they are."),
    IntegerOption(
        "http_port", kUp, "PORT",
        "Starts the gateway as well: the APIs of OpenAI and others over HTTP, and a page; 0: a "
        "free port; HTTPS where there is a certificate. Prints \"http HOST:PORT\" after \"ready\".")
        .From(0, 65535),
    TextOption(
        "http_hosts", kUp, "NAMES",
        "Names, by comma, that clients may call the gateway by besides addresses and localhost, "
        "such as that of a proxy before it; *: any. Default: none while --host is loopback."),
    SwitchOption("demo", kUp,
                 "The gateway's page gets buttons that kill processes, for whoever opens it by the "
                 "address that is printed."),
    TextOption(
        "orchestrator", kGateway, "ADDRESS",
        "Address of the orchestrator, or of several by comma: HOST:PORT, unix:/PATH; "
        "dns:///HOST:PORT stands for all addresses of a name, file:/PATH for those that a file "
        "lists, one a line, both looked at again as they change. Each call goes to the one that "
        "is known to hold the longest beginning of its prompt, weighed with load."),
    TextOption("orchestrator_token_file", kGateway, "FILE",
               "File with a bearer token of the gateway's own, which is for a tenant with "
               "sees_all_requests: it asks orchestrators what their caches hold."),
    TextOption(
        "models", kGateway, "NAME=ADDRESSES",
        "Several models, by semicolon, in place of --orchestrator: the name that requests ask "
        "for and its orchestrators, by comma. The first serves requests that name none."),
    TextOption("model_host", kGateway, "ADDRESS",
               "unix:/PATH of `sluice up --config`, which says what models there are, and wakes "
               "those that sleep."),
    TextOption("orchestrator_tls_ca", kGateway, "FILE",
               "Authority of the orchestrators' public certificates (PEM)."),
    TextOption("orchestrator_tls_cert", kGateway, "FILE",
               "Certificate of this client (PEM), where orchestrators ask for one."),
    TextOption("orchestrator_tls_key", kGateway, "FILE", "Its key (PEM)."),
    SwitchOption("orchestrator_insecure", kGateway,
                 "Speak plaintext to orchestrators on other hosts."),
    SwitchOption("share_certificate", kGateway,
                 "Serve all callers as the holder of --orchestrator_tls_cert, whoever they are."),
    SwitchOption(
        "plaintext", kGateway,
        "Speak HTTP without TLS beyond loopback too, for use behind a proxy that ends TLS."),
    TextOption("cors_origin", kGateway | kUp, "ORIGIN",
               "Web origin whose pages may call, such as https://example.org, or * for any. "
               "Default: none."),
    TextsOption("allowed_hosts", kGateway, "NAMES",
                "Names, by comma, that clients may call this server by besides IP addresses and "
                "localhost, or * for any; a request whose header Host has another is refused. "
                "Default: none where --listen is a loopback address, else any."),
    TextOption("tool_parser", kGateway | kUp, "FORMAT",
               "How the model writes calls of tools; auto: as its chat template tells.")
        .Default("auto")
        .OneOf("auto, none, hermes, llama3_json, pythonic, mistral, phi, gemma, gemma4, qwen3_xml, "
               "glm, "
               "deepseek, deepseek_v32, kimi, granite, lfm, cohere, nemotron, olmo3, "
               "harmony"),
    IntegerOption("threads", kGateway, "N", "Threads that serve connections.")
        .Default("1")
        .From(1, 64),
    IntegerOption("memory_mib", kGateway, "M",
                  "MiB that this process may take, from which it derives how many bytes of "
                  "requests and how many connections it holds; 0: what its control group may, at "
                  "most a quarter of the host's.")
        .Default("0")
        .From(0, 1 << 24),
    IntegerOption("max_connections", kGateway, "N", "Connections at a time; more are answered 503.")
        .Default("4096")
        .From(1, 1'000'000),
    IntegerOption("max_body_mib", kGateway | kUp, "M",
                  "MiB that a request's body may have, at most 56: a message of a session has 64; "
                  "more are answered 413.")
        .Default("16")
        .From(1, 56),
    TextOption(
        "batch_dir", kGateway | kUp, "DIR",
        "Folder for the files and batches of /v1/files and /v1/batches, made where its parent "
        "is there; one gateway uses it at a time. Default: none, and neither are they."),
    TextOption(
        "batch_token_file", kGateway | kUp, "FILE",
        "API key with which lines of batches run, where the orchestrator asks for keys; read "
        "again for each line. Its tenant is whom they run for."),
    IntegerOption("batch_concurrency", kGateway | kUp, "N", "Lines of batches that run at a time.")
        .Default("32")
        .From(1, 4096),
    IntegerOption("batch_quota_mib", kGateway | kUp, "M",
                  "MiB that the files of one API key may take in --batch_dir.")
        .Default("1024")
        .From(1, 1 << 24),
    DurationOption("header_timeout", kGateway, "For a request's headers to come.")
        .Default("10s")
        .Above(0, 86400),
    DurationOption("body_timeout", kGateway, "For a request's body to come.")
        .Default("1m")
        .Above(0, 86400),
    DurationOption("idle_timeout", kGateway, "Between requests of a connection.")
        .Default("1m15s")
        .Above(0, 86400),
    DurationOption("write_timeout", kGateway, "For a client to take 64 KiB of its response.")
        .Default("1m")
        .Above(0, 86400),
    TextOption("demo_token_file", kDemoGateway, "FILE",
               "The page has buttons that kill processes which this one's parent has started, for "
               "whoever knows the token in this file."),
    // --- What is served, and what computes it ---
    TextOption(
        "model", kReplica | kPipeline | kPlan, "DIR",
        "Hugging Face folder: config.json, model.safetensors, tokenizer.json; or a GGUF file, "
        "the first of a split set. `sluice` has a small storyteller model embedded, its "
        "default.")
        .BeginsSection("Model")
        .SetByPlanner(),
    TextOption("served_model_name", kOrchestrator | kPipeline, "NAME",
               "What the model is called in /v1/models, requests and responses. Default: as its "
               "folder."),
    TextOption("adapters", kOrchestrator | kPipeline, "NAME=DIR",
               "LoRA adapters that requests may name, several by comma: PEFT folders, which every "
               "process of the replica reads."),
    TextOption(
        "adapter_folder", kOrchestrator | kPipeline, "DIR",
        "Folder whose subfolders are LoRA adapters, each known by its name for as long as it "
        "is there; it is read each second."),
    IntegerOption("max_loaded_adapters", kOrchestrator | kPipeline, "N",
                  "Adapters in the shards' memory at a time; requests with others wait.")
        .Default("32")
        .From(1, 1024),
    IntegerOption("max_model_len", kOrchestrator | kPipeline | kSimulate, "N",
                  "Longest sequence, prompt and generated tokens together. Default: the model's "
                  "context, which it may not exceed: --rope_scaling extends that.")
        .From(2),
    TextOption("chat_template", kTokenizer | kPipeline, "FILE",
               "Jinja chat template, in place of those in the model's folder."),
    IntegerOption("tp", kPipeline | kPlan | kSimulate, "N",
                  "Ranks that share every layer (tensor parallel).")
        .Default("1")
        .From(1, 1024),
    IntegerOption("pp", kPipeline | kPlan | kSimulate, "P",
                  "Stages that share the layers (pipeline parallel).")
        .Default("1")
        .From(1, 1024),
    IntegerOption("num_stages", kShard, "P", "Pipeline stages of the replica.")
        .Default("1")
        .AnyInteger(),
    IntegerOption("stage", kShard, "I", "Which of them this shard belongs to, from 0.")
        .Default("0")
        .AnyInteger(),
    IntegerOption("num_ranks", kShard, "N", "Tensor-parallel ranks of a stage: 1, 2, 4 or 8.")
        .Default("1")
        .AnyInteger(),
    IntegerOption("rank", kShard, "I", "Which of them this shard is, from 0.")
        .Default("0")
        .AnyInteger(),
    TextOption("rank_of", kShard, "NAME",
               "A name that ends with the rank, as those of a StatefulSet's pods do (stage-0-1); "
               "instead of --rank."),
    TextOption(
        "weights", kCompute | kOrchestrator | kPipeline | kPlan, "TYPE",
        "Keep matrices as f32, bf16, int8, int4, fp8 or int8-g64 (quantized while they are "
        "read, unless `sluice quantize` has done it); fp8-w8a8: as fp8, and round what layers "
        "multiply with them to FP8, too; auto: as the file stores them. The embedding keeps "
        "its table as bf16 for the last five; the sampler its head as int6 for int4, as fp8 "
        "for fp8-w8a8. The same for all processes: GetModel says what the orchestrator has.")
        .Default("auto")
        .OneOf(kWeightWords)
        .InChart("model.weights"),
    TextOption("kv_dtype", kShard | kPipeline | kPlan | kSimulate, "TYPE",
               "Keep keys and values as f32, bf16, which holds twice the positions, or fp8, nearly "
               "four times. Default f32; on GPUs bf16.")
        .OneOf("f32, bf16, fp8")
        .InChart("model.kvDtype"),
    TextOption("rope_scaling", kReplica | kPipeline | kPlan | kSimulate, "SCALING",
               "How rotary positions are stretched, instead of what config.json says: a type and "
               "its fields, such as yarn,factor=4. The same for all processes.")
        .InChart("model.ropeScaling"),
    TextOption("draft_model", kPipeline | kPlan, "DIR",
               "A smaller model with the same tokens that guesses what comes; several guesses are "
               "computed at once, where that wins. No token depends on it. Default: none."),
    TextOption("draft_weights", kPipeline | kPlan, "TYPE", "What --weights is, of the draft model.")
        .Default("auto")
        .OneOf(kWeightWords)
        .InChart("model.draft.weights"),
    TextOption("device", kCompute | kPipeline | kPlan, "DEVICE",
               "What computes: cpu, or, in a build with CUDA, cuda:i, GPU i of the machine; cuda "
               "alone is the first, and to `sluice` all of them in turns.")
        .Default("cpu")
        .SetByPlanner(),
    IntegerOption("threads", kCompute | kPipeline, "N",
                  "Threads for arithmetic; `sluice` shares them out among stages and ranks, each "
                  "of which has at least one. 0: one per core, or per CPU of --cpus.")
        .Default("0")
        .From(0, 1024)
        .SetByPlanner(),
    TextOption("cpus", kReplica | kPipeline, "LIST",
               "CPUs to keep to, such as 0-3,8, each thread for arithmetic to one of them; "
               "`sluice` shares them out among stages and ranks. Default: all.")
        .SetByPlanner(),
    TextOption("instructions", kShard | kSampler | kPipeline, "SET",
               "What computes matrix products: portable, avx512_bf16 or amx_bf16; auto: the "
               "fastest that this processor has. The same for all shards.")
        .Default("auto"),
    TextOption("gpu_instructions", kCompute | kPipeline, "SET",
               "The fastest that a GPU may multiply with: mma, wgmma, wgmma_pipeline or wgmma_fp8; "
               "auto: the fastest that it has. The same for all shards.")
        .Default("auto"),
    IntegerOption("kv_cache_mib", kPipeline | kSimulate, "M",
                  "Memory for keys and values, all shards together, in MiB. Default 512; on GPUs "
                  "what they have left.")
        .From(1, 1 << 30),
    IntegerOption("kv_cache_mib", kShard, "M",
                  "Memory for keys and values, in MiB; 0, on a GPU alone: what it has left of "
                  "--device_share.")
        .Default("256")
        .From(0),
    IntegerOption("draft_kv_cache_mib", kPipeline, "M",
                  "Memory for the keys and values of --draft_model, in MiB. Default: as many "
                  "positions as --kv_cache_mib has room for; on GPUs 512.")
        .From(1, 1 << 30)
        .InChart("model.draft.kvCacheMib"),
    IntegerOption(
        "state_slots", kShard | kPipeline, "N",
        "Slots for the states of recurrent layers within --kv_cache_mib. A running sequence "
        "needs 2; the others keep states for prompts that begin alike. 0: as many as half "
        "of --kv_cache_mib holds.")
        .Default("0")
        .From(0),
    NumberOption("device_share", kShard, "P",
                 "Part of a GPU's memory that weights, keys and values may take together with "
                 "--kv_cache_mib=0; less where several shards share the GPU.")
        .Default("0.8"),
    IntegerOption("block_size", kShard | kSimulate, "N",
                  "Positions in a block of the KV cache; 64 of models with recurrent layers.")
        .Default("16")
        .AnyInteger(),
    // --- The processes that a replica is made of ---
    TextOption("tokenizer", kOrchestrator, "ADDRESS", "Address of the tokenizer.")
        .BeginsSection("Processes"),
    TextOption("embedding", kOrchestrator, "ADDRESS", "Address of the embedding."),
    TextOption("shards", kOrchestrator, "ADDRESSES",
               "Addresses of the shards: ranks by comma, stages by semicolon, such as "
               "\"a:1,b:1;c:1,d:1\"."),
    TextOption("sampler", kOrchestrator, "ADDRESS", "Address of the sampler."),
    TextOption("draft_model", kOrchestrator, "DIR",
               "Folder of a smaller model with the same tokens that drafts as well, of which the "
               "configuration is read; its processes are those of the three flags after it."),
    TextOption("draft_embedding", kOrchestrator, "ADDRESS",
               "Address of the draft model's embedding."),
    TextOption("draft_shard", kOrchestrator, "ADDRESS",
               "Address of its shard, which holds all its layers."),
    TextOption("draft_sampler", kOrchestrator, "ADDRESS", "Address of its sampler."),
    TextOption("rank_transport", kOrchestrator, "TRANSPORT",
               "How the ranks of a stage talk: shm (one host) or tcp (several hosts).")
        .Default("shm")
        .OneOf("shm, tcp"),
    TextOption("communicator_address", kShard, "HOST",
               "Where this rank listens for ranks on other hosts (--rank_transport=tcp of the "
               "orchestrator).")
        .Default("127.0.0.1"),
    TextOption("communicator_interface", kShard, "NAME",
               "Network interface, such as eth0, whose address is used instead."),
    SwitchOption(
        "trusted_network", kShard,
        "Exchange the ranks' bytes in plaintext although they leave this host, for a network of "
        "the ranks' own; the same for all ranks. Otherwise they go over TLS with --tls_cert."),
    // --- How steps are made ---
    IntegerOption("max_step_tokens", kShard | kOrchestrator | kUp | kSimulate, "N",
                  "Positions computed in one step, over all sequences; shards allocate for so "
                  "many, at least as many as the orchestrator has.")
        .Default("512")
        .From(1)
        .InChart("limits.stepTokens")
        .BeginsSection("Steps and queues"),
    IntegerOption("max_step_sequences", kOrchestrator | kUp | kSimulate, "N",
                  "Sequences in one step.")
        .Default("64")
        .From(1)
        .InChart("limits.stepSequences"),
    IntegerOption("max_queued_sequences", kOrchestrator | kUp | kSimulate, "N",
                  "Sequences that may wait before new ones are refused with RESOURCE_EXHAUSTED.")
        .Default("1024")
        .From(1)
        .InChart("limits.queuedSequences"),
    DurationOption("max_request_work", kOrchestrator | kUp,
                   "Processor time that a request may take outside of steps over its life (chat "
                   "template, tokenizing, compiling its constraint, masks) before it ends with "
                   "RESOURCE_EXHAUSTED.")
        .Default("30s")
        .Above(0),
    IntegerOption("inspect_threads", kOrchestrator | kUp, "N",
                  "Threads of the process that looks into the model for an Inspect call, of the "
                  "lowest priority beside serving; 0: such calls are refused.")
        .Default("1")
        .From(0, 1024),
    TextOption("draft", kOrchestrator | kPipeline, "MODE",
               "Tokens computed before the model has chosen: ngram, what followed the same tokens "
               "before, where that wins; or none. No token depends on it.")
        .Default("ngram")
        .OneOf("ngram, none"),
    TextOption(
        "draft_policy", kOrchestrator | kPipeline, "POLICY",
        "Which drafts are computed: measured, those that save time, by what steps take; or always, "
        "the likeliest, and --draft_model is asked before every token: to see what they bring.")
        .Default("measured")
        .OneOf("measured, always"),
    DurationOption(
        "hang_timeout", kReplica | kPipeline,
        "Work that takes longer, and ten times as long as its like has taken, hangs: health says "
        "NOT_SERVING, and the process ends itself where that does not come back; `sluice up` "
        "starts another. The orchestrator holds steps against it too, and wires the replica anew.")
        .Default("2s")
        .Above(0),
    DurationOption("step_timeout", kShard,
                   "How long the ranks may wait for each other within a step; inf: for as long as "
                   "their orchestrator waits for it, by what steps have taken.")
        .Default("inf"),
    // --- A process from its start to its end ---
    TextsOption("health_listen", kReplica | kUp, "ADDRESSES",
                "Answer grpc.health.v1, and nothing else, in plaintext on these addresses too, by "
                "comma: for probes that have no certificate.")
        .BeginsSection("Process")
        .SetByPlanner(),
    TextOption("health_listen", kGateway, "ADDRESS",
               "Further address, such as unix:/path, that answers grpc.health.v1 in plaintext and "
               "nothing else, once HTTP is served."),
    DurationOption("startup_timeout", kReplica,
                   "A process that has not begun to listen by then, such as one whose disk does "
                   "not answer, ends itself and says so; 0: never.")
        .Default("0"),
    DurationOption(
        "refusal_timeout", kReplica,
        "A process that nobody has used yet and that its orchestrator has refused for so long, "
        "such as one that was started with another model, ends itself and says why; 0: never.")
        .Default("30s"),
    DurationOption("hold_time", kOrchestrator,
                   "How long requests wait while processes of the replica are replaced, or still "
                   "belong to the orchestrator that this one succeeds: as long the health service "
                   "\"accepts\" says SERVING, for updates in which each waits for the other; 0: "
                   "while it stands by, requests end at once.")
        .Default("0"),
    DurationOption("drain_delay", kServices | kUp,
                   "How long to go on serving after SIGTERM while health says NOT_SERVING, until "
                   "nobody sends new clients here.")
        .Default("0")
        .SetByPlanner(),
    DurationOption("drain_timeout", kServices | kUp,
                   "How long open streams and answers under way may then take to end; a second "
                   "signal ends them at once.")
        .Default("1s")
        .SetByPlanner(),
    IntegerOption("metrics_port", kUp, "PORT",
                  "Prometheus finds the orchestrator's metrics here and the other processes' on "
                  "the ports after it; 0: nowhere.")
        .Default("0")
        .From(0, 65000),
    IntegerOption("metrics_port", kReplica, "PORT",
                  "Port for Prometheus: GET /metrics, in plaintext, on --metrics_host; 0: none.")
        .Default("0")
        .From(0, 65535),
    TextOption("metrics_host", kReplica | kUp, "HOST",
               "The address of this host that --metrics_port is on; 0.0.0.0: every one of IPv4, "
               "::: every one.")
        .Default("127.0.0.1")
        .SetByPlanner(),
    SwitchOption(
        "vllm_metric_names", kOrchestrator | kUp,
        "There, the figures that routers and dashboards made for vLLM read, under its names too.")
        .InChart("metrics.vllmNames"),
    // --- What is told of it ---
    TextOption("log_level", kServices | kUp, "LEVEL", "Least level of lines in the log, on stderr.")
        .Default("info")
        .OneOf("info, warning, error")
        .BeginsSection("Log and spans"),
    TextOption("log_level", kRun, "LEVEL", "Least level of lines in the log, on stderr.")
        .Default("warning")
        .OneOf("info, warning, error"),
    TextOption("log_format", kServices | kUp, "FORMAT",
               "How lines of the log are written: text, or json, an object on each line.")
        .Default("text")
        .OneOf("text, json"),
    TextOption("termination_log", kServices | kUp, "FILE",
               "Is told in a sentence why the process ends, where it does so by itself: "
               "/dev/termination-log in a container of Kubernetes. Default: none.")
        .SetByPlanner(),
    TextOption("otlp_endpoint", kOrchestrator | kGateway | kUp, "HOST:PORT",
               "An OpenTelemetry collector that is told a span for every request, by OTLP over "
               "gRPC; in plaintext on this host and after http://, else over TLS. Default: "
               "OTEL_EXPORTER_OTLP_ENDPOINT of the environment."),
    TextOption("otlp_tls_ca", kOrchestrator | kGateway | kUp, "FILE",
               "Authority of its certificate (PEM). Default: those that this system trusts."),
    TextOption("otlp_token_file", kOrchestrator | kGateway | kUp, "FILE",
               "A bearer token for it, read again for every call."),
    NumberOption("otlp_sample_ratio", kOrchestrator | kGateway | kUp, "P",
                 "Part of the requests that it is told of, where their callers have not decided: "
                 "traceparent's flag does. Default: what OTEL_TRACES_SAMPLER of the environment "
                 "says, else 1.")
        .From(0, 1),
};

}  // namespace sluice
