//go:build operations

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestOpsPrometheus has Debian's Prometheus scrape a server, and compares what Prometheus then knows
// with what the jobs report. The alerts of deploy/ fire for the first failures, and the dashboard's queries have results.
func TestOpsPrometheus(t *testing.T) {
	noLeak(t)
	s := serve(t, never, "--metrics", "127.0.0.1:0", "--max-memory", "32M")
	target := s.event("metrics.served").str("address")
	certificate, _ := certificates(t, ipv4)
	secured := serve(t, "--metrics", "127.0.0.1:0", "--tls", certificate, "--listen", ipv4)
	_, text := get(t, "http://"+target+"/metrics")
	promtool(t, text, "check", "metrics")

	dir, at := t.TempDir(), net.JoinHostPort("127.0.0.1", freePort(t))
	config := filepath.Join(dir, "prometheus.yml")
	text = fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\nrule_files: [%q]\n"+
		"scrape_configs:\n- job_name: rawverbs\n  static_configs: [{targets: [%q]}]\n- job_name: other\n  static_configs: [{targets: [%q]}]\n",
		deployedFile(t, "prometheus", "rules.yml"), target, secured.event("metrics.served").str("address"))
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

	query := func(t *testing.T, series string) float64 {
		if all := ask(t, at, series+` and on (job) up{job="rawverbs"}`); len(all) == 1 {
			return all[0]
		}
		return -1
	}
	testkit.Until(t, "first scrape", func() bool { return query(t, `up{job="rawverbs"}`) == 1 })
	expectFigures(t, s, query)
	for _, alert := range []string{`alertname="RDMAJobsFail", rdma_job="send"`, `alertname="RDMAClientsRefused", reason="memory"`} {
		testkit.Until(t, "alert "+alert, func() bool { return query(t, `ALERTS{alertstate="firing", `+alert+`}`) == 1 })
	}
	testkit.Until(t, "both servers, by their metrics", func() bool { return len(ask(t, at, `rawverbs:up == 1`)) == 2 })
	expectRunbook(t, at)
	expectDashboard(t, at)
	secured.stops()
	s.stops()
}

// TestOpsRules checks the alerts of deploy/ with their own tests.
func TestOpsRules(t *testing.T) {
	promtool(t, "", "check", "rules", "--lint=all", "--lint-fatal", deployedFile(t, "prometheus", "rules.yml"))
	promtool(t, "", "test", "rules", deployedFile(t, "prometheus", "rules_test.yml"))
}

// promtool runs a command of Prometheus's tool, and fails with what it complains of.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(testkit.Context(t), "promtool", args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// deployedFile returns the path of a file of deploy/.
func deployedFile(t *testing.T, name ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"..", "..", "deploy"}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// expectRunbook checks that each alert leads to its own section of the runbook, and that no section is left over.
func expectRunbook(t *testing.T, at string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sections []string
	for line := range strings.Lines(string(page)) {
		if name, is := strings.CutPrefix(line, "## "); is {
			sections = append(sections, strings.TrimSpace(name))
		}
	}
	type rule struct {
		Name, Type, Health, LastError string
		Annotations                   map[string]string
	}
	var answer struct {
		Data struct{ Groups []struct{ Rules []rule } }
	}
	_, text := get(t, "http://"+at+"/api/v1/rules")
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Data.Groups) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	rules := slices.DeleteFunc(answer.Data.Groups[0].Rules, func(r rule) bool { return r.Type == "recording" })
	alerts := map[string]bool{} // some have two severities
	for _, rule := range rules {
		alerts[rule.Name] = true
		if rule.Health != "ok" || rule.Annotations["summary"] == "" {
			t.Errorf("%+v", rule)
		}
		if _, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "/docs/runbook.md#"); anchor != strings.ToLower(rule.Name) || !slices.Contains(sections, rule.Name) {
			t.Errorf("%s leads to %q, and the runbook has %v", rule.Name, anchor, sections)
		}
	}
	if n := len(alerts); n != len(sections) {
		t.Errorf("%d alerts, and the runbook has %d sections", n, len(sections))
	}
}

// expectDashboard checks that each query of the dashboard has a result.
func expectDashboard(t *testing.T, at string) {
	t.Helper()
	data, err := os.ReadFile(deployedFile(t, "grafana", "rawverbs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	grafana := strings.NewReplacer("$instance", ".*", "$__rate_interval", "5m", "$__range", "5m")
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries++
			testkit.Until(t, panel.Title+" of the dashboard", func() bool {
				return slices.ContainsFunc(ask(t, at, grafana.Replace(target.Expr)), func(v float64) bool { return !math.IsNaN(v) })
			}, func() string { return target.Expr })
		}
	}
	if queries < 20 {
		t.Errorf("only %d queries", queries)
	}
}

// ask evaluates an expression with Prometheus.
func ask(t *testing.T, at, series string) (values []float64) {
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
	for _, result := range answer.Data.Result {
		value, err := strconv.ParseFloat(result.Value[1].(string), 64)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	return values
}
