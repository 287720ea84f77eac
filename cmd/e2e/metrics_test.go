package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// lookUp returns the value of a metric, as in `rawverbs_jobs_total{rdma_job="bulk",outcome="failed"}`.
type lookUp func(t *testing.T, series string) float64

// TestMetrics runs jobs and compares what the server counts with what the jobs report.
func TestMetrics(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t, never, "--metrics", "127.0.0.1:0", "--max-memory", "32M")
	address := s.event("metrics.served").str("address")
	expectFigures(t, s, func(t *testing.T, series string) float64 {
		_, text := get(t, "http://"+address+"/metrics")
		return valueOf(t, text, series)
	})
	if status := getAs(t, "http://"+address+"/metrics", "rebound.example"); status != http.StatusForbidden {
		t.Errorf("a page of another name reads the metrics: status %d", status)
	}
	s.held.expect(t, s)
	s.stops()
}

// TestMetricsOfGoroutines reads the metrics of an idle server often. That leaves no goroutine behind. The
// number of goroutines varies at most while a collector of the last scrape still ends.
func TestMetricsOfGoroutines(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t, "--metrics", "127.0.0.1:0")
	client := http.Client{Timeout: testkit.Limit, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	count := func() float64 {
		answer, err := client.Get("http://" + s.event("metrics.served").str("address") + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return valueOf(t, string(body), goroutineSeries)
	}
	var first, later []float64
	for range 10 {
		first = append(first, count())
	}
	for range 40 {
		later = append(later, count())
	}
	testkit.Until(t, "idle server without the goroutines of many scrapes", func() bool {
		later = append(later, count())
		return later[len(later)-1] <= slices.Max(first)
	}, func() string { return fmt.Sprint(first, " ", later) })
	client.CloseIdleConnections()
	s.stops()
}

// getAs fetches a page as a browser does that takes the server for another host.
func getAs(t *testing.T, url, host string) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// expectFigures runs jobs with a new server and checks the server's metrics afterwards.
func expectFigures(t *testing.T, s *server, value lookUp) {
	t.Helper()
	var bytes float64
	for _, flags := range [][]string{{"--size", "8M"}, {"--size", "3M", "--op", "read"}, {"--size", "1M", "--op", "send"}} {
		c := s.client(t, append(flags, "--job", "bulk")...)
		c.succeeds()
		bytes += c.find("bulk.done")["bytes"].(float64)
	}
	stream := s.client(t, "--job", "net-stream", "--size", "2M")
	stream.succeeds()
	done := stream.find("net.done")
	s.client(t, "--size", "1T").fails(1, "the client asks for 1T bytes")
	dialRaw(t, s).Close()
	s.event("client.failed", "error", "before it sent anything")
	s.client(t, "--job", "bulk", "--chunk", "1M", "--outstanding", "60", "--size", "1G").fails(1, "--max-memory")
	holds := muteClient(t, s) // a job in progress

	var flushed float64
	s.mu.Lock()
	for _, r := range s.recorded() {
		if n, is := r["flushed"].(float64); is {
			flushed += n
		}
	}
	s.mu.Unlock()
	for series, want := range map[string]float64{
		`rawverbs_connections_total`:                                     8,
		`rawverbs_connections_refused_total{reason="closed"}`:            1,
		`rawverbs_connections_refused_total{reason="memory"}`:            1,
		`rawverbs_connections_refused_total{reason="tls"}`:               0,
		`rawverbs_budget_memory_limit_bytes`:                             32 << 20,
		fmt.Sprintf(`rawverbs_port_up{device=%q}`, device):               1,
		`rawverbs_clients`:                                               1,
		`rawverbs_jobs_total{rdma_job="bulk",outcome="succeeded"}`:       3,
		`rawverbs_jobs_total{rdma_job="bulk",outcome="failed"}`:          0,
		`rawverbs_jobs_total{rdma_job="send",outcome="failed"}`:          1,
		`rawverbs_jobs_total{rdma_job="net-stream",outcome="succeeded"}`: 1,
		`rawverbs_jobs_total{rdma_job="atomic",outcome="failed"}`:        0,
		`rawverbs_completions_total{status="IBV_WC_LOC_EEC_OP_ERR"}`:     0,
		`rawverbs_job_duration_seconds_count{rdma_job="bulk"}`:           3,
		`rawverbs_job_duration_seconds_count{rdma_job="send"}`:           0, // its parameters were refused
		`rawverbs_job_duration_seconds_count{rdma_job="file"}`:           0,
		`rawverbs_job_bytes_total{rdma_job="bulk"}`:                      bytes,
		`rawverbs_job_bytes_total{rdma_job="net-stream"}`:                done["written"].(float64) + done["read"].(float64),
	} {
		var got float64
		testkit.Until(t, "expected "+series, func() bool { got = value(t, series); return got == want }, func() string {
			return fmt.Sprintf("%s is %v, want %v", series, got, want)
		})
	}
	// A busy host makes some; valueOf returns -1 for a series that does not exist.
	if n := value(t, fmt.Sprintf(`rawverbs_retransmits_total{device=%q}`, device)); n < 0 {
		t.Errorf("%v packets were sent again", n)
	}
	var asked float64
	testkit.Until(t, "memory of a job in progress", func() bool { asked = value(t, `rawverbs_budget_memory_bytes`); return asked > 0 && asked <= 32<<20 }, func() string {
		return fmt.Sprintf("a job in progress has asked for %v bytes", asked)
	})
	if n := value(t, `rawverbs_completions_total{status="IBV_WC_SUCCESS"}`); n < 100 {
		t.Errorf("%v completions succeeded", n)
	}
	// rnet reads flushed completions before the queue pair is drained; no event has these.
	if n := value(t, `rawverbs_completions_total{status="IBV_WC_WR_FLUSH_ERR"}`); n < flushed || flushed == 0 {
		t.Errorf("%v flushed completions, and the events have %v", n, flushed)
	}
	holds.Close()
	s.event("client.failed", "peer", holds.TCP().LocalAddr().String())
}

// valueOf returns the value of a series in the text format, with any order of the labels.
func valueOf(t *testing.T, text, series string) float64 {
	t.Helper()
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name+" ") && !strings.HasPrefix(line, name+"{") {
			continue
		}
		all := true
		for _, label := range regexp.MustCompile(`\w+="[^"]*"`).FindAllString(labels, -1) {
			all = all && strings.Contains(line, label)
		}
		if all {
			fields := strings.Fields(line)
			value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	return -1
}

// get fetches a page on a connection of its own.
func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	client := http.Client{Timeout: testkit.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestGrace stops a server during a job. The job in progress ends normally, new clients are refused,
// and the health check reports it. A job that does not end in time is cut. With --once it is the same.
func TestGrace(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	const long = "--grace=1h" // longer than testkit.Limit
	s := serve(t, long, "--metrics", "127.0.0.1:0")
	health := "http://" + s.event("metrics.served").str("address") + "/healthz"
	testkit.Until(t, "health of a server that serves", func() bool {
		status, text := get(t, health)
		return status == http.StatusOK && text == "serving\n"
	})
	conn, add := rawAdder(t, s, "1")
	s.signal(unix.SIGTERM)
	s.event("server.stopping", "msg", "no new clients; 1 client has 1h0m0s to end")
	if status, text := get(t, health); status != http.StatusServiceUnavailable || text != "stopping\n" {
		t.Errorf("%d %s", status, text)
	}
	s.client(t).fails(1, "connection refused")
	add(1)
	finishAdder(t, conn, "1")
	s.succeeds()
	if r := s.find("server.stopped"); r == nil || r["done"] != 1.0 {
		t.Errorf("last record %v", r)
	}

	once := serve(t, "--once", long)
	conn, add = rawAdder(t, once, "1")
	once.signal(unix.SIGTERM)
	once.event("server.stopping", "msg", "no new clients")
	add(1)
	finishAdder(t, conn, "1")
	once.succeeds()

	short := serve(t, never, "--grace", "300ms")
	conn = muteClient(t, short)
	short.signal(os.Interrupt)
	short.fails(130, "stopped by SIGINT")
	if _, err := conn.WaitRecv(testkit.Context(t)); err == nil {
		t.Error("the client got a message")
	}
}
