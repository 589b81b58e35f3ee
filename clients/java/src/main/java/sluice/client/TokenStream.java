package sluice.client;

import io.grpc.Context;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Iterator;
import java.util.NoSuchElementException;
import sluice.v1.Generation.Chunk;
import sluice.v1.Generation.Finished;
import sluice.v1.Generation.GenerateRequest;
import sluice.v1.Generation.GenerateResponse;

/**
 * What a model writes, chunk by chunk; goes on by itself where a connection or a server is lost. Read by one thread;
 * {@link #close} may come from another, and makes the server stop.
 */
public final class TokenStream implements Iterable<Chunk>, Iterator<Chunk>, AutoCloseable {
  private final Calls calls;
  private final Attempts attempts;
  private final Resumption resumption;
  private final Context.CancellableContext context = Context.current().withCancellation();
  private Iterator<GenerateResponse> events; // of the attempt at hand; null: another is to begin
  private int endpoint;
  private Chunk next;
  private Finished finished;
  private volatile boolean closed;

  TokenStream(Calls calls, GenerateRequest request) {
    this.calls = calls;
    this.attempts = calls.attempts();
    this.resumption = new Resumption(request);
  }

  /** Waits for the next chunk. False at the end, also where the stream was closed. */
  @Override
  public boolean hasNext() {
    while (next == null && finished == null && !closed) {
      try {
        receive();
      } catch (StatusRuntimeException failure) {
        if (closed) break;
        events = null;
        SluiceException lost = SluiceException.from(failure);
        if (context.isCancelled()) throw lost; // the caller left
        calls.waitAfter(lost, attempts);
        calls.endpoints().leave(endpoint);
      }
    }
    return next != null;
  }

  private void receive() {
    if (events == null) {
      endpoint = calls.endpoints().current();
      GenerateRequest request = resumption.next();
      context.run(() -> events = calls.stub(endpoint).generate(request));
    }
    if (!events.hasNext()) {
      throw Status.INTERNAL.withDescription("the stream ended before its last event").asRuntimeException();
    }
    GenerateResponse event = events.next();
    attempts.noteProgress();
    if (event.hasFinished()) {
      finished = event.getFinished();
    } else {
      next = event.getChunk();
      resumption.note(next);
    }
  }

  @Override
  public Chunk next() {
    if (!hasNext()) throw new NoSuchElementException();
    Chunk chunk = next;
    next = null;
    return chunk;
  }

  /** How each sequence ended and what was used; null before the end. */
  public Finished finished() {
    return finished;
  }

  @Override
  public Iterator<Chunk> iterator() {
    return this;
  }

  @Override
  public void close() {
    closed = true;
    context.cancel(null);
  }

  String[] texts() {
    StringBuilder[] texts = new StringBuilder[resumption.numSequences()];
    for (int i = 0; i < texts.length; ++i) texts[i] = new StringBuilder();
    while (hasNext()) {
      Chunk chunk = next();
      texts[chunk.getSequence()].append(chunk.getText());
    }
    String[] result = new String[texts.length];
    for (int i = 0; i < texts.length; ++i) result[i] = texts[i].toString();
    return result;
  }
}
