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
  private final transient String reason;

  SluiceException(Status status, Duration retryAfter, String reason, Throwable cause) {
    super(status.getCode() + ": " + status.getDescription(), cause);
    this.status = status;
    this.retryAfter = retryAfter;
    this.reason = reason;
  }

  static SluiceException from(StatusRuntimeException failure) {
    byte[] details = failure.getTrailers() == null ? null : failure.getTrailers().get(DETAILS);
    if (details == null) return new SluiceException(failure.getStatus(), null, null, failure);
    return new SluiceException(failure.getStatus(), retryDelay(details), reasonOf(details), failure);
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

  /** Why the server would refuse the same request again, such as REQUEST_WORK_EXCEEDED, where it says so. */
  public Optional<String> reason() {
    return Optional.ofNullable(reason);
  }

  /** Of the RetryInfo (retry_delay: Duration = 1), or null. */
  private static Duration retryDelay(byte[] details) {
    try {
      ByteString delay = firstField(details, "RetryInfo");
      if (delay == null) return null;
      com.google.protobuf.Duration duration = com.google.protobuf.Duration.parseFrom(delay);
      return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
    } catch (InvalidProtocolBufferException unreadable) {
      return null; // details that can't be read say nothing; the status stands
    }
  }

  /** Of the ErrorInfo (reason: string = 1), or null. */
  private static String reasonOf(byte[] details) {
    try {
      ByteString reason = firstField(details, "ErrorInfo");
      return reason == null ? null : reason.toStringUtf8();
    } catch (InvalidProtocolBufferException unreadable) {
      return null;
    }
  }

  /** From a google.rpc.Status (details: repeated Any = 3) field 1 of the message of a type, or null. */
  private static ByteString firstField(byte[] details, String type) throws InvalidProtocolBufferException {
    for (ByteString detail : field(ByteString.copyFrom(details), 3)) {
      Any any = Any.parseFrom(detail);
      if (!any.getTypeUrl().endsWith("/google.rpc." + type)) continue;
      for (ByteString value : field(any.getValue(), 1)) return value;
    }
    return null;
  }

  /** The values of a field of any message that holds bytes. */
  private static List<ByteString> field(ByteString message, int number) throws InvalidProtocolBufferException {
    return Empty.parseFrom(message).getUnknownFields().getField(number).getLengthDelimitedList();
  }
}
