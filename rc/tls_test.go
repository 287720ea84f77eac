package rc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/secure/credentials"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// tlsDirs makes directories for both ends and loads them.
func tlsDirs(t *testing.T, host string) (client, server *tls.Config) {
	t.Helper()
	dir, now := filepath.Join(t.TempDir(), "lab"), time.Now()
	if err := credentials.Make(dir, []string{host}, []string{credentials.Client}, now.Add(-time.Hour), now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	load := func(role string) *tls.Config {
		cfg, err := LoadTLS(filepath.Join(dir, role))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	return load(credentials.Client), load(credentials.Server)
}

// expiredDirs makes directories with certificates that have expired, which LoadTLS refuses, and loads them.
func expiredDirs(t *testing.T, host string) (client, server *tls.Config) {
	t.Helper()
	dir, now := filepath.Join(t.TempDir(), "lab"), time.Now()
	if err := credentials.Make(dir, []string{host}, []string{credentials.Client}, now.Add(-2*time.Hour), now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	load := func(role string) *tls.Config {
		in := func(name string) string { return filepath.Join(dir, role, name) }
		pair, err := tls.LoadX509KeyPair(in("tls.crt"), in("tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		pem, err := os.ReadFile(in("ca.crt"))
		ca := x509.NewCertPool()
		if !ca.AppendCertsFromPEM(pem) {
			t.Fatal("no CA:", err)
		}
		return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: ca, ClientCAs: ca, ClientAuth: tls.RequireAndVerifyClientCert}
	}
	return load(credentials.Client), load(credentials.Server)
}

// TestTLS connects with good and bad certificates, and with TLS at one end only. Unless both
// certificates are good, neither end runs Prepare, where programs register memory, and each end's
// error says what to try.
func TestTLS(t *testing.T) {
	client, server := tlsDirs(t, "127.0.0.1")
	otherClient, otherServer := tlsDirs(t, "127.0.0.1")
	_, elsewhere := tlsDirs(t, "server.lab")
	oldClient, oldServer := expiredDirs(t, "127.0.0.1")
	newClient, newServer := client.Clone(), server.Clone()
	newClient.RootCAs, newServer.ClientCAs = oldServer.RootCAs, oldClient.RootCAs
	none := client.Clone()
	none.Certificates = nil

	// crypto/tls clients send one alert for every fault of a certificate.
	const refused = "the client refused this end's certificate (bad certificate); try: what the client's output says"

	for _, test := range []struct {
		name           string
		client, server *tls.Config
		atClient       string // in the client's error; "" for success
		atServer       string
	}{
		{"good", client, server, "", ""},
		{"the server's CA is another", client, otherServer, "the server's certificate is not from the CA of this end; try: directories of one CA", refused},
		{"the client's CA is another", &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: server.RootCAs, GetClientCertificate: always(otherClient)}, server,
			"the server does not trust this end's certificate", "the client's certificate is not from the CA of this end; try: directories of one CA"},
		{"the server's certificate has expired", newClient, oldServer, "the server's certificate is valid only from", refused},
		{"the client's certificate has expired", &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: server.RootCAs, GetClientCertificate: always(oldClient)}, newServer,
			"the server says that this end's certificate has expired; try: new certificates", "the client's certificate is valid only from"},
		{"another name", &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: elsewhere.RootCAs, Certificates: client.Certificates}, elsewhere,
			"the server's certificate is for server.lab, not for 127.0.0.1; try: rdma_lab tls --host 127.0.0.1", refused},
		{"no certificate", none, server, "the server wants a certificate of this end; try: --tls", "the client showed no certificate; try: --tls DIR at the client"},
		{"the server's as a client's", server, server, "the server refused this end's certificate", "the client's certificate is for the other end"},
		{"a plain client", nil, server, "the server takes only TLS; try: --tls DIR at the client", "the client does not use TLS; try: --tls at both ends"},
		{"a plain server", client, nil, "the server does not use TLS; try: --tls at both ends", "a TLS server or client"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{TLS: test.server})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			dev := softtest.Open(t)
			var prepared atomic.Int32
			prepare := func(*Conn) error { prepared.Add(1); return nil }
			served := make(chan error, 1)
			go func() { served <- acceptOnce(t.Context(), l, Config{Device: dev, Prepare: prepare}) }()
			c, err := Dial(t.Context(), l.Addr().String(), Config{Device: dev, TLS: test.client, Prepare: prepare})
			if err == nil {
				err = c.Finish(t.Context())
				c.Close()
			}
			checkEnd(t, "client", err, test.atClient)
			checkEnd(t, "server", <-served, test.atServer)
			if want := map[bool]int32{true: 2}[test.atClient == ""]; prepared.Load() != want {
				t.Errorf("%d ends ran Prepare, want %d", prepared.Load(), want)
			}
		})
	}
}

// always shows a certificate although the server asks for those of another CA.
func always(cfg *tls.Config) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cfg.Certificates[0], nil }
}

func checkEnd(t *testing.T, end string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("the %s: %v", end, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("the %s: %v; want %q", end, err, want)
	case err != nil && strings.Count(err.Error(), "try: ") > 1:
		t.Errorf("the %s's error has two remedies: %v", end, err)
	default:
		t.Log(err)
	}
}

// acceptOnce serves one peer to its Finish.
func acceptOnce(ctx context.Context, l *Listener, cfg Config) error {
	in, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	if _, err := in.Hello(ctx); err != nil {
		in.Refuse(err)
		return err
	}
	c, err := in.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Finish(ctx)
}

// TestTLSWithoutHello connects with an exchange of the program's own, which has no Hello. A listener
// with TLS takes no plain client there either.
func TestTLSWithoutHello(t *testing.T) {
	client, server := tlsDirs(t, "127.0.0.1")
	for name, test := range map[string]struct {
		client *tls.Config
		want   string // in the server's error
	}{"TLS": {client, ""}, "plain": {nil, "the client does not "}} {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{TLS: server})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			dev := softtest.Open(t)
			dialed := make(chan error, 1)
			go func() {
				c, err := Dial(t.Context(), l.Addr().String(), Config{Device: dev, TLS: test.client, Exchange: swap})
				if err == nil {
					c.Close()
				}
				dialed <- err
			}()
			in, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c, err := in.Connect(t.Context(), Config{Device: dev, Exchange: swap})
			if err == nil {
				c.Close()
			}
			checkEnd(t, "server", err, test.want)
			if err := <-dialed; (err == nil) != (test.want == "") {
				t.Errorf("the client: %v", err)
			}
		})
	}
}

// TestSilentTLSClient checks that the handshake ends with the context of Hello.
func TestSilentTLSClient(t *testing.T) {
	_, server := tlsDirs(t, "127.0.0.1")
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{TLS: server})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	in, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Hello(testkit.Expiring(t)); err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("a silent client: %v", err)
	}
}

// TestLoadTLS checks the errors of directories that cannot work.
func TestLoadTLS(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for name, until := range map[string]time.Time{"a": now.Add(time.Hour), "b": now.Add(time.Hour), "old": now.Add(-time.Minute)} {
		if err := credentials.Make(filepath.Join(dir, name), []string{"127.0.0.1"}, []string{credentials.Client}, now.Add(-time.Hour), until); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, filepath.Join(dir, "b/ca/ca.crt"), filepath.Join(dir, "a/client/ca.crt"))
	copyFile(t, filepath.Join(dir, "b/server/tls.key"), filepath.Join(dir, "a/server/tls.key"))
	for name, want := range map[string]string{
		"nowhere":    "no such file or directory; try: a directory that rdma_lab tls has made",
		"a/client":   "a/client/tls.crt: it is not from the CA of this end",
		"a/server":   "private key does not match public key",
		"old/server": "it is valid only from",
		"b/server":   "",
	} {
		_, err := LoadTLS(filepath.Join(dir, name))
		checkEnd(t, name, err, want)
	}
}

// TestNewCA replaces a CA in the steps of docs/operations.md. The ends connect after each step at each end.
func TestNewCA(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	in := func(path ...string) string { return filepath.Join(append([]string{dir}, path...)...) }
	for _, lab := range []string{"old", "new"} {
		if err := credentials.Make(in(lab), []string{"127.0.0.1"}, []string{credentials.Client}, now.Add(-time.Hour), now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	both, err := os.ReadFile(in("new/ca/ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	steps := []func(end string){
		func(end string) {
			old, err := os.ReadFile(in("old/ca/ca.crt"))
			if err == nil {
				err = os.WriteFile(in("old", end, "ca.crt"), append(old, both...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		func(end string) {
			copyFile(t, in("new", end, "tls.crt"), in("old", end, "tls.crt"))
			copyFile(t, in("new", end, "tls.key"), in("old", end, "tls.key"))
		},
		func(end string) { copyFile(t, in("new/ca/ca.crt"), in("old", end, "ca.crt")) },
	}
	dev := softtest.Open(t)
	for i, step := range steps {
		for _, end := range []string{credentials.Server, credentials.Client} {
			step(end)
			server, err := LoadTLS(in("old", credentials.Server))
			if err != nil {
				t.Fatal(err)
			}
			client, err := LoadTLS(in("old", credentials.Client))
			if err != nil {
				t.Fatal(err)
			}
			l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{TLS: server})
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- acceptOnce(t.Context(), l, Config{Device: dev}) }()
			c, err := Dial(t.Context(), l.Addr().String(), Config{Device: dev, TLS: client})
			if err == nil {
				err = c.Finish(t.Context())
				c.Close()
			}
			if atServer := <-served; err != nil || atServer != nil {
				t.Errorf("step %d at the %s: %v; %v", i+1, end, err, atServer)
			}
			l.Close()
		}
	}
}

// TestAcceptedConfigHasNoTLS: the listener has made the handshake already.
func TestAcceptedConfigHasNoTLS(t *testing.T) {
	cfg := Config{TLS: new(tls.Config)}
	if err := cfg.checkUnused(true); err == nil || !strings.Contains(err.Error(), "ListenConfig.TLS") {
		t.Error(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
