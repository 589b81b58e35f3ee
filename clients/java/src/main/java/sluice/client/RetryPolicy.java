package sluice.client;

import java.time.Duration;

/**
 * How long a call tries again after UNAVAILABLE, RESOURCE_EXHAUSTED and a CANCELLED that the caller did not ask for, which
 * is what a server does to calls as it shuts down; other statuses are final. The pause is what the server says, else it
 * doubles from {@code firstPause} to {@code longestPause}, with a random part so that clients do not come back together.
 *
 * @param connectFor for a call that has had no answer yet, while no server can be reached
 * @param resumeFor for a stream that has begun, and for a call that a busy server puts off
 */
public record RetryPolicy(Duration connectFor, Duration resumeFor, Duration firstPause, Duration longestPause) {
  /** That of clients which set none. */
  public static final RetryPolicy DEFAULT =
      new RetryPolicy(Duration.ofSeconds(5), Duration.ofMinutes(1), Duration.ofMillis(50), Duration.ofSeconds(2));

  /** Never tries again. */
  public static final RetryPolicy NONE =
      new RetryPolicy(Duration.ZERO, Duration.ZERO, Duration.ofMillis(50), Duration.ofSeconds(2));
}
