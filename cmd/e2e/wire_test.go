//go:build lab && !rdma

package e2e

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The sections of docs/on-the-wire.md with a job's packets come from a run of the job on a
// soft device. This command writes them:
//
//	make on-the-wire
//
// TestLabWire compares them with another run. For a new job, add a line to wireJobs and an
// empty section to the document:
//
//	<!-- job NAME -->
//	<!-- end -->

// wireJobs are the jobs in the document, with the client's flags in shell syntax. The ends of the
// exchange jobs send at the same time, so their packets come in no certain order.
var wireJobs = []struct{ name, flags string }{
	{"send", "--text 'hello over RDMA'"},
	{"write-read", "--text 'hello over RDMA'"},
	{"write-imm", "--text 'hello over RDMA'"},
	{"atomic", "--count 2"},
}

// The devices and the port of the document's commands. The test uses others.
const (
	wireServer = "127.0.1.1"
	wireClient = "127.0.1.2"
	wirePort   = "18515"
)

// sectionOf matches the section of a job. Its second group is the generated part.
func sectionOf(job string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)(<!-- job ` + job + ` -->\n)(.*?)(<!-- end -->\n)`)
}

func TestLabWire(t *testing.T) {
	noLeak(t)
	text, err := os.ReadFile(wireDocument)
	if err != nil {
		t.Fatal(err)
	}
	document := string(text)
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`<!-- job (\S+) -->`).FindAllStringSubmatch(document, -1) {
		shown[m[1]] = true
	}
	for _, job := range wireJobs {
		section := sectionOf(job.name).FindStringSubmatch(document)
		if section == nil {
			t.Errorf("%s has no section of the job %s", wireDocument, job.name)
			continue
		}
		delete(shown, job.name)
		flags := strings.TrimSpace("--job " + job.name + " " + job.flags)
		commands := []string{
			fmt.Sprintf("./rdma_server --once soft:%s %s &", wireServer, wirePort),
			fmt.Sprintf("./rdma_client --pcap %s.pcap %s %s soft:%s %s", job.name, flags, wireServer, wireClient, wirePort),
			fmt.Sprintf("scripts/capture.sh --read %s.pcap", job.name),
		}
		packets := captureJob(t, flags)
		if *update {
			block := "```console\n$ " + strings.Join(commands, "\n$ ") + "\n" + packets + "```\n"
			document = strings.Replace(document, section[0], section[1]+block+section[3], 1)
			continue
		}
		for _, command := range commands {
			if !strings.Contains(section[2], "\n$ "+command+"\n") {
				t.Errorf("%s, job %s: not the command that was run: %s", wireDocument, job.name, command)
			}
		}
		want, got := shapeOf(t, section[2]), shapeOf(t, packets)
		if len(got) == 0 || !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s, job %s, has packets that the job no longer sends, or lacks some; try: make on-the-wire\n%s\nnow:\n%s",
				wireDocument, job.name, section[2], packets)
		}
	}
	for job := range shown {
		t.Errorf("%s has a section of the job %s, which wireJobs does not list", wireDocument, job)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(wireDocument, []byte(document), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// captureJob runs a job on two soft devices and returns the client's capture as capture.sh
// prints it.
func captureJob(t *testing.T, flags string) string {
	t.Helper()
	server, client := ownAddress(1), ownAddress(2)
	if *update {
		server, client = wireServer, wireClient
	}
	s := start(t, "rdma_server", "--once", "--json", "soft:"+server, "0")
	_, port, err := net.SplitHostPort(s.event("server.listening").str("address"))
	if err != nil {
		t.Fatal(err)
	}
	pcap := filepath.Join(t.TempDir(), "x.pcap")
	c := start(t, "rdma_client", slices.Concat([]string{"--quiet", "--pcap", pcap}, shellWords(t, flags), []string{server, "soft:" + client, port})...)
	c.succeeds()
	s.succeeds()
	readCapture(t, pcap) // checks each packet
	show := runScript(t, nil, "capture.sh", "--read", pcap)
	show.ends(0)
	return strings.NewReplacer(server, wireServer, client, wireClient).Replace(show.stdout.String())
}

// shellWords splits text at blanks, except inside single quotes.
func shellWords(t *testing.T, text string) (words []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`'([^']*)'|[^' ]+`).FindAllStringSubmatch(text, -1) {
		words = append(words, strings.Trim(m[0], "'"))
	}
	return words
}

// packetLine matches a line of capture.sh: sender, receiver, opcode and the rest.
var packetLine = regexp.MustCompile(`(?m)^ *\d+ +[\d.]+ +(127\.\S+) +(127\.\S+) +(\S.*?) +(\d+) +(0x[0-9a-f]{6}) +(0x[0-9a-f]{6})(?: +(.*))?$`)

var addresses = regexp.MustCompile(`\b(va|rkey) 0x[0-9a-f]+`)

// shapeOf returns the parts of a capture that are the same in every run: the packets of each
// direction in order, without addresses and keys. PSNs count from the direction's first
// request. Repeated packets are left out, and probes (a SEND of 0 bytes with a PSN that was
// asked before), which a slow host causes. Only the last acknowledgement stays, because one
// acknowledgement may stand for several.
func shapeOf(t *testing.T, text string) map[string][]string {
	t.Helper()
	shape := map[string][]string{}
	first := map[string]int64{}    // first PSN, by requester
	lastAck := map[string]string{} // by the end that acknowledges
	highest := map[string]int64{}
	asked := map[string]int64{} // next PSN, by requester
	for _, m := range packetLine.FindAllStringSubmatch(text, -1) {
		from, to, opcode, bytes := m[1], m[2], m[3], m[4]
		psn, err := strconv.ParseInt(m[6], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		asks := from
		if strings.Contains(opcode, "Acknowledge") || strings.Contains(opcode, "response") {
			asks = to
		}
		if _, ok := first[asks]; !ok {
			first[asks] = psn
		}
		relative := (psn - first[asks]) & 0xffffff
		line := fmt.Sprintf("%s, %s bytes, PSN +%d, %s", opcode, bytes, relative, addresses.ReplaceAllString(m[7], "$1"))
		switch direction := from + " to " + to; {
		case opcode == "RC Acknowledge":
			if lastAck[direction] == "" || relative >= highest[direction] {
				lastAck[direction], highest[direction] = line, relative
			}
		case opcode == "RC SEND Only" && bytes == "0" && relative < asked[from]: // a probe
		case !slices.Contains(shape[direction], line):
			shape[direction] = append(shape[direction], line)
			if asks == from {
				asked[from] = max(asked[from], relative+1)
			}
		}
	}
	for direction, line := range lastAck {
		shape[direction] = append(shape[direction], line)
	}
	return shape
}

// TestLabHeaders checks that capture.sh prints each kind of header. The packets of rdma_rxe
// come from the test data of softroce.
func TestLabHeaders(t *testing.T) {
	pcap, err := filepath.Abs(filepath.Join("..", "..", "softroce", "internal", "packet", "testdata", "opcodes-ipv4.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	shown := runScript(t, nil, "capture.sh", "--read", pcap)
	shown.ends(0)
	expect(t, shown.stdout.String(),
		`UC SEND Only with Immediate +7  0x000018  0xfffffe  immediate 0x01020304, solicited$`,
		`UC SEND Middle +256  0x000018  0x000000$`,
		`UD SEND Only with Immediate +33  0x000019  0xfffffe  from QP 0x000019 Q_Key 0x11111111, immediate 0x00000005$`,
		`RC RDMA WRITE Only with Immediate +2 .* RETH va 0x0000562a46e89100 rkey 0x000009fe length 2, immediate 0x0a0b0c0d, ACK asked for$`,
		`RC SEND Only with Invalidate +9 .* IETH rkey 0x08000100, ACK asked for$`,
		`RC RDMA READ response Only +11 .* AETH syndrome 0x1f \(ACK\) MSN 8$`,
		`RC CmpSwap +0 .* AtomicETH va 0x0000562a46e89100 rkey 0x000009fe swap 2 compare 1, ACK asked for$`,
		`RC FetchAdd +0 .* rkey 0x000009fe add 1, ACK asked for$`,
		`RC ATOMIC Acknowledge +0 .* MSN 9, was 506097522914230528$`,
		`AETH syndrome 0x21 \(RNR NAK, timer 1\) MSN 11$`,
		`AETH syndrome 0x62 \(NAK, remote access error\) MSN 12$`,
		`^49 packets: `)
	if text := shown.stdout.String(); strings.Contains(text, "MALFORMED") {
		t.Errorf("tshark takes a payload for another protocol, and the output shows that:\n%s", text)
	}
	limited := runScript(t, nil, "capture.sh", "--read", pcap, "-c", "2")
	limited.ends(0, "… 47 more", "49 packets: ")
	if n := strings.Count(limited.stdout.String(), "\n"); n != 5 { // the heading, 2 packets, the number of other packets, the sum
		t.Errorf("-c 2 shows %d lines:\n%s", n, &limited.stdout)
	}
}

func TestLabShape(t *testing.T) {
	const run = `
    1  0.000000  127.0.1.2       127.0.1.1       RC RDMA WRITE First                 1024  0x4b1bac  0xffffff  RETH va 0x000055966c6d3100 rkey 0x000009f1 length 1030
    2  0.000001  127.0.1.2       127.0.1.1       RC RDMA WRITE Last                     6  0x4b1bac  0x000000  ACK asked for
    3  0.000167  127.0.1.1       127.0.1.2       RC Acknowledge                         0  0x3d2862  0xffffff  AETH syndrome 0x1f (ACK) MSN 0
    4  0.000168  127.0.1.1       127.0.1.2       RC Acknowledge                         0  0x3d2862  0x000000  AETH syndrome 0x1f (ACK) MSN 1
`
	again := strings.NewReplacer("0x4b1bac", "0x000011", "0x000055966c6d3100", "0x0000001111111111", "0x000009f1", "0x22222222",
		"0xffffff", "0x000100", "0x000000  A", "0x000101  A").Replace(run)
	lines := strings.SplitAfter(again, "\n")
	again = strings.Join(slices.Concat(lines[:3], lines[2:3], lines[4:]), "") // one packet repeated, one ACK fewer
	want := shapeOf(t, run)
	if len(want["127.0.1.2 to 127.0.1.1"]) != 2 || len(want["127.0.1.1 to 127.0.1.2"]) != 1 {
		t.Fatalf("shape %q", want)
	}
	if got := shapeOf(t, again); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("shape %q, want %q", got, want)
	}
	for old, other := range map[string]string{
		"WRITE Last": "WRITE Only", "  6 ": "  7 ", "length 1030": "length 1031", "0x000000  ACK": "0x000001  ACK",
		"MSN 1": "MSN 2", "0x1f (ACK)": "0x62 (NAK, remote access error)", "127.0.1.2       127.0.1.1       RC RDMA WRITE Last": "127.0.1.1       127.0.1.2       RC RDMA WRITE Last",
	} {
		changed := strings.ReplaceAll(run, old, other)
		if maps.EqualFunc(shapeOf(t, changed), want, slices.Equal) {
			t.Errorf("%q instead of %q is not detected", other, old)
		}
	}
}
