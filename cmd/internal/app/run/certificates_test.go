package run

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/secure"
	"github.com/rawverbs/rawverbs/internal/secure/credentials"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

const day = 24 * time.Hour

// lab is a directory of rdma_lab tls in simulated time, with the server's certificate as a server has it.
type lab struct {
	*certificates
	dir   string
	lines chan string // of the server's log
}

func (l *lab) Write(line []byte) (int, error) {
	l.lines <- string(line)
	return len(line), nil
}

// openLab makes certificates that are valid between two times from now.
func openLab(t *testing.T, from, until time.Duration) *lab {
	t.Helper()
	l := &lab{dir: makeLab(t, from, until), lines: make(chan string, 16)}
	o := ServerOptions{Options: Options{TLS: filepath.Join(l.dir, credentials.Server), Logger: slog.New(slog.NewTextHandler(l, nil))}}
	var err error
	if l.certificates, err = o.certificates(); err != nil {
		t.Fatal(err)
	}
	return l
}

// makeLab makes certificates that are valid between two times from now.
func makeLab(t *testing.T, from, until time.Duration) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lab")
	now := time.Now()
	if err := credentials.Make(dir, []string{"127.0.0.1"}, []string{credentials.Client}, now.Add(from), now.Add(until)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// take copies files of another end's directory over those of the server.
func (l *lab) take(t *testing.T, from string, files ...string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(l.dir, credentials.Server, file), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// logged checks which lines were logged since the last call, by a part of each.
func (l *lab) logged(t *testing.T, parts ...string) {
	t.Helper()
	synctest.Wait()
	for _, want := range parts {
		select {
		case line := <-l.lines:
			if !strings.Contains(line, want) {
				t.Errorf("want %q: %s", want, line)
			}
		default:
			t.Errorf("%q is not logged", want)
		}
	}
	for len(l.lines) > 0 {
		t.Errorf("more is logged: %s", <-l.lines)
	}
}

// serial returns the serial number of the certificate that a new client gets.
func (l *lab) serial() string {
	cfg, _ := l.config().GetConfigForClient(nil)
	return cfg.Certificates[0].Leaf.SerialNumber.String()
}

// after lets time pass as watch does, and checks what is logged.
func (l *lab) after(t *testing.T, d time.Duration, parts ...string) {
	t.Helper()
	for range 3 {
		time.Sleep(d / 3)
		l.refresh()
		l.remind()
	}
	l.logged(t, parts...)
}

// TestCertificateExpires lets a certificate of a year expire. The server logs it once a day from 14 days before,
// and takes a renewed certificate.
func TestCertificateExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, counts := openLab(t, 0, 366*day), new(Counts)
		counts.serve(nil, admission.Limits{}, l.certificates)
		first := l.serial()
		l.after(t, 352*day)
		for range 14 {
			l.after(t, day, "level=WARN msg=\"the certificate expires at 2001-01-01 00:00 UTC; try: new files in ")
		}
		if s := counts.Snapshot(); s.TLSInvalid || !s.TLS.Until.Equal(time.Now()) || !s.TLS.From.Equal(s.TLS.Until.Add(-366*day)) {
			t.Errorf("before the end: %v, invalid %v", s.TLS, s.TLSInvalid)
		}
		l.after(t, day, "level=ERROR msg=\"no client can connect: the certificate is valid only from 2000-01-01 00:00 UTC to 2001-01-01 00:00 UTC; try: ")
		if !counts.Snapshot().TLSInvalid {
			t.Error("the certificate has expired, and the counts do not say so")
		}
		l.after(t, 30*day)
		if _, _, err := credentials.Renew(l.dir, nil, nil, time.Now(), time.Now().Add(60*day)); err != nil {
			t.Fatal(err)
		}
		l.after(t, 0, "event=certificate.read path=control changed=\"[tls.crt tls.key]\" until=2001-04-02T00:00:00.000Z")
		if counts.Snapshot().TLSInvalid || l.serial() == first {
			t.Error("the certificate was not renewed")
		}
		l.after(t, 46*day)
		l.after(t, day, "the certificate expires at 2001-04-02")
	})
}

// TestShortCertificate: a certificate of a day is worth one warning, six hours before its end, and not one all the time.
func TestShortCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLab(t, 0, day)
		for range 18 {
			l.after(t, time.Hour)
		}
		l.after(t, time.Hour, "level=WARN msg=\"the certificate expires at 2000-01-02 00:00 UTC")
		for range 4 {
			l.after(t, time.Hour)
		}
		l.after(t, time.Hour+3*time.Second, "level=ERROR msg=\"no client can connect")
	})
}

// TestCertificateCopies: nobody but systemd writes to a service's copies of LoadCredential, and a reload makes no new ones.
func TestCertificateCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLab(t, 0, day)
		t.Setenv("CREDENTIALS_DIRECTORY", filepath.Join(l.dir, credentials.Server))
		const try = "; its files are copies of LoadCredential's; try: new files there, then systemctl restart"
		l.reload()
		l.logged(t, "the certificate has not changed"+try)
		l.after(t, day-time.Hour, "the certificate expires at 2000-01-02 00:00 UTC"+try)
		l.after(t, 2*time.Hour, "to 2000-01-02 00:00 UTC"+try)
	})
}

// TestCertificateChanges replaces the files of a certificate in the ways of operators. As long as the files cannot
// be used, the server keeps the old certificate, and logs the reason once.
func TestCertificateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, hangup := openLab(t, 0, 365*day), make(chan os.Signal)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go l.watch(ctx, hangup)
		first := l.serial()
		changes := func(parts ...string) {
			t.Helper()
			before := l.serial()
			time.Sleep(5 * readEvery)
			l.logged(t, parts...)
			if read := len(parts) > 0 && strings.Contains(parts[0], ".read"); read == (l.serial() == before) {
				t.Errorf("%q: the certificate was %s and is %s", parts, before, l.serial())
			}
		}
		server := func(from time.Duration) string {
			return filepath.Join(makeLab(t, from, from+365*day), credentials.Server)
		}
		other, mine := server(0), filepath.Join(l.dir, credentials.Server)
		all := []string{"tls.crt", "tls.key", "ca.crt"}
		l.take(t, other, "tls.key")
		changes("event=certificate.kept path=control error=\"load the certificate " + mine + "/tls.crt and its key " + mine + "/tls.key: tls: private key does not match public key; try: ")
		l.take(t, other, "tls.crt")
		changes("it is not from the CA of this end")
		l.take(t, other, "ca.crt")
		changes("event=certificate.read path=control changed=\"[ca.crt tls.crt tls.key]\"")
		l.take(t, filepath.Join(l.dir, credentials.Client), all...)
		changes("it is for the other end: a client's cannot serve")
		l.take(t, server(-366*day), all...)
		changes("it is valid only from")
		l.take(t, other, all...)
		changes()
		hangup <- os.Interrupt
		l.logged(t, "level=INFO msg=\"the certificate has not changed\" event=certificate.read")
		for range 2 { // also if none can be read, and again
			if err := os.Rename(mine, mine+".away"); err != nil {
				t.Fatal(err)
			}
			hangup <- os.Interrupt
			l.logged(t, "event=certificate.kept")
			if err := os.Rename(mine+".away", mine); err != nil {
				t.Fatal(err)
			}
		}

		// As the kubelet does: a link to a new directory replaces the link to the old one.
		swap := func(secret string) {
			t.Helper()
			link := filepath.Join(mine, "..data_tmp")
			err := os.Symlink(secret, link)
			if err == nil {
				err = os.Rename(link, filepath.Join(mine, "..data"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		swap(other)
		for _, file := range all {
			err := os.Remove(filepath.Join(mine, file))
			if err == nil {
				err = os.Symlink("..data/"+file, filepath.Join(mine, file))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		changes()
		swap(server(0))
		changes("event=certificate.read")

		// A certificate of the next hour is taken then, although its files do not change.
		swap(server(time.Hour))
		changes("it is valid only from 2000-01-01 01:0")
		time.Sleep(time.Hour)
		l.logged(t, "event=certificate.read")
		if l.serial() == first {
			t.Error("the first certificate is still there")
		}
	})
}

// TestCertificateAtStart starts with certificates that are not valid now, and refuses a client's.
func TestCertificateAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, from := range []time.Duration{-9 * day, day} {
			l := openLab(t, from, from+8*day)
			l.remind()
			l.logged(t, "no client can connect: the certificate is valid only from ")
			if v := l.current.Load(); v.Now() || v.Until.Sub(v.From) != 8*day {
				t.Errorf("valid from %v to %v", v.From, v.Until)
			}
		}
		o := ServerOptions{Options: Options{TLS: filepath.Join(makeLab(t, 0, day), credentials.Client)}}
		if _, err := o.certificates(); err == nil || !strings.Contains(err.Error(), "it is for the other end: a client's cannot serve") {
			t.Errorf("with a client's certificate the server starts: %v", err)
		}
	})
}

// TestNoSessionTickets connects twice with a client that keeps session tickets. The server gives none, because a ticket
// would outlive the CA that is replaced.
func TestNoSessionTickets(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "lab"), time.Now()
	if err := credentials.Make(dir, []string{"127.0.0.1"}, []string{credentials.Client}, now.Add(-time.Hour), now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	o := ServerOptions{Options: Options{TLS: filepath.Join(dir, credentials.Server), Logger: slog.New(slog.DiscardHandler)}}
	server, err := o.certificates()
	if err != nil {
		t.Fatal(err)
	}
	client, err := secure.Load(filepath.Join(dir, credentials.Client))
	if err != nil {
		t.Fatal(err)
	}
	cfg := server.config() // one for all clients, as in Serve
	client.ServerName, client.ClientSessionCache = "127.0.0.1", tls.NewLRUClientSessionCache(1)
	client.SessionTicketsDisabled = false
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello")) // after the tickets
			c.Close()
		}
	}()
	for range 2 {
		c, err := tls.Dial("tcp", listener.Addr().String(), client)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(testkit.Deadline()); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
		if c.ConnectionState().DidResume {
			t.Error("the client has resumed the session of a ticket")
		}
		c.Close()
	}
}

// TestTLSAllowFails checks that no choice of --tls-allow serves everyone.
func TestTLSAllowFails(t *testing.T) {
	s, err := Select(ServerRole, nil, func(*pflag.FlagSet) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []ServerOptions{
		{Selection: s, TLSAllow: []string{"alice"}},
		{Selection: s, TLSAllow: []string{""}, Options: Options{TLS: "lab/server"}},
	} {
		o.IBPort, o.Timeout, o.MaxClients, o.MaxSize = 1, time.Second, 1, 1
		if err := o.check(); err == nil || !strings.Contains(err.Error(), "--tls-allow") {
			t.Errorf("%q with --tls %q: %v", o.TLSAllow, o.TLS, err)
		}
	}
}
