package secure

import (
	"crypto/x509"
	"strings"
	"testing"
)

// TestOwnCertificate checks that an error about this end's certificate names no peer.
func TestOwnCertificate(t *testing.T) {
	err := describe(x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, "", "")
	if text := err.Error(); strings.Contains(text, "handshake") || !strings.Contains(text, "try: new certificates") {
		t.Errorf("%q", text)
	}
}
