package ctxwatch

import (
	"context"
	"testing"
	"time"

	"github.com/pkg/errors"
)

func TestErrIsTheEndAndItsCause(t *testing.T) {
	why := errors.New("the job was stopped")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	caused, cancelCause := context.WithCancelCause(t.Context())
	cancelCause(why)
	late, cancelLate := context.WithDeadlineCause(t.Context(), time.Now(), why)
	defer cancelLate()
	wrapped, cancelWrapped := context.WithCancelCause(t.Context())
	cancelWrapped(errors.WithMessage(context.Canceled, "by hand"))
	for name, c := range map[string]struct {
		ctx  context.Context
		want []error
		text string
	}{
		"canceled":           {canceled, []error{context.Canceled}, "context canceled"},
		"with a cause":       {caused, []error{context.Canceled, why}, "the job was stopped"},
		"late with a cause":  {late, []error{context.DeadlineExceeded, why}, "the job was stopped"},
		"a cause that wraps": {wrapped, []error{context.Canceled}, "by hand: context canceled"},
	} {
		err := Err(c.ctx)
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v is not %v", name, err, want)
			}
		}
		if err.Error() != c.text {
			t.Errorf("%s: %q", name, err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = Err(canceled) }); n != 0 {
		t.Errorf("%v allocations without a cause", n)
	}
}
