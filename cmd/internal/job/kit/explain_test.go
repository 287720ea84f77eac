package kit

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

func TestExplain(t *testing.T) {
	refused := errors.WithMessage((&verbs.WC{Status: verbs.WCRemAccessErr}).Err(), "the only WRITE")
	closed := &oob.ClosedError{Peer: "10.0.0.1:18515", Err: io.ErrUnexpectedEOF}
	alive := context.Background()
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(alive)
		cancel(cause)
		return ctx
	}
	for name, test := range map[string]struct {
		ctx, life context.Context
		err       error
		limit     time.Duration
		explained bool
	}{
		"a peer that is gone":       {alive, ended(closed), refused, time.Minute, true},
		"a peer that lives":         {alive, alive, refused, 10 * time.Millisecond, false},
		"a peer that says why":      {alive, ended(&oob.PeerError{Step: "job", Message: "no memory"}), refused, time.Minute, false},
		"the context has ended":     {ended(context.Canceled), alive, refused, time.Minute, false},
		"no error":                  {alive, ended(closed), nil, time.Minute, false},
		"an error without a status": {alive, ended(closed), errors.New("no disk"), time.Minute, false},
		"this end's own fault":      {alive, ended(closed), (&verbs.WC{Status: verbs.WCLocProtErr}).Err(), time.Minute, false},
		"a flushed request":         {alive, ended(closed), (&verbs.WC{Status: verbs.WCWRFlushErr}).Err(), time.Minute, false},
	} {
		got := explain(test.ctx, test.life, test.err, test.limit)
		switch {
		case !test.explained:
			if got != test.err {
				t.Errorf("%s: %v became %v", name, test.err, got)
			}
		case !errors.As(got, new(*oob.ClosedError)) || !errors.As(got, new(*verbs.WCError)),
			!strings.HasPrefix(got.Error(), closed.Error()), !strings.Contains(got.Error(), "the only WRITE"):
			t.Errorf("%s: %v", name, got)
		}
	}
}
