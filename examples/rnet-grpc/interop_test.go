package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// interopCases are all cases of grpc-go's interop client that need no cloud credentials, except
// pick_first_unary: grpc-go's interop_test.sh leaves it out too, because grpc-go's server does not
// say its name.
var interopCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response",
	"status_code_and_message", "special_status_message", "custom_metadata",
	"unimplemented_method", "unimplemented_service",
	"rpc_soak", "channel_soak", "orca_per_rpc", "orca_oob",
}

// configs are the service configurations that some cases need, as in grpc-go's interop_test.sh.
var configs = map[string]string{
	"orca_per_rpc": `{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`,
	"orca_oob":     `{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`,
}

// TestInterop runs grpc-go's interop client against its interop server, both unchanged. Two
// processes of examples/rnet-proxy carry the connections over rnet.
//
//	client ── TCP ── rnet-proxy ══ rnet ══ rnet-proxy ── TCP ── server
func TestInterop(t *testing.T) {
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "google.golang.org/grpc/interop/client",
		"google.golang.org/grpc/interop/server", "github.com/rawverbs/rawverbs/examples/rnet-proxy")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	port := freePort(t)
	start(t, exec.Command(filepath.Join(dir, "server"), "--port", port))
	awaitPort(t, port)
	proxy := filepath.Join(dir, "rnet-proxy")
	far := listening(t, exec.Command(proxy, "rdma", "127.0.0.1:0", "tcp", "127.0.0.1:"+port))
	near := listening(t, exec.Command(proxy, "tcp", "127.0.0.1:0", "rdma", far))
	_, nearPort, err := net.SplitHostPort(near)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range interopCases {
		t.Run(name, func(t *testing.T) {
			args := []string{"--server_host", "127.0.0.1", "--server_port", nearPort, "--test_case", name}
			if config := configs[name]; config != "" {
				args = append(args, "--service_config_json", config)
			}
			if strings.HasSuffix(name, "soak") {
				args = append(args, "--soak_iterations", "50")
			}
			client := exec.CommandContext(t.Context(), filepath.Join(dir, "client"), args...)
			client.Env = append(os.Environ(), "GRPC_GO_LOG_SEVERITY_LEVEL=info")
			out, err := client.CombinedOutput()
			if err != nil || !strings.Contains(strings.ToLower(string(out)), "done") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// start starts a process, which the end of the test kills.
func start(t *testing.T, cmd *exec.Cmd) {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// listening starts a proxy and returns its address.
func listening(t *testing.T, cmd *exec.Cmd) (address string) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var network string
	if _, err := fmt.Sscanf(line, "listening on %s %s", &network, &address); err != nil {
		t.Fatal(line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return address
}

func freePort(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func awaitPort(t *testing.T, port string) {
	testkit.Until(t, "listener on port "+port, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}
