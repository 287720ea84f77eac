package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/web"
)

func serve(*app) *cobra.Command {
	var address, file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the laboratory: queue pairs that you drive by hand in a browser",
		Long: `serve serves the laboratory to browsers and prints its address. The page has two
hosts with a device each, on a wire whose packets and clock you control. Everything
runs in the browser: the device is soft0's engine, built for WebAssembly.

With --file it writes the page to a file instead. The file needs no server and no
network; open it from disk, or mail it.`,
		Example: `  rdma_lab serve
  rdma_lab serve --listen 127.0.0.1:8080
  rdma_lab serve --file laboratory.html`,
		Args: cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := web.Laboratory()
			if err != nil {
				return err
			}
			if file != "" {
				return writePage(cmd.OutOrStdout(), file, page)
			}
			return servePage(cmd, address, page)
		},
	}
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0", "the TCP address to listen on; port 0 takes a free port")
	cmd.Flags().StringVar(&file, "file", "", "write the page to this file, and serve nothing")
	return cmd
}

// writePage writes the page to a file, and says where it is.
func writePage(out io.Writer, file string, page []byte) error {
	if err := os.WriteFile(file, page, 0o644); err != nil {
		return fmt.Errorf("--file: %w; try: a file in a folder that exists and may be written", err)
	}
	_, err := fmt.Fprintf(out, "%s has the laboratory; open it in a browser\n", file)
	return err
}

// servePage serves the page until a signal ends the command.
func servePage(cmd *cobra.Command, address string, page []byte) error {
	ctx := cmd.Context()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return errors.WithMessage(err, "serve the laboratory; is the port free? try: --listen 127.0.0.1:0")
	}
	server := &http.Server{Handler: pageHandler(page), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns
	defer stop()
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "the laboratory is at http://%s/ (Ctrl-C ends it)\n", listener.Addr()); err != nil {
		_ = listener.Close()
		return err
	}
	if err := server.Serve(listener); ctx.Err() == nil {
		return errors.WithMessage(err, "serve the laboratory")
	}
	return context.Cause(ctx)
}

// pageHandler serves the page at / and nothing else.
func pageHandler(page []byte) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache") // a new build has a new page at the same address
		_, _ = w.Write(page)                        // the browser is gone
	})
	return mux
}
