//go:build cabi

package cabi

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestFiles looks at the files of the device in every way that libc has, also with the functions
// that fortified programs call.
func TestFiles(t *testing.T) {
	for name, flags := range map[string][]string{
		"plain":     nil,
		"fortified": {"-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := onSoft(t, compile(t, "files", flags...), "soft0")
			p.succeeds()
		})
	}
}

// TestFilesOfLongPath has the files of the device in a folder whose path is longer than a name may be (255 bytes).
func TestFilesOfLongPath(t *testing.T) {
	folder := filepath.Join(bin, "long", strings.Repeat("a", 150), strings.Repeat("b", 150))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o777); err != nil { // the program's user has it
		t.Fatal(err)
	}
	p := start(t, "TMPDIR="+folder, ours("rawverbs"), "run", "--", compile(t, "files"), "soft0")
	p.succeeds()
}

// TestFilesInShell reads them with the programs of a shell. Shells never load the Go runtime.
func TestFilesInShell(t *testing.T) {
	p := onSoft(t, "bash", "-ec", `
		ls -lR /sys/class/infiniband/ /dev/infiniband
		ls /sys/class/infiniband/*/ports/1/gids/0
		echo "guid $(cat /sys/class/infiniband/soft0/node_guid) name $(</sys/class/infiniband_verbs/uverbs4791/ibdev)"
		cd /sys/class/infiniband/soft0/ports; find . -name 'pkeys'
		find /sys/class/infiniband/soft0/ports -name state
		test -c /dev/infiniband/uverbs4791 && test -w /dev/infiniband/uverbs4791
		grep -c librawverbs-core /proc/$$/maps || echo no core
		ibv_devinfo`)
	p.succeeds()
	p.has(t, "soft0 -> ../../devices/virtual/infiniband/soft0", "/sys/class/infiniband/soft0/ports/1/gids/0",
		"./1/pkeys", "/sys/class/infiniband/soft0/ports/1/state", "no core", "board_id:\t\t\tsoftroce")
	guids := regexp.MustCompile(`guid:?\s+(\S+)`).FindAllStringSubmatch(p.text(), -1)
	if len(guids) < 2 || guids[0][1] != guids[1][1] {
		t.Errorf("node_guid and ibv_devinfo differ: %q", guids)
	}
}

// TestNames checks that a device is named the same in lists, in its folder, and for -d.
func TestNames(t *testing.T) {
	for device, name := range map[string]string{"soft0": "soft0", "soft:lo": "soft-lo", "soft:127.3.2.1": "soft-127.3.2.1", "soft:::1": "soft---1"} {
		t.Run(name, func(t *testing.T) {
			missing := device == "soft:::1" && !testkit.IPv6Loopback(t)
			p := start(t, ours("rawverbs"), "run", "--device", device, "--", "bash", "-ec",
				"ls /sys/class/infiniband; ibv_devices; ibv_devinfo -v -d "+name)
			if missing {
				if status := p.status(); status == 0 {
					t.Errorf("status 0 without IPv6")
				}
				p.has(t, "UDP port 4791 of ::1: cannot assign requested address; try: an address that this host has")
				return
			}
			p.succeeds()
			if p.output()[0] != name {
				t.Errorf("the folder is named %q", p.output()[0])
			}
			p.has(t, "hca_id:\t"+name, "RoCE v2")
		})
	}
}
