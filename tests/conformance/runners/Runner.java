import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import sluice.client.Client;
import sluice.client.RetryPolicy;
import sluice.client.SluiceException;
import sluice.client.Tls;
import sluice.client.TokenStream;
import sluice.v1.Embed.EmbedRequest;
import sluice.v1.Embed.Embedding;
import sluice.v1.Embed.RerankRequest;
import sluice.v1.Generation.Chunk;
import sluice.v1.Generation.FinishedSequence;
import sluice.v1.Generation.GenerateRequest;
import sluice.v1.Generation.GetModelResponse;
import sluice.v1.Generation.PositionLogprobs;
import sluice.v1.Generation.ScoreRequest;
import sluice.v1.Generation.ScoreResponse;

/** Runs conformance cases with clients/java; see the README of tests/conformance for what comes and goes. */
public final class Runner {
  private static final Gson GSON = new Gson();
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private static synchronized void say(Map<String, Object> fields) {
    OUT.println(GSON.toJson(fields));
  }

  private static <B extends Message.Builder> B parse(JsonObject test, B into) {
    try {
      JsonFormat.parser().merge(GSON.toJson(test.get("request")), into);
    } catch (InvalidProtocolBufferException malformed) {
      throw new IllegalArgumentException(malformed);
    }
    return into;
  }

  private static Map<String, Object> position(PositionLogprobs entry) {
    return Map.of("logprob", entry.getLogprob(), "top", entry.getTopList().stream().map(top -> top.getTokenId()).toList());
  }

  private static Map<String, Object> generate(Client client, JsonObject test) {
    GenerateRequest request = parse(test, GenerateRequest.newBuilder()).build();
    int n = Math.max(1, request.getN());
    List<StringBuilder> texts = new ArrayList<>();
    List<List<Integer>> ids = new ArrayList<>();
    List<List<Object>> logprobs = new ArrayList<>();
    for (int i = 0; i < n; ++i) {
      texts.add(new StringBuilder());
      ids.add(new ArrayList<>());
      logprobs.add(new ArrayList<>());
    }
    int count = 0;
    int cancelAfter = test.has("cancel_after") ? test.get("cancel_after").getAsInt() : -1;
    try (TokenStream stream = client.generate(request)) {
      for (Chunk chunk : stream) {
        texts.get(chunk.getSequence()).append(chunk.getText());
        ids.get(chunk.getSequence()).addAll(chunk.getTokenIdsList());
        chunk.getLogprobsList().forEach(entry -> logprobs.get(chunk.getSequence()).add(position(entry)));
        if (++count == 3) say(Map.of("id", test.get("id"), "event", "chunk"));
        if (count == cancelAfter) return Map.of("cancelled", true);
      }
      List<FinishedSequence> ends = stream.finished().getSequencesList();
      return Map.of(
          "texts", texts.stream().map(StringBuilder::toString).toList(),
          "token_ids", ids,
          "logprobs", logprobs,
          "reasons", ends.stream().map(end -> end.getReason().name()).toList(),
          "stop_strings", ends.stream().map(FinishedSequence::getStopString).toList(),
          "prompt_tokens", stream.finished().getUsage().getNumPromptTokens(),
          "seed", Long.toUnsignedString(stream.finished().getSeed()));
    }
  }

  private static Map<String, Object> answer(Client client, JsonObject test) {
    JsonObject request = test.getAsJsonObject("request");
    switch (test.has("op") ? test.get("op").getAsString() : "generate") {
      case "generate":
        return generate(client, test);
      case "score":
        ScoreResponse score = client.score(parse(test, ScoreRequest.newBuilder()).build());
        return Map.of("token_ids", score.getTokenIdsList(), "mean_nll", score.getMeanNll(),
            "logprobs", score.getLogprobsList().stream().map(Runner::position).toList());
      case "embed":
        return Map.of("embeddings", client.embed(parse(test, EmbedRequest.newBuilder()).build()).getEmbeddingsList()
            .stream().map(Embedding::getValuesList).toList());
      case "rerank":
        return Map.of("scores", client.rerank(parse(test, RerankRequest.newBuilder()).build()).getScoresList());
      case "tokenize":
        return Map.of("token_ids", client.tokenize(request.get("text").getAsString()));
      case "detokenize":
        List<Integer> ids = new ArrayList<>();
        for (JsonElement id : request.getAsJsonArray("tokenIds")) ids.add(id.getAsInt());
        return Map.of("text", client.detokenize(ids));
      case "model":
        GetModelResponse model = client.model();
        return Map.of("name", model.getName(), "vocabulary_size", model.getVocabularySize(),
            "max_positions", model.getMaxPositions());
      default:
        return Map.of("serving", client.status().getServing());
    }
  }

  private static void run(Client client, JsonObject test) {
    Duration timeout = Duration.ofMillis(test.has("timeout_ms") ? test.get("timeout_ms").getAsInt() : 60_000);
    try {
      say(Map.of("id", test.get("id"), "result", answer(client.withTimeout(timeout), test)));
    } catch (SluiceException error) {
      Map<String, Object> shown = Map.of("code", error.code().name(), "message", error.details());
      say(Map.of("id", test.get("id"), "error", shown));
    }
  }

  private static String stringOf(JsonObject object, String name) {
    return object.has(name) ? object.get(name).getAsString() : null;
  }

  public static void main(String[] arguments) throws IOException, InterruptedException {
    JsonObject settings = JsonParser.parseString(System.getenv("SLUICE_CLIENT")).getAsJsonObject();
    String authority = stringOf(settings, "ca");
    Tls tls = authority == null ? null : Tls.of(authority);
    try (Client connected = Client.connect(stringOf(settings, "endpoints"), tls, stringOf(settings, "token"))) {
      boolean retries = !settings.has("retry") || settings.get("retry").getAsBoolean();
      Client client = connected.withRetry(retries ? RetryPolicy.DEFAULT : RetryPolicy.NONE);
      List<Thread> running = new ArrayList<>();
      BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        JsonObject test = JsonParser.parseString(line).getAsJsonObject();
        running.add(new Thread(() -> run(client, test)));
        running.get(running.size() - 1).start();
      }
      for (Thread thread : running) thread.join();
    }
  }
}
