package rnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

var bodyBytes = flag.Int64("rnet.body", 10<<20, "bytes of the bodies in TestHTTP")

// protocols are the ways in which net/http can speak over rnet.
var protocols = []struct {
	name   string
	set    func(*http.Protocols)
	secure bool
	want   string
}{
	{"HTTP 1.1", func(p *http.Protocols) { p.SetHTTP1(true) }, false, "HTTP/1.1"},
	{"HTTP 1.1 over TLS", func(p *http.Protocols) { p.SetHTTP1(true) }, true, "HTTP/1.1"},
	{"HTTP 2", func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }, false, "HTTP/2.0"},
	{"HTTP 2 over TLS", func(p *http.Protocols) { p.SetHTTP2(true) }, true, "HTTP/2.0"},
}

// web is a web server over rnet, and a client of it.
type web struct {
	client *http.Client
	url    string
}

// serveWeb starts a server. The end of the test stops it and waits until all Conns are freed.
func serveWeb(t *testing.T, handler http.Handler, set func(*http.Protocols), secure bool) web {
	var open sync.WaitGroup
	l, d := listen(t, ListenConfig{Config: Config{ConnState: func(_ *Conn, s ConnState) { count(&open, s) }}})
	d.ConnState = func(_ *Conn, s ConnState) { count(&open, s) }
	var p http.Protocols
	set(&p)
	server := &http.Server{Handler: handler, Protocols: &p, ErrorLog: log.New(io.Discard, "", 0)}
	clientTLS, serverTLS := certificate(t)
	transport := &http.Transport{Protocols: &p, TLSClientConfig: clientTLS, MaxIdleConnsPerHost: 100,
		DialContext: d.DialContext}
	serve, scheme := func() error { return server.Serve(l) }, "http"
	if secure {
		server.TLSConfig = serverTLS
		serve, scheme = func() error { return server.ServeTLS(l, "", "") }, "https"
	}
	go func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		over := make(chan error, 1)
		go func() { over <- server.Shutdown(context.Background()); open.Wait(); close(over) }()
		if err := testkit.Receive(t, over, "end of the server"); err != nil {
			t.Error("shut down:", err)
		}
		testkit.Receive(t, over, "end of all Conns")
	})
	return web{&http.Client{Transport: transport, Timeout: testkit.Limit}, scheme + "://" + l.Addr().String()}
}

func count(open *sync.WaitGroup, s ConnState) {
	if s == StateOpen {
		open.Add(1)
	} else {
		open.Done()
	}
}

// get makes a request and returns the answer's body.
func (w web) get(path string) ([]byte, *http.Response, error) {
	reused := new(atomic.Bool)
	ctx := context.WithValue(context.Background(), reusedKey{}, reused)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { reused.Store(got.Reused) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		return nil, nil, err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return body, response, err
}

// reusedKey is the key in a request's context of whether an earlier request has used its Conn.
type reusedKey struct{}

// stream returns n bytes that follow from the seed.
func stream(n int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), n) }

func sum(r io.Reader) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return fmt.Sprintf("%d %x", n, h.Sum(nil)), err
}

func TestHTTP(t *testing.T) {
	softtest.Long(t)
	cancelled := make(chan error, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s, by %s", r.RemoteAddr, r.Proto)
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, stream(*bodyBytes)) })
	mux.HandleFunc("/sum", func(w http.ResponseWriter, r *http.Request) {
		s, err := sum(r.Body)
		fmt.Fprint(w, s, err)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		cancelled <- r.Context().Err()
	})
	want, _ := sum(stream(*bodyBytes))
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			w := serveWeb(t, mux, p.set, p.secure)
			hello := func() (reused bool) {
				body, response, err := w.get("/hello")
				if err != nil || response.Proto != p.want || !bytes.HasPrefix(body, []byte("hello "+host)) {
					t.Fatalf("%q, %v", body, err)
				}
				return response.Request.Context().Value(reusedKey{}).(*atomic.Bool).Load()
			}
			for range 20 {
				hello()
			}
			// net/http gives up a Conn if the goroutine that wrote the request reports 50 ms after the
			// answer, so on a busy host a request may need another one.
			testkit.Until(t, "request on a Conn of an earlier one", hello)
			response, err := w.client.Get(w.url + "/big")
			if err != nil {
				t.Fatal(err)
			}
			got, err := sum(response.Body)
			response.Body.Close()
			if got != want || err != nil {
				t.Errorf("a big answer: %s, %v; want %s", got, err, want)
			}
			response, err = w.client.Post(w.url+"/sum", "application/octet-stream", stream(*bodyBytes))
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if string(body) != want+"<nil>" {
				t.Errorf("a big request: %s, want %s", body, want)
			}
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if _, _, err := w.get("/hello"); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			w.cancel(t, cancelled)
			if _, _, err := w.get("/hello"); err != nil {
				t.Error("after a cancelled request:", err)
			}
		})
	}
}

// cancel cancels a request whose answer has begun. The handler must notice.
func (w web) cancel(t *testing.T, noticed chan error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	cancel()
	if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := testkit.Receive(t, noticed, "end of the handler"); !errors.Is(err, context.Canceled) {
		t.Errorf("the handler was not cancelled: %v", err)
	}
}
