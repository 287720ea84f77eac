package trace

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestDiagram(t *testing.T) {
	event := func(end, kind, verb, msg string, attrs ...slog.Attr) Event {
		return Event{End: end, Event: kind, Verb: verb, Message: msg, Attrs: attrs}
	}
	rec := &Record{
		Header: Header{Client: Part{Present: true, Device: "rxe0"}, Server: Part{Present: true}},
		Events: []Event{
			event("client", "oob.message", "tcp", "", slog.Bool("sent", true), slog.String("message", "hello"), slog.String("name", "")),
			event("server", "oob.message", "tcp", "", slog.Bool("sent", false), slog.String("message", "hello"), slog.String("name", "")),
			event("server", "qp.transition", "ibv_modify_qp", "RESET→INIT"),
			event("server", "wr.posted", "ibv_post_recv", "post RECV", slog.Int64("bytes", 10)),
			event("client", "qp.transition", "ibv_modify_qp", "INIT→RTR", slog.String("error", "no")),
			event("client", "wr.posted", "ibv_post_send", "post RDMA_WRITE_WITH_IMM", slog.Int64("bytes", 5), slog.Int64("imm", 7)),
			event("client", "wr.dump", "ibv_post_send", "WR:"),
			event("server", "wr.completed", "ibv_poll_cq", "completion", slog.Int64("wr_id", 1), slog.String("status", "IBV_WC_SUCCESS"), slog.String("opcode", "IBV_WC_RECV")),
			event("client", "wr.completed", "ibv_poll_cq", "completion", slog.Int64("wr_id", 2), slog.String("status", "IBV_WC_WR_FLUSH_ERR")),
			event("client", "oob.message", "tcp", "", slog.Bool("sent", true), slog.String("message", "barrier"), slog.String("name", "a;\nevil->>x: #")),
			event("client", "qp.drained", "ibv_poll_cq", "", slog.Int64("flushed", 0)),
			event("client", "qp.drained", "ibv_poll_cq", "", slog.Int64("flushed", 2)),
		},
	}
	var out strings.Builder
	if err := rec.WriteDiagram(&out); err != nil {
		t.Fatal(err)
	}
	want := `sequenceDiagram
    participant client as client on rxe0
    participant server as server
    client-->>server: hello
    Note over server: RESET→INIT
    Note over server: post RECV, 10 bytes
    Note over client: INIT→RTR refused
    client->>server: RDMA_WRITE_WITH_IMM, 5 bytes, immediate 7
    Note over server: completion RECV
    Note over client: completion 2, IBV_WC_WR_FLUSH_ERR
    client-->>server: barrier “a#59;·evil-#62;#62;x: #35;”
    Note over client: 2 flushed
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestDiagramHasAnEnd(t *testing.T) {
	rec := &Record{Header: Header{Error: "the server died"}, Events: make([]Event, 1000)}
	for i := range rec.Events {
		rec.Events[i] = Event{End: "client", Event: "qp.transition", Message: "RTS→ERR"}
	}
	var out strings.Builder
	if err := rec.WriteDiagram(&out); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(out.String(), "\n"); rows != maxRows+5 || !strings.Contains(out.String(), "880 more are not drawn\n    Note over client,server: failed: the server died\n") {
		t.Errorf("%d rows:\n%s", rows, &out)
	}
}

// TestDiagramOfWrongMessages checks that messages that do not say whether they were sent are not
// drawn: a record may be of any origin.
func TestDiagramOfWrongMessages(t *testing.T) {
	for _, attrs := range wrongMessages {
		file := fmt.Sprintf(`{"schema":%q,"version":%d,"job":"test","done":true,"client":{"why":"missing"},"server":{"present":true,"events":1},`, Schema, Version) +
			`"clock":{"reference":"client","rounds":1}}` + "\n" + wrongMessage(attrs)
		rec, err := ReadRecord(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		var mermaid, text strings.Builder
		if err := errors.Join(rec.WriteDiagram(&mermaid), rec.WriteLadder(&text, false)); err != nil {
			t.Error(err)
		}
		if strings.Count(mermaid.String(), "\n") != 3 || strings.Count(text.String(), "\n") != 2 {
			t.Errorf("%s: drawn\n%s\n%s", attrs, &mermaid, &text)
		}
	}
}
