package verbs

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
)

// says fails the test if an error's text lacks one of wants or has one of nots.
func says(t *testing.T, err error, wants []string, nots ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", wants)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	for _, not := range nots {
		if strings.Contains(err.Error(), not) {
			t.Errorf("%v\nhas %q", err, not)
		}
	}
}

// TestLocProtErrNamesTheMissingRight checks the hint and the page.
func TestLocProtErrNamesTheMissingRight(t *testing.T) {
	err := (&WC{Status: WCLocProtErr}).Err()
	says(t, err, []string{"LOCAL_WRITE", "READ", "atomic", "receive", "lkey", "domain"})
	page, readErr := os.ReadFile("../docs/errors.md")
	if readErr != nil {
		t.Fatal(readErr)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "- **LOC_PROT_ERR") && strings.Contains(line, "LOCAL_WRITE") {
			return
		}
	}
	t.Error("docs/errors.md: no line of LOC_PROT_ERR names LOCAL_WRITE")
}

// refusingQP refuses every send.
type refusingQP struct {
	*paperQP
	errno syscall.Errno
}

func (q refusingQP) PostSend([]SendWR) (int, error) { return 0, q.errno }

// TestPostErrorOfOtherDevices covers refusals that soft0 does not make, or with another errno.
func TestPostErrorOfOtherDevices(t *testing.T) {
	d, _ := newPaperDevice()
	pd, other := must[*PD](t)(d.AllocPD()), must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	mine, theirs := must[*AH](t)(pd.CreateAH(AHAttr{})), must[*AH](t)(other.CreateAH(AHAttr{}))
	window, closed := must[*MW](t)(pd.AllocMW(MWType2)), must[*MW](t)(pd.AllocMW(MWType2))
	mr := must[*MR](t)(pd.AllocMR(4096, AccessLocalWrite))
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		typ   QPType
		state QPState
		errno syscall.Errno
		wr    SendWR
		want  string
		not   string
	}{
		"another domain's AH": {UD, qpstate.RTS, syscall.EINVAL, SendWR{Opcode: OpSend, AH: theirs}, "another device or protection domain", "documentation"},
		"a closed window":     {RC, qpstate.RTS, syscall.EINVAL, SendWR{Opcode: OpBindMW, Bind: &MWBind{MW: closed, MR: mr, RKey: closed.RKey()}}, "window is closed", "documentation"},
		"no send in ERR":      {RC, qpstate.Error, syscall.EINVAL, SendWR{Opcode: OpSend}, "is in ERR", "documentation"},
		"ENOMEM for elements": {RC, qpstate.RTS, syscall.ENOMEM, SendWR{Opcode: OpSend, SGL: make([]SGE, 3)}, "3 elements (SGEs), but 2 were granted", "is full"},
		"ENOMEM for a bind":   {RC, qpstate.RTS, syscall.ENOMEM, SendWR{Opcode: OpBindMW, Bind: &MWBind{MW: window, MR: mr, RKey: window.RKey()}}, "queue is full", "window"},
		"no reason":           {UD, qpstate.RTS, syscall.EINVAL, SendWR{Opcode: OpSend, AH: mine}, "documentation", "AH"},
		"EIO":                 {RC, qpstate.RTS, syscall.EIO, SendWR{Opcode: OpSend, SGL: make([]SGE, 3)}, "open the device again", "elements"},
	} {
		t.Run(name, func(t *testing.T) {
			qp := must[*QP](t)(pd.CreateQP(QPInit{Type: c.typ, SendCQ: cq, RecvCQ: cq, Cap: QPCap{MaxSendWR: 1, MaxSendSGE: 2}}))
			paper := qp.p.(*paperQP)
			paper.state, qp.p = c.state, refusingQP{paper, c.errno}
			says(t, qp.PostSend([]SendWR{c.wr}), []string{c.want}, c.not)
		})
	}
}
