package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	draw "github.com/rawverbs/rawverbs/cmd/internal/view/report"
	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
)

func reportCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "report <record> [pcap]...",
		Short: "Draw a run as a page: from its record, and from captures of its packets",
		Long: `report writes one HTML file that draws both ends of a run: the states of the queue
pairs, the messages over TCP, work requests, completions and packets. The file needs
no server and no network. <record> is a file of rdma_client --record.

A [pcap] is a capture of the run's packets (pcap or pcapng): a file of --pcap, or of
tcpdump at the interface of a device. Packets are assigned to queue pairs by QPN and
address, and to work requests by PSN. The command finds out at which end a capture was
made; client=FILE or server=FILE sets the end.`,
		Example: `  rdma_lab report run.jsonl
  rdma_lab report run.jsonl client.pcap server.pcap
  rdma_lab report --output page.html run.jsonl server=wire.pcapng`,
		Args: cli.Arguments(1, cli.AnyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			page, events, err := readReport(args[0], args[1:])
			if err != nil {
				return err
			}
			if file == "" {
				file = strings.TrimSuffix(args[0], filepath.Ext(args[0])) + ".html"
			}
			_, missing := os.Stat(file)
			name, err := kit.Replaceable(file)
			if err == nil {
				err = kit.ReplaceFile(name, page)
			}
			if err != nil {
				return errors.WithMessage(err, "write the report")
			}
			return a.print(cmd, writtenReport{File: file, Events: events, Packets: page.Packets(), Replaced: missing == nil}, nil)
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the file to write (default: the record's name with .html)")
	return cmd
}

func readReport(record string, captures []string) (page *draw.Report, events int, err error) {
	rec, err := trace.ReadFile(record)
	if err != nil {
		return nil, 0, err
	}
	page = draw.New(rec)
	for _, name := range captures {
		if err := addCapture(page, name); err != nil {
			return nil, 0, err
		}
	}
	return page, len(rec.Events), nil
}

// addCapture adds a capture. Its name may begin with the end at which it was made.
func addCapture(page *draw.Report, name string) error {
	end, path, named := strings.Cut(name, "=")
	if !named || end != trace.EndClient && end != trace.EndServer {
		end, path = "", name
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w; try: a file of --pcap or of tcpdump -w", err)
	}
	defer file.Close()
	return errors.WithMessage(page.AddCapture(path, end, file), path)
}

// writtenReport is the result of the command.
type writtenReport struct {
	File     string `json:"file"`
	Events   int    `json:"events"`
	Packets  int    `json:"packets"`
	Replaced bool   `json:"replaced"` // an earlier file
}

// Text says what the page has.
func (r writtenReport) Text() string {
	replaced := ""
	if r.Replaced {
		replaced = " (an earlier file is replaced)"
	}
	return fmt.Sprintf("%s draws %d events and %d packets; open it in a browser%s\n", trace.Printable(r.File), r.Events, r.Packets, replaced)
}
