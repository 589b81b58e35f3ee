package sluice.client;

import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLException;
import sluice.v1.EmbedServiceGrpc;
import sluice.v1.GenerationServiceGrpc;

/** The servers that a client calls: a channel for each. Thread-safe. */
final class Endpoints implements AutoCloseable {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final List<ManagedChannel> channels = new ArrayList<>();
  private final String token;
  private int at;

  Endpoints(String addresses, Tls tls, String token) {
    this.token = token;
    for (String address : addresses.split(",", -1)) {
      if (address.isEmpty()) throw new IllegalArgumentException("an endpoint is empty");
      channels.add(channel(address, tls));
    }
  }

  private static ManagedChannel channel(String address, Tls tls) {
    NettyChannelBuilder builder =
        NettyChannelBuilder.forTarget(address).maxInboundMessageSize(Integer.MAX_VALUE);
    if (tls == null) return builder.usePlaintext().build();
    try {
      SslContextBuilder context = GrpcSslContexts.forClient();
      if (tls.authority() != null) context.trustManager(new File(tls.authority()));
      if (tls.certificate() != null) context.keyManager(new File(tls.certificate()), new File(tls.key()));
      return builder.sslContext(context.build()).build();
    } catch (SSLException failure) {
      throw new IllegalArgumentException("TLS: " + failure.getMessage(), failure);
    }
  }

  synchronized int current() {
    return at;
  }

  /** Goes on to the next endpoint, unless another call has done so. */
  synchronized void leave(int index) {
    if (at == index) at = (index + 1) % channels.size();
    // A lost server is looked for again at once: gRPC's own pauses grow to two minutes.
    channels.get(at).resetConnectBackoff();
  }

  GenerationServiceGrpc.GenerationServiceBlockingStub stub(int index) {
    return authorized(GenerationServiceGrpc.newBlockingStub(channels.get(index)));
  }

  EmbedServiceGrpc.EmbedServiceBlockingStub embedStub(int index) {
    return authorized(EmbedServiceGrpc.newBlockingStub(channels.get(index)));
  }

  private <S extends AbstractStub<S>> S authorized(S stub) {
    if (token == null) return stub;
    Metadata headers = new Metadata();
    headers.put(AUTHORIZATION, "Bearer " + token);
    return stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers));
  }

  @Override
  public void close() {
    channels.forEach(ManagedChannel::shutdownNow);
  }
}
