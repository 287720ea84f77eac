package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestManual checks that each program has a manual page with the usual sections, that it names only pages that
// exist, and that no text is lost on the way to roff.
func TestManual(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join("..", "..", "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, folder := range folders {
		programs = append(programs, folder.Name())
	}
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
