// Command rnet-http is an example of package rnet: a file server and its client, with net/http,
// over RDMA.
//
//	rnet-http serve :18521 FOLDER            on one host
//	rnet-http get 10.0.0.1:18521 PATH        on others: the file goes to the standard output
//	rnet-http put 10.0.0.1:18521 PATH        from the standard input, if serve has --write
//
// Only two lines differ from a program over TCP: the listener, and the transport's DialContext.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/rawverbs/rawverbs/rnet"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0, for hosts without an RDMA device
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rnet-http:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("try: rnet-http serve ADDRESS FOLDER [--write] | get ADDRESS PATH | put ADDRESS PATH")

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) < 3 {
		return errUsage
	}
	switch what, address := args[0], args[1]; what {
	case "serve":
		ln, err := rnet.Listen("rdma", address)
		if err != nil {
			return err
		}
		return serve(ctx, ln, args[2], slices.Contains(args[3:], "--write"))
	case "get":
		return transfer(ctx, http.MethodGet, address, args[2], nil, out)
	case "put":
		return transfer(ctx, http.MethodPut, address, args[2], in, out)
	}
	return errUsage
}

// serve serves the files of a folder until ctx ends.
func serve(ctx context.Context, ln net.Listener, folder string, write bool) error {
	root, err := os.OpenRoot(folder) // no path leads out of the folder
	if err != nil {
		return err
	}
	defer root.Close()
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(root.FS()))
	if write {
		mux.HandleFunc("PUT /{path...}", func(w http.ResponseWriter, r *http.Request) { put(w, r, root) })
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Fprintln(os.Stderr, "serving", folder, "on", ln.Addr())
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func put(w http.ResponseWriter, r *http.Request, root *os.Root) {
	f, err := root.Create(r.PathValue("path"))
	if err == nil {
		_, err = io.Copy(f, r.Body)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// transfer makes one request and copies the answer to out.
func transfer(ctx context.Context, method, address, path string, body io.Reader, out io.Writer) error {
	transport := &http.Transport{DialContext: new(rnet.Dialer).DialContext}
	defer transport.CloseIdleConnections()
	url := "http://" + address + "/" + strings.TrimPrefix(path, "/")
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", method, url, response.Status, strings.TrimSpace(string(text)))
	}
	_, err = io.Copy(out, response.Body)
	return err
}
