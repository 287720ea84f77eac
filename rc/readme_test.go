//go:build !rdma

package rc_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// goSnippets returns the Go code of a page.
func goSnippets(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, part := range strings.Split(string(text), "```go\n")[1:] {
		code, _, whole := strings.Cut(part, "```\n")
		if !whole {
			t.Fatalf("%s: a piece of Go does not end", page)
		}
		found = append(found, code)
	}
	return found
}

// TestREADMEProgramRuns builds the README's program, unchanged, and runs it against a listener.
func TestREADMEProgramRuns(t *testing.T) {
	snippets := goSnippets(t, "../README.md")
	if len(snippets) != 1 {
		t.Fatalf("README.md has %d pieces of Go, want 1", len(snippets))
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(snippets[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gofmt", "-l", source).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt would change it: %s%v", out, err)
	}
	for _, args := range [][]string{{"vet", source}, {"build", "-o", program, source}} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args[0], err, out)
		}
	}

	dev, err := verbs.Open("soft0")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	l, err := rc.Listen(t.Context(), "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := testkit.Context(t)
	client := exec.CommandContext(ctx, program, l.Addr().String())
	var said strings.Builder
	client.Stdout, client.Stderr = &said, &said
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	received, serveErr := receiveOne(ctx, l, dev)
	if err := client.Wait(); err != nil || serveErr != nil {
		t.Fatalf("the client: %v\n%s\nthe server: %v", err, said.String(), serveErr)
	}
	if received == "" || !strings.Contains(said.String(), "IBV_WC_SEND") {
		t.Errorf("received %q; the client says %q", received, said.String())
	}
}

// receiveOne takes one client and its message.
func receiveOne(ctx context.Context, l *rc.Listener, dev *verbs.Device) (string, error) {
	in, err := l.Accept(ctx)
	if err != nil {
		return "", err
	}
	if _, err = in.Hello(ctx); err != nil {
		return "", err
	}
	var mr *verbs.MR
	conn, err := in.Connect(ctx, rc.Config{Device: dev, Prepare: func(c *rc.Conn) (err error) {
		if mr, err = c.AllocMR("to receive", 4096, verbs.AccessLocalWrite); err != nil {
			return err
		}
		return c.QP().PostRecv([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{mr.SGE(0, mr.Len())}}})
	}})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		return "", err
	}
	text := string(mr.Bytes()[:wc.ByteLen])
	return text, conn.Finish(ctx)
}
