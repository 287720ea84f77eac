package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

var reportData = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

// reportPage is what a report draws.
type reportPage struct {
	Record struct {
		Job, Error     string
		Client, Server struct{ Device string }
	}
	Events []struct {
		End, Event, Verb, Msg string
		Attrs                 struct {
			QPN, From, To, Opcode string
			Status                any // a number in dumps
			Attr                  map[string]string
		}
	}
	Packets []struct {
		From, QPN, Opcode string
		PSN               uint32
		Event             *int // the request that it belongs to
	}
}

// reportOf reads the data of a report.
func reportOf(t *testing.T, file string) (d reportPage) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := reportData.FindSubmatch(page)
	if m == nil {
		t.Fatalf("%s has no data", file)
	}
	if err := json.Unmarshal(m[1], &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// drawsTheRun checks that a report of the job send has the queue pairs of both ends, each with the other's
// number, their states, and the requests with their completions.
func (d *reportPage) drawsTheRun(t *testing.T) {
	t.Helper()
	own, dest, states, posted, done := map[string]string{}, map[string]string{}, map[string]string{}, map[string]int{}, map[string]int{}
	for _, e := range d.Events {
		switch a := e.Attrs; e.Event {
		case "object.made":
			if e.Verb == "ibv_create_qp" {
				own[e.End] = a.QPN
			}
		case "qp.transition":
			states[e.End] += a.From + "→" + a.To + " "
			if to := a.Attr["DEST_QPN"]; to != "" {
				dest[e.End] = to
			}
		case "wr.posted":
			posted[e.End+" "+e.Msg]++
		case "wr.completed":
			done[fmt.Sprint(e.End, " ", a.Opcode, " ", a.Status)]++
		}
	}
	for _, end := range []string{"client", "server"} {
		other := map[string]string{"client": "server", "server": "client"}[end]
		if own[end] == "" || dest[other] != own[end] {
			t.Errorf("the queue pair of the %s is %q, and the %s sends to %q", end, own[end], other, dest[other])
		}
		if states[end] != "RESET→INIT INIT→RTR RTR→RTS RTS→ERR " {
			t.Errorf("the states of the %s are %s", end, states[end])
		}
		if posted[end+" post SEND"] != 1 || done[end+" IBV_WC_SEND IBV_WC_SUCCESS"] != 1 || done[end+" IBV_WC_RECV IBV_WC_SUCCESS"] != 1 {
			t.Errorf("the %s: posted %v, completed %v", end, posted, done)
		}
	}
	if d.Record.Client.Device == "" || d.Record.Server.Device == "" {
		t.Errorf("the devices are %+v", d.Record)
	}
}

// TestReport checks that the client's report, and that of rdma_lab, have what the record has.
func TestReport(t *testing.T) {
	noLeak(t)
	s := serve(t)
	folder := t.TempDir()
	record, own, drawn := filepath.Join(t.TempDir(), "run.jsonl"), filepath.Join(folder, "own.html"), filepath.Join(folder, "run.html")
	c := s.client(t, "--record", record, "--report", own)
	c.succeeds()
	if r := c.find("report.written"); r == nil || r.str("file") != own {
		t.Errorf("logged %v", r)
	}
	rec := readRecord(t, record)
	lab := start(t, "rdma_lab", "report", "--output", drawn, record)
	lab.succeeds()
	again := start(t, "rdma_lab", "report", "--output", drawn, record)
	again.succeeds()
	if once, twice := strings.Join(lab.lines, ""), strings.Join(again.lines, ""); strings.Contains(once, "replaced") || !strings.Contains(twice, "(an earlier file is replaced)") {
		t.Errorf("printed %q and %q", once, twice)
	}
	for _, file := range []string{own, drawn} {
		d := reportOf(t, file)
		if len(d.Events) != len(rec.Events) || d.Record.Job != rec.Job {
			t.Errorf("%s has %d events of %q, want %d of %q", file, len(d.Events), d.Record.Job, len(rec.Events), rec.Job)
		}
		d.drawsTheRun(t)
		if soft := strings.HasPrefix(device, "soft"); (len(d.Packets) > 0) != (soft && file == own) {
			t.Errorf("%s has %d packets", file, len(d.Packets))
		}
	}
	s.held.expect(t, s)
	s.stops()
}

// TestReportOfAFailure checks that a run that fails has its report too, with the reason.
func TestReportOfAFailure(t *testing.T) {
	noLeak(t)
	file := filepath.Join(t.TempDir(), "run.html")
	c := start(t, "rdma_client", "--json", "--report", file, ipv4, device, "1")
	c.fails(1, "refused")
	if d := reportOf(t, file); !strings.Contains(d.Record.Error, "refused") || len(d.Events) == 0 {
		t.Errorf("%+v", d.Record)
	}
}

// TestWrongReports checks that each wrong input gives one error, and no page.
func TestWrongReports(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t)
	folder := t.TempDir()
	name := func(file string) string { return filepath.Join(folder, file) }
	s.client(t, "--record", name("good")).succeeds()
	s.stops()
	good, err := os.ReadFile(name("good"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(good), "\n")
	for file, text := range map[string]string{
		"empty": "", "cut": strings.Join(lines[:len(lines)/2], ""), "text": "hello\n", "version": strings.Replace(string(good), `"version":1`, `"version":9`, 1),
		"line": lines[0] + "{\n", "capture": "no capture", "cut.pcap": "\x4d\x3c\xb2\xa1\x02\x00",
	} {
		if err := os.WriteFile(name(file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{name("missing")}, "rdma_client --record"},
		{[]string{name("empty")}, "the record is empty"},
		{[]string{name("cut")}, "it was cut"},
		{[]string{name("text")}, "not a record of a run"},
		{[]string{name("version")}, "version 9"},
		{[]string{name("line")}, "line 2 of the record"},
		{[]string{name("good"), name("missing")}, "--pcap"},
		{[]string{name("good"), name("capture")}, "not a capture"},
		{[]string{name("good"), "server=" + name("cut.pcap")}, "it was cut"},
		{[]string{"-o", filepath.Join(folder, "none", "x.html"), name("good")}, "a folder that exists"},
	} {
		out := name("page.html")
		args := append([]string{"report", "--output", out}, c.args...)
		lab := start(t, "rdma_lab", args...)
		lab.fails(1, c.want)
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%v: a page is there", c.args)
		}
	}
}

// TestServedPage checks that the server's page has a client's events, and that wrong addresses are refused.
func TestServedPage(t *testing.T) {
	noLeak(t)
	s := serve(t, "--http", "0")
	served := s.event("page.served")
	if address := served.str("address"); !strings.HasPrefix(address, "127.0.0.1:") || served["open"] != false {
		t.Fatalf("%v", served)
	}
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, "http://"+served.str("address")+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	s.client(t).succeeds()
	var text strings.Builder
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() && !strings.Contains(lines.Text(), `"state":"done"`) {
		text.WriteString(lines.Text())
	}
	text.WriteString(lines.Text())
	for _, want := range []string{"RESET→INIT", "INIT→RTR", "RTR→RTS", `"who":"server/1"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the page does not get %q", want)
		}
	}
	answer.Body.Close() // ends the connection, which the server has open
	http.DefaultClient.CloseIdleConnections()
	s.held.expect(t, s)
	s.stops()
	for _, address := range []string{":80", "host:80", "x"} {
		wrong := start(t, "rdma_server", "--http", address, device, "0")
		wrong.fails(2, "--http", "try: ")
	}
}
