package sluice.client;

import io.grpc.Context;
import io.grpc.Deadline;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.IntFunction;
import sluice.v1.EmbedServiceGrpc.EmbedServiceBlockingStub;
import sluice.v1.GenerationServiceGrpc.GenerationServiceBlockingStub;

/** Calls to the endpoints by one deadline and policy. */
record Calls(Endpoints endpoints, RetryPolicy policy, Deadline deadline) {
  Attempts attempts() {
    return new Attempts(policy, System::nanoTime);
  }

  GenerationServiceBlockingStub stub(int index) {
    GenerationServiceBlockingStub stub = endpoints.stub(index);
    return deadline == null ? stub : stub.withDeadline(deadline);
  }

  /** Makes a call until it is answered. */
  <T> T untilAnswered(Function<GenerationServiceBlockingStub, T> call) {
    return untilDone(index -> call.apply(stub(index)));
  }

  /** The same of EmbedService. */
  <T> T untilEmbedded(Function<EmbedServiceBlockingStub, T> call) {
    return untilDone(index -> {
      EmbedServiceBlockingStub stub = endpoints.embedStub(index);
      return call.apply(deadline == null ? stub : stub.withDeadline(deadline));
    });
  }

  private <T> T untilDone(IntFunction<T> call) {
    Attempts attempts = attempts();
    while (true) {
      int index = endpoints.current();
      try {
        return call.apply(index);
      } catch (io.grpc.StatusRuntimeException failure) {
        waitAfter(SluiceException.from(failure), attempts);
        endpoints.leave(index);
      }
    }
  }

  /** Throws the failure at once where the deadline comes first: it says more than that time is up. */
  void waitAfter(SluiceException failure, Attempts attempts) {
    Duration pause = attempts.pauseAfter(failure);
    if (Context.current().isCancelled()) throw failure; // the caller left
    if (deadline != null && deadline.timeRemaining(TimeUnit.NANOSECONDS) <= pause.toNanos()) throw failure;
    try {
      Thread.sleep(pause.toMillis(), pause.toNanosPart() % 1_000_000);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw failure;
    }
  }
}
