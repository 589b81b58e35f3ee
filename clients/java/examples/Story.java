import java.time.Duration;
import sluice.client.Client;
import sluice.client.TokenStream;
import sluice.v1.Generation.Chunk;
import sluice.v1.Generation.GenerateRequest;
import sluice.v1.Sampling.SamplingOptions;

/** Streams a story. Argument: HOST:PORT. */
public final class Story {
  public static void main(String[] arguments) {
    String address = arguments.length > 0 ? arguments[0] : "127.0.0.1:8700";
    GenerateRequest request =
        GenerateRequest.newBuilder()
            .setText("Once upon a time")
            .setMaxTokens(60)
            .setSampling(SamplingOptions.newBuilder().setTemperature(0.7f).setSeed(1))
            .build();
    try (Client client = Client.connect(address).withTimeout(Duration.ofMinutes(1));
        TokenStream stream = client.generate(request)) {
      for (Chunk chunk : stream) {
        System.out.print(chunk.getText());
        System.out.flush();
      }
      System.out.println("\n" + stream.finished().getUsage().getNumGeneratedTokens() + " tokens");
    }
  }
}
