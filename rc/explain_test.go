package rc

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// refused is the error of a WRITE to memory that the peer no longer has.
func refused(t *testing.T, c, s *end) error {
	t.Helper()
	if err := s.mr.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.QP().PostSend(c.writes(1)); err != nil {
		t.Fatal(err)
	}
	_, err := c.WaitSend(t.Context())
	var wc *verbs.WCError
	if !errors.As(err, &wc) || wc.Status != verbs.WCRemAccessErr {
		t.Fatalf("%v, want IBV_WC_REM_ACCESS_ERR", err)
	}
	return errors.WithMessage(err, "the only WRITE")
}

// A process that is killed refuses first, and only then is its TCP connection at an end.
func TestExplainFailureNamesAPeerThatIsGone(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	err := refused(t, c, s)
	go s.Close()
	err = c.explainWithin(t.Context(), err, time.Minute)
	if !errors.As(err, new(*PeerGoneError)) || !errors.As(err, new(*oob.ClosedError)) || !errors.As(err, new(*verbs.WCError)) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{" closed the connection; look at its output", "(the only WRITE: work request 0 on QP 0x", "IBV_WC_REM_ACCESS_ERR (10): "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

// A refusal of a peer that lives, or that says why it ends, is a refusal.
func TestExplainFailureKeepsOtherErrors(t *testing.T) {
	same := func(t *testing.T, c *end, ctx context.Context, err error, limit time.Duration) {
		t.Helper()
		if got := c.explainWithin(ctx, err, limit); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	t.Run("a peer that lives", func(t *testing.T) {
		c, s := pair(t, Config{}, Config{})
		same(t, c, t.Context(), refused(t, c, s), 20*time.Millisecond)
	})
	t.Run("a peer that says why", func(t *testing.T) {
		c, s := pair(t, Config{}, Config{})
		err := refused(t, c, s)
		s.Fail("job", errors.New("my memory is gone"))
		same(t, c, t.Context(), err, time.Minute)
	})
	t.Run("ctx has ended", func(t *testing.T) {
		c, s := pair(t, Config{}, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		same(t, c, ctx, refused(t, c, s), time.Minute)
	})
	t.Run("this end's own fault", func(t *testing.T) {
		c, _ := pair(t, Config{}, Config{})
		for _, err := range []error{nil, errors.New("no disk"), (&verbs.WC{Status: verbs.WCLocProtErr}).Err(), (&verbs.WC{Status: verbs.WCWRFlushErr}).Err()} {
			same(t, c, t.Context(), err, time.Minute)
		}
	})
}
