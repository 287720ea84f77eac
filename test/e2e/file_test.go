package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeFile creates a file of n random bytes and returns its path.
func writeFile(t *testing.T, name string, n int) string {
	t.Helper()
	data := make([]byte, n)
	rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32.32s", name)))).Read(data)
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// holds checks that a folder has exactly these files, including hidden files.
func holds(t *testing.T, folder string, files ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if fmt.Sprintf("%q", names) != fmt.Sprintf("%q", files) {
		t.Errorf("the folder holds %q, want %q", names, files)
	}
}

func sameContent(t *testing.T, path, original string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	want, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes that are not the %d of %s", path, len(got), len(want), original)
	}
}

func fileExercises(t *testing.T) []exercise {
	run := func(name string, bytes, chunks, slots int, flags ...string) exercise {
		path, folder := writeFile(t, name, bytes), t.TempDir()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.Sum256(data)
		sum := hex.EncodeToString(digest[:])
		return exercise{
			name:   fmt.Sprintf("file, %d bytes %s", bytes, strings.Join(flags, " ")),
			once:   true, // the server overwrites no file
			server: []string{"--dir", folder, "--max-size", "1M"},
			client: append([]string{"--job", "file", "--file", path}, flags...),
			clientEvents: []wantEvent{
				wants("file.begun", "name", name, "bytes", bytes, "chunks", chunks, "slots", slots),
				wants("wr.posted", "msg", "post RDMA_WRITE_WITH_IMM", "imm", 0),
				wants("file.sent", "msg", "SUCCESS", "sha256", sum, "bytes", bytes),
			},
			serverEvents: []wantEvent{
				wants("object.made", "access", "LOCAL_WRITE|REMOTE_WRITE"),
				wants("file.begun", "name", name, "bytes", bytes, "slots", slots),
				wants("wr.completed", "opcode", "IBV_WC_RECV_RDMA_WITH_IMM", "imm", 0),
				wants("file.stored", "name", name, "sha256", sum),
				wants("wr.posted", "msg", "post SEND_WITH_IMM", "imm", chunks+1),
			},
			more: func(t *testing.T, _, _ *process) {
				holds(t, folder, name)
				sameContent(t, filepath.Join(folder, name), path)
			},
		}
	}
	return []exercise{
		run("empty", 0, 0, 1),
		run("grüße, 世界.txt", 1, 1, 2),
		run("many rounds", 70_001, 211, 16, "--chunk", "333"),
		run("one slot", 2<<20+7, 3, 1, "--chunk", "1M"),
	}
}
