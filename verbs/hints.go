// Hints: what an errno or a completion status usually means for each call, and what to try.
// Package diagnosis has the texts.

package verbs

import (
	"syscall"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
)

// hintFor returns the advice for an errno from a C call, or "" if there is none.
func hintFor(op string, errno syscall.Errno) string {
	e := diagnosis.OfCall(op, errno)
	switch {
	case e == nil:
		return ""
	case e.Memlock:
		return e.Remedy + memlockNow()
	}
	return e.Remedy
}

// statusHint returns the cause of a failed completion and the advice, or "" for an unknown
// status.
func statusHint(s WCStatus) string {
	e := diagnosis.OfStatus(uint32(s))
	if e == nil {
		return ""
	}
	return withRemedies(e.Cause, e.Remedy)
}
