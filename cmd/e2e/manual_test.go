package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestManual checks that each program has a manual page with the usual sections, that it names only pages that
// exist, and that no text is lost on the way to roff.
func TestManual(t *testing.T) {
	programs := allPrograms(t)
	texts := map[string][]string{
		"rdma_client": {`<server_ip>`, `.SS jobs`, `DIR/tls.key`},
		"rdma_server": {`/etc/default/rdma_server`, `\-\-max\-clients`, "SIGTERM, SIGINT: no new clients", "SIGHUP: the files of"},
		"rdma_lab":    {`.SS doctor [host[:port]]`, `.SS tls `, `.SS tls renew `, `\-\-days`},
		"rawverbs":    {`.SS run `, `\-\-pcap`, `librawverbs.so`},
	}
	for _, program := range programs {
		out, err := exec.CommandContext(t.Context(), filepath.Join(binaries, program), "man").Output()
		if err != nil {
			t.Fatalf("%s man: %v", program, err)
		}
		page := string(out)
		for _, want := range append(texts[program], ".SH NAME\n"+program+` \- `, ".SH SYNOPSIS\n", ".SH OPTIONS\n", ".SH COMMANDS\n", ".SH EXAMPLES\n", ".SH FILES\n", ".SH SEE ALSO\n") {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q", program, want)
			}
		}
		if strings.Contains(page, "cobra") {
			t.Errorf("%s: the page names cobra", program)
		}
		for _, other := range regexp.MustCompile(`\\fB([a-z_-]+)\\fP\(1\)|([a-z_-]+)\(1\)`).FindAllStringSubmatch(page, -1) {
			if name := other[1] + other[2]; name == program || !slices.Contains(programs, name) {
				t.Errorf("%s: SEE ALSO has %s", program, name)
			}
		}
	}
}

func allPrograms(t *testing.T) (names []string) {
	t.Helper()
	mains, err := filepath.Glob(filepath.Join("..", "..", "cmd", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, main := range mains {
		names = append(names, filepath.Base(filepath.Dir(main)))
	}
	return names
}

// TestHelpFits checks that no line of any help has more than 80 columns.
func TestHelpFits(t *testing.T) {
	listed := regexp.MustCompile(`(?ms)^(?:Available )?Commands:\n(.*?)\n\n`)
	name := regexp.MustCompile(`(?m)^  (\w+) `)
	for commands := programsAsLines(t); len(commands) > 0; commands = commands[1:] {
		line := append(commands[0][1:len(commands[0]):len(commands[0])], "--help")
		out, err := exec.CommandContext(t.Context(), filepath.Join(binaries, commands[0][0]), line...).Output()
		if err != nil {
			t.Fatalf("%v: %v", commands[0], err)
		}
		for text := range strings.Lines(string(out)) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(text, "\n")); n > 80 {
				t.Errorf("%v --help: %d columns: %s", commands[0], n, text)
			}
		}
		if found := listed.FindStringSubmatch(string(out)); found != nil {
			for _, sub := range name.FindAllStringSubmatch(found[1], -1) {
				if sub[1] != "completion" && sub[1] != "help" { // cobra's
					commands = append(commands, append(slices.Clone(commands[0]), sub[1]))
				}
			}
		}
	}
}

func programsAsLines(t *testing.T) (lines [][]string) {
	for _, program := range allPrograms(t) {
		lines = append(lines, []string{program})
	}
	return lines
}

// TestFirstSuggestionRunsAnywhere: what the client without arguments suggests needs no other machine and no device.
func TestFirstSuggestionRunsAnywhere(t *testing.T) {
	start(t, "rdma_client").fails(2, "try: rdma_client 127.0.0.1 soft0")
}
