package run

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
)

// recordingIn begins a record in a folder.
func recordingIn(t *testing.T, name string) (*recording, *ClientOptions) {
	t.Helper()
	o := &ClientOptions{Record: name, Selection: &Selection{Job: jobs[0]}}
	o.Logger = slog.New(slog.DiscardHandler)
	r, err := o.record()
	if err != nil {
		t.Fatal(err)
	}
	return r, o
}

// A file that can no longer be written when the run ends: a run that was done
// has failed then, one that failed keeps its reason, and nothing half-written is
// left.
func TestRecordThatCannotBeWritten(t *testing.T) {
	for name, spoil := range map[string]func(folder, file string) error{
		"the folder is gone":     func(folder, _ string) error { return os.Remove(folder) },
		"a folder has the name":  func(_, file string) error { return os.MkdirAll(filepath.Join(file, "full"), 0o777) },
		"the folder is now file": func(folder, _ string) error { return errors.Join(os.Remove(folder), os.WriteFile(folder, nil, 0o666)) },
	} {
		for _, cause := range []error{nil, errors.New("the job's own")} {
			folder := filepath.Join(t.TempDir(), "folder")
			if err := os.Mkdir(folder, 0o777); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(folder, "record")
			r, o := recordingIn(t, file)
			if err := spoil(folder, file); err != nil {
				t.Fatal(err)
			}
			err := cause
			r.write(&err, o.Logger)
			if cause != nil && err != cause || cause == nil && (err == nil || !strings.HasPrefix(err.Error(), "--record: ")) {
				t.Errorf("%s, %v: %v", name, cause, err)
			}
			if parts, _ := filepath.Glob(file + ".part-*"); len(parts) > 0 {
				t.Errorf("%s: left %v", name, parts)
			}
		}
	}
}

// The record is written for a run that failed at once, and is whole.
func TestRecordOfNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "record")
	r, o := recordingIn(t, file)
	o.Logger.Info("hello", "event", "test")
	err := errors.New("no device")
	r.write(&err, o.Logger)
	written, oerr := os.Open(file)
	if oerr != nil {
		t.Fatal(oerr)
	}
	defer written.Close()
	rec, rerr := trace.ReadRecord(written)
	if rerr != nil || rec.Error != "no device" || rec.Job != "send" || len(rec.Events) != 1 {
		t.Errorf("%+v, %v", rec, rerr)
	}
}

// Without --record nothing is kept, asked or written.
func TestNoRecord(t *testing.T) {
	r, o := recordingIn(t, "")
	var err error
	r.ask(nil)
	r.connected(t.Context(), nil)
	r.write(&err, o.Logger)
	if r != nil || err != nil {
		t.Errorf("%v, %v", r, err)
	}
}
