// Package metrics serves a server's counts to Prometheus, and its health to programs that restart it.
package metrics

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rawverbs/rawverbs/cmd/internal/app/run"
	"github.com/rawverbs/rawverbs/cmd/internal/app/version"
	"github.com/rawverbs/rawverbs/cmd/internal/view/report"
	"github.com/rawverbs/rawverbs/internal/event"
)

// Server answers /metrics and /healthz. [Listen] makes it; it is valid until Close.
type Server struct {
	http http.Server
	over chan struct{}
}

// maxConns is far more than a few Prometheus servers and probes need. Without a limit, a stranger's
// connections could use up the files that rdma_server may open.
const maxConns = 64

// Listen serves the counts of a server at the TCP address "host:port", and logs the address. ctx
// limits only the look-up of the host's name.
func Listen(ctx context.Context, address string, counts *run.Counts, log *slog.Logger) (*Server, error) {
	registry := prometheus.NewPedanticRegistry()
	goroutines := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rawverbs_goroutines", Help: "Goroutines when the scrape began. go_goroutines also counts a varying number that collect the metrics."})
	registry.MustRegister(collector{counts}, goroutines, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		try := "--metrics 127.0.0.1:9435"
		if errors.Is(err, syscall.EADDRINUSE) {
			try = "another port; ss -ltnp shows who has this one"
		}
		return nil, errors.Errorf("--metrics %s: %v; try: %s", address, err, try)
	}
	mux := http.NewServeMux()
	collect := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, DisableCompression: true})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		goroutines.Set(float64(runtime.NumGoroutine()))
		collect.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { health(w, counts.Snapshot()) })
	event.MetricsServed.Log(log.With(slog.String("who", "server")), "metrics at http://"+listener.Addr().String()+"/metrics, health at /healthz",
		slog.String("address", listener.Addr().String()))
	var handler http.Handler = mux
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		handler = report.LocalOnly(mux)
	}
	s := &Server{over: make(chan struct{}), http: http.Server{
		Addr:    listener.Addr().String(),
		Handler: handler, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go func() {
		defer close(s.over)
		_ = report.ServeHTTP(&s.http, listener, maxConns) // ends with Close
	}()
	return s, nil
}

// buildInfo is go_build_info with the version that the programs print.
func buildInfo() prometheus.Collector {
	path, sum := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		path, sum = info.Main.Path, info.Main.Sum
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "go_build_info", Help: "Build information about the main Go module.",
		ConstLabels: prometheus.Labels{"path": path, "version": version.String(), "checksum": sum}}, func() float64 { return 1 })
}

// Close ends all connections.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.over
	return err
}

// health answers 200 while the server takes clients, and they can connect to its device with its certificate. Otherwise
// it answers 503, with each reason.
func health(w http.ResponseWriter, s run.Snapshot) {
	var why []string
	if s.TLSInvalid {
		why = append(why, "the certificate is valid only "+s.TLS.String())
	}
	if s.Down != nil {
		why = append(why, s.Down.Error())
	}
	text := s.State.String()
	if len(why) > 0 {
		text += ", but no client can connect: " + strings.Join(why, "; and ")
	}
	if s.State != run.Serving || len(why) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(text + "\n"))
}
