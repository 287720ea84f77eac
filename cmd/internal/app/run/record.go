// The events of both ends at the client: it keeps its own and fetches the server's at the end.
// --record, --report and --ladder show both.

package run

import (
	"context"
	"log/slog"
	"os"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/cmd/internal/view/report"
	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// recording is a record that is being made. A nil one does nothing.
type recording struct {
	file     string              // "" if no file is written
	page     string              // the report's; "" if none is written
	packets  *report.Collector   // of a soft device, for the report; nil if there are none
	ladder   func(*trace.Record) // nil if none is drawn
	header   trace.Header
	recorder *trace.Recorder
	fetched  *trace.Fetched
}

// record begins the record that o.Record, o.Report or o.Ladder needs: from here on o.Logger also
// keeps what it logs. Whether the files can be written is checked first.
func (o *ClientOptions) record() (*recording, error) {
	if o.Record == "" && o.Report == "" && o.Ladder == nil {
		return nil, nil
	}
	var files [2]string
	for i, f := range []struct{ flag, name string }{{"--record", o.Record}, {"--report", o.Report}} {
		if f.name == "" {
			continue
		}
		var err error
		if files[i], err = kit.Replaceable(f.name); err != nil {
			return nil, errors.WithMessage(err, f.flag)
		}
	}
	if files[0] != "" && files[0] == files[1] {
		return nil, usage.Errorf("--record and --report both name %s; try: --report %s.html", o.Record, o.Record)
	}
	host, _ := os.Hostname() // a host without a name has ""
	r := &recording{
		file: files[0], page: files[1], ladder: o.Ladder,
		recorder: trace.NewRecorder(trace.EndClient, trace.KeptByClient),
		header:   trace.Header{Job: o.Job.Name, Client: trace.Part{Program: o.Program, Host: host}},
	}
	o.Logger = slog.New(slog.NewMultiHandler(o.Logger.Handler(), r.recorder))
	return r, nil
}

// ask asks in the hello for the server's part.
func (r *recording) ask(cfg *rc.Config) {
	if r != nil {
		r.header.Client.Device = cfg.Device.Name()
		cfg.Params[trace.Param] = trace.ParamValue
	}
}

// connected arranges that Close fetches the server's part, if the server gives it and the
// job succeeds.
func (r *recording) connected(ctx context.Context, conn *rc.Conn) {
	if r == nil {
		return
	}
	server := conn.PeerHello()
	r.header.Server.Program = server.Program
	if server.Params[trace.Param] != trace.ParamValue {
		r.header.Server.Why = "the server keeps no records for its clients; try: a server of this program's version"
		return
	}
	farewell(ctx, conn, func(ctx context.Context, tcp *oob.Conn) {
		var err error
		if r.fetched, err = trace.Fetch(ctx, tcp, r.recorder); err != nil {
			r.header.Server.Why = "it could not be fetched: " + err.Error()
		}
	})
}

// write shows a run that ended with *err. A run whose record or report cannot be written has failed.
func (r *recording) write(err *error, log *slog.Logger) {
	if r == nil {
		return
	}
	draws := r.ladder != nil && !errors.As(*err, new(usage.Error))
	rec, werr := r.finish(*err)
	if werr == nil && r.page != "" {
		lost(err, log, "report", r.writePage(rec, log))
	}
	if werr == nil && r.file != "" {
		werr = r.writeFile(rec, log)
	}
	lost(err, log, "record", werr)
	if draws && rec != nil {
		r.ladder(rec)
	}
}

// lost adds to the result of a run that what was asked for with --record or --report could not be written.
func lost(err *error, log *slog.Logger, what string, werr error) {
	switch {
	case werr == nil:
	case *err == nil:
		*err = errors.WithMessage(werr, "--"+what)
	default:
		event.RecordFailed.LogAt(slog.LevelError, log, "the "+what+" could not be written", slog.String("error", werr.Error()))
	}
}

func (r *recording) writeFile(rec *trace.Record, log *slog.Logger) error {
	if err := kit.ReplaceFile(r.file, rec); err != nil {
		return err
	}
	file := []slog.Attr{slog.String("file", r.file), slog.Int("events", len(rec.Events))}
	if rec.Server.Present {
		event.RecordWritten.Log(log, "record of both ends", append(file, slog.Duration("clock_offset", rec.Clock.Offset), slog.Duration("uncertainty", rec.Clock.Uncertainty))...)
	} else {
		event.RecordWritten.LogAt(slog.LevelWarn, log, "record of this end alone", append(file, slog.String("why", rec.Server.Why))...)
	}
	return nil
}

func (r *recording) writePage(rec *trace.Record, log *slog.Logger) error {
	page := report.New(rec)
	if r.packets != nil {
		page.AddPackets(r.header.Client.Device, trace.EndClient, r.packets)
	}
	if err := kit.ReplaceFile(r.page, page); err != nil {
		return err
	}
	event.ReportWritten.Log(log, "report of the run", slog.String("file", r.page))
	return nil
}

// packetsOf returns what keeps the packets of a soft device for the report. It is zero if there is no
// report, and for another device.
func (r *recording) packetsOf(dev *verbs.Device) sink {
	if r == nil || r.page == "" || softroce.CanCapture(dev) != nil {
		return sink{}
	}
	r.packets = new(report.Collector)
	return sink{packet: r.packets.Packet}
}

// finish makes the record.
func (r *recording) finish(err error) (*trace.Record, error) {
	if err != nil {
		r.header.Error, r.header.FailedEnd = err.Error(), failedEnd(err)
	}
	if r.fetched == nil && r.header.Server.Why == "" {
		r.header.Server.Why = "the run failed before it could be fetched"
	}
	return trace.NewRecord(r.header, r.recorder, r.fetched)
}

// failedEnd returns the end at which a client's run failed, "" if that is not known.
func failedEnd(err error) string {
	switch {
	case errors.As(err, new(*oob.PeerError)), errors.As(err, new(*oob.ClosedError)):
		return trace.EndServer
	case errors.As(err, new(*oob.TimeoutError)):
		return ""
	}
	return trace.EndClient
}

// giveRecord is the server's side: it keeps the events of one client from the accept on,
// and gives them to the client if it asks.
type giveRecord struct {
	recorder *trace.Recorder
	part     trace.Part
	log      *slog.Logger // with the recorder
	wanted   bool         // by the client's hello
}

// keep makes a Logger for one client that also keeps its events, and shows them if shown is not nil.
func (s *server) keep(who string, shown *report.Client) *giveRecord {
	host, _ := os.Hostname() // a host without a name has ""
	g := &giveRecord{
		recorder: trace.NewRecorder(trace.EndServer, trace.KeptByServer),
		part:     trace.Part{Program: s.Program, Host: host, Device: s.dev.Name()},
	}
	handlers := []slog.Handler{s.all.Handler(), g.recorder}
	if shown != nil {
		handlers = append(handlers, shown.Handler())
	}
	g.log = slog.New(slog.NewMultiHandler(handlers...)).With(slog.String("who", who))
	return g
}

// asked drops the events if the client's hello does not ask for them.
func (g *giveRecord) asked(hello oob.Hello) {
	if g.wanted = hello.Params[trace.Param] == trace.ParamValue; !g.wanted {
		g.recorder.Discard()
	}
}

// connected arranges that Close gives the client the server's part.
func (g *giveRecord) connected(ctx context.Context, conn *rc.Conn) {
	if !g.wanted {
		return
	}
	farewell(ctx, conn, func(ctx context.Context, tcp *oob.Conn) {
		if err := trace.Give(ctx, tcp, g.recorder, g.part); err != nil {
			event.RecordFailed.LogAt(slog.LevelWarn, g.log, "the client did not take its record", slog.String("error", err.Error()))
		}
	})
}

// farewell has Close call part, with a context that also ends when ctx ends. The job has succeeded, so part cannot fail it.
func farewell(ctx context.Context, conn *rc.Conn, part func(context.Context, *oob.Conn)) {
	conn.Farewell(func(limited context.Context, tcp *oob.Conn) error {
		limited, cancel := context.WithCancelCause(limited)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		part(limited, tcp)
		return nil
	})
}
