//go:build operations

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestPrometheus has Debian's Prometheus scrape a server, and compares what Prometheus then knows
// with what the jobs report.
func TestPrometheus(t *testing.T) {
	noLeak(t)
	s := serve(t, never, "--metrics", "127.0.0.1:0", "--max-memory", "32M")
	dir, at := t.TempDir(), net.JoinHostPort("127.0.0.1", freePort(t))
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs:\n- job_name: rawverbs\n  static_configs: [{targets: [%q]}]\n",
		s.event("metrics.served").str("address"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, "prometheus", []string{"prometheus", "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", at})
	testkit.Until(t, "ready Prometheus", func() bool {
		select {
		case <-p.over:
			t.Fatal("prometheus has ended:", &p.stderr)
		default:
		}
		nc, err := net.Dial("tcp", at)
		if err != nil {
			return false
		}
		nc.Close()
		status, _ := get(t, "http://"+at+"/-/ready")
		return status == http.StatusOK
	})

	query := func(t *testing.T, series string) float64 { return ask(t, at, series) }
	testkit.Until(t, "first scrape", func() bool { return query(t, `up{job="rawverbs"}`) == 1 })
	expectFigures(t, s, query)
	s.stops()
}

// ask evaluates an expression with Prometheus; -1 without a result.
func ask(t *testing.T, at, series string) float64 {
	t.Helper()
	_, text := get(t, "http://"+at+"/api/v1/query?query="+url.QueryEscape(series))
	var answer struct {
		Status string
		Error  string
		Data   struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s: %v: %s", series, err, text)
	}
	if len(answer.Data.Result) != 1 {
		return -1
	}
	value, err := strconv.ParseFloat(answer.Data.Result[0].Value[1].(string), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
