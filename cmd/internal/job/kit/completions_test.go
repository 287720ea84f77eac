package kit

import (
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

func TestFirstFailure(t *testing.T) {
	wcs := func(statuses ...verbs.WCStatus) (list []verbs.WC) {
		for i, s := range statuses {
			list = append(list, verbs.WC{ID: uint64(i), Status: s})
		}
		return list
	}
	const ok, flushed, access = verbs.WCSuccess, verbs.WCWRFlushErr, verbs.WCRemAccessErr
	for _, c := range []struct {
		wcs  []verbs.WC
		want int // the ID, or -1
	}{
		{wcs(), -1},
		{wcs(ok, ok), -1},
		{wcs(ok, access, flushed), 1},
		{wcs(flushed, ok, access), 2},
		{wcs(ok, flushed, flushed), 1},
	} {
		err := FirstFailure(c.wcs)
		var we *verbs.WCError
		if errors.As(err, &we) != (c.want >= 0) || we != nil && we.ID != uint64(c.want) {
			t.Errorf("%v: %v, want %d", c.wcs, err, c.want)
		}
	}
}
