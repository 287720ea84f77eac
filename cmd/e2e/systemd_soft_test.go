//go:build !rdma

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// service has the settings of a unit with its drop-ins, by "Section.Name".
type service map[string][]string

// read adds a file. An empty value forgets those before it.
func (s service) read(t *testing.T, text string) {
	t.Helper()
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, is := strings.Cut(line, "=")
		switch key := section + "." + name; {
		case line == "" || strings.ContainsAny(line[:1], "#;"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case !is || strings.HasSuffix(line, `\`):
			t.Fatalf("the line %q needs a better parser", line)
		case value == "":
			delete(s, key)
		default:
			s[key] = append(s[key], value)
		}
	}
}

// words returns the command line of ExecStart as systemd makes it: specifiers, then the variables of Environment,
// then those of EnvironmentFile, whose text is given. A variable that is a word is split at white space.
func (s service) words(t *testing.T, file, credentials string) (words []string) {
	t.Helper()
	specifiers := strings.NewReplacer("%d", credentials, "%%", "%")
	variables := map[string]string{}
	set := func(assignment string) {
		name, value, _ := strings.Cut(assignment, "=")
		variables[name] = strings.Trim(value, `"'`)
	}
	for _, assignment := range s["Service.Environment"] {
		set(strings.Trim(specifiers.Replace(assignment), `"`))
	}
	for line := range strings.Lines(file) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			set(line)
		}
	}
	if len(s["Service.ExecStart"]) != 1 {
		t.Fatalf("ExecStart is %q, want one", s["Service.ExecStart"])
	}
	for word := range strings.FieldsSeq(specifiers.Replace(s["Service.ExecStart"][0])) {
		if name, is := strings.CutPrefix(word, "$"); is {
			words = append(words, strings.Fields(variables[name])...)
		} else {
			words = append(words, word)
		}
	}
	return words
}

// deployed returns the unit, the drop-in of docs/operations.md for certificates, and the lines that the file of
// options suggests.
func deployed(t *testing.T) (unit, certificates string, suggested []string) {
	t.Helper()
	var texts []string
	for _, name := range []string{"deploy/systemd/rdma_server.service", "docs/operations.md", "deploy/systemd/rdma_server.default"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	dropIn := regexp.MustCompile("(?s)```\n(\\[Service\\]\n.*?)```").FindStringSubmatch(texts[1])
	if dropIn == nil {
		t.Fatal("docs/operations.md has no drop-in")
	}
	for _, match := range regexp.MustCompile(`(?m)^#(RDMA_SERVER=.*)$`).FindAllStringSubmatch(texts[2], -1) {
		suggested = append(suggested, match[1])
	}
	if len(suggested) < 3 {
		t.Fatalf("the file suggests %q", suggested)
	}
	return texts[0], dropIn[1], suggested
}

// likeSystemd returns a prefix command that sets NOTIFY_SOCKET, and what waits for the next report on the socket.
func likeSystemd(t *testing.T) (by []string, reports func(pattern string)) {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return []string{"env", "NOTIFY_SOCKET=" + socket.LocalAddr().String()}, func(pattern string) {
		t.Helper()
		buf := make([]byte, 256)
		if err := socket.SetReadDeadline(testkit.Deadline()); err != nil {
			t.Fatal(err)
		}
		if n, err := socket.Read(buf); err != nil || !regexp.MustCompile(pattern).Match(buf[:n]) {
			t.Errorf("%q, %v, want %q", buf[:n], err, pattern)
		}
	}
}

// TestUnitWithCertificates: nothing in the file of options makes a server with the documented drop-in serve without TLS.
func TestUnitWithCertificates(t *testing.T) {
	noLeak(t)
	server, client := certificates(t, ipv4)
	unit, dropIn, suggested := deployed(t)
	s := service{}
	s.read(t, unit)
	plain := strings.Join(s["Service.ExecStart"], " ")
	s.read(t, dropIn)
	if got := strings.Join(s["Service.ExecStart"], " "); got != plain+" --tls %d" {
		t.Errorf("the drop-in has ExecStart=%s, and the unit %s", got, plain)
	}
	for _, credential := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if !strings.Contains(strings.Join(s["Service.LoadCredential"], " "), credential+":/") {
			t.Errorf("LoadCredential is %q without %s", s["Service.LoadCredential"], credential)
		}
	}
	for _, file := range append(suggested, "", "RDMA_SERVER=soft0", "RDMA_SERVER=--tls= soft0", `RDMA_SERVER="--listen 127.0.0.1 soft0"`) {
		if got := strings.Join(s.words(t, file, server), " "); !strings.HasSuffix(got, " --tls "+server) {
			t.Errorf("with %q: %s", file, got)
		}
	}

	by, reports := likeSystemd(t)
	p := startBy(t, by, "rdma_server", s.words(t, "RDMA_SERVER=--tls= --metrics 127.0.0.1:0 "+device+" 0", server)[1:]...)
	port := p.line(`msg="listening on \S+:(\d+) for rdma_client --tls"`)[1]
	start(t, "rdma_client", ipv4, device, port).fails(1, "the server takes only TLS")
	start(t, "rdma_client", "--quiet", "--tls", client, ipv4, device, port).succeeds()
	reports("^READY=1$")
	p.signal(syscall.SIGHUP)
	reports("^RELOADING=1\nMONOTONIC_USEC=[0-9]+$")
	reports("^READY=1$")
	p.line(`level=INFO msg="the certificate has not changed"`)
	p.signal(syscall.SIGTERM)
	p.succeeds()
	start(t, "rdma_server", s.words(t, "RDMA_SERVER=-- "+device, server)[1:]...).fails(2, "TCP port")
}

// TestUnit starts the unit's command line with options that override its own, reads what it reports to systemd, and
// stops it.
func TestUnit(t *testing.T) {
	noLeak(t)
	unit, _, _ := deployed(t)
	s := service{}
	s.read(t, unit)
	for name, want := range map[string]string{
		"Service.Type": "notify", "Service.Restart": "always", "Unit.StartLimitIntervalSec": "0", // active when it listens; it never gives up,
		"Service.SuccessExitStatus":        "130",                                                             // a job cut short is no failure
		"Service.RestartPreventExitStatus": "2", "Service.Environment": "RDMA_SERVER=soft0 GOTRACEBACK=crash", // a crash has another status than a wrong flag
	} {
		if got := strings.Join(s[name], " "); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	for _, test := range []struct{ flags, line string }{
		{"", `^time=\S+ level=INFO msg="listening on `},
		{"-v ", `^\[\S+ #\d+ server\] CONTROL listening on `},
		{"--json ", `^{.*"event":"server.listening"`},
	} {
		by, reports := likeSystemd(t)
		p := startBy(t, by, "rdma_server", s.words(t, "RDMA_SERVER="+test.flags+"--grace 1h --metrics 127.0.0.1:0 "+device+" 0", "")[1:]...)
		reports("^READY=1$")
		p.line(test.line)
		p.signal(syscall.SIGTERM)
		reports("^STOPPING=1\nEXTEND_TIMEOUT_USEC=3620000000$")
		p.succeeds()
	}
	start(t, "rdma_server", s.words(t, "RDMA_SERVER=--max-clienst 4 "+device, "")[1:]...).fails(2, "unknown flag: --max-clienst")
	start(t, "rdma_server", s.words(t, "RDMA_SERVER=--metrics 127.0.0.1:0 nosuch", "")[1:]...).fails(1, "no device of that name") // it may come
}
