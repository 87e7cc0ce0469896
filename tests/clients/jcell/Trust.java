// What the Java programs trust over TLS.

import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

final class Trust {
  private Trust() {}

  /** The one authority that the harness names, or null without TLS. */
  static SSLContext tls() throws Exception {
    String authority = System.getenv("LEVERET_TEST_CA");
    if (authority == null) {
      return null;
    }
    KeyStore roots = KeyStore.getInstance(KeyStore.getDefaultType());
    roots.load(null);
    try (InputStream pem = Files.newInputStream(Path.of(authority))) {
      roots.setCertificateEntry("root", CertificateFactory.getInstance("X.509").generateCertificate(pem));
    }
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(roots);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    return context;
  }
}
