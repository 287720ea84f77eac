package secure

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/secure/credentials"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// FuzzLoad reads directories with any files. An error names the directory or the peer, and has a remedy. A
// directory without an error makes handshakes with itself, or fails there with an error.
func FuzzLoad(f *testing.F) {
	made, now := filepath.Join(f.TempDir(), "lab"), time.Now()
	if err := credentials.Make(made, []string{"localhost"}, []string{credentials.Client}, now.Add(-time.Hour), now.Add(time.Hour)); err != nil {
		f.Fatal(err)
	}
	files := func(end string) (all [3][]byte) {
		for i, name := range []string{certificateFile, keyFile, authorityFile} {
			data, err := os.ReadFile(filepath.Join(made, end, name))
			if err != nil {
				f.Fatal(err)
			}
			all[i] = data
		}
		return all
	}
	s, c := files("server"), files("client")
	for _, seed := range [][3][]byte{
		s, c, {s[0], c[1], s[2]}, {s[1], s[0], s[2]}, {s[2], s[1], s[2]}, {s[0], s[1], nil}, {}, {append(s[0], s[2]...), s[1], s[0]},
		{s[0][:len(s[0])/2], s[1], s[2]}, {s[0], s[1], []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, certificate, key, authority []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{certificateFile: certificate, keyFile: key, authorityFile: authority} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := Load(dir)
		if err != nil {
			if text := err.Error(); !strings.Contains(text, dir) || !strings.Contains(text, "try: ") {
				t.Errorf("%q", text)
			}
			return
		}
		here, there := net.Pipe()
		defer here.Close()
		ctx := testkit.Context(t)
		over := make(chan error, 1)
		go func() {
			defer there.Close()
			over <- tls.Server(there, cfg).HandshakeContext(ctx)
		}()
		client := cfg.Clone()
		client.ServerName = "localhost"
		err = tls.Client(here, client).HandshakeContext(ctx)
		here.Close()
		<-over
		if err != nil {
			if text := describe(err, "server", "localhost").Error(); !strings.Contains(text, "try: ") {
				t.Errorf("%q", text)
			}
		}
	})
}
