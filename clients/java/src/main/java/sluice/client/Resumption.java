package sluice.client;

import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import sluice.v1.Generation.Chunk;
import sluice.v1.Generation.GenerateRequest;
import sluice.v1.Generation.ResumedSequence;

/** The request of a stream, which grows by the tokens that came, so that another attempt goes on after them. */
final class Resumption {
  private static final SecureRandom SEEDS = new SecureRandom();

  private final GenerateRequest.Builder request;
  private final List<ResumedSequence.Builder> tokens = new ArrayList<>();
  private boolean begun;

  Resumption(GenerateRequest original) {
    request = original.toBuilder();
    // The server's own seed would differ from attempt to attempt.
    if (!request.getSampling().hasSeed()) request.getSamplingBuilder().setSeed(SEEDS.nextLong());
    begun = request.getResumeCount() > 0;
    request.getResumeList().forEach(sequence -> tokens.add(sequence.toBuilder()));
    while (tokens.size() < numReturned(original)) tokens.add(ResumedSequence.newBuilder());
  }

  /** How many sequences a request returns. */
  private static int numReturned(GenerateRequest request) {
    if (!request.hasBeams()) return Math.max(1, request.getN());
    var beams = request.getBeams();
    return beams.hasNumReturn() ? beams.getNumReturn() : beams.getStochastic() ? beams.getBeamWidth() : 1;
  }

  int numSequences() {
    return tokens.size();
  }

  void note(Chunk chunk) {
    begun = true;
    tokens.get(chunk.getSequence()).addAllTokenIds(chunk.getTokenIdsList());
  }

  GenerateRequest next() {
    if (begun) {
      request.clearResume();
      tokens.forEach(request::addResume);
    }
    return request.build();
  }
}
