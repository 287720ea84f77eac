//go:build operations

package e2e

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestOpsScratch builds the programs as deploy/Containerfile does, and runs a job with programs that see no file but
// their own, without root's rights, as in an image from scratch. An ordinary user needs a user namespace for that.
func TestOpsScratch(t *testing.T) {
	noLeak(t)
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	containerfile, err := os.ReadFile(filepath.Join("..", "..", "deploy", "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	instruction := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*)$`).FindSubmatch(containerfile)
	if instruction == nil {
		t.Fatal("the Containerfile does not build without cgo")
	}
	build := exec.Command("sh", "-c", strings.ReplaceAll(string(instruction[1]), "/out/", root+"/"))
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "VERSION=1.2.3", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(filepath.Join(root, "rdma_server"), "--version").Output(); err != nil || string(out) != "rdma_server version v1.2.3\n" {
		t.Errorf("--version of VERSION=1.2.3: %s, %v", out, err)
	}
	inside := func(program string, args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = []string{}
		cmd.Dir = "/"
		cmd.SysProcAttr = asOrdinary()
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
		}
		cmd.SysProcAttr.Chroot = root
		out := new(bytes.Buffer)
		cmd.Stderr = out
		return cmd, out
	}
	port := freePort(t)
	server, complaints := inside("/rdma_server", "--once", "soft0", port)
	lines, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	read := make([]byte, 4<<10)
	for story := ""; !bytes.Contains([]byte(story), []byte("listen ")); {
		n, err := lines.Read(read)
		if story += string(read[:n]); err != nil {
			t.Fatalf("%v: %s%s", err, story, complaints)
		}
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		io.Copy(io.Discard, lines)
	}()
	client, clientComplaints := inside("/rdma_client", "--quiet", "--job", "bulk", "--size", "4M", "127.0.0.1", "soft0", port)
	if err := client.Run(); err != nil {
		t.Errorf("the client: %v: %s", err, clientComplaints)
	}
	<-rest
	if err := server.Wait(); err != nil {
		t.Errorf("the server: %v: %s", err, complaints)
	}
}
