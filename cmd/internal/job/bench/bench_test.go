package bench

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/job/bench/measure"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
)

// TestBenchPlanAcross checks that the server's plan equals the client's, except for Client.
func TestBenchPlanAcross(t *testing.T) {
	for _, op := range []measure.Op{measure.Send, measure.Write, measure.Read, measure.Atomic} {
		for _, latency := range []bool{false, true} {
			def := measure.Defaults(op, latency)
			plans := []measure.Plan{def, def, def}
			plans[1].Duration, plans[1].Margin = 7*time.Second, time.Second
			if !latency {
				plans[2].QPs, plans[2].Both, plans[2].PostList = 3, true, 10
			}
			for _, p := range plans {
				p.Client = true
				if err := p.Settle(); err != nil {
					t.Fatal(err)
				}
				params := kit.Params{}
				(&endpoint{Table: Table{Plan: p}, gbits: true}).announce(params)
				got, gbits, err := askedPlan(&kit.Session{MaxSize: 64 << 20, Params: params}, def)
				p.Client = false
				if err != nil || got != p || !gbits {
					t.Errorf("%v: the server's plan is\n%+v, the client's\n%+v", err, got, p)
				}
			}
		}
	}
}

// TestBenchPlanOfAStranger checks that the server checks each parameter from a client, and all of
// them together.
func TestBenchPlanOfAStranger(t *testing.T) {
	def := measure.Defaults(measure.Write, false)
	p := def
	if err := p.Settle(); err != nil {
		t.Fatal(err)
	}
	fine := kit.Params{}
	(&endpoint{Table: Table{Plan: p}}).announce(fine)
	for _, test := range []struct{ key, value, want string }{
		{kit.ParamBytes, "", `bytes is ""`},
		{kit.ParamBytes, "0", "0 bytes in a message"},
		{kit.ParamBytes, "-1", `bytes is "-1"`},
		{kit.ParamBytes, "99999999999", "not a number from"},
		{kit.ParamBytes, "67108864", "allows at most 64M"},
		{paramIters, "0", "0 iterations"},
		{paramIters, "4", "4 iterations"},
		{kit.ParamQPs, "0", "0 queue pairs"},
		{kit.ParamQPs, "65", "65 queue pairs"},
		{paramTXDepth, "15001", "15001 requests outstanding"},
		{paramRXDepth, "0", "0 receives"},
		{paramCQMod, "5000", "5000 requests per completion"},
		{paramPostList, "3", "not a multiple of a list"},
		{paramInline, "100000", "100000 bytes sent inline"},
		{paramDuration, "2147483647", "a duration of"},
		{paramMargin, "x", `margin_ms is "x"`},
		{paramAll, "yes", `all is "yes"`},
	} {
		words := maps.Clone(fine)
		words[test.key] = test.value
		_, _, err := askedPlan(&kit.Session{MaxSize: 64 << 20, Params: words}, def)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %q: the error is %v, want %q", test.key, test.value, err, test.want)
		}
	}
}

// TestBenchResultOfAStranger checks that a peer's result must belong to the measurement.
func TestBenchResultOfAStranger(t *testing.T) {
	p := measure.Defaults(measure.Send, false)
	good := measure.Result{Size: 64, Iterations: 5, Took: 7, Bandwidth: &measure.Bandwidth{Average: 3}}
	if r, err := decodeResult(encodeResult(good), &p, 64); err != nil || *r.Bandwidth != *good.Bandwidth {
		t.Errorf("%v, %+v", err, r)
	}
	for _, text := range []string{
		"", "{}", "[]", `{"size":65,"bandwidth":{}}`, `{"size":64}`, `{"size":64,"latency":{}}`, `{"size":64,"bandwidth":{},"latency":{}}`,
		`{"size":64,"iterations":-1,"bandwidth":{}}`, `{"size":64,"took_ns":-1,"bandwidth":{}}`, `{"size":64,"bandwidth":{"average":1e999}}`,
	} {
		if _, err := decodeResult([]byte(text), &p, 64); err == nil || !strings.Contains(err.Error(), "try:") {
			t.Errorf("%s: the error is %v", text, err)
		}
	}
}
