package secure

import (
	"crypto/x509"
	"io/fs"
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

// TestUnreadable checks that a file of another user has another remedy than a file that is not there.
func TestUnreadable(t *testing.T) {
	if try := tryFiles(&fs.PathError{Err: fs.ErrPermission}); !strings.Contains(try, "this user may read; with systemd: LoadCredential") {
		t.Error(try)
	}
}
