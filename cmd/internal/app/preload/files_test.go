//go:build unix

package preload

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesAreMended: what a cleaner of temporary files removed, or somebody changed, is written again.
func TestFilesAreMended(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", t.TempDir())
	s := &Settings{Device: "soft:eth0"}
	folder, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	device := filepath.Join(folder, "sys/class/infiniband/soft-eth0") // a link
	guid := filepath.Join(device, "node_guid")
	want, err := os.ReadFile(guid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(guid, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(device); err != nil {
		t.Fatal(err)
	}
	again, err := s.files()
	if err != nil || again != folder {
		t.Fatalf("got %s, %v, want %s", again, err, folder)
	}
	if got, err := os.ReadFile(guid); err != nil || string(got) != string(want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestFolderOfOthers: others may have taken the folder's name, or may write to it and could give a program any
// file. The device's files are then in a new folder, which the next program shares.
func TestFolderOfOthers(t *testing.T) {
	elsewhere := t.TempDir()
	cases := map[string]func(folder string) error{
		"writable by others": func(folder string) error { return os.Chmod(folder, 0o777) },
		"a file":             func(folder string) error { return errors.Join(os.RemoveAll(folder), os.WriteFile(folder, nil, 0o600)) },
		"a link":             func(folder string) error { return errors.Join(os.RemoveAll(folder), os.Symlink(elsewhere, folder)) },
	}
	if os.Getuid() == 0 { // only root can give a folder away
		cases["another user's"] = func(folder string) error { return os.Chown(folder, 65534, -1) }
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("XDG_RUNTIME_DIR", "")
			t.Setenv("TMPDIR", temporary)
			s := &Settings{Device: "soft0"}
			first, err := s.files()
			if err != nil {
				t.Fatal(err)
			}
			taken := filepath.Dir(first)
			if err := spoil(taken); err != nil {
				t.Fatal(err)
			}
			folder, err := s.files()
			if err != nil || filepath.Dir(folder) == taken || filepath.Dir(filepath.Dir(folder)) != temporary {
				t.Fatalf("got %s, %v, while %s is not this user's", folder, err, taken)
			}
			if again, err := s.files(); err != nil || again != folder {
				t.Errorf("the second program got %s, %v, want %s", again, err, folder)
			}
		})
	}
}

// TestRuntimeFolder: XDG_RUNTIME_DIR is used only if others have the folder's name in TMPDIR, because it goes when the user
// logs out. Root's programs may give up their rights, and then could not read it.
func TestRuntimeFolder(t *testing.T) {
	for _, c := range []struct {
		name               string
		exists, taken, own bool // XDG_RUNTIME_DIR is there; others have the name; the folder is in XDG_RUNTIME_DIR
	}{
		{"free", true, false, false},
		{"taken", true, true, os.Getuid() != 0},
		{"nonexistent", false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := t.TempDir()
			temporary, runtime := filepath.Join(base, "[*?"), filepath.Join(base, "none") // a name that patterns do not match
			if err := os.Mkdir(temporary, 0o755); err != nil {
				t.Fatal(err)
			}
			if c.exists {
				runtime = t.TempDir()
			}
			t.Setenv("TMPDIR", temporary)
			t.Setenv("XDG_RUNTIME_DIR", runtime)
			if c.taken {
				if err := os.WriteFile(filepath.Join(temporary, fmt.Sprint("rawverbs-", os.Getuid())), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want := temporary
			if c.own {
				want = runtime
			}
			folder, err := (&Settings{Device: "soft0"}).files()
			if err != nil || filepath.Dir(filepath.Dir(folder)) != want {
				t.Fatalf("got %s, %v, want a folder in %s", folder, err, want)
			}
			if again, err := (&Settings{Device: "soft0"}).files(); err != nil || again != folder {
				t.Errorf("the second program got %s, %v, want %s", again, err, folder)
			}
		})
	}
}

// TestFolderTooLong: the library has room for a path of limited length.
func TestFolderTooLong(t *testing.T) {
	temporary := filepath.Join(t.TempDir(), strings.Repeat("a", 200), strings.Repeat("b", 200))
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", temporary)
	if folder, err := (&Settings{Device: "soft0"}).files(); err == nil || !strings.Contains(err.Error(), "try: a TMPDIR with a shorter path") {
		t.Errorf("got %s, %v", folder, err)
	}
}

// TestParent: the device's parent has the interface, as programs look for it, unless that is loopback.
func TestParent(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for device, want := range map[string]string{"soft0": "", "soft:lo": "", "soft:eth9": "/sys/class/net/eth9"} {
		s := &Settings{Device: device}
		folder, err := s.files()
		if err != nil {
			t.Fatal(err)
		}
		parent := filepath.Join(folder, "sys/class/infiniband", s.entry(), "device")
		if _, err := os.Stat(filepath.Join(parent, "numa_node")); err != nil {
			t.Error(err)
		}
		if got, _ := os.Readlink(filepath.Join(parent, "net/eth9")); got != want { // an error: there is none
			t.Errorf("%s: net/eth9 is %q, want %q", device, got, want)
		}
		if _, err := os.Stat(filepath.Join(parent, "net")); (err == nil) != (want != "") {
			t.Errorf("%s: net: %v", device, err)
		}
	}
}

// TestNetdev finds the interface of each device name, also that of an address.
func TestNetdev(t *testing.T) {
	want := map[string]string{"soft0": "lo", "soft:eth0": "eth0", "soft:127.3.2.1": "lo", "soft:::1": "lo", "soft:fe80::1%eth0": "eth0",
		"soft:192.0.2.1": "192.0.2.1"} // an address that no host has
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addresses {
			if ip := a.(*net.IPNet).IP; ip.IsGlobalUnicast() {
				want["soft:"+ip.String()] = i.Name
			}
		}
	}
	for device, name := range want {
		if got := (&Settings{Device: device}).netdev(); got != name {
			t.Errorf("%s: %s, want %s", device, got, name)
		}
	}
}
