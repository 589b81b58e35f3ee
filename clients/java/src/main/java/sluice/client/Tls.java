package sluice.client;

/** Paths of PEM files. An authority of null is that of the Java runtime; certificate and key where servers ask for one. */
public record Tls(String authority, String certificate, String key) {
  /** Trusts an authority of one's own. */
  public static Tls of(String authority) {
    return new Tls(authority, null, null);
  }
}
