package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/rnet"
)

// TestFiles puts a file, gets it back, and asks for what must not be had.
func TestFiles(t *testing.T) {
	ln, err := rnet.Listen("rdma", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(filepath.Dir(folder), "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln, folder, true) }()
	address := ln.Addr().String()
	data := make([]byte, 5<<20+1)
	rand.Read(data)
	if err := run(t.Context(), []string{"put", address, "file"}, bytes.NewReader(data), nil); err != nil {
		t.Fatal(err)
	}
	stored, err := os.ReadFile(filepath.Join(folder, "file"))
	if err != nil || !bytes.Equal(stored, data) {
		t.Errorf("%d bytes are stored, %v; want %d", len(stored), err, len(data))
	}
	var got bytes.Buffer
	if err := run(t.Context(), []string{"get", address, "/file"}, nil, &got); err != nil || !bytes.Equal(got.Bytes(), data) {
		t.Errorf("got %d bytes, %v; want %d", got.Len(), err, len(data))
	}
	for _, path := range []string{"missing", "%2e%2e/secret"} {
		if err := run(t.Context(), []string{"get", address, path}, nil, &got); err == nil {
			t.Errorf("get %s succeeded", path)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"get", address, "file"}, nil, &got); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("after the end: %v", err)
	}
	for _, args := range [][]string{nil, {"serve", address}, {"eat", address, "x"}} {
		if err := run(t.Context(), args, nil, nil); err != errUsage {
			t.Errorf("%q: %v", args, err)
		}
	}
}
