package sluice.client;

import io.grpc.Status;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.LongSupplier;

/** The attempts of one call. No I/O: what comes next follows from what has happened. */
final class Attempts {
  private static final Set<Status.Code> AGAIN =
      EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.RESOURCE_EXHAUSTED, Status.Code.CANCELLED);

  private final RetryPolicy policy;
  private final LongSupplier nanoTime;
  private long pauseNanos;
  private Long failingSince;
  private boolean begun;

  Attempts(RetryPolicy policy, LongSupplier nanoTime) {
    this.policy = policy;
    this.nanoTime = nanoTime;
    this.pauseNanos = policy.firstPause().toNanos();
  }

  void noteProgress() {
    begun = true;
    failingSince = null;
    pauseNanos = policy.firstPause().toNanos();
  }

  /** How long to wait before the next attempt. Throws the failure where there is to be none. */
  Duration pauseAfter(SluiceException failure) {
    long now = nanoTime.getAsLong();
    if (failingSince == null) failingSince = now;
    boolean patient = begun || failure.code() == Status.Code.RESOURCE_EXHAUSTED;
    Duration limit = patient ? policy.resumeFor() : policy.connectFor();
    Duration pause = failure.retryAfter().orElseGet(this::nextPause);
    if (!AGAIN.contains(failure.code()) || failure.reason().isPresent()) throw failure;
    if (now - failingSince + pause.toNanos() > limit.toNanos()) throw failure;
    return pause;
  }

  private Duration nextPause() {
    long pause = (long) (pauseNanos * (0.5 + ThreadLocalRandom.current().nextDouble() / 2));
    pauseNanos = Math.min(2 * pauseNanos, policy.longestPause().toNanos());
    return Duration.ofNanos(pause);
  }
}
