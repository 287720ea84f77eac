package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"sync"
	"testing"
)

// TestChain sends data from TCP through both proxies to a TCP server that echoes.
func TestChain(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	ctx, stop := context.WithCancel(t.Context())
	var proxies sync.WaitGroup
	defer proxies.Wait()
	defer stop()
	// start starts a proxy and returns its address.
	start := func(network, toNetwork, toAddress string) string {
		ln, err := listen(ctx, network, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		proxies.Go(func() {
			if err := proxy(ctx, ln, func(ctx context.Context) (net.Conn, error) { return dial(ctx, toNetwork, toAddress) }); err != nil {
				t.Error(err)
			}
		})
		return ln.Addr().String()
	}
	far := start("rdma", "tcp", server.Addr().String())
	near := start("tcp", "rdma", far)
	var clients sync.WaitGroup
	for range 10 {
		clients.Go(func() {
			c, err := net.Dial("tcp", near)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			data := make([]byte, 300_000)
			rand.Read(data)
			go func() {
				_, _ = c.Write(data)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
			if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
		})
	}
	clients.Wait()
	if err := run(ctx, []string{"tcp"}); err == nil {
		t.Error("a proxy without addresses runs")
	}
}
