package sluice.client;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Empty;
import com.google.protobuf.InvalidProtocolBufferException;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** What a call that failed ends with: gRPC's status. */
public final class SluiceException extends RuntimeException {
  private static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private final transient Status status;
  private final transient Duration retryAfter;

  SluiceException(Status status, Duration retryAfter, Throwable cause) {
    super(status.getCode() + ": " + status.getDescription(), cause);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  static SluiceException from(StatusRuntimeException failure) {
    byte[] details = failure.getTrailers() == null ? null : failure.getTrailers().get(DETAILS);
    return new SluiceException(failure.getStatus(), details == null ? null : retryDelay(details), failure);
  }

  /** The status' code, such as INVALID_ARGUMENT. */
  public Status.Code code() {
    return status.getCode();
  }

  /** The server's words, which name field, value and what is accepted. */
  public String details() {
    return status.getDescription() == null ? "" : status.getDescription();
  }

  /** After how long the server asks to come again, where it says so. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /** From a google.rpc.Status (details: repeated Any = 3) the RetryInfo (retry_delay: Duration = 1), or null. */
  private static Duration retryDelay(byte[] details) {
    try {
      for (ByteString detail : field(ByteString.copyFrom(details), 3)) {
        Any any = Any.parseFrom(detail);
        if (!any.getTypeUrl().endsWith("/google.rpc.RetryInfo")) continue;
        for (ByteString delay : field(any.getValue(), 1)) {
          com.google.protobuf.Duration duration = com.google.protobuf.Duration.parseFrom(delay);
          return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
        }
      }
    } catch (InvalidProtocolBufferException unreadable) {
      return null; // details that can't be read say nothing; the status stands
    }
    return null;
  }

  /** The values of a field of any message that holds bytes. */
  private static List<ByteString> field(ByteString message, int number) throws InvalidProtocolBufferException {
    return Empty.parseFrom(message).getUnknownFields().getField(number).getLengthDelimitedList();
  }
}
