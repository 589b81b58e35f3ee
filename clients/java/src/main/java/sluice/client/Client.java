package sluice.client;

import com.google.protobuf.ByteString;
import io.grpc.Deadline;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import sluice.v1.Embed.EmbedRequest;
import sluice.v1.Embed.EmbedResponse;
import sluice.v1.Embed.RerankRequest;
import sluice.v1.Embed.RerankResponse;
import sluice.v1.Generation.Chat;
import sluice.v1.Generation.GenerateRequest;
import sluice.v1.Generation.GetModelRequest;
import sluice.v1.Generation.GetModelResponse;
import sluice.v1.Generation.ScoreRequest;
import sluice.v1.Generation.ScoreResponse;
import sluice.v1.Status.GetStatusRequest;
import sluice.v1.Status.GetStatusResponse;
import sluice.v1.Tokenizer.ChatMessage;
import sluice.v1.Tokenizer.DetokenizeRequest;
import sluice.v1.Tokenizer.TokenizeRequest;

/**
 * Calls a server, or several that serve the same model. Thread-safe. Calls throw {@link SluiceException}; requests are
 * the generated messages, whose comments explain every field.
 *
 * <pre>{@code
 * try (Client client = Client.connect("127.0.0.1:8700");
 *      TokenStream stream = client.generate(GenerateRequest.newBuilder().setText("Once upon a time").build())) {
 *   for (Chunk chunk : stream) System.out.print(chunk.getText());
 * }
 * }</pre>
 */
public final class Client implements AutoCloseable {
  private final Endpoints endpoints;
  private final RetryPolicy policy;
  private final Duration timeout;

  private Client(Endpoints endpoints, RetryPolicy policy, Duration timeout) {
    this.endpoints = endpoints;
    this.policy = policy;
    this.timeout = timeout;
  }

  /** A client of "HOST:PORT", or of several by comma: the next is taken where one is lost. Does not wait. */
  public static Client connect(String endpoints) {
    return connect(endpoints, null, null);
  }

  /** The same over TLS, and as the one whom a bearer token names; null for either goes without. */
  public static Client connect(String endpoints, Tls tls, String token) {
    return new Client(new Endpoints(endpoints, tls, token), RetryPolicy.DEFAULT, null);
  }

  /** This client, whose calls may take so long: DEADLINE_EXCEEDED. It shares the connections; close one of them. */
  public Client withTimeout(Duration limit) {
    return new Client(endpoints, policy, limit);
  }

  /** This client with another policy. It shares the connections; close one of them. */
  public Client withRetry(RetryPolicy other) {
    return new Client(endpoints, other, timeout);
  }

  /** Streams what follows a prompt. Close it to leave early: the server stops. */
  public TokenStream generate(GenerateRequest request) {
    return new TokenStream(calls(), request);
  }

  /** The whole texts of all sequences. */
  public List<String> texts(GenerateRequest request) {
    try (TokenStream stream = generate(request)) {
      return Arrays.asList(stream.texts());
    }
  }

  /** The whole text of the first sequence. */
  public String text(GenerateRequest request) {
    return texts(request).get(0);
  }

  /** What the assistant says next. Stream it with {@link #generate} and {@code setChat}. */
  public String chat(List<ChatMessage> messages) {
    return text(GenerateRequest.newBuilder().setChat(Chat.newBuilder().addAllMessages(messages)).build());
  }

  /** The log-probability of every token of a text. */
  public ScoreResponse score(ScoreRequest request) {
    return calls().untilAnswered(stub -> stub.score(request));
  }

  /** The embedding of each text, or a classifier's scores. */
  public EmbedResponse embed(EmbedRequest request) {
    return calls().untilEmbedded(stub -> stub.embed(request));
  }

  /** How well each document answers a query. */
  public RerankResponse rerank(RerankRequest request) {
    return calls().untilEmbedded(stub -> stub.rerank(request));
  }

  /** The ids of a text's tokens, with what the tokenizer puts around a text. */
  public List<Integer> tokenize(String text) {
    TokenizeRequest request = TokenizeRequest.newBuilder().setText(ByteString.copyFromUtf8(text)).build();
    return calls().untilAnswered(stub -> stub.tokenize(request)).getTokenIdsList();
  }

  /** The text of tokens. */
  public String detokenize(List<Integer> tokenIds) {
    DetokenizeRequest request = DetokenizeRequest.newBuilder().addAllTokenIds(tokenIds).build();
    return calls().untilAnswered(stub -> stub.detokenize(request)).getText();
  }

  /** What is served: name, size, context. */
  public GetModelResponse model() {
    return calls().untilAnswered(stub -> stub.getModel(GetModelRequest.getDefaultInstance()));
  }

  /** What the server is doing, and what it lacks where it does not serve. */
  public GetStatusResponse status() {
    return calls().untilAnswered(stub -> stub.getStatus(GetStatusRequest.getDefaultInstance()));
  }

  private Calls calls() {
    Deadline deadline = timeout == null ? null : Deadline.after(timeout.toNanos(), TimeUnit.NANOSECONDS);
    return new Calls(endpoints, policy, deadline);
  }

  @Override
  public void close() {
    endpoints.close();
  }
}
