package main

import (
	"bytes"
	"context"
	"flag"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rawverbs/rawverbs/rnet"
	"github.com/rawverbs/rawverbs/verbs"
)

// startServer serves on ln until the end of the test.
func startServer(tb testing.TB, ln net.Listener) {
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	tb.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
}

// TestCalls makes each kind of call.
func TestCalls(t *testing.T) {
	ln, err := rnet.Listen("rdma", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	startServer(t, ln)
	address := ln.Addr().String()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"upper", address, "over RDMA"}, "OVER RDMA\n"},
		{[]string{"count", address, "3"}, "1\n2\n3\n"},
		{[]string{"sum", address, "1", "20", "-300"}, "1\n21\n-279\n"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), test.args, &out); err != nil || out.String() != test.want {
			t.Errorf("%q: %q, %v; want %q", test.args, out.String(), err, test.want)
		}
	}
	for _, args := range [][]string{nil, {"upper"}, {"count", address, "x"}, {"eat", address, "x"}} {
		if err := run(t.Context(), args, nil); err != errUsage {
			t.Errorf("%q: %v", args, err)
		}
	}
}

var speed = flag.Duration("speed", 0, "measure unary calls over TCP and over rnet, for that long per measurement")

// TestSpeed prints the time of a unary call over TCP and over rnet: medians of seven rounds in turn.
func TestSpeed(t *testing.T) {
	if *speed == 0 {
		return // go test -run TestSpeed -v -speed 500ms
	}
	var devices [2]*verbs.Device // one per end, as two processes have
	for i := range devices {
		var err error
		if devices[i], err = verbs.Open("soft0"); err != nil {
			t.Fatal(err)
		}
	}
	rdma, err := (&rnet.ListenConfig{Config: rnet.Config{Device: devices[0]}}).Listen(t.Context(), "rdma", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialer := &rnet.Dialer{Config: rnet.Config{Device: devices[1]}}
	var clients []client
	for _, way := range []struct {
		ln   net.Listener
		dial func(context.Context, string) (net.Conn, error)
	}{
		{tcp, func(ctx context.Context, a string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", a)
		}},
		{rdma, func(ctx context.Context, a string) (net.Conn, error) { return dialer.DialContext(ctx, "rdma", a) }},
	} {
		startServer(t, way.ln)
		cc, err := grpc.NewClient("passthrough:///"+way.ln.Addr().String(), grpc.WithContextDialer(way.dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer cc.Close()
		clients = append(clients, client{cc})
	}
	const rounds = 7
	var times [2][]float64
	var ratios []float64
	for round := range rounds + 1 { // the first one warms up
		var took [2]float64
		for i, c := range clients {
			n := 0
			began := time.Now()
			for ; time.Since(began) < *speed; n++ {
				if _, err := c.upper(t.Context(), "hello"); err != nil {
					t.Fatal(err)
				}
			}
			took[i] = float64(time.Since(began).Microseconds()) / float64(n)
		}
		if round > 0 {
			times[0], times[1] = append(times[0], took[0]), append(times[1], took[1])
			ratios = append(ratios, took[0]/took[1])
		}
	}
	slices.Sort(times[0])
	slices.Sort(times[1])
	slices.Sort(ratios)
	t.Logf("unary: TCP %.1f µs, rnet %.1f µs, TCP/rnet %.2f (%.2f to %.2f), want 0.8", times[0][rounds/2], times[1][rounds/2],
		ratios[rounds/2], ratios[0], ratios[rounds-1])
}
